"""Gradient estimators by enumeration: all K-tuples of a few topologies, exact expectations."""

import itertools
import math

import numpy as np
import pytest
import torch

from phloem.errors import BadArgument
from phloem.inference.estimators import ESTIMATORS, leave_one_out_bounds, lower_bound, rws, vimco
from phloem.trees.generation import all_topologies
from phloem.variational.collection import support_of
from phloem.variational.sbn import SubsplitNetwork

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
    """Σ over all tuples of their probability times the surrogate's gradient: no branch lengths, so nothing else."""
    log_q = network.log_prob(EVERYTHING)
    nothing = torch.zeros(count, dtype=torch.float64)
    total = torch.zeros((), dtype=torch.float64)
    for drawn in tuples(count):
        probability = log_q.detach()[drawn].sum().exp()
        total = total + probability * estimator(log_joint[drawn], log_q[drawn], nothing).surrogate
    (gradient,) = torch.autograd.grad(total, network.logits)
    return gradient


def exact_bound(log_q: torch.Tensor, log_joint: torch.Tensor, count: int) -> torch.Tensor:
    drawn = tuples(count)
    return (log_q[drawn].sum(1).exp() * lower_bound(log_joint[drawn] - log_q[drawn])).sum()


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
    log_q_topology = torch.tensor([-1.0, -2.0, -0.5, -3.0], dtype=torch.float64)
    estimate = ESTIMATORS[name](fixed + shift.sin(), log_q_topology, shift**2)
    (found,) = torch.autograd.grad(estimate.surrogate, shift)
    bound = lower_bound(fixed + shift.sin() - log_q_topology - shift**2)
    (exact,) = torch.autograd.grad(bound, shift)
    torch.testing.assert_close(found, exact)
    assert estimate.lower_bound.item() == pytest.approx(bound.item())
    assert not estimate.lower_bound.requires_grad


def test_leave_one_out_bounds_one_by_one():
    log_weights = torch.tensor([-1000.0, -3.0, 2.0, 700.0], dtype=torch.float64)
    found = leave_one_out_bounds(log_weights)
    for left_out in range(4):
        others = [value for place, value in enumerate(log_weights.tolist()) if place != left_out]
        values = torch.tensor([*others, sum(others) / 3], dtype=torch.float64)
        expected = torch.logsumexp(values, 0) - math.log(4)
        assert found[left_out].item() == pytest.approx(expected.item())


def test_bad_shapes_and_too_few_particles_are_refused():
    three, two = torch.zeros(3), torch.zeros(2)
    with pytest.raises(BadArgument, match=r"\(particles,\) is needed"):
        vimco(three, three, two)
    with pytest.raises(BadArgument, match="1 particles, where at least 2"):
        vimco(torch.zeros(1), torch.zeros(1), torch.zeros(1))
