"""Alignments drawn from models along a tree: site by site independent, branch by branch from the root to the leaves.

    root ~ π,   class of a site ~ its probability,   state below a branch of length t ~ row of exp(Q r t)

with r the rate of the site's class: a category of gamma rates, or 0 for invariant sites, times how fast the site's part
of the alignment evolves. The matrices come from the spectra that the likelihood has (`rates.py`).
"""

from typing import NamedTuple

import numpy as np

from phloem.arrays import ByteArray, FloatArray, IntArray, LongArray
from phloem.errors import BadArgument
from phloem.kernels.likelihood.pruning import Rates
from phloem.random_streams import RandomStream
from phloem.target.rates import ModelRates
from phloem.trees.topology import TopologyBatch

BLOCK = 16_384  # sites at a time: the states of all nodes of 500 taxa take 16 MB


class _Moves(NamedTuple):
    """What may happen on each branch to a site, by its row: four times its class, plus its state."""

    stays: FloatArray  # (branches, rows)  the probability that the state is the same at the end
    limits: FloatArray  # (branches, rows, 2)  cumulative probabilities of that, and of the first two of other states
    others: ByteArray  # (rows, 3)  the other states


def simulate_states(
    topology: TopologyBatch, lengths: FloatArray, models: ModelRates, part_of_site: IntArray, *, stream: RandomStream
) -> ByteArray:
    """States of the taxa, 0 to 3, (taxa, sites), on one tree with lengths (2n-3,).

    models: one set of them, a model for each part. Memory beyond the result does not grow with the number of sites.
    """
    if len(topology) != 1 or lengths.shape != (topology.branch_count,):
        raise BadArgument(f"simulation: {len(topology)} trees and lengths of shape {lengths.shape}. Give one of 2n-3.")
    if not (np.isfinite(lengths) & (lengths >= 0)).all():
        raise BadArgument("simulation: a branch length is negative or not finite. Give lengths of 0 or more.")
    parent = topology.parent[0]
    states = np.empty((topology.taxon_count, len(part_of_site)), np.uint8)
    for part in range(models.tables.frequencies.shape[1]):
        own = _of_part(models.tables, part)
        moves = _moves(own, lengths)
        sites = np.flatnonzero(part_of_site == part)
        for block, first in enumerate(range(0, len(sites), BLOCK)):
            chosen = sites[first : first + BLOCK]
            random = stream.named(f"part {part}").at(stream.step, block).generator()
            states[:, chosen] = _evolve(parent, len(chosen), own, moves, random)[: topology.taxon_count]
    return states


def _of_part(tables: Rates, part: int) -> Rates:
    return Rates(*(table[0, part] for table in tables))


def _moves(model: Rates, lengths: FloatArray) -> _Moves:
    """Of all classes, the first of which are the invariant sites."""
    rates = np.concatenate([[0.0], model.rates])
    times = lengths[:, None] * rates  # (branches, classes)
    growth = np.expm1(model.values * times[..., None])  # of each eigenvalue
    matrices = np.eye(4) + (model.right * growth[..., None, :]) @ model.left
    matrices = np.maximum(matrices, 0.0).reshape(len(lengths), -1, 4)  # (branches, rows, 4)
    rows = np.arange(matrices.shape[1])
    own = rows % 4
    others = np.array([np.delete(np.arange(4), state) for state in range(4)])[own]
    stays = matrices[:, rows, own]
    one, two = (matrices[:, rows, others[:, place]] for place in (0, 1))
    limits = np.stack([stays + one, stays + one + two], axis=-1)
    return _Moves(np.ascontiguousarray(stays), limits, others.astype(np.uint8))


def _evolve(parent: IntArray, sites: int, model: Rates, moves: _Moves, random: np.random.Generator) -> ByteArray:
    """States of all nodes, (nodes, sites)."""
    shares = np.concatenate([[model.invariant.sum()], model.weights])
    first_rows = 4 * _choices(shares, sites, random)
    states = np.empty((len(parent), sites), np.uint8)
    states[-1] = _choices(model.frequencies, sites, random)
    for node in reversed(range(len(parent) - 1)):  # parents come after their children
        above = states[parent[node]]
        rows = first_rows + above
        drawn = random.random(sites)
        changed = np.flatnonzero(drawn >= moves.stays[node][rows])
        rows = rows[changed]
        which = (drawn[changed, None] >= moves.limits[node][rows]).sum(axis=1)
        states[node] = above
        states[node, changed] = moves.others[rows, which]
    return states


def _choices(shares: FloatArray, count: int, random: np.random.Generator) -> LongArray:
    """Places, each with the probability that is there; one of probability 0 is never chosen."""
    limits = np.cumsum(shares / shares.sum())
    last = int(np.flatnonzero(shares)[-1])
    return np.minimum(np.searchsorted(limits, random.random(count), side="right"), last)
