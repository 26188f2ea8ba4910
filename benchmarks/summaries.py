"""How long do importance samples of DS1 take, and what is made of them: weights, lengths, consensus trees, a report?"""

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import torch

from phloem import RandomStream, read_alignment
from phloem.config import EvaluationConfig
from phloem.data import compress
from phloem.inference.diagnostics import smooth
from phloem.inference.draws import DrawCollector, read_draws, write_draws
from phloem.inference.evaluation import draw_repeats
from phloem.models import TreeLikelihood, TreePosterior
from phloem.tasks.support import read_samples
from phloem.trees import majority_rule, maximum_clade_credibility, pool, split_frequencies, split_lengths, summary_tree
from phloem.variational import JointModel, build_branch_model, fit_network
from timing import Row, show

REPEATS, SAMPLES = 100, 1000
GOAL_SECONDS = 60.0  # for all draws; the published code takes a quarter of an hour

Result = TypeVar("Result")


class Stopwatch:
    """Runs a task once more after it has been compiled, and keeps a row for it."""

    def __init__(self) -> None:
        self.rows: list[Row] = []

    def time(self, what: str, task: Callable[[], Result], goal: float | None = None) -> Result:
        start = time.perf_counter()
        found = task()
        self.rows.append(Row(what, time.perf_counter() - start, goal))
        return found


def main() -> None:
    """The network is fitted to the bootstrap trees, so that draws are as varied as those of a trained model."""
    folder = os.environ.get("PHLOEM_DATA")
    if not folder:
        print("PHLOEM_DATA is not set: it names the folder of benchmark data")
        return
    torch.set_num_threads(1)
    alignment = read_alignment(Path(folder) / "alignments" / "DS1.fasta")
    trees = pool(read_samples([Path(folder) / "ufboot" / "DS1"], taxa=alignment.taxa))
    network = fit_network(trees, method="average").network
    model = JointModel(network, build_branch_model("edge", network.support))
    target = TreePosterior(TreeLikelihood(compress(alignment), threads=1))

    def draw(repeats: int) -> DrawCollector:
        collector = DrawCollector()
        config = EvaluationConfig(samples=SAMPLES, repeats=repeats)
        draw_repeats(model, target, config, stream=RandomStream(1, "benchmark"), keep=collector)
        return collector

    warm = draw(1).draws(alignment.taxa).weighted()
    split_lengths(warm)
    watch = Stopwatch()
    draws = watch.time(f"{REPEATS * SAMPLES:,} draws, one core", lambda: draw(REPEATS), GOAL_SECONDS).draws(
        alignment.taxa
    )
    watch.time("smoothed weights", lambda: smooth(draws.log_weights))
    weighted = watch.time("a weighted sample", draws.weighted)
    lengths = watch.time(
        f"lengths of {len(split_frequencies(weighted.topology_sample()).members):,} splits",
        lambda: split_lengths(weighted),
        2.0,
    )
    topologies = weighted.topology_sample()
    splits = split_frequencies(topologies)
    watch.time("majority rule", lambda: summary_tree(majority_rule(splits), lengths))
    watch.time(
        f"maximum clade credibility of {len(topologies):,} topologies",
        lambda: maximum_clade_credibility(topologies, splits),
    )
    with tempfile.TemporaryDirectory() as home:
        path = Path(home) / "draws"
        watch.time("writing the draws", lambda: write_draws(draws, path))
        watch.time(f"reading them, {path.stat().st_size / 1e6:.0f} MB", lambda: read_draws(path))
    show("DS1", watch.rows)


if __name__ == "__main__":
    main()
