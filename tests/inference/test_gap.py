"""Amortisation gaps: bounds against quadrature, optima against scipy's on the same quadrature."""

import itertools
import math
from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize

from phloem.data.alignment import Alignment
from phloem.data.patterns import SitePatterns, compress
from phloem.data.reading import read_alignment
from phloem.errors import BadArgument
from phloem.inference import gap as gap_module
from phloem.inference.gap import AmortizationGaps, amortization_gaps, best_members, even_noise, measure_slope, weigh
from phloem.random_streams import RandomStream
from phloem.target.likelihood import TreeLikelihood
from phloem.target.posterior import TreePosterior
from phloem.trees.generation import all_topologies
from phloem.trees.topology import TopologyBatch
from phloem.variational.families import LOCATION_OFFSET, BranchDistribution, Lognormal, Warped
from phloem.variational.joint import GraphModel, SplitModel
from phloem.variational.sbn import support_of
from reference.exact_posterior import log_joint_of_log_lengths
from support.strategies import topology_batches

FOUR = all_topologies(4)
NODES = 5  # of the quadrature, for each of five branches
TOLERANCE = 0.005
STREAM = RandomStream(1, "gap test")


@cache
def patterns_of(taxa: int, sites: int = 60) -> SitePatterns:
    """So few sites of the primates that posteriors of branch lengths are skewed."""
    whole = read_alignment("primates")
    return compress(Alignment(whole.taxa[:taxa], whole.states[:taxa, :sites]))


@cache
def target_of(taxa: int) -> TreePosterior:
    return TreePosterior(TreeLikelihood(patterns_of(taxa), threads=1))


def some_parameters(seed: int, trees: int = 3, branches: int = 5, spread: float = 0.3) -> torch.Tensor:
    """Lengths of a sensible size, all different."""
    random = np.random.default_rng(seed)
    parameters = np.stack(
        [random.normal(-0.5, spread, (trees, branches)), random.normal(-0.7, spread, (trees, branches))]
    )
    return torch.from_numpy(np.moveaxis(parameters, 0, 2).copy())


def model_with(parameters: torch.Tensor, topologies: TopologyBatch) -> GraphModel:
    """A branch model that gives these parameters for these topologies."""
    model = GraphModel(topologies.taxon_count, width=4)
    model.branch_parameters = lambda found, _indices=None: parameters[: len(found)]  # type: ignore[method-assign]
    return model


@cache
def quadrature() -> tuple[torch.Tensor, torch.Tensor]:
    """Nodes (points, 5) and weights for the mean over five standard normal numbers."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(NODES)
    grid = np.stack(np.meshgrid(*[nodes] * 5, indexing="ij"), -1).reshape(-1, 5)
    products = np.stack(np.meshgrid(*[weights / weights.sum()] * 5, indexing="ij"), -1).reshape(-1, 5).prod(axis=1)
    return torch.from_numpy(grid), torch.from_numpy(products)


def bound_of(tree: int, parameters: torch.Tensor) -> torch.Tensor:
    """The bound of one topology on four taxa, by quadrature and a likelihood that is not phloem's."""
    nodes, weights = quadrature()
    location, log_scale = parameters[:, 0] + LOCATION_OFFSET, parameters[:, 1]
    log_lengths = location + log_scale.exp() * nodes
    log_joint = log_joint_of_log_lengths(FOUR.parent[tree].tolist(), log_lengths, patterns_of(4)) - math.log(3)
    entropy = (log_scale + 0.5 + 0.5 * math.log(2 * math.pi)).sum()  # of log q, whose Jacobian is in the joint
    return weights @ log_joint + entropy


@cache
def best_bound_of(tree: int) -> float:
    """The highest bound, by scipy."""

    def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        parameters = torch.from_numpy(flat.reshape(5, 2)).requires_grad_()
        value = -bound_of(tree, parameters)
        value.backward()
        return float(value.detach()), parameters.grad.numpy().ravel()

    start = np.tile([-0.5, -0.7], 5)
    return -float(optimize.minimize(loss, start, jac=True, method="L-BFGS-B", options={"ftol": 1e-11}).fun)


