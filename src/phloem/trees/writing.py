"""Writing trees: Newick and NEXUS that FigTree, DendroPy, Biopython and R's ape read back.

Samples are plain trees with weights. Summary trees are written in two ways: annotated (supports, lengths and intervals
as comments, which FigTree and treeio read) or labelled (supports as node labels, which ape reads). No tree has both:
treeio tells nodes apart by their labels, and two clades may have the same support.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from phloem.arrays import FloatArray, IntArray
from phloem.errors import BadArgument, TaxonMismatch
from phloem.storage.files import atomic_write
from phloem.trees.consensus import SummaryTree
from phloem.trees.sample import TreeSample
from phloem.trees.topology import TopologyBatch
from phloem.trees.tree import Tree

NEXUS_SUFFIXES = (".nex", ".nexus", ".t", ".trees")
# Labels that need no quotes. NEXUS has more punctuation: Biopython stops at a bare hyphen there.
PLAIN_LABEL = re.compile(r"[^\s()\[\]{},;:='\"]+")
PLAIN_NEXUS_LABEL = re.compile(r"[^\s()\[\]{}/\\,;:=*'\"`+<>-]+")
NO_BRACKETS = str.maketrans("[]", "()")  # which would end a comment


def write_trees(sample: TreeSample, path: str | Path) -> None:
    """NEXUS for .nex, .nexus, .t and .trees, else Newick."""
    (write_nexus if is_nexus_name(Path(path)) else write_newick)(sample, path)


def write_newick(sample: TreeSample, path: str | Path) -> None:
    """One tree per line. Newick has no place for weights that all programs accept: NEXUS keeps them.

    ape reads names with apostrophes as NA here; in NEXUS it drops the apostrophes.
    """
    _write_lines(path, format_newick(sample.topologies, sample.taxa, sample.branch_lengths))


def write_nexus(sample: TreeSample, path: str | Path, *, comments: Sequence[str] = ()) -> None:
    """A TREES block with a translate table and `[&W …]` weights, as MrBayes writes them.

    comments: lines about the trees, for whoever opens the file.
    """
    trees = format_newick(sample.topologies, _numbers(sample.taxa), sample.branch_lengths)
    weighted = enumerate(zip(sample.weights.tolist(), trees, strict=True), 1)
    statements = (f"tree tree_{number} = [&U] [&W {weight!r}] {tree}" for number, (weight, tree) in weighted)
    _write_lines(path, _nexus_lines(sample.taxa, statements, comments))


def write_mrbayes(sample: TreeSample, path: str | Path) -> None:
    """The trees as a `.t` file of MrBayes has them, each counting once: BUCKy's `mbsum` takes no comments in it."""
    trees = format_newick(sample.topologies, _numbers(sample.taxa), sample.branch_lengths)
    _write_lines(path, _nexus_lines(sample.taxa, (f"tree rep.{n} = {tree}" for n, tree in enumerate(trees, 1)), ()))


def is_nexus_name(path: Path) -> bool:
    """Whether a file of this name gets NEXUS rather than Newick; raise if trees cannot be written there."""
    suffix = path.suffix.lower()
    if suffix == ".gz":
        raise BadArgument(f"{path}: trees are written as plain text. Leave out .gz, and compress the file later.")
    return suffix in NEXUS_SUFFIXES


def format_newick(
    topologies: TopologyBatch, taxa: Sequence[str], branch_lengths: FloatArray | None = None
) -> list[str]:
    """Each topology as `(first,…,…);`, with lengths where they are given and not nan."""
    labels = _leaf_labels(taxa, topologies.taxon_count)
    if branch_lengths is None:
        suffixes = [""] * topologies.node_count
        return [_join_newick(parent, labels, suffixes) for parent in topologies.parent]
    if branch_lengths.shape != (len(topologies), topologies.branch_count):
        raise BadArgument(f"newick: branch lengths of shape {branch_lengths.shape} do not fit the trees.")
    return [
        _join_newick(parent, labels, [*map(_format_length, lengths.tolist()), ""])
        for parent, lengths in zip(topologies.parent, branch_lengths, strict=True)
    ]


def format_tree(tree: Tree, taxa: Sequence[str]) -> str:
    """A tree of any degrees as Newick; a root of degree two stays."""
    return _join_newick(tree.parent, _leaf_labels(taxa, tree.leaf_count), [""] * len(tree.parent))


