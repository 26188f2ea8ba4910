"""What a trained density is for: scoring trees, drawing new ones, and comparing it with other estimates."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from phloem.display.stderr import say
from phloem.energy.comparison import Compared, compare, seen_share
from phloem.energy.density import TreeDensity, normalize
from phloem.energy.density_files import read_density, trained
from phloem.energy.sampling import DensityDraws, sample_density
from phloem.errors import BadArgument, FileProblem
from phloem.files import check_can_write
from phloem.kernels.arrays import FloatArray
from phloem.pipeline.density import finite
from phloem.pipeline.density_directory import DENSITY, DensityDirectory
from phloem.pipeline.tree_files import read_samples
from phloem.random_streams import RandomStream
from phloem.sealed_files import without_prefix
from phloem.target.threads import single_threaded_products
from phloem.trees.sample import TreeSample, pool
from phloem.trees.topology_index import TopologyIndex
from phloem.trees.writing import is_nexus_name, write_trees

MOST_TREES = 1_000_000  # of a sample
USUAL_SMOOTHING = 0.001

Progress = Callable[[float], None]


def _notice(text: str) -> None:
    say(f"phloem: {text}")


@single_threaded_products()
def load_density(
    directory: str | Path, *, progress: Progress | None = None, notice: Callable[[str], None] = _notice
) -> TreeDensity:
    """The density of a run of `phloem density fit`; of one that is not finished, as its last checkpoint has it.

    progress: is told the share of a normaliser that must be made. notice: is told if the run is not finished.
    """
    run = DensityDirectory(Path(directory))
    run.check_holds_run()
    try:
        return read_density(run.path / DENSITY)
    except FileProblem:
        checkpoint, problems = run.checkpoints.newest()
    if checkpoint is None:
        raise FileProblem(problems[0] if problems else f"{run.path}: has no checkpoint yet. Let the fit go on first.")
    config, noise = checkpoint.config, checkpoint.noise
    if checkpoint.step < config.steps:
        notice(f"{run.path}: is not finished; this is step {checkpoint.step:,} of {config.steps:,}")
    density = trained(config, noise, without_prefix("model", checkpoint.training))
    stream = RandomStream(config.seed, "density/normalizer")
    normalizer = normalize(density, noise, config.samples, stream=stream, progress=progress)
    return TreeDensity(config, checkpoint.sample, density, noise, normalizer)


@dataclass(frozen=True, slots=True)
class DensityScores:
    """Log-probabilities of trees in file order, and how the density compares with the trees as a whole."""

    density: TreeDensity
    trees: TreeSample  # with weights that sum to one
    log_probabilities: FloatArray  # (trees,)
    topologies: int  # distinct ones
    seen: float  # the share of the weight on topologies that the density was fitted to
    mean: float  # log-probability, by weight; -inf where a tree is impossible
    comparison: tuple[Compared, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Plain lists and numbers; what is infinite is null."""
        weights = self.trees.weights.tolist()
        logs = [finite(value) for value in self.log_probabilities.tolist()]
        return {
            "trees": [{"log_probability": log, "weight": w} for log, w in zip(logs, weights, strict=True)],
            "topologies": self.topologies,
            "seen": self.seen,
            "mean_log_probability": finite(self.mean),
            "normalizer": self.density.normalizer.as_json(),
            "comparison": [
                {name: finite(value) if isinstance(value, float) else value for name, value in row._asdict().items()}
                for row in self.comparison
            ],
        }


@single_threaded_products()
def score_density(
    directory: Path,
    sources: Sequence[str | Path],
    *,
    burnin: int | float = 0,
    smoothing: float | None = None,
    progress: Progress | None = None,
) -> DensityScores:
    """Log-probabilities of the trees of some files. smoothing: compare with other estimates, smoothed by so much."""
    density = load_density(directory, progress=progress)
    trees = pool(read_samples(sources, taxa=density.taxa, burnin=burnin))
    distinct = trees.distinct()
    logs = density.log_prob(distinct.topologies)[TopologyIndex(distinct.topologies).find(trees.topologies)]
    observed = trees.weights > 0
    return DensityScores(
        density=density,
        trees=trees,
        log_probabilities=logs,
        topologies=len(distinct),
        seen=seen_share(density.sample, distinct),
        mean=float(trees.weights[observed] @ logs[observed]),
        comparison=() if smoothing is None else compare(density, distinct, smoothing),
    )


class SampledTrees(NamedTuple):
    """What was written."""

    draws: DensityDraws
    topologies: int  # distinct ones


@single_threaded_products()
def sample_density_run(
    directory: Path, out: Path, *, count: int, method: str, seed: int, progress: Progress | None = None
) -> SampledTrees:
    """Draw topologies from a density and write them, all of the same weight."""
    run = DensityDirectory(directory)
    run.refuse_overwriting(out)
    if not 1 <= count <= MOST_TREES:
        raise BadArgument(f"--count {count:,}: ask for 1 to {MOST_TREES:,} trees.")
    is_nexus_name(out)
    check_can_write(out)
    density = load_density(directory, progress=progress)
    stream = RandomStream(seed, "density/sample")
    draws = sample_density(density, count, stream=stream, method=method, progress=progress)
    trees = TreeSample(density.taxa, draws.topologies, np.ones(count), None)
    write_trees(trees, out)
    return SampledTrees(draws, len(trees.distinct()))
