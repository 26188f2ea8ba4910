"""Tables for people: what they say of cells in every state, as Markdown, as a page, and in a browser."""

import pytest

from phloem.experiments.benchmark.published import PublishedEstimate
from phloem.experiments.benchmark.results import Estimate
from phloem.experiments.benchmark.table1 import setup_tables, setup_words, signed, table1_markdown, table1_page
from phloem.experiments.benchmark.table2 import table2_markdown, table2_page
from support.devtools import Browser
from support.html_pages import CONTRAST
from support.made_up_table import every_state, made_up_cell, made_up_gaps, made_up_table


def row(text: str, *start: str) -> list[str]:
    """The cells of the line that begins so."""
    lines = [[part.strip() for part in line.strip("|").split("|")] for line in text.splitlines()]
    [found] = [line for line in lines if line[: len(start)] == list(start)]
    return found


def test_a_difference_has_the_errors_of_both_means():
    one = Estimate(-7110.16, 0.3, 100, PublishedEstimate(-7110.26, 0.4))
    assert one.error == pytest.approx(0.03)
    assert one.difference == pytest.approx(0.10)
    assert one.difference_error == pytest.approx(0.05)
    fewer = Estimate(-7110.16, 0.3, 9, PublishedEstimate(-7110.26, 0.4))
    assert fewer.difference_error == pytest.approx((0.1**2 + 0.04**2) ** 0.5)
    alone = Estimate(1.0, None, 1, PublishedEstimate(2.0, 0.4))
    assert (alone.error, alone.difference_error, alone.difference) == (None, None, -1.0)


def test_a_line_has_published_ours_and_the_difference():
    text = table1_markdown(made_up_table(made_up_cell("DS1", "edge", above=0.05)))
    assert row(text, "DS1", "EDGE", "1") == [
        *("DS1", "EDGE", "1"),
        *("−7110.26 (0.10)", "−7110.21 (0.20)", "+0.05 ± 0.03"),
        *("−7108.41 (0.14)", "−7108.36 (0.20)", "+0.05 ± 0.03"),
        *("60\N{NARROW NO-BREAK SPACE}s", "55\N{NARROW NO-BREAK SPACE}s", "4.0", "127", "finished"),
    ]
    assert row(text, "MrBayes, stepping stone") == ["MrBayes, stepping stone", "−7108.42 (0.18)"]


def test_what_is_not_finished_is_shown_as_such():
    text = table1_markdown(every_state())
    assert "3 of 5 cells finished" in text
    assert row(text, "DS2", "Split", "1")[3:6] == ["−26369.95 (0.89)", "–", "–"]
    assert row(text, "DS2", "Split", "1")[-1] == "stopped at step 700 of 10,000"
    assert "failed: no <space> \\| left" in text


def test_a_grid_has_the_mean_over_seeds_and_a_look_for_each_difference():
    first, second = setup_tables(every_state())
    elbo, ml = first.grids
    assert (elbo.quantity, ml.quantity) == ("ELBO", "ML")
    entries = {line.variant: [(entry.text, entry.look) for entry in line.entries] for line in elbo.rows}
    assert entries == {
        "Split": [("−0.50", "worse"), ("stopped", "open")],
        "EDGE": [("+0.05", "better"), ("failed", "open")],
    }
    assert elbo.rows[1].entries[0].note == "−7110.21, published −7110.26; mean of 2 seeds"
    assert (second.title, second.finished) == ("warped, standard, training.steps = 400", 1)


def test_a_setup_says_what_it_adds_to_the_paper():
    cell = made_up_cell("DS1", "edge")
    assert "which the paper does not have" in setup_words("lognormal", "standard", cell)
    without = cell | {"settings": {"training.refit": 0.0}}
    assert "which the paper does not have" not in setup_words("lognormal", "standard", without)
    assert "which the paper does not have" not in setup_words("lognormal", "paper", cell)
    assert "our own family" in setup_words("warped", "standard", cell)


@pytest.mark.parametrize(("value", "text"), [(0.074, "+0.07"), (-0.126, "−0.13"), (0.001, "0.00"), (-0.001, "0.00")])
def test_signs(value, text):
    assert signed(value) == text


def test_a_page_escapes_what_it_shows():
    page = table1_page(every_state())
    assert "no &lt;space&gt; | left" in page
    assert "<space>" not in page


def test_gaps_stand_beside_the_published():
    text = table2_markdown(made_up_gaps())
    ours = ["0.50 ± 0.01"]
    assert row(text, "EDGE", "1") == [
        *("EDGE", "1", "0.55", *ours, "−0.05", "0.50", *ours, "0.00", "1.00", *ours, "−0.50", "0.53", *ours, "−0.03"),
        *(*ours, "41", "42 trees, 5,000 draws a bound"),
    ]
    assert row(text, "PSP", "1")[2:5] == ["1.81", "–", "–"]
    assert row(text, "PSP", "1")[-1] == "not measured"


@pytest.mark.parametrize("name", ["table1", "table2"])
def test_a_browser_shows_the_page(chromium, tmp_path, name):
    path = tmp_path / f"{name}.html"
    path.write_text(table1_page(every_state()) if name == "table1" else table2_page(made_up_gaps()))
    with Browser(chromium) as browser:
        page = browser.open(path.as_uri())
        assert page.requests == [path.as_uri()]
        assert page.problems == []
        for width in (360, 1600):
            assert page.scroll_width(width) <= width
        for theme in ("light", "dark"):
            assert browser.open(path.as_uri(), theme=theme).evaluate(CONTRAST) == []
