"""Feature files: node features of many trees in one `.npz`, written and read a few trees at a time.

Binary trees are stacked: `parent` (B, 2n-2) and `features` (B, 2n-2, channels). Other trees have their own arrays:
`parent_0`, `features_0`, `parent_1`, … Both have `taxa` (n) and `weights` (B). Pickled objects are never written or
loaded.
"""

import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import numpy as np

from phloem.arrays import FloatArray
from phloem.errors import FeatureMismatch, FileProblem
from phloem.storage.arrays import add_array, distinct_names, new_member, open_archive, reading_member
from phloem.storage.files import atomic_write
from phloem.trees.sample import TreeSample
from phloem.trees.topology import TopologyBatch
from phloem.trees.tree import Tree, WeightedTrees

# Features embedded at a time: enough to be fast, few enough to fit anywhere.
CHUNK_BYTES = 64 * 2**20
MADE_BY = "phloem embed"


def write_stacked(path: Path, sample: TreeSample, embed: Callable[[TopologyBatch], FloatArray], channels: int) -> None:
    """Write the features of binary trees as one array, (trees, nodes, channels)."""
    with atomic_write(path) as stream, zipfile.ZipFile(stream, "w") as archive:
        add_array(archive, "taxa", np.array(sample.taxa))
        add_array(archive, "weights", sample.weights)
        add_array(archive, "parent", sample.topologies.parent)
        shape = (len(sample), sample.topologies.node_count, channels)
        chunk = max(1, CHUNK_BYTES // (8 * shape[1] * shape[2]))
        with new_member(archive, "features") as member:
            header = {"descr": "<f8", "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_1_0(member, header)
            for start in range(0, len(sample), chunk):
                member.write(embed(sample.topologies[start : start + chunk]).astype("<f8", copy=False).data)


def write_separately(path: Path, sample: WeightedTrees, embed: Callable[[Tree], FloatArray]) -> None:
    """Write the features of trees of any degrees, with separate arrays for each tree."""
    with atomic_write(path) as stream, zipfile.ZipFile(stream, "w") as archive:
        add_array(archive, "taxa", np.array(sample.taxa))
        add_array(archive, "weights", sample.weights)
        for index, tree in enumerate(sample.trees):
            add_array(archive, f"parent_{index}", tree.parent)
            add_array(archive, f"features_{index}", embed(tree))


def read_features(path: Path) -> tuple[tuple[str, ...], Iterator[FloatArray]]:
    """The taxa of a feature file and, tree by tree, the features (nodes, channels)."""
    content = open_archive(path, MADE_BY)
    names = set(content.namelist())
    if "taxa.npy" not in names or not names & {"features.npy", "features_0.npy"}:
        raise FileProblem(f"{path}: has no arrays `taxa` and `features`. Make the file with `{MADE_BY}`.")
    with reading_member(path, content, "taxa") as member:
        taxa = distinct_names(np.lib.format.read_array(member, allow_pickle=False))
    if taxa is None:
        raise FeatureMismatch(f"{path}: `taxa` must be a list of distinct names without control characters.")
    return taxa, _each_tree(path, content, names)


def _each_tree(path: Path, archive: zipfile.ZipFile, names: set[str]) -> Iterator[FloatArray]:
    if "features.npy" in names:
        with reading_member(path, archive, "features") as member:
            yield from _each_row(member)
        return
    for index in range(sum(name.startswith("features_") for name in names)):
        if f"features_{index}.npy" not in names:
            raise FileProblem(f"{path}: has no array `features_{index}`. They must be numbered from 0 without gaps.")
        with reading_member(path, archive, f"features_{index}") as member:
            rows = np.lib.format.read_array(member, allow_pickle=False)
            if rows.ndim != 2 or rows.dtype.kind != "f":
                raise ValueError(f"{rows.dtype} of shape {rows.shape} instead of floats of shape (nodes, channels)")
            yield rows


def _each_row(member: IO[bytes]) -> Iterator[FloatArray]:
    """The slices of an array along its first axis, without loading all of it."""
    version = np.lib.format.read_magic(member)
    read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran_order, dtype = read_header(member)
    if len(shape) != 3 or min(shape) < 0 or dtype.kind != "f":
        raise ValueError(f"{dtype} of shape {shape} instead of floats of shape (trees, nodes, channels)")
    if fortran_order:
        yield from np.frombuffer(member.read(), dtype).reshape(shape[::-1]).T
        return
    size = shape[1] * shape[2] * dtype.itemsize
    for _ in range(shape[0]):
        row = member.read(size)
        if len(row) < size:
            raise ValueError("it ends too early")
        yield np.frombuffer(row, dtype).reshape(shape[1:])
