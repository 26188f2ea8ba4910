"""`phloem reproduce density`: what users type, see, and get wrong."""

import json
from pathlib import Path

import pytest

from phloem.cli.main import run
from support.command_line import complaint
from support.density_trees import as_json, contents, five_taxa, write_table
from support.messages import assert_says

SMALL = ["--taxa", "5", "--steps", "60", "--convolutions", "mlp,gcn", "--repeats", "2"]


def reproduce(*options: str, out: str = "out") -> list[str]:
    return ["reproduce", "density", "--out", out, *options]


def test_two_variants_twice_and_nothing_to_do_afterwards(capsys):
    assert run(reproduce(*SMALL)) == 0
    captured = capsys.readouterr()
    first, _, heading, *rows = captured.out.splitlines()
    assert first.startswith("15 topologies of 5 taxa, ")
    assert heading.split()[:3] == ["variant", "repeats", "steps"]
    assert [row.split()[:3] for row in rows[:2]] == [["mlp", "2", "60"], ["gcn", "2", "60"]]
    assert all(row.count(" ± ") == 2 for row in rows[:2])
    assert rows[-1] == "figure: out/density.pdf, out/density.html; numbers: out/results.json"
    assert Path("out/density.pdf").read_bytes().startswith(b"%PDF")
    assert "<svg" in Path("out/density.html").read_text()
    found = as_json(Path("out/results.json").read_text())
    fits = {path: path.read_bytes() for path in Path("out").rglob("*.safetensors")}
    assert run(reproduce(*SMALL, "--resume", "--json", "--quiet")) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    assert as_json(captured.out) == found
    assert {path: path.read_bytes() for path in Path("out").rglob("*.safetensors")} == fits
    assert run(reproduce(*SMALL, "--resume", "--quiet")) == 0
    assert capsys.readouterr() == ("", "")
    for options, facts in ((SMALL, "out: … experiment"), ([*SMALL, "--resume", "--seed", "2"], "out: … target")):
        before = contents(Path("out"))
        assert run(reproduce(*options)) == 2
        assert_says(complaint(capsys), facts)
        assert contents(Path("out")) == before


@pytest.mark.parametrize(
    "options",
    [
        ["--seed", "2"],
        ["--concentration", "0.5"],
        ["--taxa", "4"],
        ["--steps", "3"],
        ["--convolutions", "edge"],
        ["--repeats", "2"],
        ["--checkpoint-every", "1steps"],
        ["--target", "five.tsv"],
    ],
    ids=" ".join,
)
def test_every_option_changes_something(options, usual, capsys):
    write_table(Path("five.tsv"), five_taxa())
    drawn = [] if options[0] == "--target" else ["--taxa", "5"]
    assert run(reproduce(*drawn, "--steps", "2", "--convolutions", "mlp", "--quiet", *options)) == 0
    assert outline(Path("out")) != usual


def outline(out: Path) -> dict[str, object]:
    """What the options decide."""
    found = json.loads((out / "results.json").read_text())
    return {
        "target": (out / "target.tsv").read_text(),
        "fits": [(one["convolution"], one["seed"], one["steps"]) for one in found["repeats"]],
        "checkpoints": sorted(path.name for path in out.glob("*/checkpoints/*")),
    }


@pytest.fixture(scope="module")
def usual(tmp_path_factory) -> dict[str, object]:
    out = tmp_path_factory.mktemp("usual") / "out"
    assert run(reproduce("--taxa", "5", "--steps", "2", "--convolutions", "mlp", "--quiet", out=str(out))) == 0
    return outline(out)


@pytest.mark.parametrize(
    ("options", "facts"),
    [
        (["--taxa", "9"], "--taxa 9"),
        (["--repeats", "0"], "--repeats 0"),
        (["--steps", "0"], "--steps 0"),
        (["--convolutions", "mlp,best"], "--convolutions 'best' … mlp"),
        (["--convolutions", ","], "--convolutions"),
        (["--concentration", "nan"], "--concentration nan"),
        (["--seed", "-1"], "--seed"),
        (["--checkpoint-every", "often"], "--checkpoint-every often"),
        (["--target", "missing.tsv"], "missing.tsv: … no such file"),
        (["--target", "five.tsv", "--taxa", "5"], "--target … --taxa"),
        (["--out", "five.tsv"], "five.tsv: … directory"),
        (["--out", "."], "five.tsv … not an experiment"),
    ],
    ids=" ".join,
)
def test_bad_options_are_one_line_and_leave_nothing(options, facts, capsys):
    write_table(Path("five.tsv"), five_taxa())
    assert run(reproduce(*options)) == 2
    assert_says(complaint(capsys), facts)
    assert [path.name for path in Path().iterdir()] == ["five.tsv"]


@pytest.mark.slow
def test_an_interrupt_says_how_to_go_on(capsys, monkeypatch):
    def stop(*_arguments, **_options):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:  # to undo it all would leave the empty directory as well
        patch.setattr("phloem.tasks.density.train", stop)
        assert run(reproduce(*SMALL, "--quiet")) == 130
    assert "--resume" in complaint(capsys)
    assert Path("out/mlp-1/config.toml").exists()
    assert run(reproduce(*SMALL, "--quiet", "--resume")) == 0
