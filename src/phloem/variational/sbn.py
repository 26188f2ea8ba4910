"""Subsplit Bayesian networks (Zhang & Matsen 2018): distributions over topologies that sum to one.

First the support, flat arrays that say what a network can generate; then the network, Q(τ); then how a support is
collected from tree samples; last the files of both. Networks are fitted to trees in `fitting`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, cast, final

import numpy as np
import torch
from torch import Tensor, nn

from phloem.arrays import Array, BoolArray, FloatArray, IntArray, LongArray, WordArray, read_only
from phloem.autograd import Application, Operation, outside_transforms
from phloem.errors import BadArgument, FileProblem
from phloem.kernels.trees.clades import clade_bits, hash_sets
from phloem.kernels.variational import sbn as kernels
from phloem.kernels.variational.subsplits import (
    SPLITS,
    PairIndex,
    SubsplitLookup,
    confirm_sets,
    find_all,
    index_subsplits,
    make_index,
)
from phloem.random_streams import RandomStream
from phloem.storage.arrays import distinct_names, read_arrays, write_arrays
from phloem.trees.constraints import TopologyConstraints
from phloem.trees.sample import TreeSample, credible_topologies, group_rows, merge
from phloem.trees.topology import TopologyBatch, taxon_keys
from phloem.variational.closure import close_splits

CLOSURES = ("none", "clades")
FEWEST_TAXA = 4
MOST_CLOSED_ENTRIES = 1_000_000  # 0.1 GB
CHUNK_PAIRS = 200_000  # trees are collected a few at a time: room for all that they may add is made in advance
Arrays = dict[str, np.ndarray[Any, Any]]
PARTS = ("taxa", "topology_count", "clades", "splits", "subsplits", "pairs")  # arrays of a support's file
LEFT_OUT = "splits_left_out"  # one more, which files had not before there were closed supports


class SubsplitIndices(NamedTuple):
    """The splits, subsplits and table entries of topologies, as indices into a support; -1 for what it lacks.

    A branch has a split and its primary subsplit pairs: how each side of more than one taxon divides, given
    the other side. Entries are those used by the rootings.
    """

    neighbors: IntArray  # (batch, 2n-2, 3)     of the topologies
    splits: IntArray  # (batch, 2n-3)
    subsplits: IntArray  # (batch, 2n-3, 2)     below and above each branch; -1 below a leaf
    entries: IntArray  # (batch, n-2, 3, 3)     each interior node seen from each neighbour, beside three sisters


@dataclass(frozen=True, slots=True, eq=False)
class SubsplitSupport:
    """The layout of a network's conditional probability tables, for all rootings of the trees it was collected from.

    An entry is a subsplit given the sister of the clade that it divides; a table is a contiguous range of entries with
    the same clade and sister. Table 0 holds the root splits: entry i is split i. Tables with a choice come first, so
    the entries below `parameter_count` are the parameters. A table with one entry has no parameter, nor has the root
    table of a single topology, which is the same wherever its root is.

    In a closed support a clade has one table, whatever its sister.
    """

    taxa: tuple[str, ...]
    topology_count: int  # distinct topologies it was collected from
    splits_left_out: int  # splits of theirs that are not in a closed support, as it would be too large
    clades: WordArray  # (clades, words)   bit sets; the first n are the single taxa
    splits: IntArray  # (splits, 2)        the clade away from taxon 0 (taxon 0 itself for its own branch), and the rest
    subsplits: IntArray  # (subsplits, 2)  the two clades that a clade divides into
    sisters: IntArray  # (entries,)        a clade; -1 for root splits, and for all entries of a closed support
    divisions: IntArray  # (entries,)      a split for table 0, else a subsplit
    starts: LongArray  # (tables + 1,)     where each table's entries begin
    children: IntArray  # (entries, 2)     the tables of the two halves; -1 - taxon for a single taxon
    free_tables: int  # number of tables with parameters
    lookup: SubsplitLookup  # from clades and subsplits back to their indices

    @property
    def parameter_count(self) -> int:
        return int(self.starts[self.free_tables])

    @property
    def entry_count(self) -> int:
        return len(self.sisters)

    @property
    def table_count(self) -> int:
        return len(self.starts) - 1

    @property
    def closed(self) -> bool:
        """Whether the tables are conditional on clades alone."""
        return bool(self.sisters[-1] < 0)

    @property
    def free_starts(self) -> LongArray:
        """Where the entries of each table with parameters begin, and the end of the last."""
        return self.starts[: self.free_tables + 1]

    def indices(self, topologies: TopologyBatch) -> SubsplitIndices:
        """The subsplit indices of topologies, in time linear in the number of taxa."""
        if topologies.taxon_count != len(self.taxa):
            raise BadArgument(f"trees on {topologies.taxon_count} taxa for a support on {len(self.taxa)} taxa.")
        keys = self.lookup.clades.pairs[: len(self.taxa)]
        return _subsplit_indices(topologies, keys, self.lookup, np.zeros(4, np.int64), adding=False)

    def generates(self, topologies: TopologyBatch) -> BoolArray:
        """Whether some rooting of each topology is within the tables, (batch,)."""
        used = self.indices(topologies)
        totals = kernels.log_rootings(used.neighbors, used.splits, used.entries, np.zeros(self.entry_count))
        possible: BoolArray = (totals == 0).any(axis=1)
        return possible


def _subsplit_indices(
    topologies: TopologyBatch, keys: WordArray, lookup: SubsplitLookup, counts: LongArray, *, adding: bool
) -> SubsplitIndices:
    """The subsplit indices of topologies; with `adding`, new subsplits get the next index and are counted."""
    batch, branches = len(topologies), topologies.branch_count
    found = SubsplitIndices(
        topologies.neighbors,
        np.empty((batch, branches), np.int32),
        np.empty((batch, branches, 2), np.int32),
        np.full((batch, topologies.taxon_count - 2, 3, 3), -1, np.int32),
    )
    index_subsplits(topologies.neighbors, keys, lookup, counts, adding, found.splits, found.subsplits, found.entries)
    return found


class Tables(NamedTuple):
    """The conditional probabilities of all entries; each table sums to one."""

    probabilities: FloatArray  # (entries,)
    log_probabilities: FloatArray  # (entries,)


class TopologyDraw(NamedTuple):
    """Sampled topologies, their log-probabilities and their subsplit indices."""

    topologies: TopologyBatch
    log_prob: Tensor  # (batch,)
    indices: SubsplitIndices


class SubsplitNetwork(nn.Module):
    """Q(τ): the probability of an unrooted topology is the sum over its 2n-3 rootings.

    A rooted tree is drawn from the root split down; how a clade divides depends on the clade and its sister, or on the
    clade alone if the support is closed. Tables are softmaxes of `logits`; those without parameters are uniform.
    Topologies outside the support have probability zero.
    """

    logits: Tensor  # (parameters,)

    def __init__(self, support: SubsplitSupport, logits: Tensor | None = None) -> None:
        super().__init__()
        self.support = support
        if logits is None:
            logits = torch.zeros(support.parameter_count, dtype=torch.float64)
        if logits.shape != (support.parameter_count,) or logits.dtype != torch.float64:
            raise BadArgument(
                f"subsplit network: {logits.dtype} logits of shape {tuple(logits.shape)}, "
                f"but the support has {support.parameter_count} parameters in double precision."
            )
        self.logits = nn.Parameter(logits)
        self._held: Tables | None = None

    def hold(self) -> None:
        """Leave the logits as they are until `release`: they get no gradients, and large tables are made once."""
        if self._held is None:
            self._held = self.tables()
            self.logits.requires_grad_(False)

    def release(self) -> None:
        """Let the logits change again."""
        self._held = None
        self.logits.requires_grad_(True)

    def tables(self) -> Tables:
        """Softmax of every table."""
        if self._held is not None:
            return self._held
        return outside_transforms(lambda logits: normalize_tables(self.support, logits), self.logits)

    def sample(self, count: int, *, stream: RandomStream) -> TopologyBatch:
        """Independent topologies; topology i uses the random numbers of the stream's i-th particle."""
        return self._sample(count, stream, self.tables())

    def draw(self, count: int, *, stream: RandomStream) -> TopologyDraw:
        """Sample topologies and compute their log-probabilities, with one softmax for both."""
        topologies, log_prob, indices = self.sample_scored(count, stream=stream)
        return TopologyDraw(topologies, log_prob.recorded(), indices)

    def sample_scored(self, count: int, *, stream: RandomStream) -> tuple[TopologyBatch, Application, SubsplitIndices]:
        """Like `draw`, with log-probabilities that are still to be computed."""
        tables = self.tables()
        topologies = self._sample(count, stream, tables)
        indices = self.support.indices(topologies)
        return topologies, Application(_LogProbability(self.support, indices, tables, None), self.logits), indices

    def log_prob(self, topologies: TopologyBatch) -> Tensor:
        """log Q(τ), (batch,), differentiable in the logits; -inf outside the support."""
        return self._log_prob(self.support.indices(topologies), self.tables(), None)

    def log_prob_rooted(self, topologies: TopologyBatch, root_branches: LongArray) -> Tensor:
        """Log-probability, (batch,), of topology i rooted on the branch root_branches[i]."""
        roots = np.asarray(root_branches)
        if roots.shape != (len(topologies),) or roots.dtype.kind not in "iu":
            raise BadArgument(f"root branches of shape {roots.shape}: give one branch number per topology.")
        if roots.size and not 0 <= roots.min() <= roots.max() < topologies.branch_count:
            raise BadArgument(f"root branches: give numbers from 0 to {topologies.branch_count - 1}.")
        return self._log_prob(self.support.indices(topologies), self.tables(), roots)

    def _sample(self, count: int, stream: RandomStream, tables: Tables) -> TopologyBatch:
        if count < 0:
            raise BadArgument(f"subsplit network: cannot sample {count} topologies. Give 0 or more.")
        support = self.support
        parents = np.empty((count, 2 * len(support.taxa) - 2), np.int32)
        kernels.sample_trees(
            tables.probabilities,
            support.starts,
            support.children,
            len(support.taxa),
            stream.key(),
            stream.step,
            stream.particle,
            parents,
        )
        return TopologyBatch.from_canonical(parents)

    def _log_prob(self, indices: SubsplitIndices, tables: Tables, roots: LongArray | None) -> Tensor:
        result: Tensor = _LogProbability(self.support, indices, tables, roots)(self.logits)
        return result


