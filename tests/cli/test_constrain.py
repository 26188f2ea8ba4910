"""`phloem infer --constrain` and `--outgroup`: from files and MrBayes blocks, resumed, refused, and in all results."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import phloem
from phloem.cli.main import run
from phloem.config import read_config
from phloem.data.mrbayes_block import read_mrbayes_block
from phloem.errors import ConfigError
from phloem.tasks.mrbayes_settings import block_constraints
from phloem.tasks.posterior import sample_posterior
from phloem.tasks.support import read_samples
from phloem.trees.constraints import TopologyConstraints
from support.command_line import complaint
from support.messages import assert_says

QUICK = ["--steps", "5", "--branches", "split", "--samples", "20", "--repeats", "2", "--plain", "--model", "JC"]
FEW = ["--bootstrap-method", "embedded", "--bootstrap-replicates", "2", "--bootstrap-trees", "20"]
FEW += ["--set", "support.explore=4", "--set", "evaluation.chains=2", "--set", "evaluation.anneal=0"]
PRIMATES = ["infer", "primates", "--out", "run", *QUICK, *FEW]
DATA = """#NEXUS
begin data; dimensions ntax=6 nchar=24; format datatype=dna gap=-; matrix
A ACGTACGTACGAACGTACGTACGA
B ACGTTCGTACGCACGTTCGTACGC
C ACGTACGAACGTACGTACGAACGT
D ACTTACGTACGGACTTACGTACGG
E ACGTACCTACGAACGTACCTACGA
F ACGTACCTACGAACGTACCTACGA
; end;
begin mrbayes;
lset nst=1; prset statefreqpr=fixed(equal) brlenspr=unconstrained:exponential(10);
constraint one = B C; constraint two -1 = 2-4; constraint loose = A B;
prset topologypr=constraints(one, two);
outgroup F;
end;
"""


@pytest.fixture(autouse=True)
def _files(in_empty_directory):
    Path("dna.nex").write_text(DATA)
    # No tree that the data like has these.
    Path("odd.txt").write_text("odd: Homo_sapiens, Saimiri_sciureus\nmonkeys: M_mulatta M_sylvanus Pan\n")


def all_hold(name: str, constraints: TopologyConstraints) -> bool:
    return all(constraints.hold(sample.topologies).all() for sample in read_samples([name], taxa=constraints.taxa))


def test_a_run_against_the_data_has_trees_with_the_constraints_alone(capsys):
    assert run([*PRIMATES, "--constrain", "odd.txt", "--outgroup", "Lemur_catta", "--write-mrbayes", "out.nex"]) == 0
    captured = capsys.readouterr()
    assert "all trees have the constraints: odd, monkeys\n" in captured.out
    said = captured.err
    assert_says(said, "priors: topologies alike if they have odd (2 taxa), monkeys (3 taxa)")
    assert_says(said, "bootstrap by the embedded search, … all with the constraints")
    posterior = phloem.load_posterior("run")
    constraints = posterior.constraints
    assert constraints is not None
    assert constraints.names == posterior.summary.constraints == ("odd", "monkeys")
    assert constraints.hold(posterior.topologies.topologies).all()
    assert all_hold("run/bootstrap/replicate_01.nwk.gz", constraints)
    assert all_hold("run/posterior.nex", constraints)
    assert constraints.hold(posterior.chains(2, 4).trees.topologies).all()
    assert json.loads(Path("run/provenance.json").read_text())["constraints"]["clades"]["odd"] == [
        "Homo_sapiens",
        "Saimiri_sciureus",
    ]
    sample = sample_posterior(posterior, 5)
    lengths = torch.tensor(sample.trees.branch_lengths)
    free = replace(posterior.target, constraints=None).log_prior(sample.trees.topologies, lengths, None)
    np.testing.assert_allclose(sample.log_prior, free - constraints.log_share)
    page = Path("run/report.html").read_text()
    assert "alike if they have odd (2 taxa), monkeys (3 taxa)" in page
    assert "The tree is rooted as it is drawn." in page

    text = Path("out.nex").read_text()
    block = read_mrbayes_block("out.nex", text, posterior.taxa, 898)
    assert block is not None
    assert block_constraints("out.nex", block, posterior.taxa).equal(constraints)
    assert block.outgroup == "Lemur_catta"

    assert run(["evaluate", "run", "--samples", "20", "--repeats", "2"]) == 0
    assert run(["sample", "run", "--chains", "2", "--rounds", "4", "--out", "chains.nex"]) == 0
    assert all_hold("chains.nex", constraints)
    assert run(["report", "run", "--out", "elsewhere"]) == 0
    assert "The tree is rooted as it is drawn." in Path("elsewhere/report.html").read_text()
    capsys.readouterr()
    assert run(["evidence", "run", "primates"]) == 2
    assert_says(complaint(capsys), "21 topologies given without the constraints of run, odd (2 taxa), … probability 0.")


def test_a_changed_file_is_refused_and_a_lost_one_is_not_needed(capsys):
    command = [*PRIMATES, "--constrain", "odd.txt"]
    assert run(command) == 0
    before = Path("run/summary.json").read_bytes()
    kept = Path("odd.txt").read_text()
    Path("run/summary.json").unlink()
    Path("odd.txt").write_text("odd: Homo_sapiens, Saimiri_sciureus\n")
    capsys.readouterr()
    for again in ([*command, "--resume"], ["infer", "--out", "run", "--resume"]):
        assert run(again) == 2
        assert_says(complaint(capsys), "run: is a run under other constraints than odd.txt has now. Put the file back")
    Path("odd.txt").write_text("# the same\n" + "\n".join(reversed(kept.splitlines())))
    assert run([*command, "--resume"]) == 0
    assert Path("run/summary.json").read_bytes() == before
    Path("run/summary.json").unlink()
    Path("odd.txt").unlink()
    assert run(["infer", "--out", "run", "--resume", "--plain"]) == 0
    assert Path("run/summary.json").read_bytes() == before
    capsys.readouterr()
    assert run([*PRIMATES, "--resume", "--constrain", "other.txt"]) == 2
    assert_says(complaint(capsys), "run: is a run with other settings: constrain is odd.txt, not other.txt.")


def test_trees_without_the_constraints_are_left_out(capsys):
    Path("clade.txt").write_text("african: Pan Gorilla\n")
    assert run(["infer", "primates", "--trees", "primates", "--out", "run", *QUICK, "--constrain", "clade.txt"]) == 0
    assert_says(capsys.readouterr().err, "of 21 trees left out of the support: without the constraints")
    posterior = phloem.load_posterior("run")
    assert posterior.constraints is not None
    assert posterior.constraints.hold(posterior.topologies.topologies).all()
    assert run(["infer", "primates", "--trees", "primates", "--out", "no", *QUICK, "--constrain", "odd.txt"]) == 2
    assert_says(
        complaint(capsys),
        "none of 21 trees for the support has the constraints, odd (2 taxa), … or none: then bootstrap",
    )
    assert not Path("no").exists() or not list(Path("no").glob("checkpoints/*"))


def test_a_mrbayes_block_is_taken(capsys):
    assert run(["infer", "dna.nex", "--out", "run", *QUICK[:-2]]) == 0
    said = capsys.readouterr().err
    assert_says(said, "taken from the MrBayes block of dna.nex: model JC, … 2 constraints; flags override it")
    assert_says(said, "trees are rooted at outgroup F, for display")
    assert_says(said, "dna.nex: constraint 'loose': defined, but no prset topologypr enforces it.")
    posterior = phloem.load_posterior("run")
    assert posterior.constraints is not None
    assert [posterior.constraints.clade(number) for number in (0, 1)] == [["B", "C"], ["B", "C", "D"]]
    assert math.isclose(posterior.constraints.log_count, math.log(3))
    assert len(posterior.topologies) <= 3
    config = read_config(Path("run/config.toml").read_text(), "config.toml")
    assert (config.constrain, config.outgroup) == ("dna.nex", "F")

    Path("run/summary.json").unlink()
    Path("dna.nex").write_text(DATA.replace("B C;", "B D;"))
    assert run(["infer", "dna.nex", "--out", "run", *QUICK[:-2], "--resume"]) == 0

    Path("own.txt").write_text("own: E F\n")
    assert run(["infer", "dna.nex", "--out", "own", *QUICK[:-2], "--constrain", "own.txt", "--outgroup", "A"]) == 0
    found = phloem.load_posterior("own")
    assert found.constraints is not None
    assert found.constraints.names == ("own",)
    assert found.config.outgroup == "A"


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (
            "constraint one = B C",
            "constraint one negative = B C",
            "constraint 'one' is negative, and phloem has clades",
        ),
        ("constraint one = B C", "constraint one partial = B C : D E", "constraint 'one' is partial"),
        ("constraint one = B C", "constraint one = C D E F", "'one' and 'two': contradict each other: … --no-mrbayes"),
        ("constraint one = B C", "constraint one = B", "constraint 'one': has 1 taxon"),
    ],
)
def test_what_a_block_has_and_phloem_has_not_is_a_line(old, new, says, capsys):
    Path("dna.nex").write_text(DATA.replace(old, new))
    assert run(["infer", "dna.nex", "--out", "run", *QUICK[:-2]]) == 2
    *_, last = capsys.readouterr().err.splitlines()
    assert_says(last, says)
    assert last.endswith("leaves the block aside.")
    assert run(["infer", "dna.nex", "--out", "run", *QUICK, "--no-mrbayes"]) == 0


def test_a_partial_constraint_on_all_taxa_is_a_clade():
    text = DATA.replace("one = B C", "one partial = B C : A D E F")
    block = read_mrbayes_block("dna.nex", text, tuple("ABCDEF"), 24)
    assert block is not None
    assert block_constraints("dna.nex", block, tuple("ABCDEF")).clade(0) == ["B", "C"]


def test_one_topology_is_enough(capsys):
    Path("all.nwk").write_text("(A,B,(C,(D,(E,F))));")
    assert run(["infer", "dna.nex", "--no-mrbayes", "--out", "run", *QUICK, "--constrain", "all.nwk"]) == 0
    assert len(phloem.load_posterior("run").topologies) == 1


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--constrain", "nowhere.txt"], "nowhere.txt"),
        (
            ["--constrain", "odd.txt"],
            "odd.txt: constraint 'odd': 'Homo_sapiens', 'Saimiri_sciureus' not in the alignment",
        ),
        (["--outgroup", "F"], "outgroup: 'F' not in the tree"),
        (["--outgroup", ","], "--outgroup ',': names no taxon"),
    ],
)
def test_bad_flags_are_a_line(flags, says, capsys):
    Path("dna.fasta").write_text("".join(f">{name}\nACGTACGT{name}\n" for name in "ABCDGH"))
    assert run(["infer", "dna.fasta", "--out", "run", *QUICK, *flags]) == 2
    assert_says(complaint(capsys), says)
    assert not Path("run").exists()


def test_an_outgroup_that_is_no_clade_does_not_end_a_run(capsys):
    Path("apart.txt").write_text("ab: A B\n")
    assert (
        run(["infer", "dna.nex", "--no-mrbayes", "--out", "r", *QUICK, "--constrain", "apart.txt", "--outgroup", "A,C"])
        == 0
    )
    assert "The tree is rooted as it is drawn." not in Path("r/report.html").read_text()


def test_a_prior_of_ones_own_and_constraints_do_not_go_together():
    def prior(_topologies, lengths):
        return -10 * lengths.sum(dim=1)

    Path("own.txt").write_text("own: E F\n")
    with pytest.raises(ConfigError, match="--constrain: a prior"):
        phloem.infer("dna.nex", mrbayes=False, model={"name": "JC"}, constrain="own.txt", prior=prior, progress=False)
