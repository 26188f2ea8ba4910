"""Trees with weights → a density: fitted in a run directory, loaded, scored, sampled."""

import json
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

from phloem.arrays import FloatArray
from phloem.config.density import DENSITY, DensityConfig
from phloem.config.settings import Layer
from phloem.display.bar import bar_display
from phloem.display.events import Event, News, Notice
from phloem.energy.comparison import Compared, compare, seen_share
from phloem.energy.density import TreeDensity, normalize
from phloem.energy.files import DensityInputs, pack_inputs, read_density, trained, unpack_inputs, write_density
from phloem.energy.noise import UniformNoise, choose_noise
from phloem.energy.sampling import DensityDraws, sample_density
from phloem.energy.training import Appraiser, DensityReport, DensityReporter, DensityTraining
from phloem.errors import BadArgument, FileProblem
from phloem.interrupts import held
from phloem.random_streams import RandomStream
from phloem.runs.checkpoints import Checkpoint, RunKind, parse_interval
from phloem.runs.directory import HISTORY, SUMMARY, RunDirectory, describe_file
from phloem.runs.driver import RunOptions, RunRequest, Session, session, train
from phloem.runs.history import History, HistoryFile, read_history
from phloem.storage.arrays import OtherFormat, OtherKind, without_prefix
from phloem.storage.files import check_can_write, read_bytes
from phloem.tasks.support import list_tree_files, read_samples
from phloem.threads import single_threaded_products
from phloem.trees.sample import TreeSample, pool
from phloem.trees.topology import TopologyIndex
from phloem.trees.writing import is_nexus_name, write_trees

DENSITY_FILE = "density.safetensors"
MOST_TAXA_FOR_UNIFORM = 12  # beyond, hardly a tree of uniform noise resembles any of the data
MOST_TREES = 1_000_000  # of a sample
USUAL_SMOOTHING = 0.001

DENSITY_RUNS: RunKind[DensityConfig, DensityInputs] = RunKind(
    schema=DENSITY, report=DensityReport, pack=pack_inputs, unpack=unpack_inputs, results=(DENSITY_FILE,)
)

DensityRun = RunDirectory[DensityConfig, DensityInputs]
DensityCheckpoint = Checkpoint[DensityConfig, DensityInputs]
Progress = Callable[[Event], None]
Share = Callable[[float], None]


def density_run(path: str | Path) -> DensityRun:
    """The directory of a run of `phloem density fit`."""
    return RunDirectory(Path(path), DENSITY_RUNS)


class DensityRequest(NamedTuple):
    """What to fit a density to, and where its files go."""

    trees: Sequence[str | Path] | TreeSample  # files; none resumes with the trees of the run's checkpoint
    run: RunRequest
    preset: str | None = None
    settings: Sequence[Layer] = ()
    burnin: int | float = 0


@dataclass(frozen=True, slots=True)
class DensitySummary:
    """The result of a fit: what `summary.json` holds."""

    taxa: int
    topologies: int
    convolution: str
    noise: str
    parameters: int
    steps: int
    seconds: float
    loss: float | None  # of the last steps
    expected_loss: float | None  # over all topologies, if these are few
    divergence: float  # Kullback–Leibler, from the sample to the density
    normalizer: Mapping[str, Any]

    @classmethod
    def read(cls, directory: Path) -> "DensitySummary":
        """`summary.json` of a finished fit."""
        path = density_run(directory).checksums.check(SUMMARY)
        try:
            return cls(**json.loads(read_bytes(path)))
        except (ValueError, TypeError, RecursionError):
            raise FileProblem(f"{path}: is damaged. Make it again with --resume.") from None


def fit_density_run(request: DensityRequest, progress: Progress) -> TreeDensity:
    """Fit a density, in a directory of its own that a stopped fit resumes from."""
    with session(density_run(request.run.directory), request.run) as directory, single_threaded_products():
        finished = _finished(directory) if request.run.resume else None
        saved = None if finished else _saved(directory, progress)
        before = finished or saved
        config = _settings(directory, request, before.config if before else None)
        known = DensityInputs(finished.observed, finished.noise) if finished else saved.inputs if saved else None
        inputs = _inputs(request, config, known, progress)
        if finished:
            _begin(directory, request, config, None)
            return finished
        training = DensityTraining(inputs.sample, inputs.noise, config)
        checkpoint = saved or Checkpoint(config, inputs, training.state(), History(DensityReport))
        _begin(directory, request, config, checkpoint)
        training.restore(checkpoint.training)
        return _complete(directory, checkpoint, training, request.run.options, progress)