def normalize_tables(support: SubsplitSupport, logits: Tensor) -> Tables:
    """Softmax of each table with parameters; the others are uniform. Exponentials and logarithms run as vector code."""
    starts = support.free_starts
    parameters = support.parameter_count
    log_probabilities, probabilities = np.empty(support.entry_count), np.empty(support.entry_count)
    log_probabilities[parameters:] = 0
    probabilities[parameters:] = 1
    if parameters == 0:
        root_splits = len(support.splits)
        probabilities[:root_splits] = 1 / root_splits
        log_probabilities[:root_splits] = -np.log(root_splits)
    kernels.shift_tables(np.ascontiguousarray(logits.numpy()), starts, log_probabilities, probabilities)
    torch.from_numpy(probabilities[:parameters]).exp_()
    sums = kernels.sum_tables(probabilities, starts)
    log_sums = torch.from_numpy(sums).log().numpy()
    kernels.scale_tables(sums, log_sums, starts, probabilities, log_probabilities)
    return Tables(probabilities, log_probabilities)


def log_rootings(indices: SubsplitIndices, tables: Tables) -> FloatArray:
    """Log-probability of every rooting of topologies, (batch, 2n-3)."""
    return kernels.log_rootings(indices.neighbors, indices.splits, indices.entries, tables.log_probabilities)


