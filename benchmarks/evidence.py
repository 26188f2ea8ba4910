"""Probabilities of topologies by the draws of a run and by evidence, against a reference, with the seconds of each.

    python benchmarks/evidence.py RUN REFERENCE… [--error 0.05] [--top 20]

A RUN is the directory of a finished run of `phloem infer`. Each reference file counts the same, as in
`phloem evaluate --reference`. Seconds are of processor time: of as many plain draws as the run evaluated with, and of
annealing the topologies of its 95 % credible set.
"""

import argparse
import time
from pathlib import Path

import numpy as np

from phloem.arrays import FloatArray
from phloem.inference.evaluation import draw_log_weights
from phloem.random_streams import RandomStream
from phloem.tasks.evaluate import read_reference
from phloem.tasks.posterior import load_posterior
from phloem.tasks.run_evidence import measure_run_evidence
from phloem.threads import single_threaded_products
from phloem.trees.sample import TreeSample, pool
from phloem.trees.topology import TopologyBatch


def looked_up(trees: TreeSample, values: FloatArray, wanted: TopologyBatch) -> FloatArray:
    """The value of each wanted topology; nan where there is none."""
    known = dict(zip((row.tobytes() for row in trees.topologies.parent), values.tolist(), strict=True))
    return np.array([known.get(row.tobytes(), np.nan) for row in wanted.parent])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("reference", nargs="+")
    parser.add_argument("--error", type=float, default=0.05)
    parser.add_argument("--top", type=int, default=20)
    options = parser.parse_args()
    posterior = load_posterior(options.run)
    reference = pool(read_reference(options.reference, taxa=posterior.taxa)).distinct().normalized()
    reference = reference[np.argsort(-reference.weights, kind="stable")[: options.top]]
    evaluation = posterior.config.evaluation
    with single_threaded_products():
        start = time.process_time()
        count = evaluation.samples * evaluation.repeats
        draw_log_weights(posterior.model, posterior.target, count, stream=RandomStream(1, "benchmark"))
        drawing = time.process_time() - start
    start = time.process_time()
    found = measure_run_evidence(options.run, error=options.error, threads=1)
    integrating = time.process_time() - start

    estimates = posterior.topology_estimates
    drawn = np.nan_to_num(looked_up(estimates.trees, estimates.trees.weights, reference.topologies))
    drawn_errors = looked_up(estimates.trees, estimates.error, reference.topologies)
    evident = looked_up(found.trees, found.shares.probability, reference.topologies)
    evident_errors = looked_up(found.trees, found.shares.error, reference.topologies)
    is_listed = np.isfinite(evident)
    evident, evident_errors = np.where(is_listed, (evident, evident_errors), (drawn, drawn_errors))
    print(f"{len(posterior.draws):,} draws, verdict {posterior.trust.level}; {len(found.trees)} topologies by evidence")
    print(f"of the {len(reference)} most probable of the reference {int(is_listed.sum())} are among them\n")
    print("                 largest error   error it states there   half the sum of errors   seconds")
    for name, values, errors, seconds in (
        ("by draws", drawn, drawn_errors, drawing),
        ("by evidence", evident, evident_errors, integrating),
    ):
        differences = np.abs(values - reference.weights)
        worst = int(differences.argmax())
        print(f"{name:<12}{differences[worst]:18.4f}{errors[worst]:24.4f}{differences.sum() / 2:25.4f}{seconds:10.0f}")


if __name__ == "__main__":
    main()
