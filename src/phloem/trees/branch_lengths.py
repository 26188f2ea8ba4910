"""Branch lengths by split: over all trees that have a branch, whatever the rest of them is like."""

from dataclasses import dataclass

from phloem.kernels.arrays import BoolArray, FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class SplitLengths:
    """Every split of a sample, the n trivial ones first in taxon order, the others most frequent first.

    Statistics are over the trees that have the split, by weight; `lower` to `upper` is the shortest interval that holds
    95 % of their weight. All but `members` are (splits,).
    """

    taxa: tuple[str, ...]
    members: BoolArray  # (splits, n)  the side without taxon 0; taxon 0's own branch has taxon 0 alone
    frequency: FloatArray  # between 0 and 1; 1 for trivial splits
    mean: FloatArray
    deviation: FloatArray  # standard
    median: FloatArray
    lower: FloatArray
    upper: FloatArray
