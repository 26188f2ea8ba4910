"""Data that comes with phloem, by name."""

from importlib.resources import files
from pathlib import Path

from phloem.errors import FileProblem

TREE_EXAMPLES = ("primates",)


def find_trees(name: str | Path) -> Path:
    """The tree file of that path or, where there is none, the bundled example of that name."""
    path = Path(name)
    if not path.exists() and str(name) in TREE_EXAMPLES:
        return Path(str(files("phloem.data") / "examples" / f"{name}.trees.nex"))
    if not path.exists():
        raise FileProblem(f"{path}: no such file, nor a bundled example ({', '.join(TREE_EXAMPLES)}). Check the path.")
    return path
