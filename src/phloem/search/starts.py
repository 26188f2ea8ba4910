"""Trees to start a search from: random stepwise addition under parsimony, and neighbour joining on distances."""

import numpy as np

from phloem.data.nucleotides import ANY, STATES
from phloem.data.patterns import SitePatterns
from phloem.errors import BadArgument
from phloem.kernels.arrays import BoolArray, FloatArray
from phloem.kernels.canonical import canonical_trees
from phloem.kernels.neighbor_joining import join_neighbors
from phloem.kernels.parsimony import stepwise_addition
from phloem.kernels.regrafting import regraft_subtrees
from phloem.random_streams import RandomStream
from phloem.trees.topology import TopologyBatch

LEAST_TAXA = 3
# Branches of neighbour joining can be negative, which no model understands; optimised ones are not shorter either.
LEAST_LENGTH = 1e-8
MOST_ROUNDS = 20  # over all subtrees; four or five are usual
LARGEST_ROUNDS = 2_000_000  # nodes² · rounds: of 500 taxa and more few or none can be paid for
SYMMETRY = 1e-9  # how much d(i, j) and d(j, i) may differ, as a share of the largest distance


def parsimony_topologies(patterns: SitePatterns, count: int, *, stream: RandomStream) -> TopologyBatch:
    """Taxa added in random order, each on a branch where the parsimony score grows least, equally good ones alike.

    Then subtrees are moved for as long as that lowers the score. Where the patterns say nothing the trees are uniform
    draws. The first trees are the same however many are made.
    """
    taxa = len(patterns.taxa)
    if taxa < LEAST_TAXA:
        raise BadArgument(f"parsimony trees: {taxa} taxa. An unrooted tree needs at least {LEAST_TAXA}.")
    if count < 0:
        raise BadArgument(f"parsimony trees: {count} trees asked for. Ask for 0 or more.")
    kept = can_tell_trees_apart(patterns)
    states = np.ascontiguousarray(patterns.states[:, kept])
    weights = patterns.counts[kept].astype(np.int64)
    ranks = stream.named("order").generator().random((count, taxa))
    orders = np.argsort(ranks, axis=1, kind="stable").astype(np.int32)
    picks = stream.named("ties").generator().random((count, taxa - 3))
    nodes = 2 * taxa - 2
    rounds = min(MOST_ROUNDS, LARGEST_ROUNDS // nodes**2)
    parents = np.empty((count, nodes), np.int32)
    for tree in range(count):  # one tree a call, as nothing can interrupt a kernel
        own = slice(tree, tree + 1)
        added = TopologyBatch.from_trusted(stepwise_addition(states, weights, orders[own], picks[own]))
        parents[tree] = regraft_subtrees(states, weights, added.parent[0], rounds)
    return TopologyBatch.from_trusted(parents)


def can_tell_trees_apart(patterns: SitePatterns) -> BoolArray:
    """The patterns whose parsimony score may differ between trees, (patterns,).

    It is the same on all trees where one state fits every taxon, and where all that is known are single states of
    which at most one occurs twice. Then it is the same on all trees of some of the taxa, too.
    """
    common = np.bitwise_and.reduce(patterns.states, axis=0) != 0
    single = 1 << np.arange(len(STATES), dtype=np.uint8)
    occurrences = np.stack([(patterns.states == state).sum(axis=0) for state in single])  # (states, patterns)
    clear = occurrences.sum(axis=0) + (patterns.states == ANY).sum(axis=0) == len(patterns.taxa)
    told: BoolArray = ~(common | (clear & ((occurrences >= 2).sum(axis=0) <= 1)))
    return told


def neighbor_joining(distances: FloatArray) -> tuple[TopologyBatch, FloatArray]:
    """The tree of neighbour joining as a batch of one, and its lengths (1, 2n-3), none below `LEAST_LENGTH`.

    Of distances along a tree it is that tree. Of pairs that are equally good the lowest is joined.
    """
    _check_distances(distances)
    symmetric = 0.5 * (distances + distances.T)
    raw, raw_lengths = join_neighbors(symmetric)
    parent, lengths, _ = canonical_trees(raw[None], raw_lengths[None], len(distances), False)
    return TopologyBatch.from_canonical(parent), np.maximum(lengths[:, :-1], LEAST_LENGTH)


def _check_distances(distances: FloatArray) -> None:
    if distances.ndim != 2 or len(distances) != distances.shape[1] or len(distances) < LEAST_TAXA:
        raise BadArgument(
            f"distances of shape {distances.shape}: a square table of at least {LEAST_TAXA} taxa is needed."
        )
    if not np.isfinite(distances).all() or (distances < 0).any():
        raise BadArgument("distances: some are negative or not finite. Bound them first.")
    if np.abs(distances - distances.T).max() > SYMMETRY * distances.max():
        raise BadArgument("distances: the table is not symmetric. Both directions of a pair must have one distance.")
