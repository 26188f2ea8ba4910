"""Families of branch lengths: what each must do, and the warped one against its formulas written plainly."""

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from phloem.config import infer
from phloem.errors import BadArgument
from phloem.random_streams import RandomStream
from phloem.tasks.own_parts import check_family
from phloem.trees.generation import random_topologies
from phloem.trees.topology import TopologyBatch
from phloem.variational.families import (
    FAMILIES,
    BranchDistribution,
    LengthsFromNoise,
    Lognormal,
    Warped,
    standard_normal,
    unwarp,
)
from phloem.variational.joint import GraphModel, PspModel, SplitModel
from phloem.variational.sbn import support_of
from reference import plain_warped

TAXA, TREES = 7, 4
STREAM = RandomStream(3, "lengths")
families = pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
both_modes = pytest.mark.parametrize("path_only", [False, True])


def some_topologies(taxa: int = TAXA, trees: int = TREES) -> TopologyBatch:
    return random_topologies(taxa, trees, stream=RandomStream(2, "topologies"))


def some_parameters(family: type[BranchDistribution], topologies: TopologyBatch, spread: float = 0.5) -> torch.Tensor:
    shape = (len(topologies), topologies.branch_count, family.parameters_per_branch)
    return torch.from_numpy(np.random.default_rng(5).normal(scale=spread, size=shape))


def directions(topologies: TopologyBatch) -> tuple[torch.Tensor, torch.Tensor]:
    """Gradients for lengths and log-densities."""
    random = np.random.default_rng(6)
    shape = (len(topologies), topologies.branch_count)
    return torch.from_numpy(random.normal(size=shape)), torch.from_numpy(random.normal(size=shape[0]))


# What every family must do


@families
def test_a_family_passes_what_is_asked_of_a_users_own(family):
    check_family(family)


def test_the_config_has_the_same_names():
    assert set(FAMILIES) == set(infer.FAMILIES)


@families
def test_samples_have_the_density_that_log_prob_says(family):
    topologies = some_topologies()
    distribution = family(some_parameters(family, topologies), topologies)
    sample = distribution.sample(stream=STREAM)
    torch.testing.assert_close(sample.log_prob, distribution.log_prob(sample.lengths), rtol=1e-11, atol=1e-11)


@families
@both_modes
def test_gradients_by_finite_differences(family, path_only):
    topologies = some_topologies(5, 2)
    parameters = some_parameters(family, topologies).requires_grad_()
    by_length, by_density = directions(topologies)

    def value(at: torch.Tensor) -> torch.Tensor:
        lengths, log_prob = family(at, topologies).sample(stream=STREAM)
        if path_only:
            log_prob = family(parameters.detach(), topologies).log_prob(lengths)
        return (lengths * by_length).sum() + (log_prob * by_density).sum()

    lengths, log_prob = family(parameters, topologies).sample(stream=STREAM, path_only=path_only)
    found = torch.autograd.grad((lengths * by_length).sum() + (log_prob * by_density).sum(), parameters)[0]
    size = 1e-6
    with torch.no_grad():
        for place in np.ndindex(*parameters.shape):
            moved = torch.zeros_like(parameters)
            moved[place] = size
            difference = (value(parameters + moved) - value(parameters - moved)) / (2 * size)
            assert found[place].item() == pytest.approx(difference.item(), rel=1e-5, abs=1e-6)


@families
def test_the_gradient_of_log_prob_by_finite_differences(family):
    topologies = some_topologies(5, 2)
    inputs = (some_parameters(family, topologies).requires_grad_(), torch.rand(2, 7, dtype=torch.float64) + 0.01)
    assert torch.autograd.gradcheck(
        lambda p, q: family(p, topologies).log_prob(q), (inputs[0], inputs[1].requires_grad_())
    )


@families
@both_modes
def test_the_operation_is_the_sample(family, path_only):
    topologies = some_topologies()
    parameters = some_parameters(family, topologies).requires_grad_()
    lengths, log_prob = family(parameters, topologies).sample(stream=STREAM, path_only=path_only)
    noise = standard_normal(TREES, topologies.branch_count, STREAM)
    operation = family.from_noise(topologies, noise, path_only=path_only)
    found = operation.values((True,), parameters.detach())
    assert torch.equal(found[0], lengths)
    assert torch.equal(found[1], log_prob)
    gradients = directions(topologies)
    expected = torch.autograd.grad((lengths, log_prob), parameters, gradients)[0]
    assert torch.equal(operation.gradients((True,), *gradients)[0], expected)


