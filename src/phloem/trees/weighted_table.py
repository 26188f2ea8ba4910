"""Trees with weights in a table: a line a tree, its weight, a tab, its Newick text."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from phloem.errors import PhloemError, TreeFormatError, quoted
from phloem.files import read_bytes
from phloem.trees.reading import parse_newick
from phloem.trees.sample import TreeSample, count_burnin

SUFFIXES = (".tsv", ".tsv.gz")


def read_weighted_table(path: str | Path, *, taxa: Sequence[str] | None = None, burnin: int | float = 0) -> TreeSample:
    """Binary trees with their weights, which are finite and not negative, from a table without a heading."""
    path = Path(path)
    try:
        lines = read_bytes(path).decode("utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise TreeFormatError(f"{path}: is not UTF-8 text. Save it as UTF-8.") from None
    rows = [(number, line.split("\t")) for number, line in enumerate(lines, 1) if line.strip()]
    if not rows:
        raise TreeFormatError(f"{path}: holds no trees. Give lines of a weight, a tab and a Newick tree.")
    weights = np.array([_weight(path, number, cells) for number, cells in rows])
    # Blanks in the weights' place, so that a problem's line and column are those of the file.
    texts = [" " * len(line.encode()) for line in lines]
    for number, (weight, tree) in rows:
        texts[number - 1] = " " * (len(weight.encode()) + 1) + tree
    try:
        sample = parse_newick(texts, taxa=taxa)
    except PhloemError as problem:
        raise type(problem)(str(problem).replace("Newick text", str(path), 1)) from None
    if len(sample) != len(rows):
        raise TreeFormatError(f"{path}: {len(sample)} trees in {len(rows)} lines. Give one a line.")
    return replace(sample, weights=weights)[count_burnin(burnin, len(rows), str(path)) :]


def _weight(path: Path, number: int, cells: list[str]) -> float:
    if len(cells) != 2:
        raise TreeFormatError(f"{path}, line {number}: give a weight, a tab and a Newick tree.")
    try:
        weight = float(cells[0])
    except ValueError:
        weight = float("nan")
    if not 0 <= weight < float("inf"):
        raise TreeFormatError(f"{path}, line {number}: weight {quoted(cells[0], 30)}. Give a number from 0 up.")
    return weight
