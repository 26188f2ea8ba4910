"""Where the trees of a support come from."""

import json

import pytest
import torch

import phloem
from phloem.config import InferConfig, ModelConfig, SupportConfig
from phloem.config.infer import INFER
from phloem.config.model import MODEL_PARAMETERS
from phloem.data.alignment import Alignment
from phloem.data.patterns import compress
from phloem.display.events import News, Notice
from phloem.errors import ConfigError, FileProblem, ProgramProblem
from phloem.inference.exploration import Exploration
from phloem.search.bootstrap import BootstrapProgress
from phloem.tasks.infer import WIDE
from phloem.tasks.run_files import build_target, infer_run
from phloem.tasks.support import Collected, SupportSource
from phloem.variational.fitting import first_network
from phloem.variational.sbn import SubsplitNetwork
from support.fake_iqtree import SEVEN, SEVEN_TREES, FakeIqtree
from support.messages import saying

TINY = {
    "model": {"name": "JC"},
    "branches": "split",
    "training": {"steps": 2},
    "evaluation": {"repeats": 1, "samples": 5},
}
JC = ModelConfig("JC")
OTHER_TREES = SEVEN_TREES.replace("t2,(t3", "t3,(t2").replace("1000 >", "40 >>")


@pytest.fixture
def seven(tmp_path):
    """An alignment of seven taxa."""
    path = tmp_path / "dna.fasta"
    path.write_text(SEVEN)
    return path


def collect(source: SupportSource, alignment: Alignment, config: InferConfig | None = None) -> Collected:
    return source.collect(build_target(compress(alignment), config or InferConfig(model=JC)), 1)


def test_bootstrap_trees_count_with_their_credible_topologies(seven, tmp_path, monkeypatch):
    FakeIqtree(tmp_path, monkeypatch)(f"{SEVEN_TREES.replace('1000', '960')}; {OTHER_TREES}")
    alignment = phloem.read_alignment(seven)
    for credible, topologies in ((0.95, 1), (1.0, 2)):
        config = phloem.config.InferConfig(
            model=JC, support=phloem.config.SupportConfig(credible=credible, replicates=1, explore=0)
        )
        source = SupportSource("dna.fasta", alignment, config, (), tmp_path / "bootstrap")
        assert collect(source, alignment, config).support.topology_count == topologies


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
        phloem.infer(seven, out=tmp_path / "run", force=True, progress=False, support={"method": "iqtree"}, **TINY)
    for wrong, what in ({"model": "MFP"}, "--bootstrap-model 'MFP'"), ({"count": 0}, "--bootstrap-trees 0"):
        with pytest.raises(ConfigError, match=what):
            phloem.infer(seven, out=tmp_path / "run", force=True, progress=False, support=wrong, **TINY)
    assert phloem.load_posterior(found.directory).summary == found.summary


def test_taxa_of_trees_may_be_in_any_order(tmp_path):
    alignment = phloem.read_alignment("primates")
    trees = phloem.read_trees(phloem.data.find_trees("primates"))
    supports = [
        collect(SupportSource("dna", alignment, InferConfig(model=JC), [sample], tmp_path), alignment).support
        for sample in (trees, trees.with_taxa(trees.taxa[::-1]))
    ]
    assert supports[0].taxa == supports[1].taxa == alignment.taxa
    assert supports[0].topology_count == supports[1].topology_count


@pytest.mark.parametrize("most", [300_000, 60])
def test_a_run_on_a_closed_support_is_saved_and_loaded_and_says_what_it_leaves_out(tmp_path, monkeypatch, most):
    monkeypatch.setattr("phloem.variational.sbn.MOST_CLOSED_ENTRIES", most)
    told = []
    settings = TINY | {"branches": "psp", "support": {"closure": "clades", "credible": 1.0}}
    run = tmp_path / "run"
    phloem.infer("primates", "primates", runs=1, out=run, progress=told.append, **settings)
    found = phloem.load_posterior(run)
    support = found.model.network.support
    assert support.closed
    assert found.config.support.closure == "clades"
    left_out = [event.text for event in told if isinstance(event, Notice) and "leaves out" in event.text]
    assert bool(left_out) == bool(support.splits_left_out) == (most == 60)
    for text in left_out:
        assert f"the {support.splits_left_out} splits that are the rarest" in text
    again = phloem.infer("primates", "primates", runs=1, out=run, resume=True, progress=False, **settings)
    assert again.summary == found.summary


