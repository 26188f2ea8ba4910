"""Several runs as one posterior: each counts by its marginal likelihood, and they are compared."""

import json
import math
import shutil
from pathlib import Path

import numpy as np
import pytest

import phloem
from phloem.config import EvaluationConfig, InferConfig
from phloem.display.events import News, Notice
from phloem.errors import FileProblem
from phloem.inference.draws import Draws, write_draws
from phloem.inference.evaluation import Estimated
from phloem.inference.summary import summarize_draws
from phloem.inference.trust import judge
from phloem.runs import several
from phloem.tasks.opening import combine_runs
from phloem.tasks.posterior import Posterior, load_posterior
from phloem.tasks.run_files import infer_run, write_tables
from support.made_up_summary import made_up_summary
from support.messages import saying

SETTINGS = {
    "model": {"name": "JC"},
    "branches": "split",
    "training": {"steps": 40},
    "evaluation": {"repeats": 3, "samples": 100},
}
TREES = ["(a,b,(c,(d,e)));", "(a,(b,(d,e)),c);", "(a,b,((c,e),d));"]


@pytest.fixture(scope="module")
def together(tmp_path_factory) -> tuple[Posterior, list]:
    told = []
    out = tmp_path_factory.mktemp("runs") / "all"
    return phloem.infer(
        "primates", "primates", runs=3, seed=5, threads=2, out=out, progress=told.append, **SETTINGS
    ), told


def test_each_is_the_ordinary_run_with_its_seed(together, tmp_path):
    posterior, _ = together
    assert [run.config.seed for run in posterior.runs] == [5, 6, 7]
    origins = [json.loads((run.directory / "provenance.json").read_text()) for run in posterior.runs]
    assert [origin["seed"] for origin in origins] == [5, 6, 7]
    alone = phloem.infer("primates", "primates", runs=1, seed=6, out=tmp_path / "alone", progress=False, **SETTINGS)
    for name in ("config.toml", "draws.safetensors", "parameters.safetensors", "topologies.csv"):
        assert (posterior.runs[1].directory / name).read_bytes() == (alone.directory / name).read_bytes()
    assert posterior.runs[1].summary.check is None  # chains check all runs together
    assert posterior.runs[1].summary.evaluation == alone.summary.evaluation
    assert posterior.summary.check is not None


def test_every_run_tells_its_news(together):
    _, told = together
    for number in (1, 2, 3):
        news = [event for event in told if isinstance(event, News) and event.run == number]
        assert [event.report.step for event in news if event.report] == list(range(1, 41))
        assert news[-1].phase == "done"


def test_the_model_and_the_history_are_those_of_the_best_run(together):
    posterior, _ = together
    means = [run.log_marginal_likelihood.mean for run in posterior.runs]
    best = posterior.runs[int(np.argmax(means))]
    assert posterior.best_run is best
    assert posterior.summary.best_run == int(np.argmax(means)) + 1
    assert posterior.elbo == best.elbo
    assert posterior.history == best.history
    assert posterior.model.network.logits.equal(best.model.network.logits)
    assert min(means) < posterior.log_marginal_likelihood.mean < max(means)


def test_runs_that_are_finished_are_not_run_again(together, monkeypatch):
    posterior, _ = together
    monkeypatch.setattr(several, "_Worker", None)
    told = []
    again = phloem.infer(None, out=posterior.directory, resume=True, progress=told.append)
    assert again.summary == posterior.summary
    assert any("step 40, 40, 40 of 40" in event.text for event in told if isinstance(event, Notice))
    assert [event for event in told if isinstance(event, News)] == [News(run, "done", 1.0) for run in (1, 2, 3)]


def test_a_run_that_was_lost_is_made_again_and_the_others_stay(together, tmp_path):
    posterior, _ = together
    copy = posterior.save(tmp_path / "copy")
    shutil.rmtree(tmp_path / "copy" / "run-1")
    told = []
    again = phloem.infer(None, out=tmp_path / "copy", resume=True, progress=told.append)
    assert any("step 0, 40, 40 of 40" in event.text for event in told if isinstance(event, Notice))
    assert again.summary == copy.summary


def test_more_runs_than_the_settings_have_are_refused(together, tmp_path):
    posterior, _ = together
    posterior.save(tmp_path / "copy")
    with pytest.raises(FileProblem, match=saying("runs … 3 … 2")):
        phloem.infer(None, out=tmp_path / "copy", resume=True, progress=False, runs=2)


def made_up(folder: Path, log_marginal: float, shares: list[float], error: float | None = 0.1) -> None:
    """A finished run on five taxa: 100 draws of the same weight, of three topologies with these shares."""
    parsed = phloem.trees.parse_newick(TREES, taxa=tuple("abcde"))
    group = np.repeat(np.arange(3, dtype=np.int32), [round(100 * share) for share in shares])
    zeros = np.zeros(100)
    lengths = np.full((100, 7), 0.1, np.float32)
    draws = Draws(parsed.taxa, parsed.topologies, group, lengths, zeros + log_marginal, zeros, zeros)
    trust = judge(draws.log_weights, None, steps_done=1, steps=1, finished=True)
    folder.mkdir(parents=True)
    run = infer_run(folder)
    run.record(InferConfig(runs=1), {"trees": []}, seed=1, command="")
    write_draws(draws, folder / "draws.safetensors")
    write_tables(run, draws)
    summary = made_up_summary(summarize_draws(draws, trust), Estimated(log_marginal, error), steps=1)
    run.write_summary(summary.as_json())


