"""Alignment → posterior: support, training, evaluation."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch

from phloem.config import BootstrapConfig, InferConfig
from phloem.data.alignment import Alignment
from phloem.data.examples import EXAMPLES
from phloem.data.patterns import compress
from phloem.data.reading import read_alignment
from phloem.inference.evaluation import Evaluation, evaluate
from phloem.inference.training import Report as Report
from phloem.inference.training import Training, train
from phloem.pipeline.run_directory import RunDirectory
from phloem.pipeline.tree_files import read_samples
from phloem.random_streams import RandomStream
from phloem.search.bootstrap import BootstrapProgress, bootstrap
from phloem.search.iqtree import check_alignment, find_iqtree
from phloem.target.likelihood import TreeLikelihood
from phloem.target.posterior import TreePosterior
from phloem.target.prior import TreePrior
from phloem.target.threads import physical_cores
from phloem.trees.sample import TreeSample
from phloem.variational.branch_registry import build_branch_model
from phloem.variational.collection import collect_support
from phloem.variational.joint import JointModel
from phloem.variational.sbn import SubsplitNetwork
from phloem.variational.support import SubsplitSupport


class Progress(NamedTuple):
    """News of a run: what it does, which share of that is done, and the last report of the training."""

    phase: str
    share: float
    report: Report | None = None


@dataclass(frozen=True, slots=True)
class Inference:
    """A trained model and what is known of it."""

    alignment: Alignment
    target: TreePosterior
    model: JointModel
    history: list[Report]
    evaluation: Evaluation
    seconds: float


def infer(
    source: str | Path,
    out: Path,
    config: InferConfig,
    *,
    trees: Sequence[str | Path] = (),
    threads: int | None = None,
    progress: Callable[[Progress], None] = lambda _news: None,
) -> Inference:
    """Infer the posterior of an alignment, and write the run to a new directory.

    trees: files for the support; without any, those of a bundled example, or else IQ-TREE's bootstrap trees.
    threads: cores for the likelihood; by default all physical ones.
    """
    start = time.monotonic()
    threads = threads or physical_cores()
    alignment = read_alignment(source)
    samples = _given_samples(source, alignment, trees)
    if not samples:  # better before a directory is made than after
        check_alignment(alignment)
        find_iqtree()
    run = RunDirectory(out)
    samples = samples or _bootstrap_samples(alignment, run, config, threads, progress)
    progress(Progress("support", 0.0))
    support = collect_support(samples, credible=config.credible)
    target = TreePosterior(TreeLikelihood(compress(alignment), threads=threads), TreePrior(config.prior_rate))
    model = build_model(support, config)
    training = Training(model, target, config.training, seed=config.seed)
    with single_threaded_products():
        history = train(
            training,
            config.evaluation,
            progress=lambda report: progress(Progress("training", report.step / config.training.steps, report)),
        )
        run.write_config(config)
        run.write_model(model)
        run.write_history(history)
        evaluation = evaluate(
            model,
            target,
            config.evaluation,
            particles=config.training.particles,
            stream=RandomStream(config.seed, "evaluation"),
            progress=lambda repeat: progress(Progress("evaluation", repeat / config.evaluation.repeats)),
        )
    result = Inference(alignment, target, model, history, evaluation, time.monotonic() - start)
    run.write_summary(summarize(result, config))
    return result


@contextmanager
def single_threaded_products() -> Iterator[None]:
    """Keep torch to one core: its products are so small that more gain nothing, and on a busy machine they wait."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def build_model(support: SubsplitSupport, config: InferConfig) -> JointModel:
    """An untrained model; its first weights depend on the seed alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(RandomStream(config.seed, "weights").key()[0]))
        branches = build_branch_model(config.branches, support, depth=config.depth, width=config.width)
    return JointModel(SubsplitNetwork(support), branches)


def summarize(result: Inference, config: InferConfig) -> dict[str, Any]:
    """The result in a few numbers."""
    support = result.model.network.support
    return {
        "taxa": len(result.alignment.taxa),
        "sites": result.alignment.site_count,
        "patterns": len(result.target.likelihood.patterns),
        "support": {
            "topologies": support.topology_count,
            "splits": len(support.splits),
            "parameters": support.parameter_count,
        },
        "branches": config.branches,
        "steps": config.training.steps,
        "seed": config.seed,
        "seconds": round(result.seconds, 3),
        **{name: estimated._asdict() for name, estimated in result.evaluation._asdict().items()},
    }


def _given_samples(source: str | Path, alignment: Alignment, trees: Sequence[str | Path]) -> list[TreeSample]:
    """The trees that were given, else a bundled example's own, else none."""
    if not trees and str(source) in EXAMPLES and not Path(source).exists():
        trees = [source]
    return read_samples(trees, taxa=alignment.taxa)


def _bootstrap_samples(
    alignment: Alignment, run: RunDirectory, config: InferConfig, threads: int, progress: Callable[[Progress], None]
) -> list[TreeSample]:
    """IQ-TREE's bootstrap trees. Those that a stopped run has left in the directory are not made again."""
    settings = BootstrapConfig(seed=config.seed, threads=threads)

    def show(news: BootstrapProgress) -> None:
        progress(Progress("bootstrap", news.done / settings.replicates))

    return read_samples(bootstrap(alignment, run.bootstrap, settings, progress=show).files, taxa=alignment.taxa)
