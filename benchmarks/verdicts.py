"""Is the verdict "good" where the result is? Small simulated data sets, on which the posterior is known.

    python benchmarks/verdicts.py [--first 1] [--last 40] [--all]

Five or six taxa; a random topology with some short branches; 50 to 800 sites under Jukes–Cantor. `phloem infer` with
its defaults is compared with the probabilities of all topologies by integration (`tests/reference/exact_posterior.py`):
where the verdict is not "good", or everywhere with --all, which takes twice as long.
"""

import argparse
import math
import sys
from pathlib import Path

import numpy as np

import phloem
from phloem.data.alignment import Alignment
from phloem.data.patterns import compress
from phloem.tasks.posterior import Posterior
from phloem.trees.generation import all_topologies

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from reference.exact_posterior import exact_posterior
from simulated import simulate

SITES = (50, 100, 200, 400, 800)
MEAN_LENGTHS = (0.02, 0.05, 0.1)
RIGHT = 0.02  # largest error of a topology's probability
SAMPLES = 20_000  # of the integration, for each topology of some weight


def largest_error(posterior: Posterior, alignment: Alignment) -> tuple[float, float]:
    """Of a topology's probability, and the standard error of the integration in nats."""
    everything = all_topologies(len(alignment.taxa))
    exact, _, error = exact_posterior(everything, compress(alignment), samples=SAMPLES, seed=1)
    numbers = {row.tobytes(): number for number, row in enumerate(everything.parent)}
    found = np.zeros(len(everything))
    weighted = posterior.draws.weighted()
    places = np.array([numbers[row.tobytes()] for row in weighted.topologies.parent])
    np.add.at(found, places[weighted.group], weighted.weights)
    return float(np.abs(found - exact).max()), error


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--last", type=int, default=40)
    parser.add_argument("--all", action="store_true")
    options = parser.parse_args()
    print("number  taxa  sites  verdict       k̂  effective  largest error  (integration)", flush=True)
    missed = []
    for number in range(options.first, options.last + 1):
        alignment = simulate(
            5 + number % 2, SITES[number % len(SITES)], MEAN_LENGTHS[number % len(MEAN_LENGTHS)], number
        )
        posterior = phloem.infer(alignment, model={"name": "JC"}, progress=False, threads=1)
        summary = posterior.summary
        is_good = summary.trust.level == "good"
        error, doubt = largest_error(posterior, alignment) if options.all or not is_good else (math.nan, math.nan)
        if error <= RIGHT and not is_good:
            missed.append(number)
        share = summary.draws.effective_sample_size / summary.draws.count
        print(
            f"{number:6}  {len(alignment.taxa):4}  {alignment.states.shape[1]:5}  {summary.trust.level:12}"
            f"{summary.draws.pareto_shape:5.2f}  {share:9.0%}  {error:13.4f}  {doubt:13.4f}",
            flush=True,
        )
    print(f"right, but not called good: {missed or 'none'}")


if __name__ == "__main__":
    main()
