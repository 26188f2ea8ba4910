"""Summaries: the record and `summary.json` are the same thing in two forms."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

import phloem
from phloem.inference.agreement import Measured, compare_runs
from phloem.inference.chain_check import ChainCheck, CladeDifference
from phloem.inference.draws import Draws
from phloem.inference.evaluation import Estimated, Evaluation
from phloem.inference.measurement import Annealed, PlainDraws
from phloem.inference.parameter_estimates import ParameterEstimate
from phloem.inference.summary import OF_ONE_RUN, OF_SEVERAL_RUNS, Summary, likelihood_error, summarize_draws
from phloem.inference.trust import judge
from support.made_up_summary import made_up_summary


def draws_of(seed: int) -> Draws:
    """Sixty draws over all topologies of five taxa."""
    random = np.random.default_rng(seed)
    topologies = phloem.trees.all_topologies(5)
    group = np.arange(60, dtype=np.int32) % len(topologies)
    lengths = random.gamma(2.0, 0.1, (60, 7)).astype(np.float32)
    return Draws(tuple("abcde"), topologies, group, lengths, random.normal(-100, 0.3, 60), *np.zeros((2, 60)))


def one_run() -> Summary:
    draws = draws_of(1)
    trust = judge(draws.log_weights, None, steps_done=80, steps=100, finished=True)
    estimates = Evaluation(Estimated(-103.5, 0.5), Estimated(-102.25, None), Estimated(-101.0, 0.125))
    return made_up_summary(
        summarize_draws(draws, trust), evaluation=estimates, seed=3, stopped_early=True, skipped_steps=2
    )


def two_runs() -> Summary:
    agreement = compare_runs([draws_of(1), draws_of(2)])
    return replace(one_run(), runs=2, best_run=2, agreement=agreement, stopped_early=False, skipped_steps=0)


def annealed_run() -> Summary:
    summary = one_run()
    return replace(summary, annealed=Annealed(60, 11, 2, 4, PlainDraws(summary.evaluation, 500, 30.5, None)))


def checked_run() -> Summary:
    difference = CladeDifference(0.25, Measured(0.5, 0.125), 0.0)
    return replace(one_run(), check=ChainCheck(100, 80, Measured(0.75, 0.25), difference, elsewhere=0.125))


def inferred_run() -> Summary:
    alpha = ParameterEstimate("alpha", 0.5, 0.125, 0.375, 0.25, 0.75, -0.5)
    unknown = ParameterEstimate("pinvar", 0.5, 0.0, 0.5, 0.5, 0.5, None)
    summary = one_run()
    return replace(summary, found=summary.found._replace(parameters=(alpha, unknown)))


SUMMARIES = pytest.mark.parametrize(
    ("summary", "keys"),
    [
        (one_run(), OF_ONE_RUN),
        (two_runs(), OF_SEVERAL_RUNS),
        (annealed_run(), OF_ONE_RUN),
        (checked_run(), OF_ONE_RUN),
        (inferred_run(), OF_ONE_RUN),
    ],
    ids=["one run", "several", "annealed", "checked", "inferred"],
)


@SUMMARIES
def test_a_summary_comes_back_from_its_json(summary, keys):
    assert Summary.from_json(summary.as_json()) == summary
    assert Summary.from_json(json.loads(json.dumps(summary.as_json()))) == summary


@SUMMARIES
def test_keys_are_in_their_order(summary, keys):
    assert tuple(summary.as_json()) == keys
    assert len(set(keys)) == len(keys)


@SUMMARIES
def test_numbers_are_under_their_names(summary, keys):
    found = summary.as_json()
    assert (found["taxa"], found["names"]) == (5, list("abcde"))
    assert found["support"] == {"topologies": 15, "splits": 25, "parameters": 31}
    assert found["evaluation"] == {"repeats": 3, "samples": 20}
    assert found["elbo"] == {"mean": -103.5, "std": 0.5}
    assert found["lower_bound"] == {"mean": -102.25, "std": None}
    assert found["draws"]["count"] == 60
    assert found["distinct_topologies"] == 15


OPTIONAL = {"annealed", "chains", "taxa", "family", "stopped_early", "skipped_steps", "runs", "best_run", "agreement"}
OPTIONAL |= {"parameters", "constraints", "log_marginal_likelihood_error"}


@SUMMARIES
def test_a_missing_key_is_refused(summary, keys):
    whole = summary.as_json()
    for key in keys:
        if key not in OPTIONAL:
            with pytest.raises(KeyError, match=key):
                Summary.from_json({name: value for name, value in whole.items() if name != key})


def test_a_summary_of_an_earlier_version_has_no_parameters():
    whole = inferred_run().as_json()
    assert [one["name"] for one in whole["parameters"]] == ["alpha", "pinvar"]
    assert Summary.from_json({key: value for key, value in whole.items() if key != "parameters"}) == one_run()


def test_parts_of_another_shape_are_refused():
    whole = one_run().as_json()
    for key, value in (
        ("support", {"splits": 1}),
        ("elbo", {"median": 1.0}),
        ("draws", {}),
        ("steps", "many"),
        ("parameters", [{}]),
    ):
        with pytest.raises((KeyError, TypeError, ValueError)):
            Summary.from_json(whole | {key: value})


def test_the_error_of_the_marginal_likelihood_is_that_of_the_mean_but_for_what_chains_added():
    estimates = Evaluation(Estimated(-103.5, 0.5), Estimated(-102.25, None), Estimated(-101.0, 0.05))
    assert likelihood_error(estimates, 25, None) == pytest.approx(0.01)
    difference = CladeDifference(0.25, Measured(0.5, 0.125), 0.0)
    check = ChainCheck(100, 80, Measured(0.2, 0.024), difference)
    assert likelihood_error(estimates, 25, check) == pytest.approx(0.01)  # what is outside was not added
    # 0.05² is 0.04² of an estimate and 0.03² of what is outside, which more estimates do not make less
    assert likelihood_error(estimates, 16, check._replace(added=9)) == pytest.approx(math.hypot(0.01, 0.03))
    single = estimates._replace(log_marginal_likelihood=Estimated(-101.0, None))
    assert likelihood_error(single, 1, None) is None
