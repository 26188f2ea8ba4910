"""Writing trees: Newick and NEXUS text that FigTree, DendroPy, Biopython and R's ape read back."""

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from phloem.errors import BadArgument
from phloem.files import atomic_write
from phloem.kernels.arrays import FloatArray, IntArray
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
