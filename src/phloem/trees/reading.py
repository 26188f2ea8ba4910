"""Reading trees: Newick, NEXUS and tables of weighted trees, plain or gzipped, into arrays."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from phloem.arguments import checked
from phloem.arrays import FloatArray, IntArray
from phloem.data.nexus import is_nexus, unquote
from phloem.errors import (
    BadArgument,
    NotBinary,
    PhloemError,
    TaxonMismatch,
    TreeFormatError,
    counted,
    has_control,
    listed,
    quoted,
)
from phloem.kernels.trees import newick
from phloem.storage.files import read_bytes
from phloem.trees.nexus import TreeText, locate_trees, place, problem, scan_nexus, scan_statements, syntax_problem
from phloem.trees.sample import TreeSample, check_same_taxa, count_burnin
from phloem.trees.topology import TopologyBatch
from phloem.trees.tree import Tree, WeightedTrees

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
SUFFIXES = (".tsv", ".tsv.gz")  # of tables of weighted trees


@checked
def read_trees(path: str | Path, *, taxa: Sequence[str] | None = None, burnin: int | float = 0) -> TreeSample:
    """Binary trees from a Newick or NEXUS file; rooted ones are unrooted, polytomies are an error.

    Taxa are numbered in the order of `taxa`, else of the file's TAXA block or translate table, else by name.
    `burnin` drops the first trees: a count, or a fraction if it is a float below 1.
    """
    return _binary_sample(_load(_scan_file(path), taxa, burnin, keep_root=False))


@checked
def parse_newick(newick_trees: str | Iterable[str], *, taxa: Sequence[str] | None = None) -> TreeSample:
    """Binary trees from Newick text, one string or several; otherwise as `read_trees`."""
    try:
        text = newick_trees if isinstance(newick_trees, str) else "\n".join(newick_trees)
    except TypeError:
        raise BadArgument("Newick text: give a text, or several in a list.") from None
    try:
        content = text.encode()
    except UnicodeEncodeError as problem:
        raise TreeFormatError(
            f"Newick text: character {problem.start + 1} is half of a surrogate pair. Give valid Unicode text."
        ) from None
    return _binary_sample(_load(_scan("Newick text", content), taxa, 0, keep_root=False))


@checked
def read_any_trees(
    path: str | Path,
    *,
    taxa: Sequence[str] | None = None,
    burnin: int | float = 0,
    keep_root: bool = False,
) -> TreeSample | WeightedTrees:
    """Trees of any degrees, otherwise as `read_trees`: a TreeSample if all are binary, else without lengths.

    With `keep_root` trees keep the root that they have in the file, even one of degree two.
    """
    parsed = _load(_scan_file(path), taxa, burnin, keep_root=keep_root)
    if not keep_root and (parsed.node_counts == 2 * len(parsed.taxa) - 2).all():
        return _binary_sample(parsed)
    rows = zip(parsed.parents, parsed.node_counts, strict=True)
    trees = tuple(Tree(row[:count].copy(), len(parsed.taxa)) for row, count in rows)
    return WeightedTrees(parsed.taxa, trees, parsed.text.weights)


@dataclass(frozen=True, slots=True, eq=False)
class _ParsedTrees:
    """The kernel's output: rows as wide as a rooted binary tree, of which the first node_counts are used."""

    text: TreeText
    taxa: tuple[str, ...]
    parents: IntArray  # (trees, 2n-1)
    lengths: FloatArray  # (trees, 2n-1), or (trees, 0) where the file has none
    node_counts: IntArray  # (trees,)


def _scan_file(path: str | Path) -> TreeText:
    return _scan(str(path), read_bytes(Path(path)))


def _scan(source: str, content: bytes) -> TreeText:
    """Split the text into trees, as NEXUS or Newick depending on its content."""
    content = content.removeprefix(BYTE_ORDER_MARK)
    buffer = np.frombuffer(content, np.uint8)
    if (nul := content.find(b"\0")) >= 0:
        raise problem(source, buffer, 0, nul, "this is not a text file. Give a Newick or NEXUS file, plain or gzipped")
    if is_nexus(content):
        return scan_nexus(source, buffer)
    spans = scan_statements(source, buffer, 0)
    if not len(spans):
        raise TreeFormatError(f"{source}: holds no trees. Give a Newick or NEXUS file with at least one.")
    return locate_trees(source, buffer, spans)


