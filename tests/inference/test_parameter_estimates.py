"""What weighted draws say of inferred parameters, against plain averages."""

import json

import numpy as np
import pytest

import phloem
from phloem.config import ModelConfig
from phloem.data.patterns import compress
from phloem.inference.parameter_estimates import parameter_estimates
from phloem.target.free_parameters import FreeParameters
from phloem.target.substitution import build_model
from phloem.trees.sample import GroupedTrees
from support.small_posteriors import evolved

PATTERNS = compress(evolved(5, 60, seed=2))


def free(name: str) -> FreeParameters:
    config = ModelConfig(name)
    parameters = FreeParameters.of(config, build_model(config, PATTERNS))
    assert parameters is not None
    return parameters


def trees_with(weights: np.ndarray) -> GroupedTrees:
    random = np.random.default_rng(3)
    group = np.arange(len(weights), dtype=np.int32) % 15
    lengths = random.gamma(2.0, 0.1, (len(weights), 7))
    return GroupedTrees(tuple("abcde"), phloem.trees.all_topologies(5), group, weights / weights.sum(), lengths)


@pytest.mark.parametrize(
    ("model", "names"),
    [
        ("K80", ["kappa"]),
        ("TN93+F", ["kappa(A<->G)", "kappa(C<->T)"]),
        ("HKY+I+G4", ["kappa", "pi(A)", "pi(C)", "pi(G)", "pi(T)", "alpha", "pinvar"]),
        ("SYM", ["r(A<->C)", "r(A<->G)", "r(A<->T)", "r(C<->G)", "r(C<->T)", "r(G<->T)"]),
    ],
)
def test_names_are_those_of_mrbayes(model, names):
    parameters = free(model)
    found = parameter_estimates(trees_with(np.ones(30)), np.zeros((30, parameters.dimension)), parameters)
    assert [one.name for one in found] == names


def test_numbers_are_weighted():
    parameters, random = free("GTR+I+G4"), np.random.default_rng(1)
    trees = trees_with(random.random(400) ** 3)
    theta = random.normal(0, 0.5, (400, parameters.dimension))
    theta[:, -2] += 3 * trees.branch_lengths.sum(axis=1)  # the shape grows with the tree length
    values, weights = parameters.values(theta), trees.weights
    lengths = trees.branch_lengths.sum(axis=1)
    found = parameter_estimates(trees, theta, parameters)
    assert len(found) == len(parameters.names) == 12
    for one, column in zip(found, values.T, strict=True):
        covariance = np.cov(column, lengths, aweights=weights, ddof=0)
        assert one.mean == pytest.approx(np.average(column, weights=weights))
        assert one.deviation == pytest.approx(np.sqrt(covariance[0, 0]))
        assert one.median == phloem.trees.weighted_median(column, weights)
        assert (one.lower, one.upper) == phloem.trees.shortest_interval(column, weights)
        assert one.with_tree_length == pytest.approx(covariance[0, 1] / np.sqrt(covariance[0, 0] * covariance[1, 1]))
    by_name = {one.name: one for one in found}
    assert by_name["alpha"].with_tree_length > 0.5 > abs(by_name["pi(A)"].with_tree_length)
    assert sum(one.mean for one in found if one.name.startswith("r(")) == pytest.approx(1)


def test_draws_without_weight_do_not_count():
    parameters, random = free("K80"), np.random.default_rng(1)
    weights = np.repeat([1.0, 0.0], 50)
    theta = random.normal(size=(100, 1))
    wild = theta + 30 * (weights == 0)[:, None]
    assert parameter_estimates(trees_with(weights), theta, parameters) == parameter_estimates(
        trees_with(weights), wild, parameters
    )


@pytest.mark.parametrize("theta", [np.full((20, 1), 0.7), np.arange(20.0)[:, None]])
def test_where_nothing_varies_there_is_no_correlation(theta):
    alone = np.repeat([1.0, 0.0], [1, 19])  # of the second, one draw has all the weight
    weights = np.ones(20) if theta[0] == theta[1] else alone
    found = parameter_estimates(trees_with(weights), theta, free("K80"))[0]
    assert found.with_tree_length is None
    assert found.deviation == pytest.approx(0, abs=1e-12)
    json.dumps(found._asdict(), allow_nan=False)


def test_a_fixed_model_has_no_estimates():
    assert parameter_estimates(trees_with(np.ones(5)), np.empty((5, 0)), None) == ()
