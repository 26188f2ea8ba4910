"""Moves of trees towards the posterior: lengths by Hamiltonian steps, topologies by interchanges.

A tree is a topology and the noise that a family makes its lengths of: under Q the noise is standard normal, whatever
the topology, so noise is what lengths are moved in, and what a topology hands on to the next. Parameters θ of the
substitution model that are inferred are made of noise too, in columns after those of the branches, and move with the
lengths. Between Q and the posterior lie densities over topologies and noise, one for each inverse temperature β,

    f(τ, ε) = N(ε) · Q(τ)^(1-β) · (p(Y, τ, q, θ) / Q(q, θ given τ))^β

which is Q at β = 0 and the posterior at β = 1. Every move here leaves the density at its β as it is.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from phloem.arrays import FloatArray, IntArray, LongArray
from phloem.errors import BadArgument
from phloem.inference.particles import Particles
from phloem.kernels.trees.generation import interchange_one
from phloem.random_streams import RandomStream
from phloem.target.posterior import TreePosterior
from phloem.trees.topology import TopologyBatch
from phloem.variational.families import BranchDistribution, LengthsFromNoise
from phloem.variational.joint import BranchModel, JointModel
from phloem.variational.parameters import ParameterModel, ParametersFromNoise, lengths_from_noise

MOST_REMEMBERED = 10_000_000  # numbers, 80 MB at most: parameters that are kept for topologies seen again
JITTER = 0.2  # of the step size, as a share: no length of a path is then resonant

BranchParameters = Callable[[TopologyBatch], Tensor]  # (trees, branches, parameters)
TopologyScore = Callable[[TopologyBatch], FloatArray]  # log Q(τ), (trees,); -inf where a move must not go


class Weighed(NamedTuple):
    """What lengths and model parameters made of noise are worth."""

    lengths: FloatArray  # (trees, branches)
    theta: FloatArray  # (trees, dimension)
    log_joint: FloatArray  # (trees,)  log p(Y, τ, q, θ)
    log_q_branches: FloatArray  # (trees,)  log Q(q, θ given τ)

    @property
    def log_ratio(self) -> FloatArray:
        """log p(Y, τ, q, θ) - log Q(q, θ given τ), (trees,)."""
        return self.log_joint - self.log_q_branches

    def take(self, trees: LongArray) -> "Weighed":
        """Those of some trees."""
        return Weighed(*(array[trees] for array in self))

    def put(self, trees: LongArray, others: "Weighed") -> None:
        """Replace those of some trees."""
        for own, new in zip(self, others, strict=True):
            own[trees] = new


class NoiseSpace:
    """Topologies and noise as trees: how they are turned into lengths, and weighed against the target."""

    def __init__(
        self,
        target: TreePosterior,
        family: type[BranchDistribution],
        parameters: BranchParameters,
        score: TopologyScore,
        theta: ParameterModel | None = None,
    ) -> None:
        self.target = target
        self.family = family
        self.parameters = parameters
        self.score = score
        self.theta = theta

    @classmethod
    def of(cls, model: JointModel, target: TreePosterior) -> "NoiseSpace":
        """That of a trained model, which is asked for lengths once for each topology, as far as memory allows."""

        def score(topologies: TopologyBatch) -> FloatArray:
            with torch.no_grad():
                return np.asarray(model.network.log_prob(topologies).numpy())

        return cls(target, model.branches.family, ParameterMemory(model.branches), score, model.theta)

    @property
    def dimension(self) -> int:
        """Of the model's parameters; 0 if none are inferred."""
        return 0 if self.theta is None else self.theta.dimension

    def weigh(self, topologies: TopologyBatch, parameters: Tensor, noise: FloatArray) -> Weighed:
        """Lengths and θ from noise, (trees, branches + dimension), with their log-densities."""
        with torch.no_grad():
            lengths, log_density = self._operation(topologies, noise).values((True,), parameters)
            theta, log_q_theta, _ = self._theta(noise)
            log_joint = self.target.log_joint(topologies, lengths, theta=theta)
        return _weighed(lengths, theta, log_joint, log_density, log_q_theta)

    def weigh_with_slope(
        self, topologies: TopologyBatch, parameters: Tensor, noise: FloatArray
    ) -> tuple[Weighed, FloatArray]:
        """The same, and the gradient of `log_ratio` for the noise, (trees, branches + dimension)."""
        operation = self._operation(topologies, noise)
        with torch.no_grad():
            lengths, log_density = operation.values((True,), parameters)
            theta, log_q_theta, of_theta = self._theta(noise)
        log_joint, slopes = self.target.log_joint_by_hand(topologies, lengths, 1.0, theta=theta)
        ones = torch.ones(len(topologies), dtype=torch.float64)
        slope = operation.noise_gradient(slopes.lengths, -ones)
        if of_theta is not None:
            slope[:, topologies.branch_count :] += of_theta.noise_gradient(slopes.theta.numpy(), -ones.numpy())
        return _weighed(lengths, theta, log_joint, log_density, log_q_theta), slope

    def _operation(self, topologies: TopologyBatch, noise: FloatArray) -> LengthsFromNoise:
        of_branches, of_theta = np.split(noise, [topologies.branch_count], axis=1)
        operation = lengths_from_noise(
            self.family, topologies, np.ascontiguousarray(of_branches), of_theta, path_only=False
        )
        if operation is None:
            raise BadArgument(f"{self.family.__name__}: has no `from_noise`, which moves of its lengths need.")
        return operation

    def _theta(self, noise: FloatArray) -> tuple[Tensor | None, Tensor | None, ParametersFromNoise | None]:
        """The model's parameters with their log-densities, and the operation that makes them; nothing without any."""
        if self.theta is None:
            return None, None, None
        operation = self.theta.sampling(noise[:, noise.shape[1] - self.dimension :])
        return *operation.values((True,) * len(self.theta.learned), *self.theta.learned), operation