def count_entries(
    support: SubsplitSupport, indices: SubsplitIndices, shares: FloatArray, weights: FloatArray
) -> FloatArray:
    """How often each entry is used by trees with weights (batch,) whose rootings have shares (batch, 2n-3)."""
    counts = np.zeros(support.entry_count)
    kernels.count_entries(indices.neighbors, indices.splits, indices.entries, shares, weights, counts)
    return counts


@final
class _LogProbability(Operation):
    """log Q(τ) as a function of the logits: the gradient is how often each entry is used, averaged over rootings."""

    def __init__(
        self, support: SubsplitSupport, indices: SubsplitIndices, tables: Tables, roots: LongArray | None
    ) -> None:
        self.support = support
        self.indices = indices
        self.tables = tables  # of the logits
        self.roots = roots

    def values(self, _wanted: tuple[bool, ...], _logits: Tensor) -> Tensor:
        """The log-probabilities, (batch,)."""
        rootings, roots = log_rootings(self.indices, self.tables), self.roots
        if roots is None:
            values, self.shares = kernels.sum_rootings(rootings)
        else:
            values = np.take_along_axis(rootings, roots[:, None], axis=1)[:, 0]
            self.shares = np.zeros_like(rootings)
            self.shares[np.arange(len(roots)), roots] = np.isfinite(values)
        return torch.from_numpy(values)

    def gradients(self, wanted: tuple[bool, ...], output_gradient: Tensor) -> tuple[Tensor | None, ...]:
        """The logits' gradient."""
        if not wanted[0]:
            return (None,)
        counts = count_entries(self.support, self.indices, self.shares, output_gradient.contiguous().numpy())
        gradient = kernels.logit_gradient(counts, self.tables.probabilities, self.support.free_starts)
        return (torch.from_numpy(gradient),)


