"""Maximum-likelihood branch lengths of fixed topologies, many trees at a time."""

from typing import NamedTuple

import numpy as np
import torch

from phloem.kernels.arrays import BoolArray, FloatArray
from phloem.target.likelihood import TreeLikelihood
from phloem.trees.topology import TopologyBatch

SHORTEST, LONGEST = 1e-8, 100.0
MEMORY = 12  # steps that approximate the curvature


class OptimizedLengths(NamedTuple):
    """The best lengths found, their log-likelihoods, and whether the search had settled."""

    branch_lengths: FloatArray  # (batch, 2n-3)
    log_likelihoods: FloatArray  # (batch,)
    converged: BoolArray  # (batch,)


def optimize_branch_lengths(
    likelihood: TreeLikelihood,
    topologies: TopologyBatch,
    start: FloatArray | None = None,
    *,
    tolerance: float = 1e-6,
    most_steps: int = 500,
) -> OptimizedLengths:
    """L-BFGS in the logarithms of the lengths, all trees in one likelihood call a step.

    Each tree has its own curvature and step length, and rests when a step gains less than `tolerance`
    three times in a row. Lengths stay between 1e-8 and 100.
    """
    lengths = np.full((len(topologies), topologies.branch_count), 0.1) if start is None else start
    logs = np.log(np.clip(lengths, SHORTEST, LONGEST))
    values, gradients = _evaluate(likelihood, topologies, logs)
    steps = np.zeros((MEMORY, *logs.shape))
    changes = np.zeros_like(steps)
    idle = np.zeros(len(logs), np.int64)
    for count in range(most_steps):
        active = idle < 3
        if not active.any():
            break
        newest_first = [(count - 1 - age) % MEMORY for age in range(MEMORY)]
        direction = _direction(gradients, steps[newest_first], changes[newest_first])
        uphill = (direction * gradients).sum(1)
        direction = np.where((uphill > 0)[:, None], direction, gradients)
        # The first step, without curvature, and any wild one are kept to a factor e for the largest change.
        direction /= np.maximum(np.abs(direction).max(1, keepdims=True), 1.0)
        direction[~active] = 0.0
        moved, moved_values, moved_gradients = _search(likelihood, topologies, logs, values, gradients, direction)
        slot = count % MEMORY
        steps[slot], changes[slot] = moved - logs, gradients - moved_gradients
        idle = np.where(moved_values - values < tolerance, idle + 1, 0)
        logs, values, gradients = moved, moved_values, moved_gradients
    return OptimizedLengths(np.exp(logs), values, idle >= 3)


def _evaluate(likelihood: TreeLikelihood, topologies: TopologyBatch, logs: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Log-likelihoods and their gradients with respect to the logarithms of the lengths."""
    lengths = torch.from_numpy(np.exp(logs)).requires_grad_()
    values = likelihood(topologies, lengths)
    values.sum().backward()
    assert lengths.grad is not None
    return values.detach().numpy(), lengths.grad.numpy() * np.exp(logs)


def _direction(gradients: FloatArray, steps: FloatArray, changes: FloatArray) -> FloatArray:
    """The two-loop recursion, tree by tree, newest memory first: an uphill direction scaled by the curvature."""
    products = (steps * changes).sum(2)  # (memory, batch), positive where the function is concave along the step
    usable = products > 1e-12
    inverse = np.where(usable, 1.0 / np.where(usable, products, 1.0), 0.0)
    result = gradients.copy()
    weights = np.zeros_like(products)
    for slot in range(len(steps)):
        weights[slot] = inverse[slot] * (steps[slot] * result).sum(1)
        result -= weights[slot][:, None] * changes[slot]
    squares = (changes[0] ** 2).sum(1)
    result *= np.where(usable[0], products[0] / np.where(squares > 0, squares, 1.0), 1.0)[:, None]
    for slot in reversed(range(len(steps))):
        correction = weights[slot] - inverse[slot] * (changes[slot] * result).sum(1)
        result += correction[:, None] * steps[slot]
    return result


def _search(
    likelihood: TreeLikelihood,
    topologies: TopologyBatch,
    logs: FloatArray,
    values: FloatArray,
    gradients: FloatArray,
    direction: FloatArray,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Halve each tree's step until it gains enough (Armijo); a tree that cannot gain stays where it is."""
    size = np.ones(len(logs))
    pending = np.abs(direction).max(1) > 0
    best, best_values, best_gradients = logs.copy(), values.copy(), gradients.copy()
    for _ in range(30):
        if not pending.any():
            break
        trial = np.clip(logs + size[:, None] * direction, np.log(SHORTEST), np.log(LONGEST))
        trial_values, trial_gradients = _evaluate(likelihood, topologies, trial)
        gain = ((trial - logs) * gradients).sum(1)
        good = pending & (trial_values >= values + 1e-4 * gain) & (trial_values >= values)
        best[good], best_values[good], best_gradients[good] = trial[good], trial_values[good], trial_gradients[good]
        pending &= ~good
        size = np.where(pending, size / 2, size)
    return best, best_values, best_gradients
