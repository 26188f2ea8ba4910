"""Gradient estimators by enumeration: all K-tuples of a few topologies, exact expectations."""

import itertools
import math

import numpy as np
import pytest
import torch

from phloem.config import infer
from phloem.errors import BadArgument
from phloem.inference.particles import (
    ESTIMATORS,
    lower_bound,
    of_held_topologies,
    rws,
    topology_names,
    vimco,
)
from phloem.kernels.training import leave_one_out_bounds, log_mean_exp
from phloem.trees.generation import all_topologies
from phloem.variational.sbn import SubsplitNetwork, support_of

EVERYTHING = all_topologies(5)


def example() -> tuple[SubsplitNetwork, torch.Tensor]:
    """A network on all 15 topologies of 5 taxa, and a log joint of its own for each."""
    support = support_of(tuple("abcde"), EVERYTHING)
    random = np.random.default_rng(3)
    network = SubsplitNetwork(support, torch.from_numpy(random.normal(size=support.parameter_count)))
    return network, torch.from_numpy(random.normal(scale=2, size=len(EVERYTHING)) - 40)


def tuples(count: int) -> torch.Tensor:
    return torch.tensor(list(itertools.product(range(len(EVERYTHING)), repeat=count)))


def expected_gradient(estimator, network: SubsplitNetwork, log_joint: torch.Tensor, count: int) -> torch.Tensor:
    """Σ over all tuples of their probability times the estimated gradient: no branch lengths, so nothing else."""
    log_q = network.log_prob(EVERYTHING)
    fixed = log_q.detach()
    factors = torch.zeros_like(fixed)
    for drawn in tuples(count):
        estimate = estimator((log_joint - fixed)[drawn].numpy())
        factors.index_add_(0, drawn, fixed[drawn].sum().exp() * torch.from_numpy(estimate.log_q_topology))
    (gradient,) = torch.autograd.grad(log_q, network.logits, factors)
    return gradient


def log_mean(log_weights: torch.Tensor) -> torch.Tensor:
    return torch.logsumexp(log_weights, -1) - math.log(log_weights.shape[-1])


def exact_bound(log_q: torch.Tensor, log_joint: torch.Tensor, count: int) -> torch.Tensor:
    drawn = tuples(count)
    return (log_q[drawn].sum(1).exp() * log_mean(log_joint[drawn] - log_q[drawn])).sum()