def collect_support(
    samples: Sequence[TreeSample],
    *,
    credible: float = 1.0,
    minimum_count: float = 0.0,
    closure: str = "none",
) -> SubsplitSupport:
    """The support of all rootings of the trees in one or several samples (replicates, runs).

    Of the samples, the topologies that `frequent_topologies` chooses count. closure: with "clades" the support
    generates every tree that consists of their splits, see `closed_support`.
    """
    if closure not in CLOSURES:
        raise BadArgument(f"unknown closure {closure}: choose one of {', '.join(CLOSURES)}.")
    frequent = frequent_topologies(samples, credible=credible, minimum_count=minimum_count)
    if closure == "clades":
        return closed_support(frequent)
    return support_of(frequent.taxa, frequent.topologies)


def frequent_topologies(
    samples: Sequence[TreeSample], *, credible: float = 1.0, minimum_count: float = 0.0
) -> TreeSample:
    """The distinct topologies of samples that are frequent enough to count, with the sums of their weights.

    Each sample is cut to its most frequent topologies within the share `credible` (see `credible_topologies`), the
    rest is joined, and topologies whose weights then sum to less than `minimum_count` are dropped.
    """
    if not samples:
        raise BadArgument("support: no tree samples given.")
    taxa = samples[0].taxa
    kept = [credible_topologies(sample.with_taxa(taxa), credible) for sample in samples]
    joined = merge(kept)
    frequent = joined[joined.weights >= minimum_count]
    if len(frequent) == 0:
        raise BadArgument(
            f"support: no topology has a count of {minimum_count:g} or more; the largest is {joined.weights.max():g}. "
            "Give a smaller minimum count."
        )
    return frequent


def closed_support(
    topologies: TreeSample,
    *,
    identical: Sequence[LongArray] = (),
    most_entries: int | None = None,
    constraints: TopologyConstraints | None = None,
) -> SubsplitSupport:
    """The support of all trees that consist of splits of distinct topologies, with one table for each clade.

    identical: groups of taxa with equal data, which may be arranged in any way. constraints: that all trees satisfy.

    Where that takes more than `most_entries` entries, `MOST_CLOSED_ENTRIES` unless given, the least frequent splits are
    left out (see `close_splits`).
    """
    _check_taxa(topologies.taxa)
    most = MOST_CLOSED_ENTRIES if most_entries is None else most_entries
    clades, splits, subsplits, left_out = close_splits(topologies, identical, most, constraints)
    numbers = np.arange(len(subsplits), dtype=np.int32)
    pairs = np.stack([np.full_like(numbers, -1), numbers], axis=1)
    return _assemble(topologies.taxa, len(topologies), left_out, clades, splits, subsplits, pairs)


