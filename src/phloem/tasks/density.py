"""Trees with weights → a density: fitted, loaded, scored, sampled."""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

from phloem.arrays import FloatArray
from phloem.config.density import (
    COMMAND,
    DensityConfig,
    changed,
    density_differences,
    density_preset,
    density_to_toml,
    read_density_config,
)
from phloem.display.bar import ShowProgress, progress_bar
from phloem.display.words import say
from phloem.energy.comparison import Compared, compare, seen_share
from phloem.energy.density import TreeDensity, normalize
from phloem.energy.files import DensityCheckpoint, density_checkpoints, read_density, trained, write_density
from phloem.energy.noise import UniformNoise, choose_noise
from phloem.energy.sampling import DensityDraws, sample_density
from phloem.energy.training import Appraiser, DensityHistory, DensityReport, DensityStep, DensityTraining, train_density
from phloem.errors import BadArgument, FileProblem
from phloem.interrupts import held, stoppable
from phloem.random_streams import RandomStream
from phloem.runs.checkpoints import CheckpointInterval, Saver, parse_interval
from phloem.runs.directory import (
    CHECKPOINTS,
    CONFIG,
    PROVENANCE,
    OwnedDirectory,
    RunKind,
    claimed,
    describe_file,
    write_provenance,
)
from phloem.runs.history import HistoryFile, read_history
from phloem.storage.arrays import OtherFormat, OtherKind, without_prefix
from phloem.storage.files import check_can_write, read_bytes
from phloem.tasks.support import list_tree_files, read_samples
from phloem.threads import single_threaded_products
from phloem.trees.sample import TreeSample, pool
from phloem.trees.topology import TopologyIndex
from phloem.trees.writing import is_nexus_name, write_trees

DENSITY = "density.safetensors"
HISTORY = "history.csv"
KIND = RunKind(COMMAND, (PROVENANCE, HISTORY, DENSITY, "summary.json"))
USUAL_INTERVAL = CheckpointInterval()
NEWS_STEPS = 20  # steps between two looks at the clock
SUMMARY = {"taxa", "topologies", "convolution", "noise", "steps", "seconds", "loss", "divergence", "normalizer"}
MOST_TAXA_FOR_UNIFORM = 12  # beyond, hardly a tree of uniform noise resembles any of the data
MOST_TREES = 1_000_000  # of a sample
USUAL_SMOOTHING = 0.001
Progress = Callable[[float], None]


