"""Moves of trees: each leaves the posterior as it is, by exact sums and by χ²."""

import numpy as np
import pytest
import torch
from scipy import stats

from phloem.errors import BadArgument
from phloem.inference.moves import MovingTrees, NoiseSpace, ParameterMemory, renumbered
from phloem.kernels.trees.generation import interchange_one
from phloem.random_streams import RandomStream
from phloem.trees.generation import all_topologies, nni_neighbors, random_topologies
from phloem.trees.topology import TopologyBatch, clade_hashes
from phloem.variational.families import LOCATION_OFFSET, BranchDistribution, Lognormal, Warped
from support.known_posteriors import RATE, KnownPrior, known, shapes

STREAM = RandomStream(3, "moves")


def posterior_noise(space: NoiseSpace, topologies: TopologyBatch, lengths: np.ndarray) -> np.ndarray:
    """The noise that gives these lengths, for lognormals."""
    location, log_scale = space.parameters(topologies).double().numpy().transpose(2, 0, 1)
    return (np.log(lengths) - location - LOCATION_OFFSET) / np.exp(log_scale)


def from_the_posterior(taxa: int, count: int) -> tuple[MovingTrees, KnownPrior]:
    """Independent trees of the known posterior itself."""
    model, target = known(taxa, Lognormal)
    prior = target.prior
    assert isinstance(prior, KnownPrior)
    random = np.random.default_rng(4)
    topologies = prior.topologies[random.choice(len(prior.topologies), count, p=prior.probabilities)]
    lengths = random.gamma(shapes(topologies).numpy(), 1 / RATE, (count, topologies.branch_count))
    space = NoiseSpace.of(model, target)
    return MovingTrees(space, topologies, posterior_noise(space, topologies, lengths)), prior


def check_posterior(trees: MovingTrees, prior: KnownPrior) -> None:
    """χ² of the topologies, and Kolmogorov's distance of every branch's lengths, against what they should be."""
    seen = np.bincount(prior.index.find(trees.topologies), minlength=len(prior.probabilities))
    assert stats.chisquare(seen, prior.probabilities * len(trees)).pvalue > 1e-3
    for branch, shape in enumerate(shapes(trees.topologies).tolist()):
        assert stats.kstest(trees.weighed.lengths[:, branch], stats.gamma(shape, scale=1 / RATE).cdf).pvalue > 1e-4


@pytest.mark.parametrize("angle", [0.1, 0.4, 0.7])
def test_hamiltonian_paths_leave_the_posterior_as_it_is(angle):
    trees, prior = from_the_posterior(5, 4000)
    before = trees.noise.copy()
    accepted = [trees.move_lengths(1.0, angle, 3, stream=STREAM.at(time)) for time in range(5)]
    assert 0.02 < np.mean(accepted) < 1
    assert (trees.noise != before).all(axis=1).mean() > 0.1
    check_posterior(trees, prior)


def test_interchanges_leave_the_posterior_as_it_is():
    trees, prior = from_the_posterior(6, 10_000)
    before = trees.topologies
    accepted = [trees.interchange(1.0, stream=STREAM.at(time)) for time in range(20)]
    assert 0.02 < np.mean(accepted) < 1
    assert trees.topologies.equal(before).mean() < 0.5
    check_posterior(trees, prior)


def test_at_infinite_temperature_moves_leave_q_as_it_is():
    model, target = known(5, Warped)
    network = model.network
    topologies = network.sample(20_000, stream=STREAM.named("start"))
    noise = np.random.default_rng(3).normal(size=(20_000, 7))
    trees = MovingTrees(NoiseSpace.of(model, target), topologies, noise)
    for time in range(8):
        assert trees.move_lengths(0.0, 0.7, 2, stream=STREAM.at(time)) == 1  # circles are exact
        trees.interchange(0.0, stream=STREAM.at(time))
    prior = target.prior
    assert isinstance(prior, KnownPrior)
    seen = np.bincount(prior.index.find(trees.topologies), minlength=15)
    with torch.no_grad():
        expected = network.log_prob(prior.topologies).exp().numpy()
    assert stats.chisquare(seen, expected * len(trees)).pvalue > 1e-3
    assert stats.kstest(trees.noise.ravel(), stats.norm.cdf).pvalue > 1e-4


