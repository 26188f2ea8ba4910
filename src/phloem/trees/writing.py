"""Writing trees: Newick and NEXUS text that FigTree, DendroPy, Biopython and R's ape read back."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from phloem.arrays import FloatArray, IntArray
from phloem.errors import BadArgument, TaxonMismatch
from phloem.storage.files import atomic_write
from phloem.trees.consensus import SummaryTree
from phloem.trees.sample import TreeSample
from phloem.trees.topology import TopologyBatch
from phloem.trees.tree import Tree

# What needs no quotes. NEXUS counts more signs as punctuation: Biopython stops at a bare hyphen there.
PLAIN_LABEL = re.compile(r"[^\s()\[\]{},;:='\"]+")
PLAIN_NEXUS_LABEL = re.compile(r"[^\s()\[\]{}/\\,;:=*'\"`+<>-]+")
NEXUS_SUFFIXES = (".nex", ".nexus", ".t", ".trees")


def quote_label(name: str, plain: re.Pattern[str] = PLAIN_LABEL) -> str:
    """The name as it stands in a tree: in single quotes, apostrophes doubled, where it needs them."""
    return name if plain.fullmatch(name) else "'" + name.replace("'", "''") + "'"


def format_newick(
    topologies: TopologyBatch, taxa: Sequence[str], branch_lengths: FloatArray | None = None
) -> list[str]:
    """Each topology as `(first,…,…);`, with lengths where they are given and not nan."""
    labels = leaf_labels(taxa, topologies.taxon_count)
    if branch_lengths is not None and branch_lengths.shape != (len(topologies), topologies.branch_count):
        raise BadArgument(f"newick: branch lengths of shape {branch_lengths.shape} do not fit the trees.")
    nothing = [""] * topologies.node_count
    return [
        join_newick(
            parent,
            labels,
            nothing if branch_lengths is None else [*map(format_length, branch_lengths[index].tolist()), ""],
        )
        for index, parent in enumerate(topologies.parent)
    ]


def format_tree(tree: Tree, taxa: Sequence[str]) -> str:
    """One tree of any degrees in Newick format; a root of degree two stays."""
    return join_newick(tree.parent, leaf_labels(taxa, tree.leaf_count), [""] * len(tree.parent))


def is_nexus_name(path: Path) -> bool:
    """Whether trees go into a file of this name as NEXUS, and not as Newick; raise if they cannot go there."""
    suffix = path.suffix.lower()
    if suffix == ".gz":
        raise BadArgument(f"{path}: trees are written as plain text. Leave out .gz, and compress the file later.")
    return suffix in NEXUS_SUFFIXES


def write_trees(sample: TreeSample, path: str | Path) -> None:
    """NEXUS for .nex, .nexus, .t and .trees, else Newick."""
    (write_nexus if is_nexus_name(Path(path)) else write_newick)(sample, path)


def write_newick(sample: TreeSample, path: str | Path) -> None:
    """One tree a line. Newick has no place for weights that all programs accept: NEXUS keeps them.

    Of names with apostrophes ape makes NA here; in NEXUS it leaves the apostrophes out.
    """
    with atomic_write(Path(path)) as stream:
        for line in format_newick(sample.topologies, sample.taxa, sample.branch_lengths):
            stream.write(line.encode() + b"\n")


def write_nexus(sample: TreeSample, path: str | Path) -> None:
    """A TREES block with a translate table and `[&W …]` weights, as MrBayes writes them."""
    numbers = [str(number) for number in range(1, len(sample.taxa) + 1)]
    trees = format_newick(sample.topologies, numbers, sample.branch_lengths)
    weighted = enumerate(zip(sample.weights.tolist(), trees, strict=True), 1)
    statements = (f"tree tree_{number} = [&U] [&W {weight!r}] {tree}" for number, (weight, tree) in weighted)
    with atomic_write(Path(path)) as stream:
        for line in nexus_lines(sample.taxa, statements):
            stream.write(line.encode() + b"\n")


def nexus_lines(taxa: Sequence[str], statements: Iterable[str]) -> Iterator[str]:
    """A NEXUS file with a TAXA block and a TREES block, whose statements call the taxa 1, 2, …

    Every entry of the translate table, and its semicolon, has a line of its own: ape looks for lines, and would take
    a last name that ends in "end" for the end of the block.
    """
    names = [quote_label(name, PLAIN_NEXUS_LABEL) for name in taxa]
    yield "#NEXUS"
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


def leaf_labels(taxa: Sequence[str], leaf_count: int) -> list[str]:
    """The taxa's names as they stand in a tree."""
    if len(taxa) != leaf_count or len(set(taxa)) != leaf_count or not all(taxa):
        raise BadArgument(
            f"newick: {leaf_count} taxa need as many names, none empty and no two alike; got {len(taxa)}."
        )
    return [quote_label(name) for name in taxa]


def format_length(length: float) -> str:
    """`:` and the length to the last bit, or nothing where it is nan."""
    return f":{length!r}" if length == length else ""


