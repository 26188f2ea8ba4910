"""Several runs compared: marginal likelihoods with errors, shares, and split frequencies."""

import numpy as np
import pytest

from phloem.inference.agreement import compare_runs, marginal_likelihood
from phloem.inference.draws import DrawCollector, Draws
from phloem.inference.evaluation import draw_log_weights
from phloem.random_streams import RandomStream
from phloem.trees.splits import split_deviation, split_frequencies
from support.small_posteriors import example


def drawn(branches: str, seed: int, count: int = 400) -> Draws:
    model, target = example(branches)
    collector = DrawCollector()
    draw_log_weights(model, target, count, stream=RandomStream(seed, "agreement"), keep=collector)
    return collector.draws(model.network.support.taxa)


@pytest.fixture(scope="module")
def runs() -> list[Draws]:
    return [drawn("split", 1), drawn("psp", 2), drawn("edge", 3)]


def test_marginal_likelihoods_are_means_of_all_weights(runs):
    found = compare_runs(runs)
    for run, (value, error) in zip(runs, found.log_marginal_likelihoods, strict=True):
        weights = np.exp(run.log_weights - run.log_weights.max())
        assert value == pytest.approx(np.log(weights.mean()) + run.log_weights.max())
        assert error == pytest.approx(weights.std() / np.sqrt(len(weights)) / weights.mean(), rel=1e-6)
        assert marginal_likelihood(run) == (value, error)


def test_shares_are_the_marginal_likelihoods_over_their_sum(runs):
    found = compare_runs(runs)
    values = np.exp([value for value, _ in found.log_marginal_likelihoods])
    np.testing.assert_allclose(found.shares, values / values.sum(), rtol=1e-10)


def test_the_difference_is_between_the_two_that_are_farthest_apart(runs):
    found = compare_runs(runs)
    values = [value for value, _ in found.log_marginal_likelihoods]
    ends = [found.log_marginal_likelihoods[index].error for index in (np.argmax(values), np.argmin(values))]
    assert found.difference.value == pytest.approx(max(values) - min(values))
    assert found.difference.error == pytest.approx(np.hypot(*ends))
    assert compare_runs([runs[0], runs[0]]).difference == (0, 0)


def test_splits_are_compared_by_weighted_frequencies(runs):
    frequencies = [split_frequencies(run.weighted().topology_sample()) for run in runs]
    assert compare_runs(runs).splits == split_deviation(frequencies)
    assert compare_runs([runs[1], runs[1]]).splits == (0, 0, 0)
