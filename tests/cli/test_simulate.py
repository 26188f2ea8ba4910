"""`phloem simulate`: what users type, see, get, and get wrong."""

import json
from pathlib import Path

import pytest

from phloem.cli.flags import INFER_FLAGS
from phloem.cli.main import run
from phloem.cli.simulate import FLAGS
from phloem.config.infer import INFER
from support.command_line import complaint
from support.messages import assert_says

SMALL = ["simulate", "--out", "sim", "--taxa", "5", "--sites", "30"]


def truth(name: str = "sim") -> dict:
    return json.loads(Path(f"{name}.true.json").read_text())


def test_files_and_where_they_are(capsys):
    assert run([*SMALL, "--model", "JC"]) == 0
    out = capsys.readouterr().out
    assert [line.split("  ")[0] for line in out.splitlines()] == ["sim.fasta", "sim.true.tre", "sim.true.json"]
    assert sorted(path.name for path in Path().iterdir()) == ["sim.fasta", "sim.true.json", "sim.true.tre"]
    assert (truth()["taxa"], truth()["sites"], truth()["seed"]) == (5, 30, 1)
    assert run(["likelihood", "sim.fasta", "sim.true.tre", "--json"]) == 0


def test_json_names_the_files(capsys):
    options = ["--partition", "20,10", "--replicates", "2", "--format", "nexus", "--json", "--quiet"]
    assert run(["simulate", "--out", "a/b", "--taxa", "4", *options]) == 0
    one, two = json.loads(capsys.readouterr().out)
    assert one == {
        "alignment": "a/b-1.nex",
        "tree": "a/b-1.true.tre",
        "truth": "a/b-1.true.json",
        "parts": "a/b-1.parts",
    }
    assert all(Path(path).exists() for path in two.values())


# For every flag: what is needed beside it, its text, and where the truth then shows it.
CASES = {
    "--seed": ([], "7", lambda: truth()["seed"] == 7),
    "--branch-prior": ([], "uniform:2", lambda: truth()["branch_prior"] == "uniform from 0 to 2"),
    "--prior-rate": ([], "5", lambda: truth()["branch_prior"] == "exponential with rate 5"),
    "--model": ([], "K80", lambda: truth()["models"][0]["model"] == "K80"),
    "--kappa": (["--model", "K80"], "3", lambda: rates()[1] == pytest.approx(3 * rates()[0])),
    "--frequencies": ([], ".1,.2,.3,.4", lambda: truth()["models"][0]["frequencies"] == [0.1, 0.2, 0.3, 0.4]),
    "--rates": ([], "1,2,3,4,5,6", lambda: rates() == pytest.approx([n / 21 for n in range(1, 7)])),
    "--gamma": ([], "6", lambda: truth()["models"][0]["gamma_categories"] == 6),
    "--alpha": ([], "0.5", lambda: truth()["models"][0]["alpha"] == 0.5),
    "--median-rates": (
        ["--sites", "600", "--alpha", "0.5"],
        None,
        lambda: True,
    ),  # of all truths the least visible: only the sites know
    "--invariant": ([], "0.25", lambda: truth()["models"][0]["invariant"] == 0.25),
    "--partition": ([], "by-codon", lambda: len(truth()["models"]) == 3),
    "--part-models": (["--partition", "by-codon"], "JC,K80,F81", lambda: truth()["models"][2]["model"] == "F81"),
    "--link": (["--partition", "by-codon"], "alpha", lambda: "alpha{all}" in truth()["parameters"]),
    "--part-rates": (["--partition", "by-codon"], "equal", lambda: "m{1}" not in truth()["parameters"]),
}


def rates() -> list[float]:
    return truth()["models"][0]["exchangeabilities"]


@pytest.mark.parametrize("name", [flag.name for flag in FLAGS.flags])
def test_every_flag_shows_in_the_truth(name):
    besides, text, shows = CASES[name]
    assert run([*SMALL, "--quiet", *besides]) == 0
    before = Path("sim.fasta").read_bytes()
    assert run([*SMALL, "--quiet", *besides, name, *([] if text is None else [text])]) == 0
    assert Path("sim.fasta").read_bytes() != before
    assert shows()


def test_words_are_those_of_infer():
    of_infer = {flag.name: flag.key for flag in INFER_FLAGS.flags}
    own = {flag.name: flag.key for flag in FLAGS.flags if flag.name != "--part-models"}
    assert own.items() <= of_infer.items()
    assert {flag.key for flag in FLAGS.flags} <= set(INFER.keys)


def test_a_tree_of_ones_own():
    Path("tree.nwk").write_text("(Homo_sapiens:0.1,(Pan:0.1,Gorilla:0.2):0.1,Pongo:0.3);\n")
    assert run(["simulate", "--out", "sim", "--tree", "tree.nwk", "--sites", "20", "--quiet"]) == 0
    assert Path("sim.fasta").read_text().startswith(">Gorilla\n")
    assert truth()["topology"] == "given"


def test_missing_data():
    options = ["--partition", "300,300", "--missing-genes", "0.4", "--gaps", "0.2", "--gap-length", "5"]
    assert run(["simulate", "--out", "sim", "--taxa", "10", *options, "--missing", "0.1", "--quiet"]) == 0
    found = truth()["hidden"]
    assert found["missing_genes"] == pytest.approx(0.4)
    assert found["gaps"] == pytest.approx(0.2 * 0.6, abs=0.05)
    assert found["missing"] == pytest.approx(0.1 * 0.6 * 0.8, abs=0.05)
    assert set(Path("sim.fasta").read_text()) >= set("ACGT-?N")


@pytest.mark.parametrize(
    ("options", "facts"),
    [
        (["--taxa", "2"], "--taxa 2"),
        (["--model", "WAG"], "model 'WAG'"),
        (["--model", "HKY+F"], "no alignment yet"),
        (["--frequencies", "empirical"], "no alignment yet"),
        (["--multipliers", "a"], "--multipliers a"),
        (["--missing-genes", "0.5"], "--missing-genes … one part"),
        (["--format", "clustal"], "--format 'clustal'"),
        (["--tree", "none.nwk", "--sites", "3"], "--taxa and --tree"),
        (["--out", "file/x"], "file"),
        (["--link", "all"], "--link … --partition"),
    ],
)
def test_mistakes_are_one_line_and_leave_nothing(options, facts, capsys):
    Path("file").write_text("")
    assert run([*SMALL, *options]) == 2
    assert_says(complaint(capsys), facts)
    assert [path.name for path in Path().iterdir()] == ["file"]
