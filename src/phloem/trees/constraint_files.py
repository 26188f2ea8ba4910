"""Files of constraints: clades, one a line, or a Newick or NEXUS tree whose inner branches are the constraints."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from phloem.data.nexus import is_nexus
from phloem.data.nexus_commands import split_words
from phloem.errors import BadArgument, PhloemError, TreeFormatError, counted, has_control, quoted
from phloem.storage.files import read_bytes
from phloem.trees.constraints import TopologyConstraints
from phloem.trees.reading import read_any_trees
from phloem.trees.sample import TreeSample
from phloem.trees.splits import without_first
from phloem.trees.tree import Tree, members_below

FORMS = "Write `NAME: taxon, taxon, …` on a line for each clade, or a tree"


def read_constraints(path: str | Path, taxa: Sequence[str]) -> TopologyConstraints:
    """The constraints in a file. An error says where, and which constraints or taxa are the matter."""
    source, content = str(path), read_bytes(Path(path))
    start = content.removeprefix(b"\xef\xbb\xbf").lstrip()
    try:
        if is_nexus(start[:64]) or start[:1] in (b"(", b"["):
            return TopologyConstraints.of(taxa, _clades_of_tree(path, taxa))
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError as problem:
            line = content.count(b"\n", 0, problem.start) + 1
            raise TreeFormatError(f"line {line}: is not UTF-8 text. Save it as UTF-8.") from None
        clades = list(_clades_of_lines(text))
        if not clades:
            raise TreeFormatError(f"names no clade. {FORMS}.")
        return TopologyConstraints.of(taxa, clades)
    except PhloemError as problem:
        said = str(problem)
        raise type(problem)(said if said.startswith(source) else f"{source}: {said}") from None


def _clades_of_lines(text: str) -> Iterator[tuple[str, list[str]]]:
    for number, line in enumerate(text.splitlines(), 1):
        words = [] if line.lstrip().startswith("#") else split_words(line)
        if not words:
            continue
        colons = [place for place, word in enumerate(words) if word.marks(":")]
        if colons not in ([], [1]) or any(word.marks("=()*") for word in words):
            raise TreeFormatError(
                f"line {number}: is no clade. {FORMS}; names with blanks, colons or brackets in 'quotes'."
            )
        name = words[0].text if colons else f"line {number}"
        if has_control(name):
            raise TreeFormatError(f"line {number}: the name {quoted(name)} has a control character. Rename it.")
        yield name, [word.text for word in words[2 if colons else 0 :] if not word.marks(",")]


def _clades_of_tree(path: str | Path, taxa: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """The splits of the inner branches of the only tree in a file, which must have all taxa."""
    try:
        found = read_any_trees(path, taxa=taxa)
    except PhloemError as problem:
        raise type(problem)(f"{problem} A tree of constraints has all taxa of the alignment.") from None
    if isinstance(found, TreeSample):
        trees = tuple(Tree(row.copy(), len(taxa)) for row in found.topologies.parent)
    else:
        trees = found.trees
    if len(trees) != 1:
        raise TreeFormatError(f"has {counted(len(trees), 'tree')} where one is needed. Leave one.")
    sides = without_first(members_below(trees[0])[len(taxa) : -1])
    sides = sides[(sides.sum(axis=1) > 1) & (sides.sum(axis=1) < len(taxa) - 1)]
    if not len(sides):
        raise BadArgument("its tree has no inner branch, so that it says nothing. Give it one, or leave the file out.")
    for number, side in enumerate(sides, 1):
        yield f"branch {number}", [taxa[taxon] for taxon in np.flatnonzero(side).tolist()]
