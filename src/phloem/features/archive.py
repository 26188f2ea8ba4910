"""Feature files: node features of many trees in one `.npz`, written and read a few trees at a time.

Binary trees are stacked: `parent` (B, 2n-2) and `features` (B, 2n-2, channels). Others have a set of
arrays each: `parent_0`, `features_0`, `parent_1`, … Both have `taxa` (n) and `weights` (B). No file holds
pickled objects, and none is ever loaded.
"""

import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from phloem.errors import FeatureMismatch, FileProblem
from phloem.files import atomic_write, cannot_read
from phloem.kernels.arrays import FloatArray
from phloem.trees.sample import TreeSample
from phloem.trees.topology import TopologyBatch
from phloem.trees.tree import Tree, WeightedTrees

# Trees embedded at a time: enough to be fast, little enough to fit anywhere.
CHUNK_BYTES = 64 * 2**20


def write_stacked(path: Path, sample: TreeSample, embed: Callable[[TopologyBatch], FloatArray], channels: int) -> None:
    """Write the features of binary trees as one array, (trees, nodes, channels)."""
    with atomic_write(path) as stream, zipfile.ZipFile(stream, "w") as archive:
        _write_array(archive, "taxa", np.array(sample.taxa))
        _write_array(archive, "weights", sample.weights)
        _write_array(archive, "parent", sample.topologies.parent)
        shape = (len(sample), sample.topologies.node_count, channels)
        chunk = max(1, CHUNK_BYTES // (8 * shape[1] * shape[2]))
        with archive.open("features.npy", "w", force_zip64=True) as member:
            header = {"descr": "<f8", "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_1_0(member, header)
            for start in range(0, len(sample), chunk):
                member.write(embed(sample.topologies[start : start + chunk]).astype("<f8", copy=False).data)


def write_separately(path: Path, sample: WeightedTrees, embed: Callable[[Tree], FloatArray]) -> None:
    """Write the features of trees of any degrees, a set of arrays for each tree."""
    with atomic_write(path) as stream, zipfile.ZipFile(stream, "w") as archive:
        _write_array(archive, "taxa", np.array(sample.taxa))
        _write_array(archive, "weights", sample.weights)
        for index, tree in enumerate(sample.trees):
            _write_array(archive, f"parent_{index}", tree.parent)
            _write_array(archive, f"features_{index}", embed(tree))


def _write_array(archive: zipfile.ZipFile, name: str, array: np.ndarray[Any, Any]) -> None:
    with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
        np.lib.format.write_array(member, array, allow_pickle=False)


def read_features(path: Path) -> tuple[tuple[str, ...], Iterator[FloatArray]]:
    """The taxa and, one tree after the other, the features (nodes, channels) of a feature file."""
    content = _open(path)
    names = set(content.namelist())
    if "taxa.npy" not in names or not names & {"features.npy", "features_0.npy"}:
        raise FileProblem(f"{path}: has no arrays `taxa` and `features`. Make the file with `phloem embed`.")
    with _reading(path, content, "taxa") as member:
        taxa = np.lib.format.read_array(member, allow_pickle=False)
    if taxa.ndim != 1 or taxa.dtype.kind != "U" or len(set(taxa.tolist())) != len(taxa):
        raise FeatureMismatch(f"{path}: `taxa` must be a list of distinct names.")
    return tuple(taxa.tolist()), _each_tree(path, content, names)


def _each_tree(path: Path, archive: zipfile.ZipFile, names: set[str]) -> Iterator[FloatArray]:
    if "features.npy" in names:
        with _reading(path, archive, "features") as member:
            yield from _each_row(member)
        return
    for index in range(sum(name.startswith("features_") for name in names)):
        if f"features_{index}.npy" not in names:
            raise FileProblem(f"{path}: has no array `features_{index}`. They are counted from 0 without a gap.")
        with _reading(path, archive, f"features_{index}") as member:
            rows = np.lib.format.read_array(member, allow_pickle=False)
            if rows.ndim != 2 or rows.dtype.kind != "f":
                raise ValueError(
                    f"{rows.dtype} of shape {rows.shape}, where floats of shape (nodes, channels) are expected"
                )
            yield rows


def _each_row(member: IO[bytes]) -> Iterator[FloatArray]:
    """The slices of an array along its first axis, without holding all of it."""
    version = np.lib.format.read_magic(member)
    read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran_order, dtype = read_header(member)
    if len(shape) != 3 or min(shape) < 0 or dtype.kind != "f":
        raise ValueError(f"{dtype} of shape {shape}, where floats of shape (trees, nodes, channels) are expected")
    if fortran_order:
        yield from np.frombuffer(member.read(), dtype).reshape(shape[::-1]).T
        return
    size = shape[1] * shape[2] * dtype.itemsize
    for _ in range(shape[0]):
        row = member.read(size)
        if len(row) < size:
            raise ValueError("it ends too early")
        yield np.frombuffer(row, dtype).reshape(shape[1:])


def _open(path: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(path)
    except OSError as problem:
        raise cannot_read(path, problem) from None
    except zipfile.BadZipFile as problem:
        raise FileProblem(f"{path}: is not an .npz file ({problem}). Make one with `phloem embed`.") from None


@contextmanager
def _reading(path: Path, archive: zipfile.ZipFile, name: str) -> Iterator[IO[bytes]]:
    """An array's bytes; what is wrong with them is said in terms of the file."""
    try:
        with archive.open(f"{name}.npy") as member:
            yield member
    except (OSError, EOFError, ValueError, zipfile.BadZipFile, zlib.error, RuntimeError) as problem:
        raise FileProblem(f"{path}: array `{name}` cannot be read ({problem}). Make the file again.") from None
