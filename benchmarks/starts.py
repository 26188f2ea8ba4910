"""How long do the trees take that a search starts from, and how do they grow with the number of taxa?"""

import os
from pathlib import Path

import numpy as np

from phloem import RandomStream
from phloem.data import Alignment, SitePatterns, compress, read_alignment
from phloem.search.tree_search import can_tell_trees_apart, neighbor_joining, parsimony_topologies
from timing import Row, best_times, show

TREES = 20
GOAL_SECONDS = 5e-3
STREAM = RandomStream(1, "benchmark")


def parsimony_row(name: str, patterns: SitePatterns, trees: int, goal: float | None = None) -> Row:
    """A row with the time of one parsimony tree, the choice of patterns included."""
    times = best_times({name: lambda: parsimony_topologies(patterns, trees, stream=STREAM)}, 5)
    kept = int(can_tell_trees_apart(patterns).sum())
    note = f"{len(patterns.taxa)} taxa, {kept} of {len(patterns)} patterns matter"
    return Row(name, times[name] / trees, goal, note)


def random_patterns(taxa: int, sites: int) -> SitePatterns:
    """Sequences with nothing in common: no row of sets stays as it was, the slowest case."""
    states = (1 << np.random.default_rng(1).integers(0, 4, (taxa, sites))).astype(np.uint8)
    return compress(Alignment(tuple(map(str, range(taxa))), states))


def benchmark_parsimony(folder: Path | None) -> None:
    """Real alignments where they are at hand, and random ones up to 1,000 taxa."""
    rows = []
    for path in sorted((folder / "alignments").glob("DS[18].fasta")) if folder else []:
        rows.append(parsimony_row(path.stem, compress(read_alignment(path)), TREES, GOAL_SECONDS))
    rows.append(parsimony_row("random, 64 taxa", random_patterns(64, 400), TREES, GOAL_SECONDS))
    rows.append(parsimony_row("random, 250 taxa", random_patterns(250, 1000), TREES))
    rows.append(parsimony_row("random, 1000 taxa", random_patterns(1000, 1000), 2))
    show("one tree by stepwise addition under parsimony", rows)


def benchmark_joining() -> None:
    """Neighbour joining on random distances."""
    rows = []
    for taxa in (64, 250, 1000):
        points = np.random.default_rng(1).random((taxa, taxa))
        name = f"{taxa} taxa"
        tasks = {name: lambda distances=points + points.T: neighbor_joining(distances)}
        rows.append(Row(name, best_times(tasks, 3)[name]))
    show("neighbour joining", rows)


if __name__ == "__main__":
    data = os.environ.get("PHLOEM_DATA")
    benchmark_parsimony(Path(data) if data else None)
    benchmark_joining()