def format_annotated(summary: SummaryTree) -> str:
    """Newick with `[&prob=0.97,length_mean=0.1,length_95%HPD={0.05,0.2}]` before the colon of each branch.

    This is where FigTree, BEAST's programs, DendroPy and Biopython expect comments; after the length, Biopython refuses
    those with a comma. Unknown values are left out.
    """
    return _format_summary(summary, _leaf_labels(summary.taxa, summary.tree.leaf_count), _annotations(summary))


def write_annotated_nexus(trees: Mapping[str, SummaryTree], path: str | Path, *, comments: Sequence[str] = ()) -> None:
    """Named summary trees on the same taxa, annotated as by `format_annotated`, for FigTree; rooted ones get `[&R]`.

    comments: lines about the trees, for whoever opens the file.
    """
    _write_summaries(trees, path, _annotations, comments)


def write_labelled_nexus(trees: Mapping[str, SummaryTree], path: str | Path, *, comments: Sequence[str] = ()) -> None:
    """The same with nothing but supports, from 0 to 1, as labels of interior nodes: `(C:0.1,D:0.3)0.97:0.1`, for ape.

    Labels have a decimal point, so that none is a number of the translate table.
    """
    _write_summaries(trees, path, _labels, comments)


def _write_summaries(
    trees: Mapping[str, SummaryTree],
    path: str | Path,
    notes: Callable[[SummaryTree], list[str]],
    comments: Sequence[str],
) -> None:
    if not trees:
        raise BadArgument(f"{path}: no trees to write. Give one or more.")
    taxa = next(iter(trees.values())).taxa
    if any(summary.taxa != taxa for summary in trees.values()):
        raise TaxonMismatch(f"{path}: trees in one file need the same taxa in the same order.")
    statements = [_summary_statement(name, summary, notes(summary)) for name, summary in trees.items()]
    _write_lines(path, _nexus_lines(taxa, statements, comments))


def write_annotated_newick(summary: SummaryTree, path: str | Path) -> None:
    """A line of Newick without comments; supports, from 0 to 1, are labels of interior nodes."""
    _write_lines(path, [format_labelled(summary)])


def format_labelled(summary: SummaryTree) -> str:
    """Newick with supports from 0 to 1 as labels of interior nodes: `(A:0.1,B:0.2,(C:0.1,D:0.3)0.97:0.1);`."""
    labels = _leaf_labels(summary.taxa, summary.tree.leaf_count)
    return _format_summary(summary, labels, _supports(summary, 1, "{:.6g}"))


def format_supported(summary: SummaryTree) -> str:
    """Newick with supports in percent as labels of interior nodes: `(A:0.1,B:0.2,(C:0.1,D:0.3)97:0.1);`."""
    labels = _leaf_labels(summary.taxa, summary.tree.leaf_count)
    return _format_summary(summary, labels, _supports(summary, 100, "{:.4g}"))


def write_supported(summary: SummaryTree, path: str | Path) -> None:
    """NEXUS for .nex, .nexus, .t and .trees, with supports as comments for FigTree, `[&support=97]`; else Newick."""
    lines: Iterable[str] = [format_supported(summary)]
    if is_nexus_name(Path(path)):
        statement = _summary_statement("best", summary, _supports(summary, 100, "[&support={:.4g}]"))
        lines = _nexus_lines(summary.taxa, [statement])
    _write_lines(path, lines)


def _annotations(summary: SummaryTree) -> list[str]:
    """A comment for each branch, (nodes,); empty where nothing is known."""
    rows = zip(
        summary.support.tolist(), summary.length.tolist(), summary.lower.tolist(), summary.upper.tolist(), strict=True
    )
    return [_annotation(*row) for row in rows]


def _annotation(support: float, length: float, lower: float, upper: float) -> str:
    """What is known of one branch; nan is unknown."""
    parts = []
    if support == support:
        parts.append(f"prob={support:.6g}")
    if length == length:
        parts.append(f"length_mean={length:.6g}")
    if lower == lower and upper == upper:
        parts.append(f"length_95%HPD={{{lower:.6g},{upper:.6g}}}")
    return f"[&{','.join(parts)}]" if parts else ""


def _supports(summary: SummaryTree, scale: float, form: str) -> list[str]:
    """The support of each interior branch as text, (nodes,); empty at leaves and where it is unknown."""
    leaf_count = summary.tree.leaf_count
    interior = summary.support[leaf_count:].tolist()
    return [""] * leaf_count + ["" if support != support else form.format(scale * support) for support in interior]


def _labels(summary: SummaryTree) -> list[str]:
    """The support of each interior branch to six decimals, and to one at least, (nodes,)."""
    shortest = (text.rstrip("0") for text in _supports(summary, 1, "{:.6f}"))
    return [text + "0" if text.endswith(".") else text for text in shortest]