def _complete(
    run: DensityRun,
    checkpoint: DensityCheckpoint,
    training: DensityTraining,
    options: RunOptions,
    progress: Progress,
) -> TreeDensity:
    """Train from a checkpoint to the end, normalise, and write the results."""
    config, (sample, noise) = checkpoint.config, checkpoint.inputs
    appraise = Appraiser(sample, noise, ratio=config.noise_ratio, draws=config.report_samples)
    history = train(run, checkpoint, training, DensityReporter(training, appraise), options, progress)
    normalizer = normalize(
        training.density,
        noise,
        config.samples,
        stream=RandomStream(config.seed, "density/normalizer"),
        progress=lambda share: progress(News(1, "normalising", share, training.steps_done)),
    )
    density = TreeDensity(config, sample, training.density, noise, normalizer)
    HistoryFile(run.path / HISTORY, DensityReport).rewrite(history.reports)
    write_density(density, run.path / DENSITY_FILE)
    run.write_summary(asdict(summarize(density, history)))
    return density


def _finished(run: DensityRun) -> TreeDensity | None:
    """The density, if all files of the fit are whole. Others are made again from the last checkpoint."""
    if not run.has_results():
        return None
    try:
        density = read_density(run.path / DENSITY_FILE)
        reports = read_history(run.path / HISTORY, DensityReport)
    except (OtherFormat, OtherKind):
        raise
    except FileProblem:
        return None
    return density if reports and reports[-1].step == density.config.steps else None


def _saved(directory: Session[DensityConfig, DensityInputs], progress: Progress) -> DensityCheckpoint | None:
    if not directory.request.resume:
        return None

    def notice(text: str) -> None:
        progress(Notice(text))

    directory.notice_changes(notice)
    return directory.newest_checkpoint(notice)


def _settings(directory: DensityRun, request: DensityRequest, before: DensityConfig | None) -> DensityConfig:
    """Those of the run to resume, which must not differ from what was given; else the preset's and the given."""
    if before is None and request.run.resume:
        before = directory.read_config()
    wanted = DENSITY.resolve(base=before, preset=request.preset, settings=request.settings)
    if before is not None and (different := DENSITY.differences(before, wanted)):
        raise FileProblem(
            f"{directory.path}: is a run with other settings: {different[0]}. Leave the settings out to resume with "
            "its own, or start again with --force."
        )
    return wanted


def _inputs(
    request: DensityRequest, config: DensityConfig, known: DensityInputs | None, progress: Progress
) -> DensityInputs:
    """The trees and their noise; what was given must be what a saved run has."""
    sample = _read_sample(request, known)
    path = request.run.directory
    if known is not None:
        if sample is not None and not _is_same(sample, known.sample):
            raise FileProblem(
                f"{path}: is a run on other trees. Leave them out to resume with its own, or start again with --force."
            )
        return known
    if sample is None:
        raise BadArgument(f"{path}: has no checkpoint to resume from. Name the trees.")
    if np.count_nonzero(sample.weights) == 1:
        raise BadArgument("density: all trees have the same topology, so there is nothing to learn. Give more trees.")
    noise = choose_noise(sample, config)
    if isinstance(noise, UniformNoise) and noise.taxon_count > MOST_TAXA_FOR_UNIFORM:
        progress(
            Notice(f"uniform noise hardly ever resembles trees of {noise.taxon_count} taxa: --noise sbn serves better")
        )
    return DensityInputs(sample, noise)


def _read_sample(request: DensityRequest, known: DensityInputs | None) -> TreeSample | None:
    """The trees as distinct topologies with weights that sum to one; None if none were given."""
    trees = request.trees
    if isinstance(trees, TreeSample):
        return trees.normalized().distinct()
    if not trees:
        return None
    return pool(read_samples(trees, taxa=known.sample.taxa if known else None, burnin=request.burnin)).distinct()


def _is_same(one: TreeSample, two: TreeSample) -> bool:
    return (
        one.taxa == two.taxa
        and np.array_equal(one.topologies.parent, two.topologies.parent)
        and np.array_equal(one.weights, two.weights)
    )


def _begin(
    directory: Session[DensityConfig, DensityInputs],
    request: DensityRequest,
    config: DensityConfig,
    checkpoint: DensityCheckpoint | None,
) -> None:
    """Write down what the run is, and a checkpoint before the first step. checkpoint: None if the fit is finished."""
    trees: list[Any] = ["a tree sample"]
    if not isinstance(request.trees, TreeSample):
        trees = [describe_file(path) for path in list_tree_files(request.trees)]
    with held():
        directory.replace_old_run()
        try:
            directory.record(config, {"trees": trees}, seed=config.seed, command=request.run.command)
            if checkpoint is not None and checkpoint.step == 0:
                directory.checkpoints.add(checkpoint)
        except FileProblem:
            if not request.run.resume:  # nothing shall stay of a run that cannot begin
                directory.clear()
            raise


def summarize(density: TreeDensity, history: History[DensityReport]) -> DensitySummary:
    """The result of a fit in a few numbers."""
    config, last = density.config, history.reports[-1]
    return DensitySummary(
        taxa=len(density.taxa),
        topologies=len(density.observed),
        convolution=config.convolution,
        noise=config.noise,
        parameters=sum(parameter.numel() for parameter in density.unnormalized.model.parameters()),
        steps=last.step,
        seconds=history.seconds,
        loss=finite(last.loss),
        expected_loss=finite(last.expected_loss),
        divergence=divergence(density),
        normalizer=density.normalizer.as_json(),
    )


