"""`topologies.csv` and `clades.csv`: what the posterior says of trees, for people, spreadsheets and phloem itself."""

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from phloem.errors import FileProblem, PhloemError
from phloem.files import read_bytes
from phloem.kernels.arrays import BoolArray
from phloem.trees.branch_lengths import SplitLengths
from phloem.trees.reading import parse_newick
from phloem.trees.sample import TreeSample
from phloem.trees.splits import SplitFrequencies
from phloem.trees.writing import format_newick

MOST_TOPOLOGIES = 10_000  # rows; the cumulative probability says what is left
TOPOLOGY_COLUMNS = ("rank", "probability", "cumulative", "newick")
CLADE_COLUMNS = ("probability", "taxa", "members", "mean_length", "deviation", "median", "lower", "upper")
INSIDE, OUTSIDE = "*", "."


def format_topologies(topologies: TreeSample) -> str:
    """The most probable topologies of a sample that is ordered by probability."""
    shown = topologies[:MOST_TOPOLOGIES]
    trees = format_newick(shown.topologies, shown.taxa)
    rows = zip(range(1, len(shown) + 1), shown.weights.tolist(), np.cumsum(shown.weights).tolist(), trees, strict=True)
    return _format(TOPOLOGY_COLUMNS, rows)


def read_topologies(path: Path, taxa: tuple[str, ...]) -> TreeSample:
    """The topologies of a table, with their probabilities as weights."""
    rows = _read(path, TOPOLOGY_COLUMNS)
    try:
        parsed = parse_newick([row[3] for row in rows], taxa=taxa)
        return TreeSample(taxa, parsed.topologies, np.array([float(row[1]) for row in rows]), None)
    except (ValueError, PhloemError):
        raise _damaged(path) from None


def format_clades(splits: SplitLengths) -> str:
    """Every split with its probability and the length of its branch, the single taxa after the others.

    Members are on the side without the first taxon, as stars.
    """
    count = len(splits.taxa)
    columns = (splits.mean, splits.deviation, splits.median, splits.lower, splits.upper)
    statistics = np.stack(columns, axis=1).tolist()
    order = [*range(count, len(splits.members)), *range(count)]
    rows = (
        (splits.frequency[row], int(splits.members[row].sum()), stars(splits.members[row]), *statistics[row])
        for row in order
    )
    return _format(CLADE_COLUMNS, rows)


def stars(members: BoolArray) -> str:
    """A split as MrBayes writes it: a star for every member, a dot for every other taxon."""
    return "".join(INSIDE if member else OUTSIDE for member in members.tolist())


def read_clades(path: Path, taxa: tuple[str, ...]) -> SplitFrequencies:
    """The splits of a table that divide the taxa into more than one and the rest."""
    rows = [row for row in _read(path, CLADE_COLUMNS) if row[1] != "1"]
    try:
        members = np.array([[sign == INSIDE for sign in row[2]] for row in rows], np.bool_).reshape(
            len(rows), len(taxa)
        )
        return SplitFrequencies(taxa, members, np.array([float(row[0]) for row in rows]))
    except ValueError:
        raise _damaged(path) from None


def _format(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    return table.getvalue()


def _read(path: Path, columns: tuple[str, ...]) -> list[list[str]]:
    try:
        header, *rows = [*csv.reader(io.StringIO(read_bytes(path).decode(errors="replace")))] or [[""]]
    except csv.Error:
        raise _damaged(path) from None
    if tuple(header) != columns or any(len(row) != len(columns) for row in rows):
        raise _damaged(path)
    return rows


def _damaged(path: Path) -> FileProblem:
    return FileProblem(f"{path}: is damaged, or no table of phloem's. Make it again with --resume.")
