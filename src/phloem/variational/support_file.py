"""Supports as plain array files, keyed to the taxa.

Arrays: `taxa`, `topology_count`, `clades` (bit sets in 64-bit words), `splits` and `subsplits` (pairs of clades),
and `pairs` (sister and subsplit of every table entry after the root splits, table by table). What can be worked
out from these is not stored, and a file whose parts do not fit each other is refused.
"""

from pathlib import Path
from typing import Any

import numpy as np

from phloem.array_files import distinct_names, read_arrays, write_arrays
from phloem.errors import BadArgument, FileProblem
from phloem.trees.sample import group_rows
from phloem.variational.collection import FEWEST_TAXA
from phloem.variational.support import SubsplitSupport, assemble

Arrays = dict[str, np.ndarray[Any, Any]]

PARTS = ("taxa", "topology_count", "clades", "splits", "subsplits", "pairs")


def write_support(support: SubsplitSupport, path: str | Path) -> None:
    """Write a support; the same support gives the same bytes."""
    write_arrays(Path(path), support_arrays(support))


def read_support(path: str | Path) -> SubsplitSupport:
    """A support from its file, or from a network's."""
    return support_from(Path(path), read_arrays(Path(path), PARTS, "phloem support --out"))


def support_arrays(support: SubsplitSupport) -> Arrays:
    """What a support's file holds."""
    after_root = slice(len(support.splits), None)
    return {
        "taxa": np.array(support.taxa),
        "topology_count": np.array(support.topology_count, np.int64),
        "clades": support.clades,
        "splits": support.splits,
        "subsplits": support.subsplits,
        "pairs": np.stack([support.sisters[after_root], support.divisions[after_root]], axis=1),
    }


def support_from(path: Path, arrays: Arrays) -> SubsplitSupport:
    """The support that a file's arrays describe."""
    taxa = distinct_names(arrays["taxa"])
    if taxa is None or len(taxa) < FEWEST_TAXA:
        raise damaged(path, f"`taxa` is no list of at least {FEWEST_TAXA} distinct names")
    topology_count, *parts = (arrays[name] for name in PARTS[1:])
    problem = _first_problem(len(taxa), topology_count, *parts)
    if problem:
        raise damaged(path, problem)
    try:
        support = assemble(taxa, int(topology_count), *parts)
    except BadArgument as reason:
        raise damaged(path, str(reason)) from None
    if topology_count == 1 and (len(support.splits) != 2 * len(taxa) - 3 or (np.diff(support.starts)[1:] > 1).any()):
        raise damaged(path, "it has more trees than one")
    return support


def _first_problem(
    taxon_count: int, topology_count: Any, clades: Any, splits: Any, subsplits: Any, pairs: Any
) -> str | None:
    """What is wrong with the parts of a support, or None: kernels would not notice."""
    if topology_count.shape != () or topology_count.dtype != np.int64 or topology_count < 1:
        return "`topology_count` is no positive number"
    words = (taxon_count + 63) // 64
    if clades.dtype != np.uint64 or clades.ndim != 2 or clades.shape[1] != words or len(clades) < taxon_count:
        return "`clades` are no sets of these taxa"
    number = np.arange(taxon_count)
    single = np.zeros((taxon_count, words), np.uint64)
    single[number, number // 64] = np.uint64(1) << (number % 64).astype(np.uint64)
    whole = np.bitwise_or.reduce(single, axis=0)
    if (clades[:taxon_count] != single).any() or (clades & ~whole).any():
        return "`clades` do not begin with the single taxa"
    for name, part, first_bound, second_bound in (
        ("splits", splits, len(clades), len(clades)),
        ("subsplits", subsplits, len(clades), len(clades)),
        ("pairs", pairs, len(clades), len(subsplits)),
    ):
        if part.dtype != np.int32 or part.ndim != 2 or part.shape[1] != 2 or len(part) == 0:
            return f"`{name}` are no pairs of numbers"
        if part.min() < 0 or (part.max(axis=0) >= (first_bound, second_bound)).any():
            return f"`{name}` name what does not exist"
    for name, part in (("clades", clades), ("splits", splits), ("subsplits", subsplits), ("pairs", pairs)):
        if len(group_rows(part)[0]) < len(part):
            return f"`{name}` are not distinct"
    one, two = clades[splits[:, 0]], clades[splits[:, 1]]
    holds_first_taxon = (one[:, 0] & np.uint64(1)).astype(bool)
    if (one ^ two != whole).any() or (splits[holds_first_taxon, 0] != 0).any():
        return "the sides of a split are no complements, or in the wrong order"
    if (clades[subsplits[:, 0]] & clades[subsplits[:, 1]]).any() or (subsplits[:, 0] >= subsplits[:, 1]).any():
        return "the halves of a subsplit overlap, or are in the wrong order"
    divided = np.bitwise_or.reduce(clades[subsplits], axis=1)
    _, groups = group_rows(np.concatenate([clades, divided]))
    if groups.max() >= len(clades):
        return "a subsplit divides no clade"
    if (clades[pairs[:, 0]] & divided[pairs[:, 1]]).any():
        return "a clade overlaps its sister"
    return None


def damaged(path: Path, what: str) -> FileProblem:
    """A file whose parts are there but make no sense."""
    return FileProblem(f"{path}: is damaged or no file of phloem's: {what}. Make it again.")