@families
def test_the_gradient_for_noise_by_finite_differences(family):
    topologies = some_topologies(6, 3)
    parameters = some_parameters(family, topologies)
    gradients = directions(topologies)

    def value(noise: np.ndarray) -> tuple[float, LengthsFromNoise]:
        operation = family.from_noise(topologies, noise, path_only=False)
        outputs = operation.values((True,), parameters)
        return sum(float((a * b).sum()) for a, b in zip(outputs, gradients, strict=True)), operation

    noise = standard_normal(3, topologies.branch_count, STREAM)
    _, operation = value(noise)
    found = operation.noise_gradient(*gradients)
    for place in np.ndindex(noise.shape):
        step = np.zeros_like(noise)
        step[place] = 1e-5
        slope = (value(noise + step)[0] - value(noise - step)[0]) / 2e-5
        assert found[place] == pytest.approx(slope, rel=1e-6, abs=1e-7), place


@families
def test_a_tree_has_the_random_numbers_of_its_particle(family):
    topologies = some_topologies()
    parameters = some_parameters(family, topologies)
    lengths = family(parameters, topologies).sample(stream=STREAM.at(4)).lengths
    later = family(parameters[2:], topologies[2:]).sample(stream=STREAM.at(4, 2)).lengths
    assert torch.equal(later, lengths[2:])
    assert not torch.equal(family(parameters, topologies).sample(stream=STREAM.at(5)).lengths, lengths)


@families
@both_modes
def test_absurd_samples_are_finite_and_so_are_their_gradients(family, path_only):
    topologies = some_topologies()
    for sign in (1, -1):
        parameters = torch.full_like(some_parameters(family, topologies), 8.0)
        parameters[:, :, 2:] *= sign
        parameters.requires_grad_()
        sample = family(parameters, topologies).sample(stream=STREAM, path_only=path_only)
        assert (sample.lengths > 1e299).any()
        assert torch.isfinite(sample.lengths).all()
        assert (sample.lengths > 0).all()
        (gradient,) = torch.autograd.grad(sample.log_prob.sum(), parameters)
        assert torch.isfinite(gradient).all()


@families
def test_lengths_that_are_not_positive_are_impossible(family):
    topologies = some_topologies()
    parameters = some_parameters(family, topologies).requires_grad_()
    lengths = torch.ones(TREES, topologies.branch_count, dtype=torch.float64)
    lengths[0, 2], lengths[1, 4] = 0, -1
    values = family(parameters, topologies).log_prob(lengths)
    assert torch.isneginf(values).tolist() == [True, True, False, False]
    assert torch.isfinite(torch.autograd.grad(values[2], parameters)[0]).all()


@families
def test_what_does_not_fit_is_refused(family):
    topologies = some_topologies()
    parameters = some_parameters(family, topologies)
    with pytest.raises(BadArgument, match=r"Give them as \(batch, branches"):
        family(parameters[:, :, :1], topologies)
    with pytest.raises(BadArgument, match="lengths of shape"):
        family(parameters, topologies).log_prob(torch.ones(1, 3, dtype=torch.float64))


@families
def test_all_models_give_it_parameters_in_single_or_double_precision(family):
    topologies = some_topologies()
    support = support_of(tuple("abcdefg"), topologies)
    for model in (SplitModel(support, family), PspModel(support, family), GraphModel(TAXA, width=5, family=family)):
        indices = support.indices(topologies)
        sampling = model.sampling(topologies, indices, stream=STREAM, path_only=True)
        expected = model(topologies).sample(stream=STREAM, path_only=True)
        for found, value in zip(sampling.values(), expected, strict=True):
            torch.testing.assert_close(found, value.detach(), rtol=1e-6, atol=1e-6)
        gradients = directions(topologies)
        torch.autograd.backward(tuple(expected), gradients)
        recorded = [parameter.grad.clone() for parameter in model.parameters()]
        model.zero_grad()
        sampling.backward(*gradients)
        for parameter, gradient in zip(model.parameters(), recorded, strict=True):
            torch.testing.assert_close(parameter.grad, gradient, rtol=1e-4, atol=1e-4)


# The warped family


