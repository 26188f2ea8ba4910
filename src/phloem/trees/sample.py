"""Trees with weights: samples, trees grouped by topology, and credible sets."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Integral

import numpy as np

from phloem.arguments import check_fields, checked
from phloem.arrays import FloatArray, IntArray, LongArray, WordArray, read_only
from phloem.errors import BadArgument, TaxonMismatch, counted, listed
from phloem.trees.topology import Selection, TopologyBatch, pack_rows
from phloem.trees.tree import Tree, WeightedTrees, check_weights

# Shares are sums of many weights: a sum this close to a threshold has not crossed it.
ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class TreeSample:
    """Binary trees on the same taxa in file order, each with a weight >= 0, and branch lengths if the file has any.

    A branch without a length has length nan.
    """

    taxa: tuple[str, ...]
    topologies: TopologyBatch
    weights: FloatArray  # (trees,)
    branch_lengths: FloatArray | None  # (trees, 2n-3)

    def __post_init__(self) -> None:
        check_fields(self)
        trees = len(self.topologies)
        if len(self.taxa) != self.topologies.taxon_count or len(set(self.taxa)) != len(self.taxa):
            raise BadArgument(
                f"tree sample: {len(set(self.taxa))} distinct names for {self.topologies.taxon_count} taxa."
            )
        check_weights(self.weights, trees)
        if self.branch_lengths is not None and self.branch_lengths.shape != (trees, self.topologies.branch_count):
            raise BadArgument(f"tree sample: branch lengths of shape {self.branch_lengths.shape} do not fit.")
        object.__setattr__(self, "weights", read_only(self.weights))
        if self.branch_lengths is not None:
            object.__setattr__(self, "branch_lengths", read_only(self.branch_lengths))

    def __len__(self) -> int:
        return len(self.topologies)

    def __getitem__(self, selection: Selection) -> "TreeSample":
        """Some of the trees: a slice, a list of indices or a mask."""
        lengths = None if self.branch_lengths is None else self.branch_lengths[selection]
        return TreeSample(self.taxa, self.topologies[selection], self.weights[selection], lengths)

    def distinct(self) -> "TreeSample":
        """Equal topologies merged, in order of first appearance: weights are added, lengths dropped."""
        first, group = group_rows(self.topologies.parent)
        weights = np.zeros(len(first))
        np.add.at(weights, group, self.weights)
        return TreeSample(self.taxa, self.topologies[first], weights, None)

    def normalized(self) -> "TreeSample":
        """Weights that sum to one."""
        return replace(self, weights=_shares(self.weights))

    def with_taxa(self, taxa: Sequence[str]) -> "TreeSample":
        """The same trees with the taxa numbered in another order. Branch lengths follow their branches."""
        if tuple(taxa) == self.taxa:
            return self
        check_same_taxa(self.taxa, taxa, "tree sample")
        place = {name: number for number, name in enumerate(taxa)}
        leaves = np.array([place[name] for name in self.taxa], np.int32)
        topologies, lengths = self.topologies.with_leaves(leaves, self.branch_lengths)
        return TreeSample(tuple(taxa), topologies, self.weights, lengths)


@checked
def pool(samples: Sequence[TreeSample]) -> TreeSample:
    """One sample from several replicates or runs, which weigh the same whatever their size; weights sum to one."""
    if not samples:
        raise BadArgument("pool: no tree samples given.")
    aligned = [sample.with_taxa(samples[0].taxa).normalized() for sample in samples]
    lengths = [sample.branch_lengths for sample in aligned]
    return TreeSample(
        aligned[0].taxa,
        TopologyBatch.concatenate([sample.topologies for sample in aligned]),
        np.concatenate([sample.weights for sample in aligned]) / len(aligned),
        None
        if any(part is None for part in lengths)
        else np.concatenate([part for part in lengths if part is not None]),
    )


def merge(samples: Sequence[TreeSample]) -> TreeSample:
    """Every topology of samples on the same taxa once, with the sum of its weights."""
    return TreeSample(
        samples[0].taxa,
        TopologyBatch.concatenate([sample.topologies for sample in samples]),
        np.concatenate([sample.weights for sample in samples]),
        None,
    ).distinct()


def pool_any(samples: Sequence[TreeSample | WeightedTrees]) -> WeightedTrees:
    """Like `pool`, for trees of any degrees, whose taxa must be in the same order."""
    trees: list[Tree] = []
    for sample in samples:
        if sample.taxa != samples[0].taxa:
            raise TaxonMismatch("pool: the samples must have the same taxa in the same order.")
        if isinstance(sample, TreeSample):
            trees += [Tree(parent, len(sample.taxa)) for parent in sample.topologies.parent]
        else:
            trees += sample.trees
    weights = [_shares(sample.weights) / len(samples) for sample in samples]
    return WeightedTrees(samples[0].taxa, tuple(trees), np.concatenate(weights))


def _shares(weights: FloatArray) -> FloatArray:
    """Weights that sum to one."""
    largest = float(weights.max(initial=0))
    if not largest > 0:
        raise BadArgument("tree sample: all weights are zero.")
    scaled = weights / largest  # the sum of huge weights would overflow
    shares: FloatArray = scaled / scaled.sum()
    return shares


@dataclass(frozen=True, slots=True, eq=False)
class GroupedTrees:
    """Trees on the same taxa, each with all branch lengths and a weight; topologies are stored once."""

    taxa: tuple[str, ...]
    topologies: TopologyBatch  # distinct
    group: IntArray  # (trees,)  each tree's topology
    weights: FloatArray  # (trees,)  sum to one
    branch_lengths: FloatArray  # (trees, 2n-3)

    def __post_init__(self) -> None:
        check_fields(self)
        trees = len(self.group)
        check_weights(self.weights, trees)
        if len(self.taxa) != self.topologies.taxon_count:
            raise BadArgument(f"grouped trees: {len(self.taxa)} names for {self.topologies.taxon_count} taxa.")
        if self.branch_lengths.shape != (trees, self.topologies.branch_count):
            raise BadArgument(f"grouped trees: branch lengths of shape {self.branch_lengths.shape} do not fit.")
        if not self.weights.any():
            raise BadArgument("grouped trees: all weights are zero.")
        object.__setattr__(self, "weights", read_only(self.weights / self.weights.sum()))

    @classmethod
    @checked
    def from_sample(cls, sample: TreeSample) -> "GroupedTrees":
        """The trees of a sample, which must have branch lengths."""
        if sample.branch_lengths is None or not np.isfinite(sample.branch_lengths).all():
            raise BadArgument("grouped trees: every branch of every tree needs a length.")
        first, group = group_rows(sample.topologies.parent)
        return cls(sample.taxa, sample.topologies[first], group.astype(np.int32), sample.weights, sample.branch_lengths)

    def __len__(self) -> int:
        return len(self.group)

    def select(self, trees: IntArray) -> TreeSample:
        """The trees with these numbers, repeated ones included, all with the same weight."""
        weights = np.full(len(trees), 1 / max(1, len(trees)))
        return TreeSample(self.taxa, self.topologies[self.group[trees]], weights, self.branch_lengths[trees])

    def topology_weights(self) -> FloatArray:
        """The share of each distinct topology, (topologies,)."""
        return np.asarray(np.bincount(self.group, self.weights, minlength=len(self.topologies)))

    def topology_variances(self) -> FloatArray:
        """The variance of each topology's weight before weights are made to sum to one, (topologies,): Σ w²."""
        return np.asarray(np.bincount(self.group, self.weights**2, minlength=len(self.topologies)))

    def topology_errors(self) -> FloatArray:
        """The standard error of each topology's share, (topologies,), if the trees are independent."""
        variances = self.topology_variances()
        return share_errors(self.topology_weights(), variances, variances.sum())

    def topology_sample(self) -> TreeSample:
        """The distinct topologies, most probable first, with their shares of the weight."""
        weights = self.topology_weights()
        order = np.argsort(-weights, kind="stable")
        return TreeSample(self.taxa, self.topologies[order], weights[order], None)


