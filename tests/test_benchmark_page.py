"""docs/benchmarks.md is what its script makes of the committed results."""

import importlib.util
import json
from pathlib import Path

import pytest

from support.made_up_table import made_up_cell, made_up_table

SCRIPT = Path(__file__).parent.parent / "benchmarks" / "write_page.py"


@pytest.fixture
def writer():
    """The script, as a module."""
    spec = importlib.util.spec_from_file_location("write_page", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_what_the_script_makes(writer):
    remedy = "the page was edited, or the results have changed: python benchmarks/write_page.py"
    assert writer.PAGE.read_text(encoding="utf-8") == writer.benchmark_page(), remedy


def test_every_figure_has_its_picture(writer):
    assert [path.name for path, _ in writer.figures() if not path.exists()] == []


def test_results_of_several_files_are_one_table(writer, tmp_path, monkeypatch):
    """What has ended goes before what has not; the page has the commands that make the cells."""
    monkeypatch.setattr(writer, "RESULTS", tmp_path)
    first = made_up_table(made_up_cell("DS1", "split"), made_up_cell("DS1", "edge", above=None))
    second = made_up_table(made_up_cell("DS1", "split", above=None), made_up_cell("DS1", "edge", seed=2, above=0.5))
    third = made_up_table(made_up_cell("DS4", "edge", family="warped", changes={"training.steps": "40000"}))
    for name, found in (("table1-b", first), ("table1-c", second), ("table1-a", third)):
        (tmp_path / f"{name}.json").write_text(json.dumps(found))
    cells = writer.merged("table1")["cells"]
    assert [(cell["dataset"], cell["variant"], cell["seed"], cell["state"]) for cell in cells] == [
        ("DS1", "split", 1, "finished"),
        ("DS1", "edge", 1, "not begun"),
        ("DS1", "edge", 2, "finished"),
        ("DS4", "edge", 1, "finished"),
    ]
    page = writer.benchmark_page()
    assert "phloem reproduce table1 --out benchmark --datasets DS1 --variants split,edge --seeds 1,2\n" in page
    other = "--datasets DS4 --variants edge --family warped --set training.steps=40000"
    assert f"phloem reproduce table1 --out benchmark {other}\n" in page
    assert "| DS1 | Split | 94 | 4.0 | 5.5 | 17 |" in page


def test_all_cells_are_made_by_the_short_command(writer):
    datasets = [f"DS{number}" for number in range(1, 9)]
    cells = [made_up_cell(dataset, variant, preset="paper") for dataset in datasets for variant in writer.VARIANTS]
    assert writer.reproducing("table1", cells) == "phloem reproduce table1 --out benchmark --preset paper"
