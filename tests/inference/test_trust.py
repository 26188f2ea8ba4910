"""Verdicts: what makes a posterior good, usable or not to be trusted."""

import numpy as np
import pytest

from phloem.config.infer import BRANCH_MODELS
from phloem.inference.agreement import Agreement, Measured
from phloem.inference.chain_check import ChainCheck, CladeDifference
from phloem.inference.diagnostics import effective_sample_size, smooth
from phloem.inference.trust import LEVELS, Trust, judge, judge_weights, percent
from phloem.trees.splits import SplitDeviation
from support.messages import assert_says

EVEN = np.random.default_rng(1).normal(0, 0.5, 20_000)
DONE = {"steps_done": 100, "steps": 100, "finished": True}


def agreement(difference: float = 0.01, error: float = 0.02, average: float = 0.002, largest: float = 0.01):
    estimates = (Measured(-10.0, 0.01), Measured(-10.0 - difference, 0.01))
    splits = SplitDeviation(average, largest, largest * 1.5)
    return Agreement(estimates, (0.5, 0.5), Measured(difference, error), splits)


def check(outside: float = 0.001, error: float = 0.0005, beyond: float = 0.0) -> ChainCheck:
    difference = CladeDifference(0.4, Measured(0.41 + beyond, 0.01), beyond)
    return ChainCheck(100, 100, Measured(outside, error), difference)


def levels(trust: Trust) -> dict[str, str]:
    return {finding.name: finding.level for finding in trust.findings}


def test_even_weights_are_good_and_a_single_run_is_told_of_a_second():
    trust = judge(EVEN, None, **DONE)
    assert trust.level == "good"
    assert levels(trust) == {"Effective sample size": "good", "Pareto k̂": "good"}
    assert "--runs 2" in trust.advice
    assert "--runs 2" not in judge(EVEN, agreement(), **DONE).advice


@pytest.mark.parametrize(("scale", "level"), [(0.5, "good"), (1.9, "usable"), (6.0, "do not trust")])
def test_uneven_weights_lower_the_verdict(scale, level):
    trust = judge(EVEN * scale / 0.5, None, **DONE)
    assert levels(trust)["Pareto k̂"] == trust.level == level
    assert trust.findings[0].value.endswith(" of 20,000")


@pytest.mark.parametrize(("count", "level"), [(99, "do not trust"), (100, "usable"), (199, "usable"), (200, "good")])
def test_few_draws_lower_the_verdict(count, level):
    trust = judge(np.zeros(count), None, **DONE)
    assert levels(trust)["Effective sample size"] == trust.level == level


@pytest.mark.parametrize(
    ("shape", "level"), [(0.5, "good"), (0.501, "usable"), (0.7, "usable"), (0.701, "do not trust")]
)
def test_heavy_tails_lower_the_verdict(shape, level, monkeypatch):
    monkeypatch.setattr("phloem.inference.trust.pareto_shape", lambda _weights: shape)
    monkeypatch.setattr("phloem.inference.trust.unseen_share", lambda _weights: 0.0051)
    assert levels(judge(EVEN, None, **DONE))["Pareto k̂"] == level


@pytest.mark.parametrize("shape", [0.5, 0.7, 0.9])
def test_a_tail_of_hardly_any_weight_is_no_reason_for_doubt(shape, monkeypatch):
    monkeypatch.setattr("phloem.inference.trust.pareto_shape", lambda _weights: shape)
    monkeypatch.setattr("phloem.inference.trust.unseen_share", lambda _weights: 0.005)
    trust = judge(EVEN, None, **DONE)
    assert levels(trust)["Pareto k̂"] == judge_weights(EVEN) == "good"
    value = next(finding.value for finding in trust.findings if finding.name == "Pareto k̂")
    assert ("0.5 % of the weight unseen" in value) == (shape > 0.5)


def test_weights_alone_are_judged_by_their_number_and_their_tail(monkeypatch):
    assert judge_weights(np.zeros(150)) == "usable"
    monkeypatch.setattr("phloem.inference.trust.pareto_shape", lambda _weights: 0.8)
    monkeypatch.setattr("phloem.inference.trust.unseen_share", lambda _weights: 0.01)
    assert judge_weights(np.zeros(150)) == judge_weights(EVEN) == "do not trust"