def share_errors(shares: FloatArray, variances: FloatArray, total_variance: float) -> FloatArray:
    """Standard errors of shares of a sum of independent parts, to first order.

    A share p whose parts have the variance v, of V in all, has the variance v (1 - p)² + (V - v) p². Of weighted draws
    this is Σ wᵢ² (1[i has it] - p)². variances: relative to the square of the sum.
    """
    others = total_variance - variances
    others[others < ROUNDING * total_variance] = 0.0
    return np.asarray(np.sqrt(variances * (1 - shares) ** 2 + others * shares**2))


def group_rows(rows: IntArray | WordArray) -> tuple[LongArray, LongArray]:
    """Groups of equal rows of an integer matrix: the first row of each, and the group of every row."""
    _, first, group = np.unique(pack_rows(rows), return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return first[order], rank[group]


@checked
def credible_topologies(sample: TreeSample, share: float) -> TreeSample:
    """The sample's most frequent distinct topologies whose weights sum to at most `share` of the total.

    The topology that exceeds the share is left out, unless it is the first. Ties are in order of first appearance. With
    a share of 1 all are kept, those of weight zero included.
    """
    _check_share(share)
    distinct = sample.distinct()
    ordered = distinct[np.argsort(-distinct.weights, kind="stable")]
    if share == 1:
        return ordered
    within = np.cumsum(ordered.normalized().weights) <= share + ROUNDING
    return ordered[: max(1, int(within.sum()))]


def credible_set_size(probabilities: FloatArray, share: float) -> int:
    """How many of the most probable topologies it takes to hold at least `share` of the probability.

    probabilities: in descending order. The topology that reaches the share is counted.
    """
    _check_share(share)
    total = np.cumsum(probabilities)
    return min(len(total), 1 + int((total < share * total[-1] - ROUNDING).sum()))


def _check_share(share: float) -> None:
    if not 0 < share <= 1:
        raise BadArgument(f"credible share {share:g}: give a number above 0 and up to 1.")


def check_same_taxa(found: Sequence[str], expected: Sequence[str], where: str) -> None:
    """Raise unless both name the same taxa, in any order."""
    present, known = set(found), set(expected)
    if len(known) < len(expected):
        raise TaxonMismatch(f"{where}: two of the expected taxa have the same name. Names must differ.")
    if missing := [name for name in expected if name not in present]:
        raise TaxonMismatch(f"{where}: lacks {listed(missing)}. Use the same names everywhere.")
    if unknown := [name for name in found if name not in known]:
        raise TaxonMismatch(f"{where}: has {listed(unknown)}, which the others lack. Use the same names everywhere.")


def count_burnin(burnin: int | float, trees: int, source: str) -> int:
    """How many of `trees` a burn-in drops: the integer itself, or for a float that fraction, rounded down."""
    if isinstance(burnin, Integral):
        dropped = int(burnin)
    else:
        dropped = math.floor(float(burnin) * trees + 1e-6) if 0 <= burnin < 1 else -1
    if dropped < 0:
        raise BadArgument(f"{source}: burn-in {burnin}: give a count of trees or a fraction from 0 up to 1.")
    if dropped >= trees:
        raise BadArgument(f"{source}: burn-in {burnin} leaves nothing of {counted(trees, 'tree')}. Give a smaller one.")
    return dropped
