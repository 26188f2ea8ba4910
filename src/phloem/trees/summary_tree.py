"""A tree that stands for many: of any degrees, with a support and a length for every branch."""

from dataclasses import dataclass

import numpy as np

from phloem.errors import BadArgument
from phloem.kernels import clades
from phloem.kernels.arrays import FloatArray
from phloem.trees.branch_lengths import SplitLengths
from phloem.trees.splits import pack_members
from phloem.trees.tree import Tree, canonical_tree


@dataclass(frozen=True, slots=True, eq=False)
class SummaryTree:
    """A tree whose branches say how probable they are and how long; a branch has the number of its lower node.

    A pendant branch has support 1. The length is the mean over the trees that have the branch's split, and `lower` to
    `upper` is the shortest interval with 95 % of their weight. nan stands for what no tree of the sample tells, and at
    the root. `is_rooted` says that the root means something; else it is only where the drawing begins.
    """

    taxa: tuple[str, ...]
    tree: Tree
    support: FloatArray  # (nodes,)
    length: FloatArray  # (nodes,)
    lower: FloatArray  # (nodes,)
    upper: FloatArray  # (nodes,)
    is_rooted: bool = False

    def __post_init__(self) -> None:
        nodes = len(self.tree.parent)
        if len(self.taxa) != self.tree.leaf_count:
            raise BadArgument(f"summary tree: {len(self.taxa)} names for {self.tree.leaf_count} taxa.")
        if any(part.shape != (nodes,) for part in (self.support, self.length, self.lower, self.upper)):
            raise BadArgument(f"summary tree: supports and lengths must be of shape ({nodes},).")


def summary_tree(tree: Tree, lengths: SplitLengths) -> SummaryTree:
    """What a sample says of each branch of a tree, which is taken as an unrooted one.

    A branch that no tree of the sample has gets support 0.
    """
    taxon_count = len(lengths.taxa)
    if tree.leaf_count != taxon_count:
        raise BadArgument(f"summary tree: a tree of {tree.leaf_count} taxa and branch lengths for {taxon_count}.")
    unrooted = canonical_tree(tree.parent, tree.leaf_count)
    sets = clades.clade_bits(unrooted.parent[None], taxon_count)[0, taxon_count:-1]
    place = {row.tobytes(): number for number, row in enumerate(pack_members(lengths.members))}
    found = np.array([place.get(row.tobytes(), -1) for row in sets], np.int64)
    branches = np.concatenate([np.arange(taxon_count), found, [-1]])

    def of_branches(statistic: FloatArray, otherwise: float) -> FloatArray:
        values = np.where(branches >= 0, statistic[branches], otherwise)
        values[-1] = np.nan
        return values

    return SummaryTree(
        lengths.taxa,
        unrooted,
        of_branches(lengths.frequency, 0),
        of_branches(lengths.mean, np.nan),
        of_branches(lengths.lower, np.nan),
        of_branches(lengths.upper, np.nan),
    )
