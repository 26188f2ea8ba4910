"""How much processor time to the clades of the posterior: MrBayes beside phloem.

    python benchmarks/against_mrbayes.py --work DIR [--sets DS1 …]

DIR holds, for each data set, NAME.fasta; NAME.t and NAME.out, the trees of one run of MrBayes (four chains) and what it
printed, as `trust.py` makes them; and in DIR/runs a run directory NAME of `phloem infer` with NAME.time, what the
shell's `time` said of it.

For DS1 to DS4 the truth is the ten long runs in PHLOEM_DATA: how far is each program from it? For others there is none.
There MrBayes' error is half of the largest difference between the halves of its run, and phloem's differences are those
to MrBayes, its error included. Times to an error of 0.02 are from errors that fall with the square root of time.
"""

import argparse
import os
import re
import time
from pathlib import Path

import phloem
from phloem.tasks.evaluate import read_reference
from phloem.trees.sample import pool
from phloem.trees.splits import SplitFrequencies, split_deviation, split_frequencies

GOAL = 0.02
BURNIN = 0.25
CHAINS, ROUNDS = 400, 200


def truth_of(name: str, taxa: tuple[str, ...]) -> SplitFrequencies | None:
    """Clade probabilities by long runs, if there are any."""
    folder = Path(os.environ.get("PHLOEM_DATA", "")) / "mrbayes" / name
    return split_frequencies(pool(read_reference([folder], taxa=taxa))) if folder.is_dir() else None


def difference(one: SplitFrequencies, other: SplitFrequencies) -> float:
    """Of the probability of a clade, at most."""
    return split_deviation([one, other]).largest_difference


def processor_seconds(path: Path) -> float:
    """What the shell's `time` said: user and system."""
    minutes = re.findall(r"(?:user|sys)\s+(\d+)m([\d.]+)s", path.read_text())
    return sum(60 * int(whole) + float(rest) for whole, rest in minutes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--sets", nargs="+", default=[f"DS{number}" for number in range(1, 11)])
    options = parser.parse_args()
    print(f"{'':6}  MrBayes  error  to {GOAL:g}    phloem  off by  verdict         chains  error  off by")
    for name in options.sets:
        run, log = options.work / "runs" / name, options.work / f"{name}.out"
        taxa = phloem.read_alignment(options.work / f"{name}.fasta").taxa
        trees = phloem.read_trees(options.work / f"{name}.t", taxa=taxa, burnin=BURNIN)
        (seconds,) = map(float, re.findall(r"used ([\d.]+) seconds of CPU", log.read_text()))
        whole, half = split_frequencies(trees), len(trees) // 2
        truth = truth_of(name, taxa)
        if truth is None:
            error = difference(split_frequencies(trees[:half]), split_frequencies(trees[half:])) / 2
        else:
            error = difference(whole, truth)
        posterior = phloem.load_posterior(run)
        begin = time.process_time()
        chains = posterior.chains(CHAINS, ROUNDS, threads=1)
        took = time.process_time() - begin
        own, theirs = (difference(each.clades, truth or whole) for each in (posterior, chains))
        print(
            f"{name:6}{seconds:9.0f}{error:7.3f}{seconds * (error / GOAL) ** 2:8.0f}"
            f"{processor_seconds(run.with_suffix('.time')):10.0f}{own:8.3f}  {posterior.trust.level:12}"
            f"{took:10.0f}{chains.found.largest_error:7.3f}{theirs:8.3f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
