"""How long do a subsplit network's parts take in a training step, and how do they grow with the number of taxa?"""

import os
import time
from pathlib import Path

import torch

from phloem.random_streams import RandomStream
from phloem.trees.generation import nni_neighbors, random_topologies
from phloem.trees.reading import read_trees
from phloem.trees.topology import TopologyBatch
from phloem.variational.sbn import SubsplitNetwork, SubsplitSupport, collect_support, support_of
from timing import Row, best_times, show

PARTICLES = 10
GOAL_SECONDS = 0.2e-3


def step_times(support: SubsplitSupport, rounds: int = 3000) -> dict[str, float]:
    """Seconds of the whole (softmax, ten draws, log-probabilities with gradient) and of its parts."""
    network = SubsplitNetwork(support)
    stream = RandomStream(1, "benchmark")
    topologies = network.sample(PARTICLES, stream=stream)
    weights = torch.ones(PARTICLES, dtype=torch.float64)  # an estimator's, such as VIMCO's

    def whole() -> None:
        network.logits.grad = None
        network.draw(PARTICLES, stream=stream).log_prob.backward(weights)

    def log_prob_with_gradient() -> None:
        network.logits.grad = None
        network.log_prob(topologies).backward(weights)

    tasks = {
        "whole": whole,
        "softmax": network.tables,
        "softmax, sample": lambda: network.sample(PARTICLES, stream=stream),
        "indices": lambda: support.indices(topologies),
        "softmax, indices, log-probability with gradient": log_prob_with_gradient,
    }
    return best_times(tasks, rounds)


def benchmark_ds1(folder: Path) -> None:
    """DS1's ten bootstrap replicates, cut to 95 % and whole."""
    files = sorted((folder / "ufboot" / "DS1").glob("*.gz"))
    for attempt in ("first", "second"):
        start = time.perf_counter()
        replicates = [read_trees(path) for path in files]
        reading = time.perf_counter() - start
        support = collect_support(replicates, credible=0.95)
        building = time.perf_counter() - start - reading
        note = f"{reading:.2f} s reading, {building:.2f} s support; compiled code loaded" if attempt == "first" else ""
        rows = [Row(f"ten replicates of DS1 into a support, {attempt} time", reading + building, 5.0, note)]
        show("DS1", rows)
    closed = collect_support(replicates, credible=0.95, closure="clades")
    for name, chosen in (("95 %", support), ("uncut", collect_support(replicates)), ("95 %, closed", closed)):
        title = f"DS1 {name}: {chosen.topology_count:,} topologies, {chosen.parameter_count:,} parameters"
        times = step_times(chosen)
        show(title, [Row(what, time, GOAL_SECONDS if what == "whole" else None) for what, time in times.items()])


def benchmark_growth() -> None:
    """Supports of trees and their interchanges, from 30 to 1,000 taxa."""
    rows = []
    for taxa in (30, 100, 300, 1000):
        tree = random_topologies(taxa, 1, stream=RandomStream(1, "benchmark"))
        support = support_of(tuple(map(str, range(taxa))), TopologyBatch.concatenate([tree, nni_neighbors(tree)]))
        seconds = step_times(support, 200)["whole"]
        rows.append(Row(f"{taxa} taxa", seconds, note=f"{1e6 * seconds / taxa:.2f} µs a taxon"))
    show("softmax, ten draws, log-probability with gradient: a tree and its interchanges", rows)


if __name__ == "__main__":
    torch.set_num_threads(1)
    if os.environ.get("PHLOEM_DATA"):
        benchmark_ds1(Path(os.environ["PHLOEM_DATA"]))
    else:
        print("PHLOEM_DATA is not set: no DS1")
    benchmark_growth()
