"""Laplace's approximation of the posterior of lengths and model parameters on one topology, and its peaks.

From its mode, in the logarithms of lengths and in the coordinates of parameters, a normal distribution has the
curvature there as its precision. Q(θ) and Markov chains begin with its part for θ: right in size and in the ties
between parameters, which is what matters, whatever the other topologies and the tails are like.

There may be several modes, far apart: where a part of an alignment is saturated, long trees with some rates and short
ones with others can explain it. Searches from many places find them, and the volume of each says what it is worth.
"""

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import torch
from scipy.optimize import minimize
from scipy.stats import chi2

from phloem.arrays import FloatArray
from phloem.inference.draws import Draws
from phloem.inference.evaluation import CHUNK_NODES
from phloem.random_streams import RandomStream
from phloem.target.estimation import LONGEST, SHORTEST, optimize_branch_lengths
from phloem.target.posterior import TreePosterior
from phloem.trees.sample import TreeSample
from phloem.trees.topology import TopologyBatch

CANDIDATES = 20  # topologies, the most frequent, of which the most likely is taken
MOST_CANDIDATES = 200
STEP = 1e-3  # of the differences of slopes
LEAST_PRECISION = 1e-2  # in any direction: flatter than that is no normal distribution
FARTHEST = 12.0  # of a coordinate
MOST_STEPS = 500
SETTLED, MOST_SEARCHES = 0.01, 5  # a search begins anew where it ended until that gains no more, but not forever
WALL = 1e10  # in place of a value that is no number
PLACES = 8  # from which peaks are searched
SCATTER = 1.0  # of the coordinates of those places, and of the logarithm of the tree's length
WORTHLESS = 100.0  # nats below the highest peak, which no volume makes up for
SAME_DENSITY = 0.1  # nats, within which two searches may have ended at one peak
WITHIN = 0.999  # of a peak's normal distribution: what lies farther out does not belong to it
REACHED = 0.1  # of what a peak is worth, which draws near it must have


Place = tuple[FloatArray, FloatArray]  # coordinates of parameters, branch lengths


class ParameterStart(NamedTuple):
    """About where the model's parameters are, as a normal distribution of their coordinates."""

    center: FloatArray  # (dimension,)
    factor: FloatArray  # (dimension, dimension)  lower triangular, its square is the covariance


class Peak(NamedTuple):
    """A mode of the posterior on one topology, and what lies around it."""

    parameters: ParameterStart
    branch_lengths: FloatArray  # (2n-3,)  at the mode
    log_density: float  # of coordinates and logarithms of lengths
    log_evidence: float  # log p(Y, τ), if there were no other peak

    def distances(self, theta: FloatArray) -> FloatArray:
        """Squared distances of coordinates, (trees, dimension), from the mode, in its standard deviations."""
        whitened = np.linalg.solve(self.parameters.factor, (theta - self.parameters.center).T)
        return np.asarray((whitened**2).sum(axis=0))


def start_of(target: TreePosterior, trees: TreeSample, *, stream: RandomStream) -> Peak:
    """The greatest peak on the most likely of the most frequent trees, with all as frequent as the last."""
    order = np.argsort(-trees.weights, kind="stable")
    as_frequent = trees.weights[order] >= trees.weights[order][:CANDIDATES][-1]
    frequent = trees.topologies.take(order[as_frequent][:MOST_CANDIDATES])
    fitted = optimize_branch_lengths(target.likelihood, frequent, tolerance=0.1)
    best = int(fitted.log_likelihoods.argmax())
    topology, lengths = frequent.take(np.array([best])), fitted.branch_lengths[best]
    return peaks_of(target, topology, scattered_places(target, lengths, stream))[0]


def share_elsewhere(draws: Draws, target: TreePosterior, *, stream: RandomStream) -> float:
    """The share of the posterior at peaks of the model's parameters that draws do not reach, roughly.

    Of the topology of the likeliest draw, by Laplace's approximation.
    """
    from_q = np.flatnonzero(draws.is_from_q)
    best = int(from_q[draws.log_joint[from_q].argmax()])
    lengths = draws.branch_lengths[best].astype(np.float64)
    places = [(draws.theta[best], lengths), *scattered_places(target, lengths, stream)]
    peaks = peaks_of(target, draws.topologies[int(draws.group[best])], places)
    evidence = np.array([peak.log_evidence for peak in peaks])
    shares = np.exp(evidence - np.logaddexp.reduce(evidence))
    weights, farthest = draws.weighted().weights, float(chi2(target.dimension).ppf(WITHIN))
    near = np.array([weights @ (peak.distances(draws.theta) < farthest) for peak in peaks])
    return float(shares[near < REACHED * shares].sum())


