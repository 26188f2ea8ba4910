"""Laplace's approximation of the posterior of lengths and model parameters on one topology.

From its mode, in the logarithms of lengths and in the coordinates of parameters, a normal distribution has the
curvature there as its precision. Q(θ) and Markov chains begin with its part for θ: right in size and in the ties
between parameters, which is what matters, whatever the other topologies and the tails are like.
"""

from typing import NamedTuple

import numpy as np
import torch
from scipy.optimize import minimize

from phloem.arrays import FloatArray
from phloem.inference.evaluation import CHUNK_NODES
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
WALL = 1e10  # in place of a value that is no number


class ParameterStart(NamedTuple):
    """About where the model's parameters are, as a normal distribution of their coordinates."""

    center: FloatArray  # (dimension,)
    factor: FloatArray  # (dimension, dimension)  lower triangular, its square is the covariance


def start_of(target: TreePosterior, trees: TreeSample) -> ParameterStart:
    """From the most likely of the most frequent trees, and of those that are as frequent as the last of them."""
    order = np.argsort(-trees.weights, kind="stable")
    as_frequent = trees.weights[order] >= trees.weights[order][:CANDIDATES][-1]
    frequent = trees.topologies.take(order[as_frequent][:MOST_CANDIDATES])
    fitted = optimize_branch_lengths(target.likelihood, frequent, tolerance=0.1)
    best = int(fitted.log_likelihoods.argmax())
    return approximate(target, frequent.take(np.array([best])), fitted.branch_lengths[best])


def approximate(target: TreePosterior, topology: TopologyBatch, branch_lengths: FloatArray) -> ParameterStart:
    """From one tree, whose lengths are those to begin with."""
    surface = _LogPosterior(target, topology)
    assert target.parameters is not None
    begin = target.parameters.start()
    logs = np.log(np.clip(branch_lengths, SHORTEST, LONGEST))
    bounds = [(-FARTHEST, FARTHEST)] * len(begin) + [(np.log(SHORTEST), np.log(LONGEST))] * len(logs)
    first = np.concatenate([np.clip(begin, -FARTHEST, FARTHEST), logs])
    # The first step, without curvature, is as long as the gradient: dividing keeps it to a factor e.
    unit = max(1.0, float(np.abs(surface.negated(first)[1]).max()))

    def scaled(place: FloatArray) -> tuple[float, FloatArray]:
        value, slope = surface.negated(place)
        if not np.isfinite(value) or not np.isfinite(slope).all():  # absurd: the step was too long
            return WALL, np.zeros_like(slope)
        return value / unit, slope / unit

    found = minimize(
        scaled,
        first,
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        options={"maxiter": MOST_STEPS},
    )
    precision = surface.precision(found.x)
    values, vectors = np.linalg.eigh(precision)
    covariance = (vectors / np.maximum(values, LEAST_PRECISION)) @ vectors.T
    return ParameterStart(found.x[: len(begin)], np.linalg.cholesky(covariance[: len(begin), : len(begin)]))


class _LogPosterior:
    """log p(Y, τ, q, θ) of one topology over a vector: coordinates of θ, then logarithms of lengths."""

    def __init__(self, target: TreePosterior, topology: TopologyBatch) -> None:
        self._target = target
        self._topology = topology

    def negated(self, place: FloatArray) -> tuple[float, FloatArray]:
        """Minus the density of the vector, and its gradient."""
        values, slopes = self._evaluate(place[None])
        return -float(values[0]), -slopes[0]

    def precision(self, place: FloatArray) -> FloatArray:
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
