"""What every command that reads an alignment does alike: long names, and a line about what it did not use."""

from pathlib import Path

import pytest

import phloem
from phloem.cli.infer import how_to_resume
from phloem.cli.main import run
from phloem.errors import AlignmentError, InputWarning
from phloem.runs.driver import Interrupted
from support.command_line import complaint
from support.messages import assert_says, saying

ROWS = {
    "Homo sapiens": "ACGTACGTAACCGTNA",
    "Homo neanderthalensis": "ACGTACGTACCCGTTA",
    "Gorilla gorilla": "ACGAACGTACCGGTTA",
    "Pongo abelii": "ACGAACTTACCGGTT-",
}
FASTA = "".join(f">{name}\n{row}\n" for name, row in ROWS.items())
CUT = FASTA.replace("Homo n", "Neander n")
NEXUS = (
    "#NEXUS begin data; dimensions ntax=4 nchar=16; format datatype=dna; matrix\n"
    + "".join(f"'{name}' {row}\n" for name, row in ROWS.items())
    + "; end; begin sets; charset a = 1-3; charset b = 4-16; partition p = 2: a, b; end;"
)
QUICK = ["--steps", "20", "--runs", "1", "--repeats", "1", "--samples", "10", "--quiet"]
COMMANDS = {
    "likelihood": ["trees.nwk", "--optimize"],
    "search": ["--out", "best.nwk", "--count", "10", "--quiet"],
    "bootstrap": ["--out", "boot", "--method", "embedded", "--count", "10", "--replicates", "1"],
    "infer": ["--out", "run", *QUICK],
}


@pytest.fixture(autouse=True)
def files(in_empty_directory):
    Path("dna.fasta").write_text(FASTA)
    Path("cut.fasta").write_text(CUT)
    Path("dna.nex").write_text(NEXUS)
    names = [f"'{name}'" for name in ROWS]
    Path("trees.nwk").write_text(f"({names[0]},{names[1]},({names[2]},{names[3]}));\n")


@pytest.mark.parametrize("command", COMMANDS)
def test_what_is_not_used_is_said_once(command, capsys):
    assert run([command, "dna.nex", *COMMANDS[command]]) == 0
    said = [line for line in capsys.readouterr().err.splitlines() if "ignored" in line]
    assert said == ["phloem: dna.nex: ignored: 2 charset, partition (SETS block)."]


@pytest.mark.parametrize("command", COMMANDS)
def test_long_names_are_kept_where_they_are_asked_for(command, capsys):
    assert run([command, "dna.fasta", *COMMANDS[command]]) == 2
    assert_says(complaint(capsys), "dna.fasta … first blank … 'Homo' … --long-names")
    assert run([command, "dna.fasta", *COMMANDS[command], "--long-names"]) == 0
    assert "first blank" not in capsys.readouterr().err


def test_names_that_were_cut_are_said(capsys):
    assert run(["search", "cut.fasta", *COMMANDS["search"]]) == 0
    assert_says(capsys.readouterr().err, "cut.fasta … 'Homo sapiens' is 'Homo' and 3 more … --long-names")
    assert "Neander:" in Path("best.nwk").read_text()


def test_a_run_with_long_names_is_resumed_with_its_names(capsys):
    assert run(["infer", "dna.fasta", *COMMANDS["infer"], "--long-names"]) == 0
    assert run(["infer", "dna.fasta", *COMMANDS["infer"], "--resume"]) == 0
    assert phloem.load_posterior("run").taxa == tuple(ROWS)
    assert "first blank" not in capsys.readouterr().err


def test_a_stopped_run_says_how_to_resume_it_with_its_names():
    text = how_to_resume(Interrupted(Path("run"), [0], begun=True), "dna.fasta", long_names=True)
    assert text.endswith(": phloem infer dna.fasta --long-names --out run --resume")


def test_in_python_too():
    found = phloem.maximum_likelihood_tree("dna.fasta", count=10, long_names=True)
    assert found.tree.taxa == tuple(ROWS)
    samples = phloem.bootstrap("dna.fasta", count=10, replicates=1, method="embedded", long_names=True)
    assert samples[0].taxa == tuple(ROWS)
    with pytest.raises(AlignmentError, match=saying("long_names=True")):
        phloem.infer("dna.fasta", progress=False)
    with pytest.warns(InputWarning, match=saying("partition (SETS block)")):
        phloem.maximum_likelihood_tree("dna.nex", count=10)
