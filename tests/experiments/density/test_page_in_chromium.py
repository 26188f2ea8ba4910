"""The density page in a real browser."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from phloem.experiments.density.page import density_page
from phloem.experiments.density.results import density_rows
from support.devtools import Browser, Page
from support.html_pages import CONTRAST
from support.made_up_density import made_up_experiment


@pytest.fixture(scope="module")
def browser(chromium) -> Iterator[Browser]:
    with Browser(chromium) as running:
        yield running


@pytest.fixture(scope="module")
def address(tmp_path_factory) -> str:
    path = Path(tmp_path_factory.mktemp("density")) / "density.html"
    path.write_text(density_page(made_up_experiment(), published={"edge": 80.0}))
    return path.as_uri()


@pytest.fixture(scope="module")
def page(browser, address) -> Page:
    return browser.open(address)


def test_nothing_is_asked_of_the_network_and_nothing_is_wrong(page, address):
    assert page.requests == [address]
    assert page.problems == []


@pytest.mark.parametrize("width", [360, 700, 1600])
def test_the_page_is_never_wider_than_the_window(page, width):
    assert page.scroll_width(width) <= width


def test_the_table_is_sorted_by_click(page):
    first = (
        "Array.from(document.querySelectorAll('#results-table tbody td:first-child'), (one) => one.textContent.trim())"
    )
    rows = density_rows(made_up_experiment())
    assert page.evaluate(first) == [row.convolution.upper() for row in rows]
    click = "document.querySelectorAll('#results-table th button')[{}].click()"
    page.evaluate(click.format(1))
    falling = [row.convolution.upper() for row in sorted(rows, key=lambda row: -row.divergence)]
    assert page.evaluate(first) == falling
    page.evaluate(click.format(1))
    assert page.evaluate(first) == falling[::-1]
    page.evaluate(click.format(0))
    assert page.evaluate(first) == sorted(row.convolution.upper() for row in rows)


def test_lines_are_drawn_inside_their_panels(page):
    outside = """Array.from(document.querySelectorAll('.plot polyline, .plot polygon, .plot .diagonal'), (one) => {
        const box = one.getBoundingClientRect(), plot = one.ownerSVGElement.getBoundingClientRect();
        return box.width > 50 && box.left >= plot.left - 2 && box.right <= plot.right + 2
            && box.top >= plot.top - 2 && box.bottom <= plot.bottom + 2; })"""
    found = page.evaluate(outside)
    assert len(found) == 6 * 2 + 2 * 2 + 1
    assert all(found)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_all_text_can_be_read(page, theme):
    page.evaluate(f"document.documentElement.dataset.theme = '{theme}'")
    try:
        assert page.evaluate(CONTRAST) == []
    finally:
        page.evaluate("delete document.documentElement.dataset.theme")
