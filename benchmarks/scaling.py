"""How do time and memory of a training step grow with taxa, sites and particles?

    python benchmarks/scaling.py [--model GTR+G4] [--rounds 20] [--only taxa sites particles]

Simulated alignments on Yule trees with a clock; Q(τ) is held, on a support of trees that are a few interchanges away
from the true one, so that the topologies of a step differ. Each case is a process of its own: seconds are of the
processor, the median of some steps after the first, memory is the most that the process had, less what it had before
there were data. The slope is that of the logarithms, from one case to the next: 1 is linear.
"""

import argparse
import json
import math
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch

import phloem
from likelihood import memory, start_of_peak
from phloem import RandomStream
from phloem.config import InferConfig, ModelConfig, TrainingConfig
from phloem.data.patterns import compress
from phloem.inference.laplace import ParameterStart
from phloem.inference.training import Training
from phloem.tasks.run_files import build_model, build_target
from phloem.trees.generation import random_nni
from phloem.trees.sample import TreeSample
from phloem.trees.topology import TopologyBatch
from phloem.variational.fitting import first_network
from phloem.variational.sbn import support_of
from timing import milliseconds, show_table

TAXA, SITES, PARTICLES = 100, 1_000, 10  # where the others vary
CASES = {
    "taxa": (50, 100, 200, 300, 500),
    "sites": (1_000, 10_000, 100_000),
    "particles": (10, 100, 1_000, 10_000),
}
HEIGHT = 0.2  # of the trees
TREES, INTERCHANGES = 1_000, 10  # of the support, each so far from the true one
WARMING, LONGEST = 3, 60.0  # steps before those that count; seconds that these may take


class Measured(NamedTuple):
    """What a step takes."""

    patterns: int
    seconds: float
    megabytes: float


def measure(taxa: int, sites: int, particles: int, model: str, rounds: int) -> Measured:
    """The steps of one case, in this process."""
    torch.set_num_threads(1)
    data = phloem.simulate(taxa, sites, topology="yule", height=HEIGHT, model={"name": model}, seed=1)
    before = start_of_peak()
    patterns = compress(data.alignment)
    config = InferConfig(
        model=ModelConfig(model), training=TrainingConfig(steps=10**9, rate=1e-9, refit=0.0, particles=particles)
    )
    target = build_target(patterns, config, 1)
    trees = near(data.tree.topologies, patterns.taxa)
    network = first_network(support_of(trees.taxa, trees.topologies), trees)
    start = None
    if target.parameters is not None:
        start = ParameterStart(target.parameters.start(), 0.1 * np.eye(target.dimension))
    built = build_model(network.support, config, start)
    with torch.no_grad():
        built.network.logits.copy_(network.logits)
    training = Training(built, target, config.training, seed=1, held=True)
    for _ in range(WARMING):
        training.step()
    seconds: list[float] = []
    while len(seconds) < rounds and sum(seconds) < LONGEST:
        began = time.process_time()
        training.step()
        seconds.append(time.process_time() - began)
    return Measured(len(patterns.counts), float(np.median(seconds)), memory("VmHWM") - before)


def near(topology: TopologyBatch, taxa: tuple[str, ...]) -> TreeSample:
    """Topologies at most so many interchanges away from one."""
    topologies = topology.take(np.zeros(TREES, np.int64))
    stream = RandomStream(1, "scaling")
    for number in range(INTERCHANGES):
        topologies = random_nni(topologies, stream=stream.named(str(number)))
    return TreeSample(taxa, topologies, np.ones(TREES), None)


def in_process(*case: object) -> Measured:
    """A case in a process of its own."""
    found = subprocess.run(
        [sys.executable, __file__, "--case", *map(str, case)], check=True, stdout=subprocess.PIPE, text=True
    )
    return Measured(*json.loads(found.stdout))


def table(what: str, values: Sequence[int], model: str, rounds: int) -> None:
    """Cases that differ in one thing."""
    lines, last = [], None
    for value in values:
        case = {"taxa": TAXA, "sites": SITES, "particles": PARTICLES, what: value}
        found = in_process(*case.values(), model, rounds)
        slopes = ("", "")
        if last is not None:
            factor = math.log(value / last[0])
            slopes = (
                f"{math.log(found.seconds / last[1].seconds) / factor:.2f}",
                f"{math.log(found.megabytes / last[1].megabytes) / factor:.2f}",
            )
        lines.append(
            (
                f"{value:,}",
                f"{found.patterns:,}",
                milliseconds(found.seconds),
                slopes[0],
                f"{found.megabytes:,.0f}",
                slopes[1],
            )
        )
        last = value, found
    others = {"taxa": f"{TAXA} taxa", "sites": f"{SITES:,} sites", "particles": f"{PARTICLES} particles"}
    del others[what]
    columns = dict.fromkeys([what, "patterns", "ms a step", "slope", "MB", "slope "], "right")
    show_table(f"{model}, {', '.join(others.values())}", columns, lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="GTR+G4")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--only", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--case", nargs=5, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case:
        taxa, sites, particles, model, rounds = options.case
        print(json.dumps(measure(int(taxa), int(sites), int(particles), model, int(rounds))))
        return
    for what in options.only:
        table(what, CASES[what], options.model, options.rounds)


if __name__ == "__main__":
    main()