@pytest.mark.parametrize("seed", [1, 2])
def test_the_best_lognormals_are_those_of_an_exhaustive_optimum(seed):
    fit = best_members(Lognormal, FOUR, target_of(4), some_parameters(seed), stream=RandomStream(seed, "noise"))
    assert fit.converged.all()
    assert (fit.shortfall <= TOLERANCE).all()
    for tree in range(3):
        lost = best_bound_of(tree) - float(bound_of(tree, fit.parameters[tree]))
        assert -1e-6 < lost < TOLERANCE


@pytest.mark.parametrize(("location", "log_scale"), [(3.0, 0.5), (-5.0, -3.0), (-1.0, 1.0), (1.0, -6.0)])
def test_the_optimum_is_found_from_afar(location, log_scale):
    start = torch.tensor([location, log_scale], dtype=torch.float64).expand(3, 5, 2)
    fit = best_members(Lognormal, FOUR, target_of(4), start, stream=STREAM)
    assert fit.converged.all()
    for tree in range(3):
        assert float(bound_of(tree, fit.parameters[tree])) == pytest.approx(best_bound_of(tree), abs=TOLERANCE)


def test_bounds_and_gaps_are_those_of_quadrature_within_their_errors():
    parameters = some_parameters(3)
    found = amortization_gaps(model_with(parameters, FOUR), target_of(4), FOUR, stream=STREAM, samples=4000)
    amortized = np.array([float(bound_of(tree, parameters[tree])) for tree in range(3)])
    best = np.array([best_bound_of(tree) for tree in range(3)])
    assert (np.abs(found.amortized - amortized) < 4 * found.amortized_error).all()
    assert (np.abs(found.best - best) < 4 * found.best_error + TOLERANCE).all()
    assert (np.abs(found.gap - (best - amortized)) < 4 * found.gap_error + TOLERANCE).all()
    assert (best - amortized > 0.1).all()
    np.testing.assert_allclose(found.gap, found.best - found.amortized, atol=1e-9)
    assert (found.gap_error < np.hypot(found.amortized_error, found.best_error)).all()


def test_the_errors_are_honest():
    """Over many seeds, deviations from the truth have the size that the errors say."""
    parameters = some_parameters(4)
    truth = np.array([float(bound_of(tree, parameters[tree])) for tree in range(3)])
    deviations = []
    for seed in range(30):
        model = model_with(parameters, FOUR)
        found = amortization_gaps(model, target_of(4), FOUR, stream=RandomStream(seed, "honest"), samples=200)
        deviations.append((found.amortized - truth) / found.amortized_error)
    assert 0.6 < np.mean(np.square(deviations)) < 1.6
    assert abs(np.mean(deviations)) < 0.4


def test_a_model_at_the_optimum_has_no_gap():
    fit = best_members(Lognormal, FOUR, target_of(4), some_parameters(5), stream=RandomStream(8, "another noise"))
    found = amortization_gaps(model_with(fit.parameters, FOUR), target_of(4), FOUR, stream=STREAM, samples=2000)
    assert (np.abs(found.gap) < 4 * found.gap_error + TOLERANCE).all()
    assert (found.gap_error < 0.25 * found.best_error).all()  # the same numbers, nearly the same lengths


@settings(max_examples=8)
@given(topology_batches(least=4, most=9, trees=3), st.integers(0, 1000))
def test_the_best_is_never_below_the_amortized_beyond_the_error(topologies, seed):
    target = target_of(topologies.taxon_count)
    parameters = some_parameters(seed, len(topologies), topologies.branch_count)
    found = amortization_gaps(model_with(parameters, topologies), target, topologies, stream=STREAM, samples=100)
    assert found.converged.all()
    assert (found.gap > -4 * found.gap_error - TOLERANCE).all()