def support_of(taxa: tuple[str, ...], topologies: TopologyBatch, keys: WordArray | None = None) -> SubsplitSupport:
    """The support of all rootings of distinct topologies; `keys` replace the usual hash keys of the taxa."""
    _check_taxa(taxa)
    collection = _Collection(taxon_keys(len(taxa)) if keys is None else keys)
    chunk = max(1, CHUNK_PAIRS // (9 * len(taxa)))
    for start in range(0, len(topologies), chunk):
        collection.add(topologies[start : start + chunk])
    return _assemble(taxa, len(topologies), 0, *collection.parts())


def _check_taxa(taxa: tuple[str, ...]) -> None:
    if len(taxa) < FEWEST_TAXA:
        raise BadArgument(
            f"support: {len(taxa)} taxa have a single topology. Give trees on at least {FEWEST_TAXA} taxa."
        )


class _Collection:
    """The clades, splits and subsplits seen so far, in arrays that grow, with exact taxon sets behind the hashes."""

    def __init__(self, keys: WordArray) -> None:
        empty = make_index(np.empty((0, 2), np.uint64))
        self.keys = keys
        self.counts = np.array([len(keys), 0, 0, 0], np.int64)  # the single taxa are the first clades
        none = np.empty(0, np.int32)
        self.lookup = SubsplitLookup(make_index(keys), empty, empty, np.empty((0, 2), np.int32), none, none)
        self.sets = np.empty((0, (len(keys) + 63) // 64), np.uint64)

    def add(self, topologies: TopologyBatch) -> None:
        """Number new subsplits of some trees, and compare the taxon sets of known ones."""
        self._make_room(len(topologies))
        known_splits = int(self.counts[SPLITS])
        indices = _subsplit_indices(topologies, self.keys, self.lookup, self.counts, adding=True)
        below = clade_bits(topologies.parent, len(self.keys))
        if not confirm_sets(below, indices.splits, self.lookup.sides, self.sets, known_splits):
            raise BadArgument("support: two different clades have the same hash. Leave out some of the trees.")

    def parts(self) -> tuple[WordArray, IntArray, IntArray, IntArray]:
        """Clades, splits, subsplits and (sister, subsplit) pairs, in order of first appearance."""
        clades, splits, subsplits, pairs = self.counts
        return (
            self.sets[:clades].copy(),
            self.lookup.sides[:splits].copy(),
            self.lookup.subsplits.pairs[:subsplits].astype(np.int32),
            self.lookup.pairs.pairs[:pairs].astype(np.int32),
        )

    def _make_room(self, trees: int) -> None:
        """Make every array large enough for whatever these trees add."""
        clades, _, subsplits, pairs = self.counts.tolist()
        inner = len(self.keys) - 2
        clade_room = clades + 2 * trees * inner + len(self.keys)
        lookup = self.lookup
        if len(lookup.split_of_clade) < clade_room:
            lookup = lookup._replace(
                sides=_extended(lookup.sides, 2 * clade_room),
                split_of_clade=_extended(lookup.split_of_clade, 2 * clade_room),
            )
            self.sets = _extended(self.sets, 2 * clade_room)
        self.lookup = lookup._replace(
            clades=_grown(lookup.clades, clades, clade_room),
            subsplits=_grown(lookup.subsplits, subsplits, subsplits + 3 * trees * inner),
            pairs=_grown(lookup.pairs, pairs, pairs + 9 * trees * inner),
        )


def _grown(index: PairIndex, count: int, needed: int) -> PairIndex:
    """The same index with room for more, twice what is needed so that it rarely grows."""
    if needed <= len(index.pairs):
        return index
    return make_index(index.pairs[:count], 2 * needed)


def _extended(array: Array, length: int) -> Array:
    """A longer array, padded with -1 (all ones in unsigned words)."""
    longer = np.full((length, *array.shape[1:]), -1).astype(array.dtype)
    longer[: len(array)] = array
    return cast(Array, longer)


def _assemble(
    taxa: tuple[str, ...],
    topology_count: int,
    splits_left_out: int,
    clades: WordArray,
    splits: IntArray,
    subsplits: IntArray,
    pairs: IntArray,
) -> SubsplitSupport:
    """Lay out the tables: pairs (count, 2) are the sister and the subsplit of every entry but the root splits.

    All sisters are -1 in a closed support. Tables and their entries keep the order of `pairs`, except that tables with
    a choice come first.
    """
    hashes = hash_sets(clades, taxon_keys(len(taxa)))
    clade_index = make_index(hashes)
    divided = find_all(clade_index, hashes[subsplits[:, 0]] ^ hashes[subsplits[:, 1]])  # (subsplits,)
    parents = np.stack([pairs[:, 0], divided[pairs[:, 1]]], axis=1)  # sister and divided clade of every entry
    first, table = group_rows(parents)
    sizes = np.bincount(table, minlength=len(first))
    by_choice = np.argsort(sizes == 1, kind="stable")
    place = np.argsort(by_choice, kind="stable")
    pairs = pairs[np.argsort(place[table], kind="stable")]
    sizes = np.concatenate([[len(splits)], sizes[by_choice]])

    root_splits = np.arange(len(splits), dtype=np.int32)
    no_sister = np.full(len(splits), -1, np.int32)
    entries = np.concatenate([np.stack([no_sister, root_splits], axis=1), pairs])
    closed = bool(pairs[0, 0] < 0)
    table_index = make_index(_as_words(parents[first[by_choice]]))
    halves = np.concatenate([splits, subsplits[pairs[:, 1]]])
    split_of_clade = np.full(len(clades), -1, np.int32)
    split_of_clade[splits[:, 0]] = root_splits
    entry_of_subsplit = np.full(len(subsplits) if closed else 0, -1, np.int32)
    if closed:
        entry_of_subsplit[pairs[:, 1]] = np.arange(len(splits), len(entries), dtype=np.int32)
    return SubsplitSupport(
        taxa=taxa,
        topology_count=topology_count,
        splits_left_out=splits_left_out,
        clades=read_only(clades),
        splits=read_only(splits),
        subsplits=read_only(subsplits),
        sisters=read_only(entries[:, 0].copy()),
        divisions=read_only(entries[:, 1].copy()),
        starts=read_only(np.concatenate([[0], np.cumsum(sizes)])),
        children=read_only(_child_tables(table_index, halves, len(taxa), closed)),
        free_tables=int((sizes > 1).sum()) if len(splits) > 2 * len(taxa) - 3 else 0,
        lookup=SubsplitLookup(
            clades=clade_index,
            subsplits=make_index(_as_words(subsplits)),
            pairs=make_index(_as_words(entries[:0] if closed else entries)),
            sides=splits,
            split_of_clade=split_of_clade,
            entry_of_subsplit=entry_of_subsplit,
        ),
    )


def _child_tables(table_index: PairIndex, halves: IntArray, taxon_count: int, closed: bool) -> IntArray:
    """For each half (entries, 2) the table of that clade beside the other half; -1 - taxon for a single taxon."""
    children = np.empty(halves.shape, np.int32)
    for side in (0, 1):
        clade = halves[:, side]
        sister = np.full_like(clade, -1) if closed else halves[:, 1 - side]
        table = find_all(table_index, _as_words(np.stack([sister, clade], axis=1))) + np.int32(1)
        children[:, side] = np.where(clade < taxon_count, -1 - clade, table)
    if (children == 0).any():
        raise BadArgument("subsplit support: a clade made by a subsplit has no table.")
    return children


def _as_words(pairs: IntArray) -> WordArray:
    return pairs.astype(np.int64).view(np.uint64)  # -1, for no sister, becomes the largest word


def write_support(support: SubsplitSupport, path: str | Path) -> None:
    """Write a support; the same support gives the same bytes."""
    write_arrays(Path(path), support_arrays(support))


def read_support(path: str | Path) -> SubsplitSupport:
    """Read a support from its file or from a network's."""
    return support_from(Path(path), read_arrays(Path(path), PARTS, "phloem support --out", optional=(LEFT_OUT,)))


def support_arrays(support: SubsplitSupport) -> Arrays:
    """The arrays of a support's file; what can be derived from them is not stored.

    `clades` are bit sets in 64-bit words, `splits` and `subsplits` pairs of clades; `pairs` are the sister (-1 in a
    closed support) and the subsplit of every table entry after the root splits, table by table.
    """
    after_root = slice(len(support.splits), None)
    return {
        "taxa": np.array(support.taxa),
        "topology_count": np.array(support.topology_count, np.int64),
        LEFT_OUT: np.array(support.splits_left_out, np.int64),
        "clades": support.clades,
        "splits": support.splits,
        "subsplits": support.subsplits,
        "pairs": np.stack([support.sisters[after_root], support.divisions[after_root]], axis=1),
    }


def support_from(path: Path, arrays: Arrays) -> SubsplitSupport:
    """The support described by a file's arrays; a file whose parts contradict each other is refused."""
    taxa = distinct_names(arrays["taxa"])
    if taxa is None or len(taxa) < FEWEST_TAXA:
        raise _damaged(path, f"`taxa` is not a list of at least {FEWEST_TAXA} distinct names")
    topology_count, *parts = (arrays[name] for name in PARTS[1:])
    left_out = arrays.get(LEFT_OUT, np.array(0, np.int64))
    problem = _first_problem(len(taxa), topology_count, left_out, *parts)
    if problem:
        raise _damaged(path, problem)
    try:
        support = _assemble(taxa, int(topology_count), int(left_out), *parts)
    except BadArgument as reason:
        raise _damaged(path, str(reason)) from None
    one_topology = len(support.splits) == 2 * len(taxa) - 3
    if (topology_count == 1 and not one_topology and not support.closed) or (
        one_topology and (np.diff(support.starts)[1:] > 1).any()
    ):
        raise _damaged(path, "it claims one topology but has tables for more")
    return support


def write_network(network: SubsplitNetwork, path: str | Path) -> None:
    """Write a network; the same network gives the same bytes. `read_support` reads the file too."""
    arrays = {**support_arrays(network.support), "logits": network.logits.detach().numpy()}
    write_arrays(Path(path), arrays)


def read_network(path: str | Path) -> SubsplitNetwork:
    """Read a network from its file."""
    path = Path(path)
    arrays = read_arrays(path, (*PARTS, "logits"), "phloem sbn fit", optional=(LEFT_OUT,))
    support = support_from(path, arrays)
    logits = arrays["logits"]
    if logits.shape != (support.parameter_count,) or logits.dtype != np.float64:
        raise _damaged(path, "the logits do not fit the support")
    if np.isnan(logits).any() or np.isposinf(logits).any():
        raise _damaged(path, "some logits are not numbers")
    if support.parameter_count and np.isneginf(np.maximum.reduceat(logits, support.free_starts[:-1])).any():
        raise _damaged(path, "a table has no possible entry")
    return SubsplitNetwork(support, torch.from_numpy(logits))


def _first_problem(
    taxon_count: int, topology_count: Any, left_out: Any, clades: Any, splits: Any, subsplits: Any, pairs: Any
) -> str | None:
    """The first problem with the parts of a support, or None; kernels would not notice."""
    if topology_count.shape != () or topology_count.dtype != np.int64 or topology_count < 1:
        return "`topology_count` is not a positive integer"
    if left_out.shape != () or left_out.dtype != np.int64 or left_out < 0:
        return f"`{LEFT_OUT}` is not a number of splits"
    words = (taxon_count + 63) // 64
    if clades.dtype != np.uint64 or clades.ndim != 2 or clades.shape[1] != words or len(clades) < taxon_count:
        return "`clades` are not sets of these taxa"
    number = np.arange(taxon_count)
    single = np.zeros((taxon_count, words), np.uint64)
    single[number, number // 64] = np.uint64(1) << (number % 64).astype(np.uint64)
    whole = np.bitwise_or.reduce(single, axis=0)
    if (clades[:taxon_count] != single).any() or (clades & ~whole).any():
        return "`clades` do not begin with the single taxa"
    for name, part in (("splits", splits), ("subsplits", subsplits), ("pairs", pairs)):
        if part.dtype != np.int32 or part.ndim != 2 or part.shape[1] != 2 or len(part) == 0:
            return f"`{name}` are not pairs of integers"
    closed = bool((pairs[:, 0] == -1).all())
    for name, indices, bound in (
        ("splits", splits, len(clades)),
        ("subsplits", subsplits, len(clades)),
        ("pairs", pairs[:, : 0 if closed else 1], len(clades)),
        ("pairs", pairs[:, 1], len(subsplits)),
    ):
        if ((indices < 0) | (indices >= bound)).any():
            return f"`{name}` has indices out of range"
    for name, part in (("clades", clades), ("splits", splits), ("subsplits", subsplits), ("pairs", pairs)):
        if len(group_rows(part)[0]) < len(part):
            return f"`{name}` are not distinct"
    one, two = clades[splits[:, 0]], clades[splits[:, 1]]
    holds_first_taxon = (one[:, 0] & np.uint64(1)).astype(bool)
    if (one ^ two != whole).any() or (splits[holds_first_taxon, 0] != 0).any():
        return "the sides of a split are not complements, or in the wrong order"
    if (clades[subsplits[:, 0]] & clades[subsplits[:, 1]]).any() or (subsplits[:, 0] >= subsplits[:, 1]).any():
        return "the halves of a subsplit overlap, or are in the wrong order"
    divided = np.bitwise_or.reduce(clades[subsplits], axis=1)
    _, groups = group_rows(np.concatenate([clades, divided]))
    if groups.max() >= len(clades):
        return "a subsplit divides an unknown clade"
    if not closed and (clades[pairs[:, 0]] & divided[pairs[:, 1]]).any():
        return "a clade overlaps its sister"
    return None


def _damaged(path: Path, what: str) -> FileProblem:
    """The error for a file whose arrays contradict each other."""
    return FileProblem(f"{path}: is damaged, or was not written by phloem: {what}. Make it again.")
