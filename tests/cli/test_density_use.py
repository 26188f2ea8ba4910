"""`phloem density score` and `sample`: what users type, see, and get wrong."""

import subprocess
import sys
from pathlib import Path

import pytest

from phloem.cli.main import run
from phloem.tasks.density import score_density
from support.command_line import complaint
from support.density_trees import FLAGS, as_json, five_taxa, write_table
from support.messages import assert_says


@pytest.fixture(autouse=True)
def trees(in_empty_directory) -> None:
    write_table(Path("trees.tsv"), five_taxa())


@pytest.fixture(scope="module")
def fitted(tmp_path_factory) -> Path:
    """A finished fit, which no test may change."""
    folder = tmp_path_factory.mktemp("fitted")
    table = write_table(folder / "trees.tsv", five_taxa())
    assert run(["density", "fit", str(table), "--out", str(folder / "run"), *FLAGS, "--quiet"]) == 0
    return folder / "run"


def test_scores_are_those_of_python(fitted, capsys):
    expected = score_density(fitted, ["trees.tsv"], smoothing=0.001)
    assert run(["density", "score", str(fitted), "trees.tsv", "--compare", "--json"]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    assert as_json(captured.out) == expected.as_json()
    assert run(["density", "score", str(fitted), "trees.tsv", "--compare"]) == 0
    heading, *lines = capsys.readouterr().out.splitlines()
    assert heading.split() == ["tree", "weight", "log-probability"]
    weight, value = expected.trees.weights[0], expected.log_probabilities[0]
    assert lines[0].split() == ["1", f"{weight:.6f}", f"{value:.6f}"]
    assert lines[16].startswith(f"15 topologies, seen 1.000000, mean log-probability {expected.mean:.6f}")
    assert lines[17].endswith("(exact)")
    assert max(map(len, lines)) <= 80
    assert [line.split()[0] for line in lines[19:]] == ["estimate", "energy", "frequencies", "SBN-SA", "SBN-EM"]


def test_options_of_score_change_something(fitted, capsys):
    def found(*options: str, trees: str = "trees.tsv") -> dict:
        assert run(["density", "score", str(fitted), trees, "--json", *options]) == 0
        return as_json(capsys.readouterr().out)

    assert found()["comparison"] == []
    usual = found("--compare")["comparison"]
    assert usual == found("--compare", "--smoothing", "0.001")["comparison"]
    assert usual[1] != found("--compare", "--smoothing", "0.5")["comparison"][1]
    Path("trees.nwk").write_text("\n".join(line.split("\t")[1] for line in Path("trees.tsv").read_text().splitlines()))
    assert len(found("--burnin", "5", trees="trees.nwk")["trees"]) == 10
    assert found("--quiet") == found()
    for options in (["--smoothing", "0.1"], ["--compare", "--smoothing", "0"], ["--compare", "--smoothing", "nan"]):
        assert run(["density", "score", str(fitted), "trees.tsv", *options]) == 2
        assert "--smoothing" in complaint(capsys)


def test_options_of_sample_change_something(fitted, capsys):
    def found(*options: str) -> dict:
        assert run(["density", "sample", str(fitted), "--out", "new.nwk", "--json", *options]) == 0
        return as_json(capsys.readouterr().out)

    assert found("--count", "1") == {"trees": 1, "topologies": 1, "method": "exact", "quality": {"topologies": 15}}
    first = Path("new.nwk").read_text()
    assert len(first.splitlines()) == 1
    assert len({Path("new.nwk").read_text() for seed in "1234567" if found("--count", "9", "--seed", seed)}) > 1
    assert found("--method", "importance")["quality"]["draws"] == 20_000
    assert found("--method", "mcmc", "--count", "10")["quality"]["chains"] == 10
    for method, words in (("exact", "independent draws"), ("importance", "resampled"), ("mcmc", "chains of")):
        options = ["--out", "new.nwk", "--method", method, "--count", "10", "--quiet"]
        assert run(["density", "sample", str(fitted), *options]) == 0
        out = capsys.readouterr().out
        assert words in out
        assert out.endswith(": new.nwk\n")


@pytest.mark.parametrize(
    ("options", "facts"),
    [
        ("--count 0", "--count 0 … 1 … 1,000,000"),
        ("--count 1000001", "--count 1,000,001"),
        ("--method best", "--method best"),
        ("--seed -1", "--seed"),
        ("--out nowhere/new.nwk", "nowhere/new.nwk: … directory"),
        ("--out .", "directory"),
    ],
)
def test_bad_options_of_sample_are_one_line_and_leave_nothing(options, facts, fitted, capsys):
    assert run(["density", "sample", str(fitted), "--out", "new.nwk", *options.split()]) == 2
    assert_says(complaint(capsys), facts)
    assert [path.name for path in Path().iterdir()] == ["trees.tsv"]


@pytest.mark.parametrize("command", [["score", "nowhere", "trees.tsv"], ["sample", "nowhere", "--out", "new.nwk"]])
def test_a_directory_without_a_run_is_one_line(command, capsys):
    assert run(["density", *command]) == 2
    assert_says(complaint(capsys), "nowhere: … no phloem run")


@pytest.mark.slow
def test_a_reader_that_leaves_early_is_no_error_message(fitted):
    Path("many.nwk").write_text("(A,(B,C),(D,E));\n" * 10_000)
    command = [sys.executable, "-m", "phloem", "density", "score", str(fitted), "many.nwk"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline().split() == ["tree", "weight", "log-probability"]
        process.stdout.close()
        assert process.stderr.read() == ""
