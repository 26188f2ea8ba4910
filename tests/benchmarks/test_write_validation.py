"""docs/validation.md is what its script makes of the committed results, and tells right from wrong."""

import json

import pytest

import validate
import write_validation
from phloem import plot


def test_the_page_is_what_the_script_makes():
    remedy = "the page was edited, or there are other results: python benchmarks/write_validation.py"
    assert write_validation.PAGE.read_text(encoding="utf-8") == write_validation.validation_page(), remedy


def test_every_figure_of_the_page_has_its_picture():
    names = [write_validation.figure_name(study.name) for study in write_validation.found_lines()]
    assert names
    assert [one for one in names if not write_validation.PAGE.with_name(one).exists()] == []


def made_up_lines(narrower: float, count: int = 100) -> list[dict[str, object]]:
    """Ranks evenly spaced where posteriors are right, and clades of which one of two is true; else fewer."""
    lines = []
    for number in range(count):
        even = (number + 0.5) / count
        is_true = even < 0.5 / narrower
        ranks = {"tree length": min(1.0, max(0.0, 0.5 + narrower * (even - 0.5))), "topology": even}
        bins = {
            write_validation.bin_name(*one): [0, 0.0, 0.0, 0]
            for one in (*write_validation.BINS, *write_validation.SETS)
        }
        bins["0.4-0.6"] = [1, 0.5, 0.25, int(is_true)]
        lines.append(
            {
                "number": number,
                "seed": 100 + number,
                "seconds": 6.0,
                "verdict": "good" if number else "do not trust",
                "ranks": ranks,
                "credible": {share: [0.9, 2, even < 0.9] for share in ("0.5", "0.8", "0.95")},
                "clades": bins,
            }
        )
    return [*lines, {"number": count, "seed": 100 + count, "taxa": 5, "sites": 9, "failed": "too few of anything"}]


@pytest.fixture(params=[1.0, 2.0], ids=["right", "narrow"])
def results(request, tmp_path):
    lines = made_up_lines(request.param)
    validate.results_file("JC", tmp_path).write_text("".join(json.dumps(line) + "\n" for line in lines))
    return tmp_path, request.param == 1.0


def test_the_page_says_what_leaves_its_band(results):
    folder, is_right = results
    page = write_validation.validation_page(folder)
    assert "| `tree length` |" in page
    assert ("| leaves it |" in page) != is_right
    (row,) = [line for line in page.splitlines() if line.startswith("| 0.4 to 0.6 |")]
    assert (abs(float(row.split("|")[-2].replace("−", "-"))) < 2) == is_right


def test_all_data_sets_count_and_failures_are_named(results):
    (row,) = [line for line in write_validation.validation_page(results[0]).splitlines() if "of 200 |" in line]
    cells = [cell.strip() for cell in row.split("|")]
    assert cells[2:6] == ["101 of 200", "10 min", "99, 0, 1", "1"]


def test_figures_are_drawn_and_those_that_leave_the_band_are_in_another_colour(results):
    folder, is_right = results
    drawn = write_validation.figures(folder)
    assert set(drawn) == {"validation-JC.svg", "validation-clades.svg"}
    lines = [panel.get_lines()[-1].get_color() for panel in drawn["validation-JC.svg"].axes]
    assert lines == [write_validation.BLUE if is_right else write_validation.VERMILION, write_validation.BLUE]
    for name, figure in drawn.items():
        plot.save(figure, folder / name)
        assert "<svg" in (folder / name).read_text()