def divergence(density: TreeDensity) -> float:
    """Kullback–Leibler, from the sample that it was fitted to to the density."""
    observed = density.observed[density.observed.weights > 0]
    return float(observed.weights @ (np.log(observed.weights) - density.log_prob(observed.topologies)))


def finite(value: float) -> float | None:
    """A number as JSON can have it; None for what is none."""
    return value if math.isfinite(value) else None


@single_threaded_products()
def load_density(
    directory: str | Path, *, progress: Share | None = None, notice: Callable[[str], None] = warnings.warn
) -> TreeDensity:
    """The density of a run of `phloem density fit`; of one that is not finished, at its last checkpoint.

    progress: gets the share of a normaliser that must be made. notice: gets a line if the run is not finished.
    """
    run = density_run(directory)
    run.check_holds_run()
    try:
        return read_density(run.path / DENSITY_FILE)
    except FileProblem:
        checkpoint, problems = run.checkpoints.newest()
    if checkpoint is None:
        raise FileProblem(problems[0] if problems else f"{run.path}: has no checkpoint yet. {run.how_to_finish()}")
    config, noise = checkpoint.config, checkpoint.inputs.noise
    if checkpoint.step < config.steps:
        notice(f"{run.path}: is not finished; this is step {checkpoint.step:,} of {config.steps:,}")
    density = trained(config, noise, without_prefix("model", checkpoint.training))
    stream = RandomStream(config.seed, "density/normalizer")
    normalizer = normalize(density, noise, config.samples, stream=stream, progress=progress)
    return TreeDensity(config, checkpoint.inputs.sample, density, noise, normalizer)


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
    progress: Share | None = None,
    notice: Callable[[str], None] = warnings.warn,
) -> DensityScores:
    """Log-probabilities of the trees of some files. smoothing: compare with other estimates, smoothed by so much."""
    density = load_density(directory, progress=progress, notice=notice)
    trees = pool(read_samples(sources, taxa=density.taxa, burnin=burnin))
    distinct = trees.distinct()
    logs = density.log_prob(distinct.topologies)[TopologyIndex(distinct.topologies).find(trees.topologies)]
    observed = trees.weights > 0
    return DensityScores(
        density=density,
        trees=trees,
        log_probabilities=logs,
        topologies=len(distinct),
        seen=seen_share(density.observed, distinct),
        mean=float(trees.weights[observed] @ logs[observed]),
        comparison=() if smoothing is None else compare(density, distinct, smoothing),
    )


class SampledTrees(NamedTuple):
    """What was written."""

    draws: DensityDraws
    topologies: int  # distinct ones


@single_threaded_products()
def sample_density_run(
    directory: Path,
    out: Path,
    *,
    count: int,
    method: str,
    seed: int,
    progress: Share | None = None,
    notice: Callable[[str], None] = warnings.warn,
) -> SampledTrees:
    """Draw topologies from a density and write them, all of the same weight."""
    run = density_run(directory)
    run.refuse_overwriting(out)
    if not 1 <= count <= MOST_TREES:
        raise BadArgument(f"--count {count:,}: ask for 1 to {MOST_TREES:,} trees.")
    is_nexus_name(out)
    check_can_write(out)
    density = load_density(directory, progress=progress, notice=notice)
    stream = RandomStream(seed, "density/sample")
    draws = sample_density(density, count, stream=stream, method=method, progress=progress)
    trees = TreeSample(density.taxa, draws.topologies, np.ones(count), None)
    write_trees(trees, out)
    return SampledTrees(draws, len(trees.distinct()))


def fit_density(
    trees: str | Path | TreeSample | Sequence[str | Path],
    preset: str | None = None,
    *,
    out: str | Path | None = None,
    burnin: int | float = 0,
    resume: bool = False,
    force: bool = False,
    checkpoint_every: str = "2m",
    progress: bool = True,
    **settings: Any,
) -> TreeDensity:
    """Fit a density to weighted trees: files, a bundled example's name, or a `TreeSample`.

    preset: `standard` unless said otherwise. settings: any of `DensityConfig` by its name, such as `seed=2`,
    `convolution="edge"` or `steps=1000`. out: the run directory; without one nothing stays on disk, and a fit that is
    stopped is lost. burnin, resume, force, checkpoint_every: as on the command line.
    """
    given = [trees] if isinstance(trees, str | Path) else trees
    with TemporaryDirectory() as home, bar_display("density", quiet=not progress) as show:
        directory = Path(home) / "density" if out is None else Path(out)
        options = RunOptions(interval=parse_interval(checkpoint_every))
        run = RunRequest(directory, resume, force, "phloem.fit_density", options)
        return fit_density_run(DensityRequest(given, run, preset, [settings], burnin), show)
