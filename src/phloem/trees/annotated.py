"""Summary trees as text: with supports and intervals in comments that FigTree shows, or with supports as labels."""

from collections.abc import Mapping
from pathlib import Path

from phloem.errors import BadArgument, TaxonMismatch
from phloem.files import atomic_write
from phloem.trees.summary_tree import SummaryTree
from phloem.trees.writing import PLAIN_NEXUS_LABEL, format_length, join_newick, leaf_labels, nexus_lines, quote_label


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
