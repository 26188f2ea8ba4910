"""How much processor time to the clades of the posterior: MrBayes beside phloem.

    python benchmarks/against_mrbayes.py --work DIR [--sets DS1 …] [--reference FILE …]

DIR holds, for each data set, NAME.t and NAME.out: the trees of one run of MrBayes (four chains) and what it printed,
as `trust.py` makes them; and in DIR/runs a run directory NAME of `phloem infer` with NAME.time, what the shell's `time`
said of it. For DS1 to DS4 the truth is the reference in PHLOEM_DATA; for others the second half of MrBayes' run, in
which case its time is counted in the first half alone.

Of MrBayes: the processor time after which the largest difference of a clade's probability stays below each limit, a
quarter of the trees so far left out as burn-in. Of phloem: the time of the whole command, the largest difference of its
weighted draws, and that of chains from them, with their own time.
"""

import argparse
import os
import re
import time
from pathlib import Path

import numpy as np

import phloem
from phloem.tasks.evaluate import read_reference
from phloem.trees.sample import TreeSample, pool
from phloem.trees.splits import SplitFrequencies, split_deviation, split_frequencies

LIMITS = (0.05, 0.02)
BURNIN = 0.25
PLACES = 100  # of MrBayes' run, at which it is compared
CHAINS, ROUNDS = 400, 200


def truth_of(name: str, trees: TreeSample) -> tuple[SplitFrequencies, float]:
    """Clade probabilities, and the share of MrBayes' run that they do not depend on."""
    folder = Path(os.environ.get("PHLOEM_DATA", ".")) / "mrbayes" / name
    if folder.is_dir():
        return split_frequencies(pool(read_reference([folder], taxa=trees.taxa))), 1.0
    return split_frequencies(trees[len(trees) // 2 :]), 0.5


def mrbayes_seconds(trees: TreeSample, truth: SplitFrequencies, share: float, seconds: float) -> list[float]:
    """The time after which the difference stays below each limit; infinite if it does not."""
    ends = np.unique(np.linspace(0, share * len(trees), PLACES + 1).astype(int)[1:])
    ends = ends[ends >= 10]
    differences = np.array(
        [split_deviation([split_frequencies(trees[int(BURNIN * end) : end]), truth]).largest_difference for end in ends]
    )
    found = []
    for limit in LIMITS:
        late = np.flatnonzero(differences > limit)
        after = 0 if not len(late) else late[-1] + 1
        found.append(seconds * ends[after] / len(trees) if after < len(ends) else np.inf)
    return found


def processor_seconds(path: Path) -> float:
    """What the shell's `time` said: user and system."""
    minutes = re.findall(r"(?:user|sys)\s+(\d+)m([\d.]+)s", path.read_text())
    return sum(60 * int(whole) + float(rest) for whole, rest in minutes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--sets", nargs="+", default=[f"DS{number}" for number in range(1, 11)])
    options = parser.parse_args()
    limits = "".join(f"{f'to {limit:g}':>10}" for limit in LIMITS)
    print(f"{'':6}{'MrBayes':>10}{limits}{'phloem':>10}{'off by':>8}{'verdict':>14}{'chains':>9}{'off by':>8}")
    for name in options.sets:
        run, log = options.work / "runs" / name, options.work / f"{name}.out"
        trees = phloem.read_trees(
            options.work / f"{name}.t", taxa=phloem.read_alignment(f"{options.work}/{name}.fasta").taxa
        )
        (whole,) = re.findall(r"used ([\d.]+) seconds of CPU", log.read_text())
        truth, share = truth_of(name, trees)
        seconds = mrbayes_seconds(trees, truth, share, float(whole))
        posterior = phloem.load_posterior(run)
        begin = time.process_time()
        chains = posterior.chains(CHAINS, ROUNDS, threads=1)
        took = time.process_time() - begin
        off = [split_deviation([each.clades, truth]).largest_difference for each in (posterior, chains)]
        print(
            f"{name:6}{float(whole):10.0f}{''.join(f'{each:10.0f}' for each in seconds)}"
            f"{processor_seconds(run.with_suffix('.time')):10.0f}{off[0]:8.3f}{posterior.trust.level:>14}"
            f"{took:9.0f}{off[1]:8.3f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