def test_chains_that_find_nothing_else_leave_the_verdict_as_it_is():
    trust = judge(EVEN, agreement(), check(), **DONE)
    assert trust.level == "good"
    assert trust.advice == "Nothing to worry about."
    outside, clades = trust.findings[-2:]
    assert (outside.name, outside.value) == ("Outside the support", "0.10 % ± 0.05 %")
    assert (clades.name, clades.value) == (
        "Clades by chains",
        "0.010 apart at most (0.400, and 0.410 ± 0.010 by chains)",
    )
    assert "100 Markov chains of 100 rounds" in outside.meaning


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (0.9995, 0.0005, "99.95 % ± 0.05 %"),
        (1.0, 0.0, "100 % ± 0 %"),
        (0.0, 0.0, "0 % ± 0 %"),
        (0.026, 0.004, "2.6 % ± 0.4 %"),
        (0.5, 0.5, "50 % ± 50 %"),
        (0.3, 0.1, "30 % ± 10 %"),
        (1e-7, 1e-8, "0.0000 % ± 0.0000 %"),
    ],
)
def test_a_share_has_the_decimals_of_its_error(value, error, text):
    assert percent(Measured(value, error)) == text


@pytest.mark.parametrize(
    ("outside", "error", "beyond", "level"),
    [
        (0.02, 0.0, 0.0, "good"),
        (0.1, 0.027, 0.0, "good"),  # three errors
        (0.021, 0.0, 0.0, "usable"),
        (0.2, 0.0, 0.0, "usable"),
        (0.21, 0.0, 0.0, "do not trust"),
        (0.0, 0.0, 0.02, "good"),
        (0.0, 0.0, 0.021, "usable"),
        (0.0, 0.0, 0.101, "do not trust"),
    ],
)
def test_what_chains_find_beside_the_run_lowers_the_verdict(outside, error, beyond, level):
    trust = judge(EVEN, agreement(), check(outside, error, beyond), **DONE)
    assert trust.level == level
    assert ("phloem sample --chains" in trust.advice) == (level != "good")


def test_longer_training_is_not_advised_where_the_support_is_what_is_wrong():
    advice = judge(EVEN * 12, None, check(0.9), **DONE).advice
    assert "longer training does not mend" in advice
    assert judge(EVEN * 12, None, check(0.1), **DONE).advice.startswith("Train longer")
    assert judge(EVEN, None, check(0.1), **DONE).advice.startswith("Good enough")
    unfinished = DONE | {"finished": False}
    assert "--resume" in judge(EVEN, None, check(0.9), **unfinished).advice


def test_advice_is_about_the_worst_of_what_was_found():
    assert judge(EVEN * 12, None, **DONE).advice.startswith("Train longer (--steps 200)")
    assert judge(EVEN * 12, None, steps_done=0, steps=0, finished=True).advice == "Train longer."
    assert judge(EVEN * 12, agreement(average=0.2), **DONE).advice.startswith("The runs disagree")
    assert judge(EVEN * 12, agreement(average=0.02), **DONE).advice.startswith("Train longer")
    assert judge(EVEN * 3.8, None, **DONE).advice.startswith("Good enough to work with")
    unfinished = DONE | {"finished": False}
    assert "--resume" in judge(EVEN * 12, agreement(average=0.2), **unfinished).advice


@pytest.mark.parametrize("branches", [*BRANCH_MODELS, ""])
def test_a_model_of_branch_lengths_is_advised_where_it_is_another_and_more_flexible(branches):
    for family in ("warped", "lognormal", ""):
        advice = judge(EVEN * 12, None, **DONE, branches=branches, family=family).advice
        assert ("--branches edge" in advice) == (branches in ("split", "psp"))
        assert ("--family warped" in advice) == (family == "lognormal")


def test_a_training_that_stopped_by_itself_would_do_so_again_with_more_steps():
    stopped = DONE | {"steps_done": 60}
    for log_weights, runs in ((EVEN * 12, None), (EVEN * 3.8, None), (EVEN, agreement(average=0.2))):
        assert "--steps 200" in judge(log_weights, runs, **DONE).advice
        advice = judge(log_weights, runs, **stopped).advice
        assert "--stop steps" in advice
        assert "--steps" not in advice


def test_more_runs_are_more_than_there_are():
    estimate, splits = Measured(-10.0, 0.01), SplitDeviation(0.2, 0.3, 0.4)
    for runs in (2, 4, 7):
        found = Agreement((estimate,) * runs, (1 / runs,) * runs, Measured(0.0, 0.01), splits)
        assert f"--runs {2 * runs}" in judge(EVEN, found, **DONE).advice


def test_few_effective_draws_of_a_light_tail_are_helped_by_more_draws():
    assert "--repeats" in judge(np.zeros(150), None, **DONE).advice
    assert "--repeats" in judge(EVEN[:220] * 1.4, None, **DONE).advice
    assert "--repeats" not in judge(EVEN * 3.8, None, **DONE).advice


def test_a_run_that_is_being_trained_is_not_to_be_resumed():
    unfinished = DONE | {"finished": False}
    assert "--resume" in judge(EVEN, None, **unfinished).advice
    advice = judge(EVEN, None, **unfinished, in_use=True).advice
    assert "--resume" not in advice
    assert "wait" in advice


