"""Do runs on simulated alignments find the clades of the true tree, and are they as sure as they should be?

    python benchmarks/true_clades.py RUN:TRUTH …

RUN is a finished run directory, TRUTH the file NAME.true.tre that `phloem simulate` wrote. For each run: the verdict,
how many of the true clades are in the majority-rule tree, and of the clades that the run gives such a probability, how
many are true beside how many it expects, the sum of their probabilities.
"""

import argparse
from itertools import pairwise
from pathlib import Path

import numpy as np

import phloem
from phloem.tasks.support import read_samples
from phloem.trees.splits import split_frequencies
from timing import show_table

BOUNDS = (0.05, 0.5, 0.95, 1.0)


def line(run: Path, truth: Path) -> tuple[str, ...]:
    """A row of the table."""
    posterior = phloem.load_posterior(run)
    (true,) = read_samples([truth], taxa=posterior.taxa)
    real = {bytes(split) for split in split_frequencies(true).members}
    found = posterior.clades
    is_true = np.array([bytes(split) in real for split in found.members])
    probabilities = found.frequencies
    cells = []
    for low, high in pairwise(BOUNDS):
        within = (probabilities >= low) & ((probabilities < high) | (high == BOUNDS[-1]))
        cells.append(f"{is_true[within].sum()} of {within.sum()}, {probabilities[within].sum():.1f} expected")
    return (
        run.name,
        str(len(posterior.taxa)),
        posterior.trust.level,
        f"{(is_true & (probabilities > 0.5)).sum()} of {len(real)}",
        *cells,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", metavar="RUN:TRUTH")
    options = parser.parse_args()
    ranges = [f"{low:g} to {high:g}" for low, high in pairwise(BOUNDS)]
    columns = dict.fromkeys(["run", "taxa", "verdict", "true in the consensus", *ranges], "left")
    show_table("Clades that are true", columns, [line(*map(Path, each.split(":"))) for each in options.runs])


if __name__ == "__main__":
    main()
