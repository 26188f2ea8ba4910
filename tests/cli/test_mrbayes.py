"""`phloem infer` with MrBayes' blocks: taken, left aside, resumed, refused; and files for MrBayes."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

import phloem
from phloem.cli.main import run
from phloem.config import ModelConfig, PartitionConfig, read_config
from phloem.data.mrbayes_block import read_mrbayes_block
from phloem.errors import ConfigError
from support.command_line import complaint
from support.messages import assert_says, saying

DATA = """#NEXUS
begin data; dimensions ntax=5 nchar=24; format datatype=dna gap=-; matrix
A-1 ACGTACGTACGAACGTACGTACGA
'B x' ACGTTCGTACGCACGTTCGTACGC
C.1 ACGTACGAACGTACGTACGAACGT
D ACTTACGTACGGACTTACGTACGG
E ACGTACCTACGAACGTACCTACGA
; end;
begin sets; charset a = 1-12; charset b = 13-24; end;
begin mrbayes;
partition p = 2: a, b;
set partition=p;
outgroup E;
lset applyto=(1) nst=6 rates=gamma; lset applyto=(2) nst=2;
prset ratepr=variable; unlink statefreq=(all);
mcmc ngen=100;
end;
"""
QUICK = ["--steps", "5", "--branches", "split", "--runs", "1", "--samples", "20", "--repeats", "2", "--plain"]
INFER = ["infer", "dna.nex", "--out", "run", *QUICK]
TAKEN = "taken from the MrBayes block of dna.nex"


@pytest.fixture(autouse=True)
def alignment(in_empty_directory) -> Path:
    path = Path("dna.nex")
    path.write_text(DATA)
    return path


def recorded(run: str = "run"):
    return read_config((Path(run) / "config.toml").read_text(), "config.toml")


def test_a_run_takes_the_block(capsys):
    assert run(INFER) == 0
    said = capsys.readouterr().err
    assert_says(said, f"{TAKEN}: models GTR+G4, HKY, 2 parts, branch lengths gamma-dirichlet:1,0.1; flags override")
    assert_says(said, "dna.nex: mcmc: about MrBayes' own chains")
    assert_says(said, f"{TAKEN}: trees are rooted at outgroup E, for display")
    assert "ignored" not in said
    config = recorded()
    assert (config.partition.sites, config.partition.models) == ("dna.nex", "GTR+G4,HKY")
    posterior = phloem.load_posterior("run")
    assert {"alpha{1}", "kappa{2}", "pi(A){1}", "pi(A){2}", "m{1}", "m{2}"} <= set(posterior.target.parameters.names)
    summary = Path("run/summary.json").read_bytes()

    Path("run/summary.json").unlink()  # a resumed run has its own record, and the block may be another by now
    Path("dna.nex").write_text(DATA.replace("nst=6", "nst=mixed"))
    assert run([*INFER, "--resume"]) == 0
    said = capsys.readouterr().err
    assert TAKEN not in said
    assert "ignored" not in said
    assert Path("run/summary.json").read_bytes() == summary

    Path("dna.nex").write_text(DATA)
    assert run(["infer", "dna.nex", "--out", "again", "--config", "run/config.toml", "--plain"]) == 0
    assert TAKEN not in capsys.readouterr().err
    assert Path("again/summary.json").read_bytes() == summary


def test_flags_override_the_block(capsys):
    assert run([*INFER, "--model", "JC", "--branch-prior", "exponential", "--part-rates", "equal"]) == 0
    assert_says(capsys.readouterr().err, f"{TAKEN}: 2 parts; flags")
    config = recorded()
    assert (config.model, config.branch_prior) == (ModelConfig("JC"), "exponential")
    assert (config.partition.sites, config.partition.models, config.partition.rates) == ("dna.nex", None, "equal")


def test_a_run_without_a_checkpoint_is_resumed_with_what_it_recorded(capsys):
    assert run([*INFER, "--model", "HKY", "--branch-prior", "exponential"]) == 0
    began_with = recorded()
    for path in Path("run").iterdir():
        if path.name == "checkpoints":
            shutil.rmtree(path)
        elif path.name not in ("config.toml", "provenance.json"):
            path.unlink()
    capsys.readouterr()
    assert run(["infer", "dna.nex", "--out", "run", "--resume", "--plain"]) == 0
    assert TAKEN not in capsys.readouterr().err
    assert recorded() == began_with
    names = set(phloem.load_posterior("run").target.parameters.names)
    assert {"kappa{all}", "pi(A){1}", "m{1}"} <= names


def test_a_block_can_be_left_aside(alignment, capsys):
    alignment.write_text(DATA.replace("nst=6", "nst=mixed"))
    assert run(INFER) == 2
    assert_says(complaint(capsys), "dna.nex, line 14, lset: phloem has no nst=mixed. … --no-mrbayes")
    assert not Path("run").exists()
    assert run([*INFER, "--no-mrbayes", "--model", "JC"]) == 0
    said = capsys.readouterr().err
    assert TAKEN not in said
    assert_says(said, "ignored: 2 charset (SETS block); partition, set, outgroup, 2 lset, prset, unlink, mcmc (MRBAYES")
    assert recorded().partition.sites is None


def test_a_block_with_a_mistake_is_an_error_of_one_line(alignment, capsys):
    alignment.write_text(DATA.replace("nst=6", "nts=6"))
    assert run(INFER) == 2
    assert_says(complaint(capsys), "dna.nex, line 14, lset: MrBayes has no parameter 'nts' … --no-mrbayes")
    alignment.write_text(DATA)
    assert run([*INFER, "--kappa", "3"]) == 2
    assert_says(complaint(capsys), "its parts have different models, and model.kappa would be of one of them")


def test_settings_may_lean_on_the_block(alignment):
    """They are checked with it, as they make no sense without."""
    alignment.write_text(DATA.replace("lset applyto=(1) nst=6 rates=gamma; lset applyto=(2) nst=2;", "lset nst=2;"))
    assert run([*INFER, "--kappa", "3", "--link", "frequencies"]) == 0
    assert recorded().model.kappa == (3.0,)
    assert recorded().partition.link == "frequencies"


def test_in_python_too():
    fast = {"training": {"steps": 5}, "branches": "split", "runs": 1, "evaluation": {"samples": 20, "repeats": 2}}
    posterior = phloem.infer("dna.nex", progress=False, write_mrbayes="out.nex", **fast)
    assert posterior.config.partition.models == "GTR+G4,HKY"
    assert "nst=6" in Path("out.nex").read_text()
    assert phloem.infer("dna.nex", progress=False, mrbayes=False, **fast).config.partition.sites is None
    whole = replace(posterior.config, model=ModelConfig("JC"), partition=PartitionConfig())
    assert phloem.infer("dna.nex", progress=False, config=whole).config == whole
    Path("dna.nex").write_text(DATA.replace("nst=6", "nst=mixed"))
    with pytest.raises(ConfigError, match=saying("nst=mixed … mrbayes=False")):
        phloem.infer("dna.nex", progress=False)


def test_a_file_for_mrbayes_has_what_the_run_has(capsys):
    assert run([*INFER, "--write-mrbayes", "out.nex"]) == 0
    said = capsys.readouterr().err
    assert_says(said, "out.nex: names that MrBayes cannot read are others there: 'A-1' is A_1, 'B x' is B_x")
    text = Path("out.nex").read_text()
    block = read_mrbayes_block("out.nex", text, ("A_1", "B_x", "C.1", "D", "E"), 24)
    assert [part.nst for part in block.parts] == ["6", "2"]
    Path("dna.nex").write_text(text)
    assert run(["infer", "dna.nex", "--out", "again", *QUICK, "--write-mrbayes", "again.nex"]) == 0
    matrix = text.index("  matrix")
    assert Path("again.nex").read_text().endswith(text[matrix:])
    assert read_config(Path("again/config.toml").read_text(), "") == recorded()


def test_a_file_for_mrbayes_that_cannot_be_is_an_error_before_anything_is_written(capsys):
    for flags, says in (
        (["--write-mrbayes", "dna.nex"], "--write-mrbayes dna.nex: is the alignment itself. Name another file."),
        (["--write-mrbayes", "nowhere/out.nex"], "out.nex: its directory does not exist"),
        (["--write-mrbayes", "out.nex", "--model", "TN93"], "--write-mrbayes: MrBayes has no TN93"),
    ):
        assert run([*INFER, *flags]) == 2
        assert_says(capsys.readouterr().err.splitlines()[-1], says)
        assert [path.name for path in Path().iterdir()] == ["dna.nex"], flags