def test_the_record_of_a_run_from_before_closed_supports_means_an_open_one():
    assert INFER.read_record("[support]\ncredible = 0.95\n", "config.toml").support.closure == "none"


@pytest.fixture
def explored(monkeypatch):
    """What chains find is what a test says; the calls of `explore`."""
    calls = []

    def pretend(newick: str, *, is_wide: bool) -> list[dict]:
        def explore(_target, samples, **options):
            calls.append({"samples": samples} | options)
            options["progress"](1.0)
            trees = phloem.trees.parse_newick(newick.split(), taxa=samples[0].taxa).distinct()
            return Exploration(trees.normalized(), options["chains"], 100, is_wide, None)

        monkeypatch.setattr("phloem.tasks.support.explore", explore)
        return calls

    return pretend


NEAR = "(A,B,(C,(D,(E,(G,F)))));"
NEW = "(A,B,(D,(C,(E,(F,G))))); (A,B,(C,(D,(F,(E,G)))));"


def test_trees_that_chains_find_join_the_support(seven, tmp_path, monkeypatch, explored):
    FakeIqtree(tmp_path, monkeypatch)(SEVEN_TREES)
    calls = explored(NEW, is_wide=False)
    alignment = phloem.read_alignment(seven)
    supports = {}
    for count in (0, 30):
        config = InferConfig(seed=4, model=JC, support=SupportConfig(replicates=1, explore=count))
        source = SupportSource("dna.fasta", alignment, config, (), tmp_path / f"bootstrap-{count}")
        supports[count] = collect(source, alignment, config)
    assert [(call["chains"], call["stream"].seed) for call in calls] == [(30, 4)]
    trees = phloem.trees.parse_newick([NEAR, *NEW.splitlines()[0].split()], taxa=alignment.taxa).topologies
    assert supports[0].support.generates(trees).tolist() == [True, False, False]
    assert supports[30].support.generates(trees).all()
    assert not any(found.support.closed for found in supports.values())
    assert supports[0].logits is None
    network = SubsplitNetwork(supports[30].support, supports[30].logits)
    likely = network.log_prob(trees).detach().exp().tolist()
    assert likely[0] < 0.01  # of the bootstrap alone
    assert sum(likely[1:]) > 0.9


@pytest.mark.parametrize("closure", ["auto", "none"])
def test_of_a_wide_posterior_the_support_is_closed_and_training_starts_from_the_trees(
    seven, tmp_path, monkeypatch, explored, closure
):
    FakeIqtree(tmp_path, monkeypatch)(SEVEN_TREES)
    explored(NEW, is_wide=True)
    told = []
    settings = TINY | {"training": {"steps": 2, "refit": 0, "rate": 1e-9}, "support": {"closure": closure}}
    found = phloem.infer(seven, runs=1, out=tmp_path / "run", progress=told.append, **settings)
    network = found.model.network
    notices = [event.text for event in told if isinstance(event, Notice) and "wide" in event.text]
    if closure == "none":
        assert not network.support.closed
        assert not notices
        return
    assert network.support.closed
    assert len(notices) == 1
    assert notices[0].endswith(WIDE)
    trees = phloem.trees.parse_newick(NEW.split(), taxa=found.taxa).distinct()
    expected = first_network(network.support, trees).log_prob(trees.topologies)
    assert torch.allclose(network.log_prob(trees.topologies), expected, atol=1e-6)
    phases = list(dict.fromkeys(event.phase for event in told if isinstance(event, News)))
    assert phases[:4] == ["bootstrap", "exploring", "support", "training"]
    again = phloem.infer(seven, runs=1, out=tmp_path / "run", resume=True, progress=False, **settings)
    assert again.summary == found.summary