def scattered_places(target: TreePosterior, branch_lengths: FloatArray, stream: RandomStream) -> Iterator[Place]:
    """Where to begin: with the parameters of the fixed model, then around them, with longer and shorter trees."""
    assert target.parameters is not None
    begin, random = target.parameters.start(), stream.generator()
    yield begin, branch_lengths
    for _ in range(PLACES - 1):
        theta = begin + SCATTER * random.standard_normal(len(begin))
        yield theta, branch_lengths * math.exp(SCATTER * random.standard_normal())


def peaks_of(target: TreePosterior, topology: TopologyBatch, places: Iterable[Place]) -> list[Peak]:
    """Where searches from some places end, each peak once, the one that is worth most first."""
    surface = _LogPosterior(target, topology)
    modes: list[tuple[float, FloatArray]] = []
    for theta, branch_lengths in places:
        density, mode = surface.climb(theta, branch_lengths)
        if not any(abs(density - other) < SAME_DENSITY for other, _ in modes):
            modes.append((density, mode))
    highest = max(density for density, _ in modes)
    peaks = [surface.peak(mode, density) for density, mode in modes if density > highest - WORTHLESS]
    return sorted(peaks, key=lambda peak: -peak.log_evidence)


class _LogPosterior:
    """log p(Y, τ, q, θ) of one topology over a vector: coordinates of θ, then logarithms of lengths."""

    def __init__(self, target: TreePosterior, topology: TopologyBatch) -> None:
        self._target = target
        self._topology = topology

    def climb(self, theta: FloatArray, branch_lengths: FloatArray) -> tuple[float, FloatArray]:
        """The density at the mode that a search from here ends at, and the mode."""
        logs = np.log(np.clip(branch_lengths, SHORTEST, LONGEST))
        first = np.concatenate([np.clip(theta, -FARTHEST, FARTHEST), logs])
        bounds = [(-FARTHEST, FARTHEST)] * len(theta) + [(np.log(SHORTEST), np.log(LONGEST))] * len(logs)
        # The first step, without curvature, is as long as the gradient: dividing keeps it to a factor e.
        unit = max(1.0, float(np.abs(self.negated(first)[1]).max()))

        def scaled(place: FloatArray) -> tuple[float, FloatArray]:
            value, slope = self.negated(place)
            if not np.isfinite(value) or not np.isfinite(slope).all():  # absurd: the step was too long
                return WALL, np.zeros_like(slope)
            return value / unit, slope / unit

        options = {"maxiter": MOST_STEPS}
        place, density = first, -math.inf
        for _ in range(MOST_SEARCHES):
            found = minimize(scaled, place, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
            gained, density, place = -unit * float(found.fun) - density, -unit * float(found.fun), found.x
            if gained < SETTLED:
                break
        return density, place

    def peak(self, mode: FloatArray, log_density: float) -> Peak:
        """What lies around a mode."""
        precision = self._precision(mode)
        values, vectors = np.linalg.eigh(np.where(np.isfinite(precision), precision, 0.0))  # no number: flat
        values = np.maximum(values, LEAST_PRECISION)
        dimension = self._target.dimension
        covariance = ((vectors / values) @ vectors.T)[:dimension, :dimension]
        log_volume = 0.5 * float((math.log(2 * math.pi) - np.log(values)).sum())
        start = ParameterStart(mode[:dimension], np.linalg.cholesky(covariance))
        return Peak(start, np.exp(mode[dimension:]), log_density, log_density + log_volume)

    def negated(self, place: FloatArray) -> tuple[float, FloatArray]:
        """Minus the density of the vector, and its gradient."""
        values, slopes = self._evaluate(place[None])
        return -float(values[0]), -slopes[0]

    def _precision(self, place: FloatArray) -> FloatArray:
        """Minus the second derivatives, by differences of slopes."""
        steps = STEP * np.eye(len(place))
        _, slopes = self._evaluate(np.concatenate([place + steps, place - steps]))
        above, below = np.split(slopes, 2)
        second = (below - above) / (2 * STEP)
        return np.asarray((second + second.T) / 2)

    def _evaluate(self, places: FloatArray) -> tuple[FloatArray, FloatArray]:
        dimension = self._target.dimension
        chunk = max(1, CHUNK_NODES // self._topology.node_count)
        values, slopes = np.empty(len(places)), np.empty_like(places)
        for first in range(0, len(places), chunk):
            part = slice(first, first + chunk)
            theta, lengths = places[part, :dimension], np.exp(places[part, dimension:])
            topologies = self._topology.take(np.zeros(len(theta), np.int64))
            log_joint, found = self._target.log_joint_by_hand(
                topologies, torch.from_numpy(lengths), 1.0, theta=torch.from_numpy(np.ascontiguousarray(theta))
            )
            values[part] = log_joint.numpy() + places[part, dimension:].sum(axis=1)
            slopes[part, :dimension] = found.theta.numpy()
            slopes[part, dimension:] = found.lengths.numpy() * lengths + 1.0
        return values, slopes