def _weighed(
    lengths: Tensor, theta: Tensor | None, log_joint: Tensor, log_density: Tensor, log_q_theta: Tensor | None
) -> Weighed:
    if theta is None or log_q_theta is None:
        return Weighed(lengths.numpy(), np.empty((len(lengths), 0)), log_joint.numpy(), log_density.numpy())
    return Weighed(lengths.numpy(), theta.numpy(), log_joint.numpy(), (log_density + log_q_theta).numpy())


class ParameterMemory:
    """A branch model's parameters of topologies, each computed once while there is room."""

    def __init__(self, branches: BranchModel, most_numbers: int = MOST_REMEMBERED) -> None:
        self._branches = branches
        self._known: dict[bytes, Tensor] = {}
        self._most_numbers = most_numbers

    def __call__(self, topologies: TopologyBatch) -> Tensor:
        """Of every branch, (trees, branches, parameters)."""
        rows = [parent.tobytes() for parent in topologies.parent]
        new = {row: tree for tree, row in enumerate(rows) if row not in self._known}
        if new:
            numbers_each = topologies.branch_count * self._branches.columns
            if len(self._known) * numbers_each > self._most_numbers:
                self._known.clear()
                new = {row: tree for tree, row in enumerate(rows)}
            with torch.no_grad():
                found = self._branches.branch_parameters(topologies.take(np.fromiter(new.values(), np.int64)))
            self._known.update(zip(new, found, strict=True))
        return torch.stack([self._known[row] for row in rows])