def _load(
    text: TreeText,
    taxa: Sequence[str] | None,
    burnin: int | float,
    *,
    keep_root: bool,
) -> _ParsedTrees:
    if burnin:
        text = text.without_first(count_burnin(burnin, len(text.starts), text.source))
    taxa = _settle_taxa(text, taxa)
    numbers = {name: number for number, name in enumerate(taxa)}
    meanings = text.names if text.names is not None else {name: name for name in taxa}
    encoded = [label.encode() for label in meanings]
    labels = np.frombuffer(b"".join(encoded), np.uint8)
    offsets = np.cumsum([0, *(len(label) for label in encoded)])
    has_lengths = bool((text.buffer == newick.COLON).any())
    trees, width = _plausible_trees(text, len(taxa)), 2 * len(taxa) - 1
    parents = np.empty((trees, width), np.int32)
    lengths = np.empty((trees, width if has_lengths else 0))
    node_counts = np.empty(trees, np.int32)
    bad, status, position = newick.read_trees(
        text.buffer,
        text.starts[:trees],
        text.ends[:trees],
        text.node_bound,
        newick.build_table(labels, offsets),
        labels,
        offsets,
        np.array([numbers.get(name, -1) for name in meanings.values()], np.int32),
        len(taxa),
        keep_root,
        parents,
        lengths,
        node_counts,
    )
    if status != newick.FINE:
        raise _tree_problem(text, taxa, bad, status, position)
    return _ParsedTrees(text, taxa, parents, lengths, node_counts)


def _plausible_trees(text: TreeText, taxon_count: int) -> int:
    """How many trees to read: all, or up to the first that is too short to name all taxa and must be bad.

    So the arrays are never much larger than the file, whatever its content.
    """
    too_short = np.flatnonzero(text.ends - text.starts < 2 * taxon_count)
    return int(too_short[0]) + 1 if len(too_short) else len(text.starts)


def _binary_sample(parsed: _ParsedTrees) -> TreeSample:
    nodes = 2 * len(parsed.taxa) - 2
    if (polytomies := np.flatnonzero(parsed.node_counts != nodes)).size:
        text, index = parsed.text, int(polytomies[0])
        where = place(text.source, text.buffer, text.first_tree + index, int(text.starts[index]))
        raise NotBinary(
            f"{where}: this tree has a polytomy ({parsed.node_counts[index]} nodes instead of {nodes}). "
            "Resolve it first: binary trees are needed here."
        )
    topologies = TopologyBatch.from_canonical(np.ascontiguousarray(parsed.parents[:, :nodes]))
    lengths = parsed.lengths[:, : nodes - 1]
    has_lengths = bool(np.isfinite(lengths).any())
    return TreeSample(
        parsed.taxa, topologies, parsed.text.weights, np.ascontiguousarray(lengths) if has_lengths else None
    )


def _settle_taxa(text: TreeText, taxa: Sequence[str] | None) -> tuple[str, ...]:
    """The names of the first tree's leaves, in the order given by the caller or the file."""
    first = text.first_tree
    names = _leaf_names(text, 0)
    if len(names) < 3:
        where = place(text.source, text.buffer, first, int(text.starts[0]))
        count = counted(len(names), "taxon", "taxa")
        raise TreeFormatError(f"{where}: this tree has {count}. At least 3 are needed, and 4 for topologies to differ.")
    if odd := next(filter(has_control, names), None):
        where = place(text.source, text.buffer, first, int(text.starts[0]))
        raise TreeFormatError(f"{where}: the name {quoted(odd)} has a control character. Rename the taxon.")
    if taxa is not None:
        check_same_taxa(names, taxa, place(text.source, text.buffer, first, int(text.starts[0])))
        return tuple(taxa)
    if text.order is not None:
        present = set(names)
        return tuple(name for name in text.order if name in present)
    return tuple(sorted(names))