@pytest.mark.parametrize("family", [Lognormal, Warped])
def test_what_is_kept_of_a_moved_tree_is_true_of_it(family):
    model, target = known(6, family)
    topologies = model.network.sample(50, stream=STREAM.named("start"))
    trees = MovingTrees(NoiseSpace.of(model, target), topologies, np.random.default_rng(3).normal(size=(50, 9)))
    for time in range(4):
        trees.move_lengths(0.6, 0.5, 2, stream=STREAM.at(time))
        trees.interchange(0.6, stream=STREAM.at(time))
    assert not trees.topologies.equal(topologies).all()
    again = MovingTrees(trees.space, trees.topologies, trees.noise)
    np.testing.assert_allclose(trees.slope, again.slope, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(trees.log_q_topology, again.log_q_topology, rtol=1e-12)
    for own, expected in zip(trees.weighed, again.weighed, strict=True):
        np.testing.assert_allclose(own, expected, rtol=1e-12)
    particles = trees.as_particles()
    with torch.no_grad():
        densities = model.branches(trees.topologies).log_prob(particles.lengths).numpy()
    np.testing.assert_allclose(particles.log_q_branches.numpy(), densities, rtol=1e-8)
    np.testing.assert_allclose(particles.log_weights(), trees.log_weights, rtol=1e-12)


def test_an_interchange_hands_every_branch_on_but_one():
    topologies = random_topologies(8, 30, stream=STREAM)
    moves = np.arange(30) % 10
    changed, origin = renumbered(interchange_one(topologies.parent, topologies.neighbors, moves))
    neighbors = nni_neighbors(topologies)
    assert changed.equal(neighbors[np.arange(30) * 10 + moves]).all()
    assert (np.sort(origin, axis=1) == np.arange(topologies.branch_count)).all()
    old, new = (clade_hashes(batch)[:, :-1, 0] for batch in (topologies, changed))
    same = np.take_along_axis(old, origin, axis=1) == new
    assert (same.sum(axis=1) == topologies.branch_count - 1).all()
    assert same[:, :8].all()


def test_an_interchange_never_leaves_the_support():
    model, target = known(5, Lognormal)
    trees = MovingTrees(NoiseSpace.of(model, target), model.network.sample(5, stream=STREAM), np.zeros((5, 7)))
    trees.space.score = lambda topologies: np.full(len(topologies), -np.inf)  # nothing is in the support
    before = trees.topologies
    assert trees.interchange(0.5, stream=STREAM) == 0
    assert trees.topologies.equal(before).all()


def test_parameters_are_computed_once_for_a_topology_while_there_is_room():
    model, _ = known(5, Lognormal)
    asked = []

    def branch_parameters(topologies: TopologyBatch) -> torch.Tensor:
        asked.append(len(topologies))
        return type(model.branches).branch_parameters(model.branches, topologies)

    model.branches.branch_parameters = branch_parameters
    memory = ParameterMemory(model.branches, most_numbers=7 * 2 * 3)
    topologies = random_topologies(5, 3, stream=STREAM)
    again = topologies[[0, 1, 1, 2]]
    with torch.no_grad():
        expected = model.branches.branch_parameters(again)
    asked.clear()
    for _ in range(2):
        assert torch.allclose(memory(again), expected)
    assert asked == [len(topologies.distinct()[0])]
    memory(all_topologies(5)[:12])  # there is room for what is over three
    memory(all_topologies(5))  # now there is none, and it begins again
    memory(topologies)
    assert asked[-1] == 15
    assert len(asked) == 3


def test_a_family_without_noise_cannot_be_moved():
    class NoNoise(BranchDistribution):
        parameters_per_branch = 2

        def __init__(self, parameters, topologies):
            pass

        def sample(self, *, stream, path_only=False):
            raise NotImplementedError

        def log_prob(self, lengths):
            raise NotImplementedError

    model, target = known(5, Lognormal)
    space = NoiseSpace(target, NoNoise, model.branches.branch_parameters, lambda topologies: np.zeros(len(topologies)))
    with pytest.raises(BadArgument, match="NoNoise: has no `from_noise`"):
        MovingTrees(space, random_topologies(5, 2, stream=STREAM), np.zeros((2, 7)))