class MovingTrees:
    """Trees on their way. Moves change them in place."""

    def __init__(self, space: NoiseSpace, topologies: TopologyBatch, noise: FloatArray) -> None:
        self.space = space
        self.topologies = topologies
        self.noise = noise.copy()  # (trees, branches + dimension)
        self.parameters = space.parameters(topologies)
        self.log_q_topology = space.score(topologies)
        weighed, self.slope = space.weigh_with_slope(topologies, self.parameters, noise)
        self.weighed = Weighed(*(array.copy() for array in weighed))

    def __len__(self) -> int:
        return len(self.noise)

    @property
    def log_weights(self) -> FloatArray:
        """log p(Y, τ, q, θ) - log Q(τ, q, θ), (trees,): how fast the log density grows with β."""
        return self.weighed.log_ratio - self.log_q_topology

    def as_particles(self) -> Particles:
        """The trees where they are now."""
        found = self.weighed
        columns = (found.lengths, found.log_joint, self.log_q_topology, found.log_q_branches, found.theta)
        return Particles(self.topologies, *map(torch.from_numpy, columns))

    def move_lengths(self, inverse_temperature: float, angle: float, steps: int, *, stream: RandomStream) -> float:
        """One Hamiltonian path of each tree's noise; returns the share of them that are accepted.

        Without the target the paths are circles, which are followed exactly, `angle` at every step; between steps the
        target pushes. So a path is the more accurate the nearer Q is to the posterior, and a quarter of a circle would
        make all noise new.
        """
        first_momentum = stream.named("momentum").generator().standard_normal(self.noise.shape)
        choices = stream.named("lengths").generator().random((len(self), 2))
        angles = angle * (1 + JITTER * (2 * choices[:, :1] - 1))
        cosine, sine, push = np.cos(angles), np.sin(angles), inverse_temperature * angles
        noise, found, slope = self.noise, self.weighed, self.slope
        momentum = first_momentum + push / 2 * slope
        with np.errstate(over="ignore", invalid="ignore"):  # a path that runs away is not accepted
            for step in range(steps):
                noise, momentum = cosine * noise + sine * momentum, cosine * momentum - sine * noise
                found, slope = self.space.weigh_with_slope(self.topologies, self.parameters, noise)
                momentum += (push if step + 1 < steps else push / 2) * slope
            gain = inverse_temperature * (found.log_ratio - self.weighed.log_ratio)
            gain += (self.noise**2 + first_momentum**2 - noise**2 - momentum**2).sum(axis=1) / 2
        accepted = _accepted(gain, choices[:, 1])
        self.noise[accepted], self.slope[accepted] = noise[accepted], slope[accepted]
        self.weighed.put(accepted, found.take(accepted))
        return len(accepted) / len(self)

    def interchange(self, inverse_temperature: float, *, stream: RandomStream) -> float:
        """Try one nearest-neighbour interchange of each tree; returns the share of them that are accepted."""
        choices = stream.named("interchange").generator().random((len(self), 3))
        moves = (2 * (self.topologies.taxon_count - 3) * choices[:, 0]).astype(np.int64)
        raw = interchange_one(self.topologies.parent, self.topologies.neighbors, moves)
        return self._try(inverse_temperature, raw, choices[:, 1:])

    def _try(self, inverse_temperature: float, raw: IntArray, uniform: FloatArray) -> float:
        """Propose other topologies, as parents with the same numbers of branches.

        Branches keep their noise, and a new one has that of the one it replaces: this loses no volume. A first test
        lets them keep their parameters too, which spares the branch model most topologies; a second makes up for that
        (delayed acceptance, Christen & Fox 2005). uniform: random numbers for both, (trees, 2).
        """

        def log_density(weighed: Weighed, log_q_topology: FloatArray) -> FloatArray:
            return inverse_temperature * weighed.log_ratio + (1 - inverse_temperature) * log_q_topology

        topologies, origin = renumbered(raw)
        score = self.space.score(topologies)
        trees = np.flatnonzero(score > -np.inf)
        if not len(trees):
            return 0.0
        topologies, origin, score, uniform = topologies.take(trees), origin[trees], score[trees], uniform[trees]
        noise = self.noise[trees]
        noise[:, : origin.shape[1]] = np.take_along_axis(noise, origin, axis=1)
        kept = _rearranged(self.parameters[torch.from_numpy(trees)], origin)
        here = log_density(self.weighed, self.log_q_topology)[trees]
        first_gain = log_density(self.space.weigh(topologies, kept, noise), score) - here

        passed = _accepted(first_gain, uniform[:, 0])
        if not len(passed):
            return 0.0
        trees, topologies, origin, score = trees[passed], topologies.take(passed), origin[passed], score[passed]
        noise, here, first_gain = noise[passed], here[passed], first_gain[passed]
        parameters = self.space.parameters(topologies)
        found, slope = self.space.weigh_with_slope(topologies, parameters, noise)
        there = log_density(found, score)
        kept = _rearranged(parameters, np.argsort(origin, axis=1))
        back = self.space.weigh(self.topologies.take(trees), kept, self.noise[trees])
        gain_back = log_density(back, self.log_q_topology[trees]) - there
        gain = there - here + np.minimum(gain_back, 0) - np.minimum(first_gain, 0)

        accepted = _accepted(gain, uniform[passed, 1])
        trees = trees[accepted]
        self.noise[trees], self.slope[trees] = noise[accepted], slope[accepted]
        self.weighed.put(trees, found.take(accepted))
        self.log_q_topology[trees] = score[accepted]
        self.parameters[torch.from_numpy(trees)] = parameters[torch.from_numpy(accepted)]
        which = np.arange(len(self))
        which[trees] = len(self) + accepted
        self.topologies = TopologyBatch.concatenate([self.topologies, topologies]).take(which)
        return len(accepted) / len(self)


def renumbered(raw: IntArray) -> tuple[TopologyBatch, LongArray]:
    """Topologies from parents in any numbering; and for each of their branches which branch it was."""
    nodes = np.broadcast_to(np.arange(float(raw.shape[1])), raw.shape)
    topologies, origin = TopologyBatch.with_lengths(raw, np.ascontiguousarray(nodes))
    return topologies, origin.astype(np.int64)


def _rearranged(parameters: Tensor, origin: LongArray) -> Tensor:
    return parameters.gather(1, torch.from_numpy(origin)[:, :, None].expand(-1, -1, parameters.shape[2]))


def _accepted(gain: FloatArray, uniform: FloatArray) -> LongArray:
    """Which proposals Metropolis' rule accepts; one whose density is not a number never."""
    with np.errstate(invalid="ignore"):
        return np.flatnonzero(np.log1p(-uniform) < gain)
