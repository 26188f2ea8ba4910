"""The report in a real browser: no errors, no requests, and everything that moves does."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from phloem.inference.trust import Trust
from phloem.report.html import render_report
from phloem.report.wording import error_bar, percent
from support.devtools import Browser, Page
from support.html_pages import CONTRAST, HOSTILE
from support.made_up_report import made_up_contents, made_up_history, with_parameters

TAXA = ("Homo_sapiens", "Pan", "Gorilla", "Pongo", "Hylobates", *HOSTILE)


@pytest.fixture(scope="module")
def browser(chromium) -> Iterator[Browser]:
    with Browser(chromium) as running:
        yield running


@pytest.fixture(scope="module")
def address(tmp_path_factory) -> str:
    path = Path(tmp_path_factory.mktemp("report")) / "report.html"
    contents = made_up_contents(TAXA, runs=2, histories=[made_up_history(), made_up_history(1.0)])
    path.write_text(render_report(with_parameters(contents)))
    return path.as_uri()


@pytest.fixture(scope="module")
def page(browser, address) -> Page:
    opened = browser.open(address)
    # The cloud is drawn when the rest is there; a canvas is 300 pixels wide before.
    drawn = "(resolve) => { const look = () => document.getElementById('cloud-canvas').width !== 300 ? resolve(true)"
    opened.evaluate(f"new Promise({drawn} : setTimeout(look, 20); look(); }})")
    return opened


def texts(page: Page, selector: str) -> list[str]:
    return page.evaluate(
        f"Array.from(document.querySelectorAll({json.dumps(selector)}), (one) => one.textContent.trim())"
    )


def test_nothing_is_asked_of_the_network_and_nothing_is_wrong(page, address):
    assert page.requests == [address]
    assert page.problems == []


def test_all_tips_can_be_seen(page):
    script = """Array.from(document.querySelectorAll('.drawing-lengths .name, #topology-box .name, .cloud-names .name'),
        (name) => { const box = name.getBoundingClientRect(), panel = name.closest('.panel').getBoundingClientRect();
            const isSeen = box.width > 0 && box.left >= panel.left && box.right <= panel.right;
            return [name.firstChild.textContent, isSeen]; })"""
    found = page.evaluate(script)
    assert len(found) == 3 * len(TAXA)
    assert all(seen for _, seen in found)
    for name in TAXA[:5]:
        assert [one for one, _ in found].count(name) == 3


@pytest.mark.parametrize("width", [360, 700, 1600])
def test_the_page_is_never_wider_than_the_window(page, width):
    assert page.scroll_width(width) <= width


def test_the_clade_table_is_sorted_by_click_and_by_key(page):
    def column(number: int) -> list[float]:
        cells = f"document.querySelectorAll('#clade-table tbody td:nth-child({number + 1})')"
        return page.evaluate(f"Array.from({cells}, (cell) => Number(cell.dataset.value))")

    assert column(0) == sorted(column(0), reverse=True)
    heading = "document.querySelectorAll('#clade-table th')[{}]"
    for number, column_of in ((3, 3), (1, 1)):
        page.evaluate(heading.format(number) + ".querySelector('button').click()")
        assert column(column_of) == sorted(column(column_of), reverse=True)
        assert page.evaluate(heading.format(number) + ".getAttribute('aria-sort')") == "descending"
    page.evaluate(heading.format(1) + ".querySelector('button').focus()")
    page.press("Enter")
    assert column(1) == sorted(column(1))
    assert page.evaluate("document.querySelectorAll('#clade-table th[aria-sort]').length") == 1


def test_topologies_are_stepped_through_by_button_and_by_arrow(page):
    trees = page.evaluate("phloem.data('browser-data')")["trees"]

    def shown() -> tuple[str, str]:
        return texts(page, "#shown-rank")[0], texts(page, "#shown-probability")[0]

    def expected(rank: int) -> tuple[str, str]:
        return f"{rank} of {len(trees)}", f"{percent(trees[rank - 1][0])} {error_bar(trees[rank - 1][4])}"

    assert shown() == expected(1)
    assert page.evaluate("document.getElementById('previous').disabled")
    page.evaluate("document.getElementById('next').focus()")
    page.evaluate("document.getElementById('next').click()")
    assert shown() == expected(2)
    page.press("ArrowRight")
    assert shown() == expected(3)
    page.press("ArrowLeft")
    assert shown() == expected(2)
    assert len(texts(page, "#topology-box .name")) == len(TAXA)
    assert len(texts(page, "#ranks line")) == len(trees), "a line for the error of each"


def test_clades_that_differ_from_the_consensus_are_marked_and_listed(page):
    last = page.evaluate("phloem.data('browser-data').trees.length")
    seen = 0
    for _ in range(last):
        marked = page.evaluate("document.querySelectorAll('#topology-box .apart circle').length")
        assert len(texts(page, "#different-clades li")) == marked
        sentence = texts(page, "#differences")[0]
        assert sentence.startswith(f"{marked} clade" if marked else "All clades")
        seen += marked > 0
        page.evaluate("document.getElementById('next').click()")
    assert seen


def test_the_theme_toggles_and_the_cloud_is_drawn_in_its_colours(page):
    def colours() -> tuple[str, str]:
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        return ground, page.evaluate("document.getElementById('cloud-canvas').toDataURL()")

    light = colours()
    assert page.evaluate("document.getElementById('theme').getAttribute('aria-pressed')") == "false"
    page.evaluate("document.getElementById('theme').click()")
    dark = colours()
    assert page.evaluate("document.getElementById('theme').getAttribute('aria-pressed')") == "true"
    assert dark[0] != light[0]
    assert dark[1] != light[1]
    page.evaluate("document.getElementById('theme').click()")
    assert colours() == light


def test_branches_are_walked_by_keys_and_tell_what_is_known_of_them(page):
    page.evaluate("document.querySelector('#consensus .drawing-lengths .branch[tabindex=\"0\"]').focus()")
    first = texts(page, "#tooltip")[0]
    assert "95 % interval" in first
    page.press("ArrowDown")
    second = texts(page, "#tooltip")[0]
    assert second != first
    assert not page.evaluate("document.getElementById('tooltip').hidden")
    assert page.evaluate("document.querySelectorAll('#consensus .drawing-lengths .branch[tabindex=\"0\"]').length") == 1
    page.press("ArrowUp")
    assert texts(page, "#tooltip")[0] == first


def test_the_drawing_without_lengths_is_one_click_away(page):
    shown = "getComputedStyle(document.querySelector('{}')).display !== 'none'"
    assert not page.evaluate(shown.format(".drawing-topology"))
    page.evaluate("document.getElementById('without-lengths').click()")
    assert page.evaluate(shown.format(".drawing-topology"))
    assert not page.evaluate(shown.format(".drawing-lengths"))
    page.evaluate("document.getElementById('with-lengths').click()")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_all_text_can_be_read(page, theme):
    page.evaluate(f"document.documentElement.dataset.theme = '{theme}'")
    try:
        assert page.evaluate(CONTRAST) == []
    finally:
        page.evaluate("delete document.documentElement.dataset.theme")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_figures_not_to_be_trusted_differ_from_others_and_can_be_read(browser, tmp_path, theme):
    colors = {}
    for level in ("good", "do not trust"):
        path = tmp_path / f"{level}.html"
        path.write_text(render_report(made_up_contents(6, trust=Trust(level, (), "Train longer."))))
        page = browser.open(path.as_uri())
        page.evaluate(f"document.documentElement.dataset.theme = '{theme}'")
        assert page.evaluate(CONTRAST) == []
        shown = "Array.from(document.querySelectorAll('.figures dd, .measures .value'), (one) =>"
        colors[level] = set(page.evaluate(f"{shown} getComputedStyle(one).color)"))
    assert not colors["good"] & colors["do not trust"]


def test_without_scripts_the_consensus_the_tables_and_the_text_are_there(browser, address):
    page = browser.open(address, scripts=False)
    root = page.send("DOM.getDocument", depth=-1)["root"]["nodeId"]

    def count(selector: str) -> int:
        return len(page.send("DOM.querySelectorAll", nodeId=root, selector=selector)["nodeIds"])

    assert count("html.scripted") == 0
    assert count("#consensus .drawing-lengths .name") == len(TAXA)
    assert count("#consensus .branch title") > 0
    assert count("#clade-table tbody tr") > 0
    assert page.problems == []


def test_no_problem_came_up_on_the_way(page):
    assert page.problems == []
