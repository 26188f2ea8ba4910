"""Chains check what a run says, at its end and where it is drawn from anew."""

import json
import signal
from pathlib import Path

import numpy as np
import pytest

import phloem
from phloem.display.events import News
from phloem.inference.particles import lower_bound
from phloem.runs.driver import Interrupted
from phloem.target.priors import TreePrior
from phloem.tasks.evaluate import evaluate_run
from phloem.trees.sample import TreeSample

SHORT = {
    "preset": "quick",
    "model": {"name": "JC"},
    "branches": "split",
    "training": {"steps": 1500, "refit": 0.0},
    "evaluation": {"repeats": 5, "samples": 200, "anneal": 0, "chains": 40},
}
CHECKS = ("Outside the support", "Clades by chains")


def infer(out: Path, trees: TreeSample | str = "primates", **settings) -> phloem.Posterior:
    progress = settings.pop("progress", False)
    return phloem.infer("primates", trees, out=out, progress=progress, **SHORT | settings)


@pytest.fixture(scope="module")
def checked(tmp_path_factory) -> phloem.Posterior:
    return infer(tmp_path_factory.mktemp("checked") / "run", runs=1)


def findings(posterior: phloem.Posterior) -> dict[str, str]:
    return {finding.name: finding.level for finding in posterior.trust.findings}


def test_a_run_says_what_its_chains_say(checked):
    check = checked.summary.check
    assert check is not None
    assert (check.chains, check.rounds) == (40, 100)
    assert set(CHECKS) <= set(findings(checked))
    again = phloem.load_posterior(checked.directory)
    assert again.summary.check == check
    assert json.loads((checked.directory / "summary.json").read_text())["chains"]["outside_support"]["value"] < 0.05
    text, page = str(checked), (checked.directory / "report.html").read_text()
    for name in CHECKS:
        assert name in text
        assert name in page


def test_mass_outside_the_support_is_seen_and_told_in_every_file(checked, tmp_path):
    second = checked.topologies[1:2]
    found = infer(tmp_path / "run", second, runs=1)
    assert findings(found)["Outside the support"] == found.trust.level == "do not trust"
    check = found.summary.check
    assert check is not None
    assert check.outside.value == pytest.approx(0.913, abs=4 * check.outside.error + 0.02)  # by longer runs
    assert "phloem sample --chains" in found.trust.advice
    for name in ("posterior.nex", "posterior.log", "consensus.nex"):
        assert "Do not trust." in (tmp_path / "run" / name).read_text()
    chains = found.chains(100, 100)
    assert chains.check.outside.value == pytest.approx(check.outside.value, abs=0.1)


def test_what_is_outside_is_added_from_chains_where_the_rest_is_known(checked, tmp_path):
    best = checked.topologies[:1]
    found = infer(tmp_path / "run", best, runs=1)
    check = found.summary.check
    assert check is not None
    assert check.outside.value == pytest.approx(0.087, abs=4 * check.outside.error)
    assert check.added == len(found.draws) - 1000 > 0
    assert findings(found)["Outside the support"] in ("good", "usable")
    assert findings(found)["Clades by chains"] == "good"
    share = found.topologies.weights[0]
    assert share == pytest.approx(1 - check.outside.value, abs=0.01)
    of_support = lower_bound(found.draws.own_log_weights.reshape(5, 200)).mean()
    expected = of_support - np.log1p(-check.outside.value)
    assert found.log_marginal_likelihood.mean == pytest.approx(expected)
    sentence = f"{check.added} trees of Markov chains stand for it"
    assert sentence in " ".join(str(found).split())
    assert sentence in (tmp_path / "run" / "report.html").read_text()
    again = phloem.load_posterior(found.directory)
    assert again.summary == found.summary
    np.testing.assert_array_equal(again.draws.log_weights, found.draws.log_weights)
    trace = (tmp_path / "run" / "posterior.log").read_text()
    assert trace.count("-Infinity") == pytest.approx(1000 * check.outside.value, abs=1.5)


def test_several_runs_are_checked_together_and_stopped_chains_are_made_again(tmp_path):
    def stop(event):
        if isinstance(event, News) and event.phase == "chains" and 0 < event.share < 1:
            signal.raise_signal(signal.SIGINT)

    told = []
    whole = infer(tmp_path / "whole", runs=2, progress=told.append)
    assert whole.summary.check is not None
    assert all(run.summary.check is None for run in whole.runs)
    assert [run.config.evaluation.chains for run in whole.runs] == [40, 40]
    phases = [(event.run, event.phase) for event in told if isinstance(event, News)]
    assert phases[-1] == (1, "done")
    assert phases.index((1, "chains")) > phases.index((2, "done"))
    with pytest.raises(Interrupted):
        infer(tmp_path / "stopped", runs=2, progress=stop)
    assert not (tmp_path / "stopped" / "summary.json").exists()
    phloem.infer(None, out=tmp_path / "stopped", resume=True, progress=False)
    assert (tmp_path / "stopped" / "summary.json").read_bytes() == (tmp_path / "whole" / "summary.json").read_bytes()


def test_new_draws_are_checked_anew(checked):
    shown: list[float] = []
    found = evaluate_run(checked.directory, repeats=3, seed=5, progress=shown.append).posterior
    check = found.summary.check
    assert check is not None
    assert check.chains == 40
    assert check != checked.summary.check
    assert shown == sorted(shown)
    assert shown[-1] == 1
    assert np.diff(shown).max() < 0.5


def test_without_chains_there_is_no_check(tmp_path):
    evaluation = SHORT["evaluation"] | {"chains": 0}
    assert infer(tmp_path / "none", runs=1, evaluation=evaluation).summary.check is None

    class Steep(TreePrior):
        """Another prior, as far as chains know."""

    found = infer(tmp_path / "own", runs=1, prior=Steep(20.0))
    assert found.summary.check is None
    assert not set(CHECKS) & set(findings(found))


def test_there_are_no_more_chains_than_draws(tmp_path):
    few = {"branches": "split", "training": {"steps": 3, "refit": 0.0}}
    drawn = {"repeats": 2, "samples": 3, "anneal": 0}
    found = phloem.infer(
        "primates", "primates", runs=1, preset="quick", out=tmp_path / "few", progress=False, evaluation=drawn, **few
    )
    assert found.summary.check is not None
    assert found.summary.check.chains == 6
    one = drawn | {"repeats": 1, "samples": 1}
    alone = phloem.infer(
        "primates", "primates", runs=1, preset="quick", out=tmp_path / "one", progress=False, evaluation=one, **few
    )
    assert alone.summary.check is None
