"""Node features in a file → topologies."""

from pathlib import Path

from phloem.errors import FeatureMismatch
from phloem.features.archive import read_features
from phloem.features.recovery import recover_tree
from phloem.trees.writing import format_tree


def recover(path: Path) -> list[str]:
    """The trees of a feature file in Newick format, from `taxa` and `features` alone."""
    taxa, features = read_features(path)
    lines = []
    for number, rows in enumerate(features, 1):
        try:
            lines.append(format_tree(recover_tree(rows, len(taxa)), taxa))
        except FeatureMismatch as problem:
            raise FeatureMismatch(f"{path}, tree {number}: {problem}") from None
    return lines