class DensityDirectory(OwnedDirectory[DensityCheckpoint]):
    """A directory that holds one training of a density."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, KIND, density_checkpoints(path / CHECKPOINTS))


class DensityRequest(NamedTuple):
    """What a density is to be fitted to, and where its files go."""

    trees: Sequence[str | Path] | TreeSample  # files, or none to go on with those of the run's checkpoint
    directory: Path
    preset: str | None = None
    settings: dict[str, Any] = {}  # noqa: RUF012  those that were given, by name
    burnin: int | float = 0
    resume: bool = False
    force: bool = False
    command: str = ""  # for the records


class DensityInterrupted(KeyboardInterrupt):
    """A fit was stopped, at the end of a step that is saved or, with None, before there was anything to go on from."""

    def __init__(self, directory: Path, step: int | None) -> None:
        saved = "Nothing has changed." if step is None else f"It is saved at step {step:,}. Go on with resume=True."
        super().__init__(f"{directory}: stopped. {saved}")
        self.directory = directory
        self.step = step


def fit_density_run(
    request: DensityRequest,
    show: ShowProgress,
    *,
    interval: CheckpointInterval = USUAL_INTERVAL,
    notice: Callable[[str], None] = lambda _text: None,
) -> TreeDensity:
    """Fit a density, in a directory of its own that a stopped fit goes on from."""
    begun = not request.force  # else a run that is there stays until the new one can begin
    try:
        with (
            stoppable(),
            claimed(DensityDirectory(request.directory), resume=request.resume, force=request.force) as directory,
        ):
            before = _before(directory, request, notice)
            with held():
                begun = True
                _begin(directory, request, before)
            if isinstance(before, TreeDensity):
                return before
            with single_threaded_products():
                return _complete(directory, before, show, interval, notice)
    except KeyboardInterrupt:
        step = DensityDirectory(request.directory).checkpoints.newest_step() if begun else None
        raise DensityInterrupted(request.directory, step) from None


def _before(
    directory: DensityDirectory, request: DensityRequest, notice: Callable[[str], None]
) -> DensityCheckpoint | TreeDensity:
    """What to go on from, or what is there already. All that is wrong with the request is found here."""
    saved: DensityCheckpoint | TreeDensity | None = None
    if request.resume:
        saved = _finished(directory) or directory.newest_checkpoint(notice)
    config = _settings(directory, request, saved)
    sample = _sample(request, saved)
    if saved is not None:
        if sample is not None and not _is_same(sample, saved.sample):
            raise FileProblem(
                f"{directory.path}: is a run on other trees. Leave them out to go on with its own, or start anew with "
                "--force."
            )
        return saved
    if sample is None:
        raise BadArgument(f"{directory.path}: has no checkpoint to go on from. Name the trees.")
    if np.count_nonzero(sample.weights) == 1:
        raise BadArgument("density: all trees have the same topology, so there is nothing to learn. Give more trees.")
    noise = choose_noise(sample, config)
    if isinstance(noise, UniformNoise) and noise.taxon_count > MOST_TAXA_FOR_UNIFORM:
        notice(f"uniform noise hardly ever resembles trees of {noise.taxon_count} taxa: --noise sbn serves better")
    return DensityCheckpoint(config, sample, noise, DensityTraining(sample, noise, config).state(), DensityHistory())


def _finished(directory: DensityDirectory) -> TreeDensity | None:
    """What the fit has found, if all of its files are whole. What is not is made again from the last checkpoint."""
    if not directory.has_results():
        return None
    try:
        density = read_density(directory.path / DENSITY)
        reports = read_history(directory.path / HISTORY, DensityReport)
        read_summary(directory.path)
    except (OtherFormat, OtherKind):
        raise
    except FileProblem:
        return None
    return density if reports and reports[-1].step == density.config.steps else None


def _begin(directory: DensityDirectory, request: DensityRequest, before: DensityCheckpoint | TreeDensity) -> None:
    """Write down what the run is: where it comes from, its settings, and what it goes on from if it is stopped."""
    if request.force:
        directory.clear()
    trees: list[Any] = ["a tree sample"]
    if not isinstance(request.trees, TreeSample):
        trees = [describe_file(path) for path in list_tree_files(request.trees)]
    try:
        write_provenance(directory, {"trees": trees}, seed=before.config.seed, command=request.command)
        directory.write(CONFIG, density_to_toml(before.config))
        if isinstance(before, DensityCheckpoint) and before.step == 0:
            directory.checkpoints.add(before)
    except FileProblem:
        if not request.resume:  # of a run that cannot begin nothing shall stay
            directory.clear()
        raise


def _settings(
    directory: DensityDirectory, request: DensityRequest, saved: DensityCheckpoint | TreeDensity | None
) -> DensityConfig:
    """Those of the run to go on with, which must not be other ones than were given; else the preset's and the given."""
    before = saved.config if saved else None
    path = directory.path / CONFIG
    if before is None and request.resume and path.exists():
        before = read_density_config(read_bytes(path).decode(errors="replace"), str(path))
    given = {name: value for name, value in request.settings.items() if value is not None}
    if before is None or request.preset is not None:
        wanted = density_preset(request.preset or "standard", **given)
    else:
        wanted = changed(before, given, "density")
    if before is not None and (different := density_differences(before, wanted)):
        raise FileProblem(
            f"{directory.path}: is a run with other settings: {different[0]}. Leave the settings out to go on with its "
            "own, or start anew with --force."
        )
    return wanted


def _sample(request: DensityRequest, saved: DensityCheckpoint | TreeDensity | None) -> TreeSample | None:
    """The trees as distinct topologies with weights that sum to one; None where none were given."""
    trees = request.trees
    if isinstance(trees, TreeSample):
        return trees.normalized().distinct()
    if not trees:
        return None
    return pool(read_samples(trees, taxa=saved.sample.taxa if saved else None, burnin=request.burnin)).distinct()