def join_newick(parent: IntArray, labels: Sequence[str], suffixes: Sequence[str]) -> str:
    """The text of a tree, with what comes after each leaf's label or each node's bracket given.

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
        while above[node] >= 0:  # climb until a node that an earlier leaf has passed
            siblings = children[above[node] - leaf_count]
            siblings.append(node)
            if len(siblings) > 1:
                break
            node = above[node]
    return children


def format_annotated(summary: SummaryTree) -> str:
    """Newick text with `[&prob=0.97,length_mean=0.1,length_95%HPD={0.05,0.2}]` before the colon of each branch.

    There FigTree, BEAST's programs, DendroPy and Biopython expect it; after the length Biopython takes no comment that
    has a comma. What is not known is left out.
    """
    return _annotated(summary, leaf_labels(summary.taxa, summary.tree.leaf_count))


def write_annotated_nexus(trees: Mapping[str, SummaryTree], path: str | Path) -> None:
    """Summary trees on the same taxa, each under its name, in a file that FigTree opens; rooted ones are marked `[&R]`.

    The comments are those of `format_annotated`.
    """
    if not trees:
        raise BadArgument(f"{path}: no trees to write. Give one or more.")
    taxa = next(iter(trees.values())).taxa
    if any(summary.taxa != taxa for summary in trees.values()):
        raise TaxonMismatch(f"{path}: trees in one file need the same taxa in the same order.")
    numbers = [str(number) for number in range(1, len(taxa) + 1)]
    statements = [
        f"tree {quote_label(name, PLAIN_NEXUS_LABEL)} = [&{'R' if summary.is_rooted else 'U'}] "
        f"{_annotated(summary, numbers)}"
        for name, summary in trees.items()
    ]
    with atomic_write(Path(path)) as stream:
        for line in nexus_lines(taxa, statements):
            stream.write(line.encode() + b"\n")


def write_annotated_newick(summary: SummaryTree, path: str | Path) -> None:
    """One line of Newick, with the supports as labels of interior nodes and no comments: every program reads it."""
    leaf_count = summary.tree.leaf_count
    supports = ["" if support != support else f"{support:.6g}" for support in summary.support.tolist()]
    supports[:leaf_count] = [""] * leaf_count
    lengths = map(format_length, summary.length.tolist())
    suffixes = [support + length for support, length in zip(supports, lengths, strict=True)]
    text = join_newick(summary.tree.parent, leaf_labels(summary.taxa, leaf_count), suffixes)
    with atomic_write(Path(path)) as stream:
        stream.write(text.encode() + b"\n")


def _annotated(summary: SummaryTree, labels: list[str]) -> str:
    rows = zip(
        summary.support.tolist(), summary.length.tolist(), summary.lower.tolist(), summary.upper.tolist(), strict=True
    )
    return join_newick(summary.tree.parent, labels, [_annotation(*row) + format_length(row[1]) for row in rows])


def _annotation(support: float, length: float, lower: float, upper: float) -> str:
    """What is known of one branch, as a comment; nan is what is not."""
    parts = []
    if support == support:
        parts.append(f"prob={support:.6g}")
    if length == length:
        parts.append(f"length_mean={length:.6g}")
    if lower == lower and upper == upper:
        parts.append(f"length_95%HPD={{{lower:.6g},{upper:.6g}}}")
    return f"[&{','.join(parts)}]" if parts else ""


def format_supported(summary: SummaryTree) -> str:
    """Newick with supports in percent as labels of interior nodes: `(A:0.1,B:0.2,(C:0.1,D:0.3)97:0.1);`."""
    return _joined(summary, leaf_labels(summary.taxa, summary.tree.leaf_count), "{:.4g}")


def write_supported(summary: SummaryTree, path: str | Path) -> None:
    """NEXUS for .nex, .nexus, .t and .trees, with supports as comments for FigTree, `[&support=97]`; else Newick."""
    lines = [format_supported(summary)]
    if is_nexus_name(Path(path)):
        numbers = [str(number) for number in range(1, len(summary.taxa) + 1)]
        statement = (
            f"tree best = [&{'R' if summary.is_rooted else 'U'}] {_joined(summary, numbers, '[&support={:.4g}]')}"
        )
        lines = list(nexus_lines(summary.taxa, [statement]))
    with atomic_write(Path(path)) as stream:
        for line in lines:
            stream.write(line.encode() + b"\n")


def _joined(summary: SummaryTree, labels: list[str], form: str) -> str:
    """The tree's text with every interior branch's support in this form."""
    leaf_count = summary.tree.leaf_count
    supports = ["" if support != support else form.format(100 * support) for support in summary.support.tolist()]
    lengths = map(format_length, summary.length.tolist())
    suffixes = [("" if node < leaf_count else supports[node]) + length for node, length in enumerate(lengths)]
    return join_newick(summary.tree.parent, labels, suffixes)