def _leaf_names(text: TreeText, index: int) -> list[str]:
    """The taxa of one tree, in its own order."""
    buffer, tree = text.buffer, text.first_tree + index
    parent, child_count = np.empty((2, text.node_bound), np.int32)
    label_start, label_stop = np.empty((2, text.node_bound), np.int64)
    length = np.empty(text.node_bound)
    nodes, status, position = newick.parse_tree(
        buffer, int(text.starts[index]), int(text.ends[index]), parent, length, label_start, label_stop, child_count
    )
    if status != newick.FINE:
        raise syntax_problem(text.source, buffer, tree, position, status)
    names: dict[str, None] = {}
    for node in np.flatnonzero(label_start[:nodes] >= 0):
        start = int(label_start[node])
        name = _taxon_name(text, tree, start, int(label_stop[node]))
        if name in names:
            raise problem(text.source, buffer, tree, start, _duplicate(name))
        names[name] = None
    return list(names)


def _taxon_name(text: TreeText, tree: int, start: int, stop: int) -> str:
    raw = text.buffer[start:stop].tobytes()
    try:
        label = raw.decode()
    except UnicodeDecodeError:
        raise problem(text.source, text.buffer, tree, start, "this name is not UTF-8 text") from None
    label = unquote(label)
    if not label:
        raise syntax_problem(text.source, text.buffer, tree, start, newick.NO_NAME)
    if text.names is None:
        return label
    if label not in text.names:
        what = f"taxon {quoted(label)} is neither in the translate table nor in the TAXA block"
        raise problem(text.source, text.buffer, tree, start, what)
    return text.names[label]


def _tree_problem(text: TreeText, taxa: tuple[str, ...], index: int, status: int, position: int) -> Exception:
    """Why the kernel stopped at this tree."""
    buffer, tree = text.buffer, text.first_tree + index
    if status not in (newick.UNKNOWN_TAXON, newick.DUPLICATE_TAXON, newick.MISSING_TAXA):
        return syntax_problem(text.source, buffer, tree, position, status)
    if status == newick.MISSING_TAXA:
        present = set(_leaf_names(text, index))
        missing = [name for name in taxa if name not in present]
        what = f"lacks {listed(missing)}. All trees need the same taxa"
        return TaxonMismatch(f"{place(text.source, buffer, tree, position)}: {what}.")
    name = _taxon_name(text, tree, position, newick.label_end(buffer, position, len(buffer)))
    if status == newick.DUPLICATE_TAXON:
        return problem(text.source, buffer, tree, position, _duplicate(name))
    what = f"taxon {quoted(name)} is not in tree {text.first_tree + 1}. All trees need the same taxa"
    return TaxonMismatch(f"{place(text.source, buffer, tree, position)}: {what}.")


def _duplicate(name: str) -> str:
    return f"taxon {quoted(name)} is in this tree twice. Taxon names must differ"


@checked
def read_weighted_table(path: str | Path, *, taxa: Sequence[str] | None = None, burnin: int | float = 0) -> TreeSample:
    """Binary trees from lines of a weight, a tab and a Newick tree, without a heading."""
    path = Path(path)
    try:
        lines = read_bytes(path).decode("utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise TreeFormatError(f"{path}: is not UTF-8 text. Save it as UTF-8.") from None
    rows = [(number, line.split("\t")) for number, line in enumerate(lines, 1) if line.strip()]
    if not rows:
        raise TreeFormatError(f"{path}: holds no trees. Give lines of a weight, a tab and a Newick tree.")
    weights = np.array([_weight(path, number, cells) for number, cells in rows])
    # Blanks take the place of weights, so that errors have the line and column of the file.
    texts = [" " * len(line.encode()) for line in lines]
    for number, (weight, tree) in rows:
        texts[number - 1] = " " * (len(weight.encode()) + 1) + tree
    try:
        sample = parse_newick(texts, taxa=taxa)
    except PhloemError as problem:
        raise type(problem)(str(problem).replace("Newick text", str(path), 1)) from None
    if len(sample) != len(rows):
        raise TreeFormatError(f"{path}: {len(sample)} trees in {len(rows)} lines. Give one per line.")
    return replace(sample, weights=weights)[count_burnin(burnin, len(rows), str(path)) :]


def _weight(path: Path, number: int, cells: list[str]) -> float:
    if len(cells) != 2:
        raise TreeFormatError(f"{path}, line {number}: give a weight, a tab and a Newick tree.")
    try:
        weight = float(cells[0])
    except ValueError:
        weight = float("nan")
    if not 0 <= weight < float("inf"):
        raise TreeFormatError(
            f"{path}, line {number}: weight {quoted(cells[0], 30)}. Give a finite number that is not negative."
        )
    return weight