def test_the_same_seed_gives_the_same_numbers_and_another_one_others():
    model = model_with(some_parameters(6), FOUR)
    first, again, other = (
        amortization_gaps(model, target_of(4), FOUR, stream=RandomStream(seed, "gap"), samples=50) for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first.gap, again.gap)
    assert (first.gap != other.gap).all()
    assert (first.amortized != other.amortized).all()


def test_blocks_of_trees_agree_with_all_at_once(monkeypatch):
    model = SplitModel(support_of(patterns_of(4).taxa, FOUR))
    with torch.no_grad():
        model.table.copy_(some_parameters(7, 1, len(model.table))[0])
    whole = amortization_gaps(model, target_of(4), FOUR, stream=STREAM, samples=3000)
    monkeypatch.setattr("phloem.inference.gap.BLOCK_NUMBERS", 400)  # two trees
    shares: list[float] = []
    blocks = amortization_gaps(model, target_of(4), FOUR, stream=STREAM, samples=3000, progress=shares.append)
    assert len(blocks) == 3
    assert (np.abs(whole.gap - blocks.gap) < 4 * np.hypot(whole.gap_error, blocks.gap_error) + TOLERANCE).all()
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(1)


def test_a_tree_that_cannot_be_settled_is_flagged(monkeypatch):
    monkeypatch.setattr(gap_module, "MOST_ROUNDS", 1)
    fit = best_members(Lognormal, FOUR, target_of(4), some_parameters(1), stream=STREAM, tolerance=1e-7)
    assert not fit.converged.any()
    assert (fit.shortfall > 1e-7).all()
    monkeypatch.setattr(gap_module, "MOST_EVALUATIONS", 1)
    assert not best_members(Lognormal, FOUR, target_of(4), some_parameters(1), stream=STREAM).converged.any()


def test_the_shortfall_is_of_the_size_of_what_is_still_to_be_gained(monkeypatch):
    """With little noise and one round the middle of the optima is a measurable way off."""
    monkeypatch.setattr(gap_module, "MOST_ROUNDS", 1)
    monkeypatch.setattr(gap_module, "FEWEST_PAIRS", 20)
    lost, shortfall = [], []
    for seed in range(12):
        start = some_parameters(seed)
        fit = best_members(Lognormal, FOUR, target_of(4), start, stream=RandomStream(seed, "few"), tolerance=1e-4)
        lost += [best_bound_of(tree) - float(bound_of(tree, fit.parameters[tree])) for tree in range(3)]
        shortfall += fit.shortfall.tolist()
    assert np.mean(lost) > 1e-3
    assert 0.5 < np.mean(shortfall) / np.mean(lost) < 3


