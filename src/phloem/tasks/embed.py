"""Topologies → node features, and back."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from phloem.errors import BadArgument, FeatureMismatch
from phloem.features.archive import read_features, write_separately, write_stacked
from phloem.features.raw import dirichlet_features, random_tips, recover_tree, tree_features
from phloem.random_streams import RandomStream
from phloem.tasks.support import list_tree_files, refuse_overwriting
from phloem.trees.reading import read_any_trees
from phloem.trees.sample import TreeSample, pool, pool_any
from phloem.trees.tree import WeightedTrees
from phloem.trees.writing import format_tree

# One-hot features of one tree above this size are more likely a mistake than a wish.
LARGEST_TREE_BYTES = 2 * 2**30


class Embedding(NamedTuple):
    """What was written."""

    trees: int
    taxa: int
    binary: bool
    channels: int


def embed(
    sources: Sequence[str | Path],
    out: Path,
    *,
    burnin: int | float = 0,
    distinct: bool = False,
    keep_root: bool = False,
    dimension: int | None = None,
    seed: int = 0,
) -> Embedding:
    """Read trees, compute their raw features and write them to `out`.

    Several sources are several samples: each is normalised before they are pooled. `dimension` replaces
    the one-hot tips, as many channels as taxa, by random ones, which big trees need.
    """
    refuse_overwriting(out, sources)
    sample = _read(sources, burnin, keep_root)
    if distinct:
        sample = sample.distinct()
    tips = None
    if dimension is not None:
        tips = random_tips(len(sample.taxa), dimension, stream=RandomStream(seed, "tip features"))
    elif (size := 16 * len(sample.taxa) ** 2) > LARGEST_TREE_BYTES:
        raise BadArgument(
            f"{sources[0]}: one-hot features of {len(sample.taxa):,} taxa take {size / 2**30:.0f} GB a tree. "
            "Give a --dimension, such as 64."
        )
    channels = dimension or len(sample.taxa)
    if isinstance(sample, TreeSample):
        write_stacked(out, sample, partial(dirichlet_features, tips=tips), channels)
    else:
        write_separately(out, sample, partial(tree_features, tips=tips))
    return Embedding(len(sample.weights), len(sample.taxa), isinstance(sample, TreeSample), channels)


def _read(sources: Sequence[str | Path], burnin: int | float, keep_root: bool) -> TreeSample | WeightedTrees:
    samples: list[TreeSample | WeightedTrees] = []
    for path in list_tree_files(sources):
        taxa = samples[0].taxa if samples else None
        samples.append(read_any_trees(path, taxa=taxa, burnin=burnin, keep_root=keep_root))
    if len(samples) == 1:
        return samples[0]
    binary = [sample for sample in samples if isinstance(sample, TreeSample)]
    if len(binary) == len(samples):
        return pool(binary)
    return pool_any(samples)


def recover(path: Path) -> list[str]:
    """The trees of a feature file in Newick format, from `taxa` and `features` alone."""
    taxa, features = read_features(path)
    lines = []
    for number, rows in enumerate(features, 1):
        try:
            lines.append(format_tree(recover_tree(rows, len(taxa)), taxa))
        except FeatureMismatch as problem:
            raise FeatureMismatch(f"{path}, tree {number}: {problem}") from None
    return lines