def test_runs_that_have_not_begun_are_told_of():
    estimate, splits = Measured(-10.0, 0.01), SplitDeviation(0.0, 0.0, 0.0)
    alone = Agreement((estimate,), (1.0,), Measured(0.0, 0.01), splits)
    trust = judge(EVEN, alone, steps_done=4263, steps=8000, finished=False, runs=2)
    assert_says(trust.findings[-1].value, "4,263 of 8,000 … 1 of 2 runs")


def test_the_effective_size_is_that_of_smoothed_weights():
    log_weights = EVEN[:1000] * 6
    size = effective_sample_size(smooth(log_weights))
    assert abs(size - effective_sample_size(log_weights)) > 1
    assert judge(log_weights, None, **DONE).findings[0].value == f"{size:,.0f} of 1,000"


def test_too_few_draws_to_tell_the_tail_are_usable_at_best():
    trust = judge(np.random.default_rng(3).normal(size=10), None, **DONE)
    assert levels(trust)["Pareto k̂"] == "usable"
    assert trust.findings[1].value == "not known"
    assert "too few draws" in trust.findings[1].meaning


@pytest.mark.parametrize(
    ("difference", "error", "level"),
    [
        (0.1, 0.001, "good"),
        (0.2, 0.001, "good"),
        (0.5, 0.2, "good"),
        (0.5, 0.01, "usable"),
        (1.0, 0.01, "usable"),
        (2.0, 0.01, "do not trust"),
        (2.0, 1.0, "good"),
    ],
)
def test_runs_disagree_if_their_likelihoods_differ_by_more_than_errors_and_by_something_that_matters(
    difference, error, level
):
    trust = judge(EVEN, agreement(difference, error), **DONE)
    assert levels(trust)["Marginal likelihoods of the runs"] == level
    assert trust.level == level


@pytest.mark.parametrize(
    ("average", "level"), [(0.01, "good"), (0.03, "usable"), (0.05, "usable"), (0.06, "do not trust")]
)
def test_runs_disagree_by_their_average_split_deviation(average, level):
    trust = judge(EVEN, agreement(average=average), **DONE)
    assert levels(trust)["Average standard deviation of split frequencies"] == trust.level == level


@pytest.mark.parametrize(
    ("largest", "level"), [(0.05, "good"), (0.08, "usable"), (0.1, "usable"), (0.2, "do not trust")]
)
def test_runs_disagree_by_their_largest_split_deviation(largest, level):
    trust = judge(EVEN, agreement(largest=largest), **DONE)
    assert levels(trust)["Largest standard deviation of split frequencies"] == trust.level == level
    assert trust.findings[-1].value == f"{largest:.4f}"
    advice = {
        "good": "Nothing to worry about.",
        "usable": "Good enough to work with",
        "do not trust": "The runs disagree",
    }
    assert trust.advice.startswith(advice[level])


def test_an_unfinished_training_says_so_and_is_usable_at_best():
    trust = judge(EVEN, None, steps_done=1200, steps=40_000, finished=False)
    assert trust.level == "usable"
    assert trust.findings[-1].value == "step 1,200 of 40,000"
    assert "--resume" in trust.advice
    assert judge(EVEN * 20, None, steps_done=1, steps=2, finished=False).level == "do not trust"


def test_the_verdict_is_the_worst_finding_and_every_finding_explains_itself():
    trust = judge(EVEN * 4, agreement(average=0.2), **DONE)
    assert trust.level == max((finding.level for finding in trust.findings), key=LEVELS.index) == "do not trust"
    assert all(finding.meaning.endswith(".") for finding in trust.findings)
    assert all(text.endswith(".") for text in (trust.advice,))


@pytest.mark.parametrize(
    ("share", "level", "value"),
    [(0.004, "good", "about 0.4 %"), (0.1, "usable", "about 10 %"), (0.9999999, "do not trust", "more than 99 %")],
)
def test_peaks_of_the_models_parameters_that_a_run_does_not_reach_lower_the_verdict(share, level, value):
    trust = judge(EVEN, None, check()._replace(elsewhere=share), **DONE)
    finding = next(finding for finding in trust.findings if finding.name.startswith("Other peaks"))
    assert trust.level == finding.level == level
    assert finding.value == value
    assert ("--seed 2" in trust.advice) == (level != "good")


@pytest.mark.parametrize("share", [0.0, 1e-12, 0.0009])
def test_a_run_without_other_peaks_that_matter_says_nothing_of_them(share):
    trust = judge(EVEN, None, check()._replace(elsewhere=share), **DONE)
    assert not any("peaks" in name for name in levels(trust))
