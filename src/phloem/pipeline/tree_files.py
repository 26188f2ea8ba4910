"""Tree files as commands name them: paths, bundled examples, or a directory for all tree files in it."""

import re
from collections.abc import Sequence
from pathlib import Path

from phloem.data.examples import find_trees
from phloem.errors import BadArgument, FileProblem
from phloem.files import cannot_read
from phloem.trees.reading import read_trees
from phloem.trees.sample import TreeSample
from phloem.trees.weighted_table import SUFFIXES, read_weighted_table
from phloem.variational.collection import FEWEST_TAXA

TREE_FILE = re.compile(r".+\.(nwk|newick|tree|trees|tre|treefile|nex|nexus|t|trprobs|ufboot)(\.gz)?", re.IGNORECASE)


def list_tree_files(sources: Sequence[str | Path]) -> list[Path]:
    """The files that are meant, those of a directory by name."""
    paths: list[Path] = []
    for source in sources:
        path = find_trees(source)
        try:
            is_file = not path.is_dir()
        except OSError:  # a directory that cannot be searched, a name that is too long: reading it says so
            is_file = True
        paths += [path] if is_file else _tree_files_in(path)
    return paths


def _tree_files_in(directory: Path) -> list[Path]:
    try:
        entries = sorted(directory.iterdir())
    except OSError as problem:
        raise cannot_read(directory, problem) from None
    inside = [entry for entry in entries if TREE_FILE.fullmatch(entry.name) and entry.is_file()]
    if not inside:
        raise FileProblem(f"{directory}: holds no tree files (.nwk, .tre, .nex, .t, .ufboot, …). Name the files.")
    return inside


def read_samples(
    sources: Sequence[str | Path], *, taxa: Sequence[str] | None = None, burnin: int | float = 0
) -> list[TreeSample]:
    """One sample a file, all with the same taxa in the same order: `taxa`, or those of the first file."""
    samples: list[TreeSample] = []
    for path in list_tree_files(sources):
        read = read_weighted_table if path.name.lower().endswith(SUFFIXES) else read_trees
        sample = read(path, taxa=samples[0].taxa if samples else taxa, burnin=burnin)
        if not sample.weights.any():
            raise BadArgument(f"{path}: all trees have weight zero. Leave the file out.")
        if len(sample.taxa) < FEWEST_TAXA:
            raise BadArgument(f"{path}: {len(sample.taxa)} taxa have one topology only. Give at least {FEWEST_TAXA}.")
        samples.append(sample)
    return samples


def refuse_overwriting(out: Path, sources: Sequence[str | Path]) -> None:
    """Raise if the file to be written is one of those to be read."""
    for source in sources:
        try:
            same = out.samefile(source)
        except OSError:  # one of them does not exist, or cannot be looked at
            same = False
        if same:
            raise BadArgument(f"{out}: is an input as well. Name another file.")