def _format_summary(summary: SummaryTree, labels: Sequence[str], notes: Sequence[str]) -> str:
    """Newick with a note and the mean length after each leaf's label and each node's bracket."""
    lengths = map(_format_length, summary.length.tolist())
    suffixes = [note + length for note, length in zip(notes, lengths, strict=True)]
    return _join_newick(summary.tree.parent, labels, suffixes)


def _summary_statement(name: str, summary: SummaryTree, notes: Sequence[str]) -> str:
    """A NEXUS statement for a summary tree."""
    rooting = "R" if summary.is_rooted else "U"
    tree = _format_summary(summary, _numbers(summary.taxa), notes)
    return f"tree {quote_label(name, PLAIN_NEXUS_LABEL)} = [&{rooting}] {tree}"


def _nexus_lines(taxa: Sequence[str], statements: Iterable[str], comments: Sequence[str] = ()) -> Iterator[str]:
    """A NEXUS file with a TAXA block and a TREES block, whose statements call the taxa 1, 2, …

    Each entry of the translate table, and its semicolon, is on a separate line: ape works by lines, and would take a
    last name that ends in "end" for the end of the block.
    """
    names = [quote_label(name, PLAIN_NEXUS_LABEL) for name in taxa]
    yield "#NEXUS"
    yield from (f"[{' '.join(comment.translate(NO_BRACKETS).split())}]" for comment in comments)
    yield "begin taxa;"
    yield f"    dimensions ntax={len(names)};"
    yield "    taxlabels"
    yield from (f"        {name}" for name in names)
    yield "    ;"
    yield "end;"
    yield "begin trees;"
    yield "    translate"
    for number, name in enumerate(names, 1):
        yield f"        {number} {name}{',' if number < len(names) else ''}"
    yield "    ;"
    yield from (f"    {statement}" for statement in statements)
    yield "end;"


def _numbers(taxa: Sequence[str]) -> list[str]:
    """The labels of a translate table: 1, 2, …"""
    return [str(number) for number in range(1, len(taxa) + 1)]


def _leaf_labels(taxa: Sequence[str], leaf_count: int) -> list[str]:
    """The taxa's names, quoted where they need it."""
    if len(taxa) != leaf_count or len(set(taxa)) != leaf_count or not all(taxa):
        raise BadArgument(
            f"newick: {leaf_count} taxa need as many names, none empty and no two alike; got {len(taxa)}."
        )
    return [quote_label(name) for name in taxa]


def quote_label(name: str, plain: re.Pattern[str] = PLAIN_LABEL) -> str:
    """The name as it is, or in single quotes with apostrophes doubled where it needs them."""
    return name if plain.fullmatch(name) else "'" + name.replace("'", "''") + "'"


def _format_length(length: float) -> str:
    """`:` and the length to the last bit; empty for nan."""
    return f":{length!r}" if length == length else ""


def _join_newick(parent: IntArray, labels: Sequence[str], suffixes: Sequence[str]) -> str:
    """Newick with the given suffix after each leaf's label and each node's bracket.

    Walks the tree once, root first, children in order of their least leaf; linear at any depth.
    """
    children = _ordered_children(parent, len(labels))
    parts: list[str] = []
    pending: list[int | str] = [len(parent) - 1]
    while pending:
        item = pending.pop()
        if isinstance(item, str):
            parts.append(item)
        elif item < len(labels):
            parts.append(labels[item] + suffixes[item])
        else:
            below = children[item - len(labels)]
            parts.append("(")
            pending.append(")" + suffixes[item])
            for place, child in enumerate(reversed(below)):
                if place:
                    pending.append(",")
                pending.append(child)
    return "".join(parts) + ";"


def _ordered_children(parent: IntArray, leaf_count: int) -> list[list[int]]:
    """Children of every interior node, in order of their least leaf."""
    above = parent.tolist()
    children: list[list[int]] = [[] for _ in range(len(parent) - leaf_count)]
    for leaf in range(leaf_count):
        node = leaf
        while above[node] >= 0:  # climb to the first node that an earlier leaf has passed
            siblings = children[above[node] - leaf_count]
            siblings.append(node)
            if len(siblings) > 1:
                break
            node = above[node]
    return children


def _write_lines(path: str | Path, lines: Iterable[str]) -> None:
    with atomic_write(Path(path)) as stream:
        for line in lines:
            stream.write(line.encode() + b"\n")
