"""A tree that stands for many: of any degrees, with a support and a length for every branch."""

from dataclasses import dataclass

from phloem.errors import BadArgument
from phloem.kernels.arrays import FloatArray
from phloem.trees.tree import Tree


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