@pytest.mark.parametrize("count", [2, 3])
def test_vimcos_expected_gradient_is_the_bounds(count):
    network, log_joint = example()
    (exact,) = torch.autograd.grad(exact_bound(network.log_prob(EVERYTHING), log_joint, count), network.logits)
    found = expected_gradient(vimco, network, log_joint, count)
    assert exact.abs().max() > 0.01
    torch.testing.assert_close(found, exact, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_rws_expected_gradient_is_that_of_normalised_weights(count):
    network, log_joint = example()
    log_q = network.log_prob(EVERYTHING)
    fixed = log_q.detach()
    drawn = tuples(count)
    weights = torch.softmax(log_joint[drawn] - fixed[drawn], 1)
    expected = (fixed[drawn].sum(1).exp()[:, None] * weights * log_q[drawn]).sum()
    (exact,) = torch.autograd.grad(expected, network.logits)
    torch.testing.assert_close(expected_gradient(rws, network, log_joint, count), exact, rtol=1e-9, atol=1e-10)


def test_bounds_stay_below_the_marginal_likelihood_and_rise_with_particles():
    network, log_joint = example()
    log_q = network.log_prob(EVERYTHING).detach()
    bounds = [exact_bound(log_q, log_joint, count).item() for count in (1, 2, 3, 4)]
    assert bounds == sorted(bounds)
    assert bounds[-1] < torch.logsumexp(log_joint, 0).item()
    posterior = torch.log_softmax(log_joint, 0)
    assert exact_bound(posterior, log_joint, 1).item() == pytest.approx(torch.logsumexp(log_joint, 0).item())


@pytest.mark.parametrize("name", ESTIMATORS)
def test_branch_lengths_follow_the_bound(name):
    """With topologies fixed, both estimators' gradients for a reparameterised part are the bound's own."""
    shift = torch.tensor([0.3, -0.2, 0.5, 0.1], dtype=torch.float64, requires_grad=True)
    fixed = torch.tensor([-3.0, -1.0, -2.0, -5.0], dtype=torch.float64)
    log_joint, log_q_branches = fixed + shift.sin(), shift**2
    bound = log_mean(log_joint - log_q_branches)
    estimate = ESTIMATORS[name]((log_joint - log_q_branches).detach().numpy())
    factors = [torch.from_numpy(estimate.log_joint), torch.from_numpy(estimate.log_q_branches)]
    (found,) = torch.autograd.grad([log_joint, log_q_branches], shift, factors, retain_graph=True)
    (exact,) = torch.autograd.grad(bound, shift)
    torch.testing.assert_close(found, exact)
    assert estimate.lower_bound == pytest.approx(bound.item())


def test_leave_one_out_bounds_one_by_one():
    log_weights = np.array([-1000.0, -3.0, 2.0, 700.0])
    found = leave_one_out_bounds(log_weights)
    for left_out in range(4):
        others = [value for place, value in enumerate(log_weights.tolist()) if place != left_out]
        values = torch.tensor([*others, sum(others) / 3], dtype=torch.float64)
        assert found[left_out] == pytest.approx(log_mean(values).item())


def test_bounds_of_many_groups_are_those_of_each():
    log_weights = np.random.default_rng(1).normal(scale=300, size=(4, 3, 5))
    log_weights[1, 2] = -np.inf
    found = lower_bound(log_weights)
    assert found.shape == (4, 3)
    expected = [[log_mean_exp(group) for group in row] for row in log_weights]
    np.testing.assert_allclose(found, expected, rtol=1e-14)
    assert found[1, 2] == -np.inf


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize(
    "log_weights", [[-3.0, -np.inf, -2.0], [-np.inf, -3.0, -np.inf], [-np.inf, -3.0], [-np.inf] * 3]
)
def test_impossible_trees_pull_at_no_branch_lengths_and_nothing_becomes_infinite(name, log_weights):
    estimate = ESTIMATORS[name](np.array(log_weights))
    assert (estimate.log_joint[np.isneginf(log_weights)] == 0).all()
    assert all(np.isfinite(factors).all() for factors in estimate[1:])
    assert np.isfinite(estimate.lower_bound) == (np.max(log_weights) > -np.inf)


def test_the_topology_of_an_impossible_tree_is_pushed_down():
    assert vimco(np.array([-3.0, -np.inf, -2.0])).log_q_topology[1] < 0


def test_too_few_particles_are_refused():
    with pytest.raises(BadArgument, match=r"shape \(1,\).* at least 2 particles"):
        vimco(np.zeros(1))
    with pytest.raises(BadArgument, match=r"shape \(2, 3\)"):
        rws(np.zeros((2, 3)))


def test_the_config_has_the_same_names():
    assert tuple(ESTIMATORS) == infer.ESTIMATORS


def test_each_held_topology_has_the_bound_of_its_own_particles():
    """Its gradient is that of the bounds' mean, weighted by how many particles each has; squared, it is less noisy."""
    log_weights = torch.tensor([-3.0, -900.0, -torch.inf, 0.0, -2.0, -torch.inf, 1.0], dtype=torch.float64)
    groups = [[0, 4, 6], [1], [2, 3], [5]]
    names = np.array([7.0, 2.0, 5.0, 5.0, 7.0, 3.0, 7.0])
    estimate = vimco(log_weights.numpy())
    log_weights.requires_grad_()
    possible = [group for group in groups if log_weights[group].max() > -math.inf]
    total = sum(len(group) / 7 * log_mean(log_weights[group]) for group in possible)
    (expected,) = torch.autograd.grad(total, log_weights)
    held = of_held_topologies(estimate, log_weights.detach().numpy(), names, doubly=False)
    np.testing.assert_allclose(held.log_joint, expected.numpy(), atol=1e-15)
    assert held.log_joint.sum() == pytest.approx(6 / 7)
    squared = of_held_topologies(estimate, log_weights.detach().numpy(), names, doubly=True)
    sizes = np.array([3, 1, 2, 2, 3, 1, 3])
    np.testing.assert_allclose(squared.log_joint, 7 / sizes * expected.numpy() ** 2, atol=1e-15)
    for found in (held, squared):
        assert (found.log_q_branches == -found.log_joint).all()
        assert found.lower_bound == estimate.lower_bound
        assert (found.log_q_topology == estimate.log_q_topology).all()


def test_equal_topologies_have_equal_names_and_others_have_others():
    topologies = EVERYTHING[[3, 0, 3, *range(15)]]
    names = topology_names(topologies)
    assert names[0] == names[2] == names[6]
    assert len(set(names.tolist())) == 15
    assert (names == np.floor(names)).all()
