"""Where the trees of a support come from."""

import pytest

import phloem
from cli.test_infer import SEVEN, SEVEN_TREES
from fake_iqtree import FakeIqtree
from phloem.config import InferConfig
from phloem.display.news import News
from phloem.errors import ProgramProblem
from phloem.pipeline.support_source import SupportSource

TINY = {"branches": "split", "training": {"steps": 2}, "evaluation": {"repeats": 1, "samples": 5}}
OTHER_TREES = SEVEN_TREES.replace("t2,(t3", "t3,(t2").replace("1000 >", "40 >>")


@pytest.fixture
def seven(tmp_path):
    """An alignment of seven taxa."""
    path = tmp_path / "dna.fasta"
    path.write_text(SEVEN)
    return path


def test_bootstrap_trees_count_with_their_credible_topologies(seven, tmp_path, monkeypatch):
    FakeIqtree(tmp_path, monkeypatch)(f"{SEVEN_TREES.replace('1000', '960')}; {OTHER_TREES}")
    alignment = phloem.read_alignment(seven)
    for credible, topologies in ((0.95, 1), (1.0, 2)):
        config = phloem.InferConfig(support=phloem.config.SupportConfig(credible=credible, replicates=1))
        source = SupportSource("dna.fasta", alignment, config, ())
        support = source.collect(tmp_path / "bootstrap", 1, replace=False, progress=lambda _share: None)
        assert support.topology_count == topologies


def test_the_bootstrap_is_a_phase_of_its_own_whose_share_rises_to_1(seven, tmp_path, monkeypatch):
    FakeIqtree(tmp_path, monkeypatch)(SEVEN_TREES)
    told = []
    phloem.infer(seven, runs=1, out=tmp_path / "run", threads=2, progress=told.append, **TINY)
    news = [event for event in told if isinstance(event, News)]
    assert next(iter(dict.fromkeys(event.phase for event in news))) == "bootstrap"
    shares = [event.share for event in news if event.phase == "bootstrap"]
    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (0, 1)


def test_a_run_is_not_replaced_where_the_trees_cannot_be_made(seven, tmp_path, monkeypatch):
    found = phloem.infer("primates", "primates", runs=1, out=tmp_path / "run", progress=False, **TINY)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ProgramProblem, match="IQ-TREE"):
        phloem.infer(seven, runs=1, out=tmp_path / "run", force=True, progress=False, **TINY)
    assert phloem.load_posterior(found.directory).summary == found.summary


def test_taxa_of_trees_may_be_in_any_order():
    alignment = phloem.read_alignment("primates")
    trees = phloem.read_trees(phloem.find_trees("primates"))
    supports = [
        SupportSource("dna", alignment, InferConfig(), [sample]).collect(None, 1, replace=False, progress=None)
        for sample in (trees, trees.with_taxa(trees.taxa[::-1]))
    ]
    assert supports[0].taxa == supports[1].taxa == alignment.taxa
    assert supports[0].topology_count == supports[1].topology_count