@pytest.mark.parametrize("refit", [0.0, 5.0])
def test_topologies_are_held_only_where_a_last_fit_trains_them(seven, tmp_path, monkeypatch, explored, refit):
    FakeIqtree(tmp_path, monkeypatch)(SEVEN_TREES)
    explored(NEW, is_wide=False)
    told = []
    settings = TINY | {"training": {"steps": 2, "refit": refit}}
    phloem.infer(seven, runs=1, out=tmp_path / "run", progress=told.append, **settings)
    checkpoint, _ = infer_run(tmp_path / "run").checkpoints.newest()
    assert checkpoint is not None
    assert checkpoint.training["is_held"].tolist() == [refit > 0]
    assert any("explored the posterior" in event.text for event in told if isinstance(event, Notice))


def test_given_trees_are_the_support_and_nothing_is_explored(tmp_path, explored):
    calls = explored(NEW, is_wide=True)
    found = phloem.infer("primates", "primates", runs=1, out=tmp_path / "run", progress=False, **TINY)
    assert not calls
    assert not found.model.network.support.closed


def few_trees(**changes):
    """A bootstrap that is quick."""
    return TINY | {"runs": 1, "support": {"replicates": 2, "count": 20} | changes}


@pytest.fixture
def nowhere(monkeypatch):
    """No program is on PATH."""
    monkeypatch.setenv("PATH", "")


@pytest.mark.slow
def test_without_iqtree_the_embedded_search_makes_the_trees_and_everybody_is_told(seven, tmp_path, nowhere):
    told = []
    found = phloem.infer(seven, out=tmp_path / "run", progress=told.append, **few_trees())
    made_by = "bootstrap by the embedded search, 2 replicates of 20 trees under JC"
    assert made_by in [event.text for event in told if isinstance(event, Notice)]
    assert json.loads((tmp_path / "run/provenance.json").read_text())["bootstrap"] == made_by
    assert made_by in (tmp_path / "run/report.html").read_text()
    assert json.loads((tmp_path / "run/bootstrap/bootstrap.json").read_text())["method"] == "embedded"
    shares = [event.share for event in told if isinstance(event, News) and event.phase == "bootstrap"]
    assert shares == sorted(shares)
    assert found.config.support.method == "auto"
    again = phloem.infer(seven, out=tmp_path / "again", progress=False, **few_trees(method="embedded"))
    assert again.summary.evaluation.elbo == found.summary.evaluation.elbo


@pytest.mark.slow
def test_the_method_of_a_run_is_in_its_settings(seven, tmp_path, monkeypatch):
    fake = FakeIqtree(tmp_path, monkeypatch)
    fake(SEVEN_TREES)
    told = []
    phloem.infer(seven, out=tmp_path / "run", progress=told.append, **few_trees(method="embedded", model="HKY+G4"))
    assert fake.calls == []
    assert 'method = "embedded"' in (tmp_path / "run/config.toml").read_text()
    phloem.infer(seven, out=tmp_path / "other", progress=told.append, **few_trees(count=1000))
    assert len(fake.calls) == 2
    texts = [event.text for event in told if isinstance(event, Notice)]
    assert "bootstrap by the embedded search, 2 replicates of 20 trees under HKY+G4" in texts
    assert "bootstrap by IQ-TREE, 2 replicates of 1,000 trees under JC" in texts


