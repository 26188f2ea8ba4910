"""One tree with its supports in percent, as text that people know from maximum-likelihood programs."""

from pathlib import Path

from phloem.files import atomic_write
from phloem.trees.summary_tree import SummaryTree
from phloem.trees.writing import format_length, is_nexus_name, join_newick, leaf_labels, nexus_lines


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
