"""What chains say of the run that they started from: how much lies outside its support, and where its clades are off.

A run whose draws are a sample of the posterior stays one when every draw goes on as a chain. So a clade is compared
with itself: chains whose starts had it, and those whose starts had not, count by the probability that the run gives it.
That leaves out what chance did to the starts, and modes that chains do not leave in their time, of which they say
nothing, make no noise.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from phloem.arrays import BoolArray, FloatArray
from phloem.inference.agreement import Measured
from phloem.inference.chains import ChainTrees
from phloem.inference.convergence import ChainSplits, measured_by_chain
from phloem.inference.evaluation import CHUNK_NODES
from phloem.trees.sample import group_rows
from phloem.trees.splits import SplitFrequencies, nontrivial_splits, split_table
from phloem.trees.topology import TopologyBatch
from phloem.variational.sbn import SubsplitNetwork

ERRORS = 3.0  # standard errors, within which a difference is none
FEW = 5  # chains of a kind, from which little is known of how they vary
UNKNOWN = Measured(0.5, 0.5)  # the share of a chain's trees that have a clade, where little is known


class CladeDifference(NamedTuple):
    """The clade of whose probability a run and its chains differ most."""

    run: float
    chains: Measured
    beyond_errors: float  # the largest difference of any clade, less what its error explains; 0 if errors explain all

    @property
    def value(self) -> float:
        """How far they differ."""
        return abs(self.run - self.chains.value)


class ChainCheck(NamedTuple):
    """What chains say of the run that they started from."""

    chains: int
    rounds: int  # of each
    outside: Measured  # the share of trees that no network of the run can generate
    difference: CladeDifference
    added: int = 0  # trees that stand for what is outside among the run's draws
    elsewhere: float = 0.0  # roughly the share at peaks of the model's parameters that the run does not reach

    @property
    def outside_beyond_errors(self) -> float:
        """The share that is outside whatever the error; 0 if there may be none."""
        return max(0.0, self.outside.value - ERRORS * self.outside.error)


def check_run(
    trees: ChainTrees,
    splits: ChainSplits,
    starts: TopologyBatch,
    networks: Sequence[SubsplitNetwork],
    clades: SplitFrequencies,
) -> ChainCheck:
    """Compare chains with the run, or the runs together, that their starts are from.

    clades: with their probabilities by the draws that the starts are from, every one that a start has among them.
    """
    share = share_outside(trees, outside_support(trees.topologies, networks))
    return ChainCheck(trees.chains, trees.rounds, share, clade_difference(splits, starts, clades, clades))


def share_outside(trees: ChainTrees, is_outside: BoolArray) -> Measured:
    """The share of chains' trees that are outside the support."""
    return Measured(*map(float, measured_by_chain(is_outside[trees.by_chain].mean(axis=1))))


def outside_support(topologies: TopologyBatch, networks: Sequence[SubsplitNetwork]) -> BoolArray:
    """Whether no network can generate a topology, (trees,)."""
    first, group = group_rows(topologies.parent)
    distinct, chunk = topologies[first], max(1, CHUNK_NODES // topologies.node_count)
    is_inside = np.zeros(len(distinct), np.bool_)
    for start in range(0, len(distinct), chunk):
        part = slice(start, start + chunk)
        for network in networks:
            is_inside[part] |= network.support.generates(distinct[part])
    return ~is_inside[group]


def clade_difference(
    splits: ChainSplits, starts: TopologyBatch, of_starts: SplitFrequencies, clades: SplitFrequencies
) -> CladeDifference:
    """The clade of whose probability a run and its chains differ most.

    of_starts: by the draws that the starts are from. clades: by the run, whose draws may have more trees.
    """
    table = split_table([of_starts, clades, splits.frequencies])
    row_of = {members.tobytes(): row for row, members in enumerate(table.members)}
    chains = len(starts)
    share = np.zeros((len(table.members), chains))  # of a chain's trees that have the clade
    share[[row_of[members.tobytes()] for members in splits.frequencies.members]] = splits.by_chain
    has = np.zeros((len(table.members), chains), np.bool_)  # whether its start had it
    for chain, sets in enumerate(nontrivial_splits(starts)):
        has[[row_of[members.tobytes()] for members in sets], chain] = True
    run = table.frequencies[:, 1]
    value, error = _by_starts(share, has, table.frequencies[:, 0])
    differences = np.abs(value - run)
    worst = int(np.argmax(differences))
    beyond = float((differences - ERRORS * error).max(initial=0.0))
    return CladeDifference(float(run[worst]), Measured(float(value[worst]), float(error[worst])), beyond)


def _by_starts(share: FloatArray, has: BoolArray, of_starts: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Each clade's frequency, where chains whose starts had it count by its probability there, and its error."""
    value, variance = np.zeros(len(share)), np.zeros(len(share))
    for kind, weight in ((has, of_starts), (~has, 1 - of_starts)):
        count = kind.sum(axis=1)
        mean = (share * kind).sum(axis=1) / np.maximum(count, 1)
        spread = ((share - mean[:, None]) ** 2 * kind).sum(axis=1) / np.maximum(count - 1, 1)
        mean[count == 0] = UNKNOWN.value
        spread[count < FEW] = UNKNOWN.error**2
        value += weight * mean
        variance += weight**2 * spread / np.maximum(count, 1)
    return value, np.sqrt(variance)
