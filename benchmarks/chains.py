"""Chains from a run's draws for their time: how far clades are from a reference, such as long runs of MrBayes.

    python benchmarks/chains.py RUN --reference FILE [--reference FILE …] [--burnin 0.25] [--chains 400] [--rounds 200]

Prints a row for a quarter of the chains, for half of them and for all: processor time, R̂, average standard deviation
of split frequencies between groups and halves, effective trees, the largest error of a clade as the chains estimate
it, and the largest difference to all reference files together. Two reference files are compared with each other too.
"""

import argparse
import time
from pathlib import Path

import phloem
from phloem.tasks.evaluate import read_reference
from phloem.trees.sample import pool
from phloem.trees.splits import split_deviation, split_frequencies


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--reference", action="append", required=True)
    parser.add_argument("--burnin", type=float, default=0.0)
    parser.add_argument("--chains", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=200)
    options = parser.parse_args()
    posterior = phloem.load_posterior(options.run)
    samples = read_reference(options.reference, taxa=posterior.taxa, burnin=options.burnin)
    reference = split_frequencies(pool(samples))
    posterior.chains(2, 2)  # whatever a first call costs
    print("chains  seconds     R̂   groups   halves  effective    error  difference  outside")
    for chains in (options.chains // 4, options.chains // 2, options.chains):
        start = time.process_time()
        chain = posterior.chains(chains, options.rounds, threads=1)
        seconds, found = time.process_time() - start, chain.found
        difference = split_deviation([chain.clades, reference]).largest_difference
        print(
            f"{chains:>6}{seconds:>9.1f}{found.shrink:>7.3f}{found.groups.average:>9.4f}{found.halves.average:>9.4f}"
            f"{found.effective:>11,.0f}{found.largest_error:>9.4f}{difference:>12.4f}{chain.check.outside.value:>9.4f}",
            flush=True,
        )
    own = split_deviation([posterior.clades, reference]).largest_difference
    print(f"the run's own clades differ from the reference by up to {own:.4f}")
    if len(samples) > 1:
        apart = split_deviation([split_frequencies(sample) for sample in samples])
        print(
            f"the files of the reference differ by up to {apart.largest_difference:.4f}, {apart.average:.4f} on average"
        )


if __name__ == "__main__":
    main()