def test_what_iqtree_cannot_do_is_known_before_a_run_begins(seven, tmp_path, monkeypatch):
    FakeIqtree(tmp_path, monkeypatch)
    facts = "--bootstrap-trees 20 … IQ-TREE … 1000 … --bootstrap-method embedded"
    with pytest.raises(ConfigError, match=saying(facts)):
        phloem.infer(seven, out=tmp_path / "run", progress=False, **few_trees())
    assert not (tmp_path / "run/config.toml").exists()


def test_a_run_that_goes_on_keeps_its_method_and_a_new_one_takes_what_is_there(seven, tmp_path, monkeypatch):
    def source(*, may_replace: bool = False) -> SupportSource:
        config = InferConfig(model=JC, support=SupportConfig(replicates=2))
        alignment = phloem.read_alignment(seven)
        return SupportSource("dna", alignment, config, (), tmp_path / "bootstrap", may_replace=may_replace)

    fake = FakeIqtree(tmp_path, monkeypatch)
    fake(SEVEN_TREES)
    alignment = phloem.read_alignment(seven)
    collect(source(), alignment)
    (tmp_path / "bootstrap" / "replicate_02.nwk.gz").unlink()
    with monkeypatch.context() as without:
        without.setenv("PATH", "")
        with pytest.raises(ProgramProblem, match="IQ-TREE"):
            source()
        new = source(may_replace=True)
        assert "embedded" in new.bootstrap
        collect(new, alignment)
    assert "embedded" in source().bootstrap
    assert "IQ-TREE" in source(may_replace=True).bootstrap
    assert len(fake.calls) == 2
    manifest = tmp_path / "bootstrap" / "bootstrap.json"
    manifest.write_text(manifest.read_text().replace('"seed": 1', '"seed": 2'))
    with pytest.raises(FileProblem, match=saying("seed … 2 … 1")):
        source()


def test_the_bundled_example_has_a_bootstrap_like_any_alignment(tmp_path, nowhere):
    source = SupportSource("primates", phloem.read_alignment("primates"), InferConfig(), (), tmp_path)
    assert source.bootstrap == "bootstrap by the embedded search, 10 replicates of 1,000 trees under GTR+G4"


@pytest.mark.parametrize("name", MODEL_PARAMETERS)
@pytest.mark.parametrize(
    "rates", [{}, {"gamma": 4}, {"gamma": 4, "alpha": 0.5}, {"gamma": 1, "alpha": 0.5, "invariant": 0.1}]
)
def test_the_embedded_search_knows_every_model_of_infer(seven, tmp_path, nowhere, name, rates):
    numbers = {"kappa": (2.0,) * (1 + (name == "TN93")), "rates": (1.0,) * 6}
    given = {key: value for key, value in numbers.items() if key in MODEL_PARAMETERS[name]}
    for parameters in (given, {}):
        config = InferConfig(model=ModelConfig(name, **parameters, **rates))
        assert SupportSource("dna", phloem.read_alignment(seven), config, (), tmp_path).bootstrap


def test_the_share_does_not_fall_where_a_search_thinks_again(seven, tmp_path, monkeypatch, nowhere):
    """A search that finds a better tree has more to do than it thought."""

    def doubt(_alignment, _directory, _config, *, constraints, progress):
        for news in ((1, 0.5, 0), (1, 0.2, 0), (2, 0.4, 0), (1, 1.0, 1), (2, 0.1, 1)):
            progress(BootstrapProgress(*news))
        raise KeyboardInterrupt

    monkeypatch.setattr("phloem.tasks.support.bootstrap_files", doubt)
    config = InferConfig(model=JC, support=SupportConfig(replicates=2))
    alignment = phloem.read_alignment(seven)
    source = SupportSource("dna", alignment, config, (), tmp_path)
    told = []
    with pytest.raises(KeyboardInterrupt):
        source.collect(build_target(compress(alignment), config), 1, progress=lambda *news: told.append(news))
    assert {phase for phase, _ in told} == {"bootstrap"}
    assert [share for _, share in told] == pytest.approx([0, 0.25, 0.25, 0.3, 0.7, 0.7])
