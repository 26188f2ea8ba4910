"""Trees on five taxa for the commands about densities, and fits of them that take a moment."""

import csv
import json
from pathlib import Path

import numpy as np

import phloem
from phloem.trees.generation import all_topologies
from phloem.trees.sample import TreeSample
from phloem.trees.writing import format_newick

TAXA = tuple("ABCDE")
SHORT = {"convolution": "mlp", "steps": 40, "width": 8}
FLAGS = ["--convolution", "mlp", "--steps", "40", "--width", "8"]
SAME_FILES = ("density.safetensors", "config.toml")


def five_taxa(seed: int = 1) -> TreeSample:
    """All 15 topologies with weights that sum to one."""
    weights = np.random.default_rng(seed).dirichlet(np.full(15, 0.5))
    return TreeSample(TAXA, all_topologies(5), weights, None)


def write_table(path: Path, sample: TreeSample) -> Path:
    """Lines of a weight and a tree."""
    trees = format_newick(sample.topologies, sample.taxa)
    rows = zip(sample.weights.tolist(), trees, strict=True)
    path.write_text("".join(f"{weight!r}\t{tree}\n" for weight, tree in rows))
    return path


def fit(out: Path | None, trees=None, **options):
    """A fit that says nothing."""
    sample = five_taxa() if trees is None else trees
    return phloem.fit_density(sample, out=out, progress=False, **(SHORT | options))


def without_seconds(run: Path) -> tuple[dict, list[list[str]]]:
    """The summary and the history, but for how long it took."""
    summary = as_json((run / "summary.json").read_text())
    del summary["seconds"]
    with (run / "history.csv").open() as table:
        return summary, [row[:1] + row[2:] for row in csv.reader(table)]


def assert_same_fit(one: Path, two: Path) -> None:
    for name in SAME_FILES:
        assert (one / name).read_bytes() == (two / name).read_bytes(), name
    assert without_seconds(one) == without_seconds(two)
    assert not list(two.rglob("*.unfinished"))


def contents(folder: Path) -> dict[Path, bytes | None]:
    """All that is in a folder."""
    return {path: path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def as_json(text: str):
    """JSON, and nothing that only Python reads."""
    return json.loads(text, parse_constant=refuse)


def refuse(token: str) -> None:
    """For `json.loads`: NaN and Infinity are not JSON."""
    raise ValueError(f"{token} is not JSON")