@both_modes
def test_warped_samples_and_gradients_are_those_of_the_formulas(path_only):
    topologies = some_topologies()
    parameters = some_parameters(Warped, topologies).requires_grad_()
    noise = standard_normal(TREES, topologies.branch_count, STREAM)
    operation = Warped.from_noise(topologies, noise, path_only=path_only)
    lengths, log_prob = operation.values((True,), parameters.detach())
    expected_lengths, expected = plain_warped.draw(parameters, topologies, torch.from_numpy(noise))
    torch.testing.assert_close(lengths, expected_lengths.detach(), rtol=1e-12, atol=0)
    torch.testing.assert_close(log_prob, expected.detach(), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(
        Warped(parameters, topologies).log_prob(lengths), plain_warped.log_prob(parameters, topologies, lengths)
    )
    if path_only:
        expected = plain_warped.log_prob(parameters.detach(), topologies, expected_lengths)
    gradients = directions(topologies)
    by_formula = torch.autograd.grad((expected_lengths, expected), parameters, gradients)[0]
    (by_hand,) = operation.gradients((True,), *gradients)
    torch.testing.assert_close(by_hand, by_formula, rtol=1e-10, atol=1e-10)


@given(st.floats(-30, 30), st.floats(-12, 4))
def test_a_warped_value_is_turned_back(value, log_scale):
    u, log_sigma = torch.tensor(value, dtype=torch.float64), torch.tensor(log_scale, dtype=torch.float64)
    back, log_slope = unwarp(plain_warped.warp(u, log_sigma), log_sigma)
    assert back.item() == pytest.approx(value, rel=1e-12, abs=1e-12)
    assert log_slope.item() == pytest.approx(plain_warped.log_slope(u, log_sigma).item(), rel=1e-11, abs=1e-11)


def test_the_density_of_three_taxa_integrates_to_one():
    topologies = some_topologies(3, 1)
    parameters = torch.tensor([[[0.3, -0.2, 9.0, 9.0], [-0.5, -0.7, -0.6, 9.0], [1.0, -1.2, 0.5, -0.4]]]).double()
    grid = np.linspace(-14.0, 6.0, 81)
    axes = [location - 2 + math.exp(log_scale) * grid for location, log_scale in parameters[0, :, :2].tolist()]
    cell = math.prod(axis[1] - axis[0] for axis in axes)
    total = 0.0
    for first in axes[0]:
        points = np.array([(first, *rest) for rest in itertools.product(axes[1], axes[2])])
        count = len(points)
        many = topologies[np.zeros(count, np.int64)]
        density = Warped(parameters.repeat(count, 1, 1), many).log_prob(torch.from_numpy(np.exp(points)))
        total += float(np.exp(density.numpy() + points.sum(axis=1)).sum()) * cell
    assert total == pytest.approx(1.0, abs=2e-5)


def test_draws_have_the_marginals_and_pairs_that_the_density_says():
    topologies, count = some_topologies(4, 1), 300_000
    parameters = some_parameters(Warped, topologies, 0.4)
    many = topologies[np.zeros(count, np.int64)]
    lengths = Warped(parameters.repeat(count, 1, 1), many).sample(stream=STREAM).lengths
    matrix = plain_warped.ties(parameters, topologies, 0)
    factor = torch.linalg.inv(torch.eye(len(matrix)).double() - matrix)
    covariance = (factor @ factor.T).numpy()
    values = np.empty(lengths.shape)
    for branch in range(topologies.branch_count):
        location, log_scale = parameters[0, branch, :2]
        warped = (lengths[:, branch].log() - location + 2) / log_scale.exp()
        values[:, branch] = unwarp(warped, log_scale)[0]
        shares = stats.norm.cdf(values[:, branch] / math.sqrt(covariance[branch, branch]))
        assert stats.chisquare(np.bincount((shares * 50).astype(int), minlength=50)).pvalue > 1e-4
    for first, second in itertools.combinations(range(topologies.branch_count), 2):
        pair = covariance[np.ix_([first, second], [first, second])]
        white = np.linalg.solve(np.linalg.cholesky(pair), values[:, [first, second]].T)
        cells = (stats.norm.cdf(white) * 10).astype(int)
        assert stats.chisquare(np.bincount(10 * cells[0] + cells[1], minlength=100)).pvalue > 1e-4


def test_branches_depend_on_those_only_that_meet_them():
    """The field is Markov: its precision matrix is zero for branches that share no node."""
    topologies = some_topologies(9, 3)
    parameters = some_parameters(Warped, topologies, 1.0)
    for tree in range(len(topologies)):
        difference = torch.eye(topologies.branch_count).double() - plain_warped.ties(parameters, topologies, tree)
        precision = difference.T @ difference
        ends = [{branch, int(topologies.neighbors[tree, branch, 0])} for branch in range(topologies.branch_count)]
        for first, second in itertools.combinations(range(topologies.branch_count), 2):
            assert bool(ends[first] & ends[second]) == (precision[first, second].abs().item() > 1e-12)


def test_without_ties_and_width_it_is_the_lognormal():
    topologies = some_topologies()
    parameters = some_parameters(Warped, topologies)
    parameters[:, :, 1], parameters[:, :, 2:] = -14.0, 0.0  # the warp is as strong as the scale
    warped = Warped(parameters, topologies).sample(stream=STREAM)
    plain = Lognormal(parameters[:, :, :2]).sample(stream=STREAM)
    torch.testing.assert_close(warped.lengths, plain.lengths, rtol=1e-11, atol=0)
    torch.testing.assert_close(warped.log_prob, plain.log_prob, rtol=0, atol=1e-4)


def test_ties_of_a_network_begin_weak():
    topologies = some_topologies()
    with torch.no_grad():
        parameters = GraphModel(TAXA, width=20, family=Warped).branch_parameters(topologies)
    assert (parameters[:, :, 2:] + 0.05).abs().max() < 0.1
    assert (parameters[:, :, :2].abs() > 0).all()


def test_parameters_of_other_trees_are_refused():
    topologies = some_topologies()
    with pytest.raises(BadArgument, match="for 4 trees of 11 branches"):
        Warped(torch.zeros(3, 11, 4, dtype=torch.float64), topologies)