def test_even_noise_has_the_moments_of_the_standard_normal():
    noise = even_noise(30, 7, stream=STREAM)
    assert noise.shape == (60, 7)
    np.testing.assert_allclose(noise.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(noise.T @ noise / 60, np.eye(7), atol=1e-12)
    np.testing.assert_allclose((noise**3).mean(axis=0), 0, atol=1e-12)


@pytest.mark.parametrize("family", [Lognormal, Warped])
def test_slopes_are_derivatives_of_the_mean(family):
    parameters = np.concatenate([some_parameters(9).numpy()] * (family.parameters_per_branch // 2), axis=2)
    noise = even_noise(20, 5, stream=STREAM)
    slope = measure_slope(target_of(4), FOUR, family, parameters, noise)
    step = 1e-5
    for branch, column in itertools.product(range(5), range(parameters.shape[2])):
        move = np.zeros(parameters.shape)
        move[:, branch, column] = step
        there, back = (
            measure_slope(target_of(4), FOUR, family, parameters + sign * move, noise).mean for sign in (1, -1)
        )
        np.testing.assert_allclose((there - back) / (2 * step), slope.gradient[:, branch, column], atol=1e-5)


def test_the_information_of_lognormals_is_known():
    """1/σ² of a location, 2 of a log scale."""
    parameters = some_parameters(9).numpy()
    slope = measure_slope(target_of(4), FOUR, Lognormal, parameters, even_noise(2000, 5, stream=STREAM))
    expected = np.stack([np.exp(-2 * parameters[:, :, 1]), np.full((3, 5), 2.0)], axis=2)
    assert 0.5 < np.median(slope.information / expected) < 1.5


@pytest.mark.parametrize("family", [Lognormal, Warped])
def test_log_weights_are_those_of_the_family(family):
    parameters = torch.cat([some_parameters(10)] * (family.parameters_per_branch // 2), dim=2)
    noise = np.random.default_rng(1).standard_normal((6, 3, 5))
    found = weigh(target_of(4), FOUR, family, parameters.numpy(), noise).log_weights
    for sample in range(6):
        lengths, _ = family.from_noise(FOUR, noise[sample], path_only=False).values((True,), parameters)
        expected = target_of(4).log_joint(FOUR, lengths) - family(parameters, FOUR).log_prob(lengths)
        np.testing.assert_allclose(found[sample], expected.numpy(), rtol=1e-11)


def test_the_best_warped_member_is_nearer_than_the_best_lognormal():
    """And than any of its own nearby: by fresh noise, common to all."""
    start = torch.cat([some_parameters(1), torch.zeros(3, 5, 2, dtype=torch.float64)], dim=2)
    fit = best_members(Warped, FOUR, target_of(4), start, stream=STREAM)
    assert fit.converged.all()
    noise = even_noise(4000, 5, stream=RandomStream(5, "fresh"))

    def bounds(parameters: torch.Tensor) -> np.ndarray:
        return measure_slope(target_of(4), FOUR, Warped, parameters.numpy(), noise).mean

    best = bounds(fit.parameters)
    assert (best > [best_bound_of(tree) + 0.1 for tree in range(3)]).all()
    random = torch.Generator().manual_seed(3)
    for _ in range(5):
        moved = fit.parameters + 0.2 * torch.randn(fit.parameters.shape, generator=random, dtype=torch.float64)
        assert (bounds(moved) < best).all()


def test_averages_are_means_of_independent_estimates():
    gap, error = np.array([1.0, 3.0]), np.array([0.3, 0.4])
    found = AmortizationGaps(*[gap, error] * 3, shortfall=error, converged=np.ones(2, np.bool_))
    assert found.average() == pytest.approx((2.0, 0.25))
    assert found.average(np.array([3.0, 1.0])) == pytest.approx((1.5, math.hypot(0.75 * 0.3, 0.25 * 0.4)))
    for weights in (np.ones(3), np.zeros(2)):
        with pytest.raises(BadArgument, match="weights"):
            found.average(weights)


def test_trees_that_the_model_does_not_know_are_refused():
    model = SplitModel(support_of(patterns_of(4).taxa, FOUR[:1]))
    assert model.knows(FOUR).tolist() == [True, False, False]
    with pytest.raises(BadArgument, match="not in the support"):
        amortization_gaps(model, target_of(4), FOUR, stream=STREAM)


class OtherFamily(BranchDistribution):
    """A family in plain torch."""

    parameters_per_branch = 2


def test_bad_arguments_are_refused():
    model, target = model_with(some_parameters(1), FOUR), target_of(4)
    with pytest.raises(BadArgument, match="3 samples"):
        amortization_gaps(model, target, FOUR, stream=STREAM, samples=3)
    with pytest.raises(BadArgument, match="no topologies"):
        amortization_gaps(model, target, FOUR[:0], stream=STREAM)
    with pytest.raises(BadArgument, match="tolerance"):
        best_members(Lognormal, FOUR, target, some_parameters(1), stream=STREAM, tolerance=0)
    with pytest.raises(BadArgument, match="shape"):
        best_members(Lognormal, FOUR, target, some_parameters(1, trees=2), stream=STREAM)
    with pytest.raises(BadArgument, match="no `from_noise`"):
        amortization_gaps(GraphModel(4, width=4, family=OtherFamily), target, FOUR, stream=STREAM)
