"""Annealed draws beside plain ones of the same time: effective draws, and the spread of marginal likelihoods.

    python benchmarks/annealing.py RUN [RUN …] [--draws 4000]

A RUN is the directory of a run of `phloem infer`; of several runs in one the best is taken. Plain draws are made for
as many seconds of processor time as the annealed ones took, with their pilot. The spread is the standard deviation of
estimates from 1,000 draws each, from the variance of all weights, as a few estimates would hardly tell it.
"""

import argparse
import math
import time
from collections.abc import Callable

import numpy as np

import phloem
from phloem.arrays import FloatArray
from phloem.inference.annealing import anneal, plan_path
from phloem.inference.diagnostics import effective_sample_size, pareto_shape
from phloem.inference.evaluation import draw_log_weights
from phloem.inference.particles import lower_bound
from phloem.random_streams import RandomStream
from phloem.threads import single_threaded_products

CHUNK = 1000  # plain draws between looks at the clock
STREAM = RandomStream(11, "benchmark")


def timed(work: Callable[[], FloatArray]) -> tuple[FloatArray, float]:
    """The result, and the processor time that it took."""
    start = time.process_time()
    result = work()
    return result, time.process_time() - start


def show(title: str, log_weights: FloatArray, seconds: float) -> None:
    share = effective_sample_size(log_weights) / len(log_weights)
    spread = math.sqrt((1 / share - 1) / 1000)
    print(
        f"{title:<20}{seconds:8.1f}{len(log_weights):9,}{share:8.0%}{share * len(log_weights):11,.0f}"
        f"{pareto_shape(log_weights):7.2f}{lower_bound(log_weights):13.3f}{log_weights.mean():13.3f}{spread:9.3f}",
        flush=True,
    )


def compare(path: str, draws: int) -> None:
    best = phloem.load_posterior(path).best_run
    model, target = best.model, best.target
    draw_log_weights(model, target, 10, stream=STREAM)  # whatever a first call costs

    def annealed() -> FloatArray:
        planned = plan_path(model, target, stream=STREAM.named("pilot"))
        return anneal(model, target, planned, draws, stream=STREAM)

    log_weights, seconds = timed(annealed)
    parts: list[FloatArray] = []
    spent = 0.0
    while spent < seconds:
        part, more = timed(lambda: draw_log_weights(model, target, CHUNK, stream=STREAM.at(1 + len(parts))))
        parts.append(part)
        spent += more
    show(f"{path.rstrip('/').rsplit('/', 1)[-1]}, plain", np.concatenate(parts), spent)
    show("      annealed", log_weights, seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs="+")
    parser.add_argument("--draws", type=int, default=4000)
    options = parser.parse_args()
    print(
        f"{'':<20}{'seconds':>8}{'draws':>9}{'share':>8}{'effective':>11}{'k̂':>8}{'log p(Y)':>13}{'mean log w':>13}"
        f"{'spread':>9}"
    )
    with single_threaded_products():
        for path in options.runs:
            compare(path, options.draws)


if __name__ == "__main__":
    main()
