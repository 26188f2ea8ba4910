"""Data that comes with phloem, by name."""

from importlib.resources import files
from pathlib import Path

from phloem.errors import FileProblem

EXAMPLES = ("primates",)


def find_trees(name: str | Path) -> Path:
    """The tree file of that path or, where there is none, the bundled example of that name."""
    return _find(name, ".trees.nex")


def find_alignment(name: str | Path) -> Path:
    """The alignment of that path or, where there is none, the bundled example of that name."""
    return _find(name, ".fasta")


def _find(name: str | Path, suffix: str) -> Path:
    path = Path(name)
    try:
        if path.exists():
            return path
    except OSError:  # a directory that cannot be searched, a name that is too long: reading it says so
        return path
    if str(name) in EXAMPLES:
        return Path(str(files("phloem.data") / "examples" / f"{name}{suffix}"))
    raise FileProblem(f"{path}: no such file, nor a bundled example ({', '.join(EXAMPLES)}). Check the path.")