def _is_same(one: TreeSample, two: TreeSample) -> bool:
    return (
        one.taxa == two.taxa
        and np.array_equal(one.topologies.parent, two.topologies.parent)
        and np.array_equal(one.weights, two.weights)
    )


def _complete(
    directory: DensityDirectory,
    checkpoint: DensityCheckpoint,
    show: ShowProgress,
    interval: CheckpointInterval,
    notice: Callable[[str], None],
) -> TreeDensity:
    """Train from the checkpoint on, normalise, and write the results."""
    config, sample, noise = checkpoint.config, checkpoint.sample, checkpoint.noise
    training = DensityTraining(sample, noise, config)
    training.restore(checkpoint.training)
    history = checkpoint.history
    history_file = HistoryFile(directory.path / HISTORY, DensityReport)
    history_file.write_if_possible(history.reports)
    saver = Saver(
        directory.checkpoints,
        training,
        capture=lambda: replace(checkpoint, training=training.state()),
        interval=interval,
        notice=notice,
    )

    def after_step(info: DensityStep) -> None:
        saver.after_step()
        if info.step % NEWS_STEPS == 0:
            show(info.step / config.steps, _note(history))

    def after_report(_report: DensityReport) -> None:
        history_file.write_if_possible(history.reports)

    appraise = Appraiser(sample, noise, ratio=config.noise_ratio, draws=config.report_samples)
    with saver.saving_the_end():
        train_density(training, appraise, history=history, progress=after_report, after_step=after_step)
    stream = RandomStream(config.seed, "density/normalizer")
    normalizer = normalize(
        training.density, noise, config.samples, stream=stream, progress=lambda share: show(share, "normalising")
    )
    density = TreeDensity(config, sample, training.density, noise, normalizer)
    history_file.rewrite(history.reports)
    write_density(density, directory.path / DENSITY)
    directory.write_summary(summarize(density, history))
    return density


def _note(history: DensityHistory) -> str:
    if not history.reports:
        return ""
    last = history.reports[-1]
    return f"loss {last.loss:.4f}   divergence {last.divergence:.4f}"


def summarize(density: TreeDensity, history: DensityHistory) -> dict[str, Any]:
    """What `summary.json` says."""
    config, last = density.config, history.reports[-1]
    return {
        "taxa": len(density.taxa),
        "topologies": len(density.sample),
        "convolution": config.convolution,
        "noise": config.noise,
        "parameters": sum(parameter.numel() for parameter in density.unnormalized.model.parameters()),
        "steps": last.step,
        "seconds": history.seconds,
        "loss": finite(last.loss),
        "expected_loss": finite(last.expected_loss),
        "divergence": divergence(density),
        "normalizer": density.normalizer.as_json(),
    }


def divergence(density: TreeDensity) -> float:
    """Kullback–Leibler, from the sample that it was fitted to to the density."""
    observed = density.sample[density.sample.weights > 0]
    return float(observed.weights @ (np.log(observed.weights) - density.log_prob(observed.topologies)))


def read_summary(directory: Path) -> dict[str, Any]:
    """`summary.json` of a finished fit."""
    path = directory / "summary.json"
    try:
        found: dict[str, Any] = json.loads(read_bytes(path))
        if not found.keys() >= SUMMARY:
            raise ValueError
    except (ValueError, AttributeError, RecursionError):
        raise FileProblem(f"{path}: is damaged. Make it again with --resume.") from None
    return found


def finite(value: float) -> float | None:
    """A number as JSON can have it; None for what is none."""
    return value if math.isfinite(value) else None


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
    with TemporaryDirectory() as home, progress_bar("density", quiet=not progress) as show:
        directory = Path(home) / "density" if out is None else Path(out)
        request = DensityRequest(given, directory, preset, settings, burnin, resume, force, "phloem.fit_density")
        interval = parse_interval(checkpoint_every)
        return fit_density_run(request, show, interval=interval, notice=lambda text: say(f"phloem: {text}"))
