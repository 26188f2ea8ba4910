"""Are clade probabilities right where the posterior is wide? Simulated alignments, against MrBayes.

    python benchmarks/wide.py --work DIR [--seeds 1 2] [--generations 2000000]

50 taxa, 200 sites under Jukes–Cantor, branches of 0.02 on average. The truth is two runs of MrBayes (four chains each,
other seeds), pooled; how far they are apart says how much it is to be believed. phloem is `phloem infer` with its
defaults and the embedded bootstrap, one run on one core. Seconds are of processor time, of everything from the
alignment on; what is in DIR is not made again. Needs MrBayes.
"""

import argparse
import json
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np

import phloem
from phloem.data.alignment import Alignment
from phloem.random_streams import RandomStream
from phloem.tasks.support import read_samples
from phloem.trees.sample import TreeSample, pool
from phloem.trees.splits import split_deviation, split_frequencies
from simulated import simulate
from trust import BURNIN, mrbayes_file

TAXA, SITES, MEAN_LENGTH = 50, 200, 0.02
RUNS = 2  # of MrBayes
OWN_DRAWS = 100_000


def timed(command: list[str], work: Path, name: str) -> float:
    """Seconds of processor time of a program, whose output is in a file; of the time before, if it has run before."""
    record = work / f"{name}.seconds"
    if not record.exists():
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        with (work / f"{name}.out").open("w") as out:
            subprocess.run(command, cwd=work, stdout=out, stderr=subprocess.STDOUT, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        record.write_text(json.dumps(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime))
    return float(json.loads(record.read_text()))


def compare(seed: int, work: Path, generations: int) -> None:
    """A row of the table."""
    name = f"wide-{seed}"
    alignment = simulate(TAXA, SITES, MEAN_LENGTH, seed)
    by_mrbayes, seconds = [], []
    for run in range(1, RUNS + 1):
        chain = f"{name}-mb{run}"
        (work / f"{chain}.nex").write_text(mrbayes_file(alignment, chain, generations=generations, seed=run))
        seconds.append(timed(["mb", f"{chain}.nex"], work, chain))
        by_mrbayes += read_samples([work / f"{chain}.t"], taxa=alignment.taxa, burnin=BURNIN)
    (work / f"{name}.fasta").write_text(fasta(alignment))
    command = [sys.executable, "-m", "phloem", "infer", f"{name}.fasta", "--model", "JC", "--out", name, "--plain"]
    took = timed([*command, "--threads", "1", "--bootstrap-method", "embedded"], work, name)
    posterior = phloem.load_posterior(work / name)
    own = posterior.model.network.sample(OWN_DRAWS, stream=RandomStream(1, "benchmark"))
    truth = split_frequencies(pool(by_mrbayes))
    apart = split_deviation([split_frequencies(each) for each in by_mrbayes])
    weighted, unweighted = (
        split_deviation([truth, clades])
        for clades in (posterior.clades, split_frequencies(TreeSample(posterior.taxa, own, np.ones(OWN_DRAWS), None)))
    )
    trees = pool(by_mrbayes)
    outside = 1 - float(
        trees.normalized().weights @ posterior.model.network.support.generates(trees.topologies).astype(float)
    )
    print(
        f"{seed:4}{len(trees.distinct()) / len(trees):10.2f}{sum(seconds):9.0f}{apart.largest_difference:9.4f}"
        f"{apart.average:8.4f}{took:9.0f}{weighted.largest_difference:9.4f}{weighted.average:8.4f}"
        f"{unweighted.largest_difference:9.4f}{unweighted.average:8.4f}{outside:9.4f}  {posterior.trust.level}",
        flush=True,
    )


def fasta(alignment: Alignment) -> str:
    """Of unambiguous sequences."""
    letters = {1: "A", 2: "C", 4: "G", 8: "T"}
    rows = zip(alignment.taxa, alignment.states, strict=True)
    return "".join(f">{taxon}\n{''.join(letters[state] for state in states.tolist())}\n" for taxon, states in rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--generations", type=int, default=2_000_000)
    options = parser.parse_args()
    options.work.mkdir(exist_ok=True)
    print(f"{'':4}{'MrBayes':>10}{'':>9}{'apart':>17}{'phloem':>9}{'off by':>17}{'Q alone':>17}")
    print(
        f"{'seed':4}{'distinct':>10}{'seconds':>9}{'largest':>9}{'average':>8}{'seconds':>9}{'largest':>9}{'average':>8}"
        f"{'largest':>9}{'average':>8}{'outside':>9}  verdict",
        flush=True,
    )
    for seed in options.seeds:
        compare(seed, options.work, options.generations)


if __name__ == "__main__":
    main()