def combine(path: Path, count: int) -> Posterior:
    """The posterior of the runs below a directory."""
    directory, config = infer_run(path), InferConfig(runs=count, evaluation=EvaluationConfig(chains=0))
    directory.record(config, {"trees": []}, seed=1, command="")
    runs = [load_posterior(child.path) for child in directory.children()]
    found = combine_runs(directory, config, runs=runs)
    loaded = load_posterior(path)
    assert loaded.summary == found.summary
    return loaded


def combined(tmp_path, *runs) -> Posterior:
    for number, run in enumerate(runs, 1):
        made_up(tmp_path / f"run-{number}", *run)
    return combine(tmp_path, len(runs))


def test_runs_count_by_their_marginal_likelihoods(tmp_path):
    found = combined(tmp_path, (-10.0, [0.7, 0.3, 0.0]), (-10.0 - math.log(3), [0.1, 0.5, 0.4]))
    np.testing.assert_allclose(found.summary.agreement.shares, [0.75, 0.25])
    assert phloem.trees.format_newick(found.topologies.topologies, found.taxa) == TREES
    np.testing.assert_allclose(found.topologies.weights, [0.55, 0.35, 0.1])
    np.testing.assert_allclose(found.trees.topology_sample().weights, [0.55, 0.35, 0.1])
    assert found.log_marginal_likelihood.mean == pytest.approx(-10 + math.log((1 + 1 / 3) / 2))
    assert found.log_marginal_likelihood.std == pytest.approx(0.1 * math.hypot(0.75, 0.25))
    expected = phloem.trees.split_frequencies(found.topologies)
    by_split = {members.tobytes(): share for members, share in zip(expected.members, expected.frequencies, strict=True)}
    for members, share in zip(found.clades.members, found.clades.frequencies, strict=True):
        assert share == pytest.approx(by_split[members.tobytes()])


def test_the_best_run_is_the_one_that_the_bounds_are_of(tmp_path):
    """The mean of logarithms, over repeats, may order runs that are close in another way than all draws do."""
    for number, log_marginal in enumerate((-10.0, -10.1), 1):
        made_up(tmp_path / f"run-{number}", log_marginal, [0.7, 0.3, 0.0])
    path = tmp_path / "run-1" / "summary.json"
    changed = {name: {"mean": -10.2, "std": 0.1} for name in ("elbo", "log_marginal_likelihood")}
    path.write_text(json.dumps(json.loads(path.read_text()) | changed))
    infer_run(path.parent).checksums.add([path.name])
    found = combine(tmp_path, 2)
    assert found.summary.best_run == 1
    assert found.best_run is found.runs[0]
    assert found.elbo == found.best_run.elbo


def test_a_mode_that_one_run_lost_is_in_the_combined_posterior(tmp_path):
    """The second run knows one topology only, and its marginal likelihood is smaller by what it lacks."""
    found = combined(tmp_path, (-10.0, [0.6, 0.4, 0.0]), (-10.0 + math.log(0.6), [1.0, 0.0, 0.0]))
    assert found.topologies.weights[1] == pytest.approx(0.4 / 1.6)
    assert found.trust.level == "do not trust"


def test_topologies_and_clades_of_all_runs_are_in_the_order_of_their_probabilities(tmp_path):
    found = combined(tmp_path, (-11.0, [0.9, 0.1, 0.0]), (-10.0, [0.0, 0.2, 0.8]))
    assert phloem.trees.format_newick(found.topologies.topologies, found.taxa) == [TREES[2], TREES[0], TREES[1]]
    assert (np.diff(found.topologies.weights) < 0).all()
    assert (np.diff(found.clades.frequencies) < 0).all()


def test_runs_are_compared_by_the_two_that_differ_most(tmp_path):
    found = combined(tmp_path, (-10.0, [1, 0, 0]), (-12.0, [1, 0, 0]), (-10.5, [1, 0, 0]))
    assert found.summary.seed == InferConfig().seed
    assert found.summary.agreement.difference.value == pytest.approx(2)


def test_runs_that_agree_and_runs_that_do_not(tmp_path):
    agreeing = combined(tmp_path / "a", (-10.0, [0.7, 0.3, 0.0]), (-10.1, [0.69, 0.31, 0.0]))
    assert agreeing.summary.agreement.splits.largest_difference == pytest.approx(0.01)
    assert agreeing.summary.agreement.splits.largest == pytest.approx(0.01 / math.sqrt(2))
    assert agreeing.summary.agreement.splits.average == pytest.approx(0.02 / 3 / math.sqrt(2))
    assert agreeing.summary.draws.count == 200
    of_runs = [finding for finding in agreeing.trust.findings if "run" in finding.name or "split" in finding.name]
    assert [finding.level for finding in of_runs] == ["good", "good", "good"]
    assert "Marginal likelihoods of the runs: 0.10 ± 0.00 apart, good" in str(agreeing)
    lost = combined(tmp_path / "b", (-10.0, [0.7, 0.3, 0.0]), (-12.0, [0.7, 0.3, 0.0]))
    assert lost.trust.level == "do not trust"
    assert "DO NOT TRUST" in str(lost)
    other_clades = combined(tmp_path / "c", (-10.0, [0.7, 0.3, 0.0]), (-10.0, [0.3, 0.7, 0.0]))
    assert other_clades.trust.level == "do not trust"
    assert "more runs" in str(other_clades)
    unknown = combined(tmp_path / "d", (-10.0, [0.7, 0.3, 0.0], None), (-10.0, [0.7, 0.3, 0.0], None))
    assert unknown.log_marginal_likelihood.std is None
