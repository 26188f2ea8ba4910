"""The paper's first experiment: every variant fitted to a known target over all topologies of a few taxa."""

import json
import re
import string
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from phloem import plot
from phloem.config.density import DENSITY, PAPER_CONCENTRATION, PAPER_TAXA, VARIANTS
from phloem.config.settings import check_choice
from phloem.display.bar import ShowProgress
from phloem.display.events import Event, News, Notice
from phloem.energy.density import enumerate_density
from phloem.energy.nce import best_loss
from phloem.energy.noise import MOST_TAXA_TO_LIST
from phloem.energy.training import DensityReport
from phloem.errors import BadArgument, FileProblem, counted
from phloem.experiments.density.figure import experiment_figure
from phloem.experiments.density.page import density_page
from phloem.experiments.density.results import DensityExperiment, Repeat, density_rows
from phloem.random_streams import RandomStream
from phloem.runs.checkpoints import CheckpointInterval
from phloem.runs.directory import CONFIG, HISTORY, SUMMARY
from phloem.runs.driver import RunOptions, RunRequest
from phloem.runs.history import read_history
from phloem.storage.files import cannot_write, read_bytes, refuse_links, write_text
from phloem.tasks.density import DensityRequest, density_run, fit_density_run, load_density
from phloem.tasks.support import read_samples
from phloem.trees.generation import all_topologies
from phloem.trees.sample import TreeSample, pool
from phloem.trees.topology import TopologyIndex
from phloem.trees.writing import format_newick

TARGET = "target.tsv"
MOST_CONCENTRATION = 1_000_000  # where all topologies are alike
FIGURE, PAGE, RESULTS = "density.pdf", "density.html", "results.json"
DRAW = ("taxa", "concentration", "seed")  # what a target is drawn by


class ExperimentRequest(NamedTuple):
    """What to fit, to which target, how often, and where the files go."""

    directory: Path
    convolutions: Sequence[str] = VARIANTS
    repeats: int = 1  # of each variant, with seeds 1, 2, …
    steps: int | None = None  # default: the paper's
    target: Path | None = None  # trees with probabilities; default: the directory's own target, or a draw
    taxa: int | None = None  # of the draw, as are the next two; default: the paper's
    concentration: float | None = None
    seed: int | None = None
    resume: bool = False
    command: str = ""


class _Fit(NamedTuple):
    """One training of the experiment."""

    convolution: str
    seed: int

    @property
    def name(self) -> str:
        return f"{self.convolution}-{self.seed}"


def run_experiment(
    request: ExperimentRequest,
    show: ShowProgress,
    *,
    interval: CheckpointInterval,
    notice: Callable[[str], None],
) -> DensityExperiment:
    """Train what has not been trained yet, and write the figure, the page and the results."""
    fits = [_Fit(name, seed) for seed in range(1, request.repeats + 1) for name in request.convolutions]
    settings = _check(request, fits)
    refuse_links(request.directory, (TARGET, FIGURE, PAGE, RESULTS, *(fit.name for fit in fits)))
    target = _prepare(request)
    for number, fit in enumerate(fits):

        def show_part(event: Event, *, number: int = number, fit: _Fit = fit) -> None:
            if isinstance(event, Notice):
                notice(event.text)
            elif isinstance(event, News):
                # Of a fit's report the divergence alone, as more leaves a terminal no space for a bar.
                found = f"divergence {event.report.divergence:.4f}" if event.report else ""
                note = f"{fit.name} ({number + 1} of {len(fits)})   {found}".rstrip()
                show((number + event.share) / len(fits), note)

        path = request.directory / fit.name
        asked = {**settings, "convolution": fit.convolution, "seed": fit.seed}
        held = density_run(path).holds_run()
        run = RunRequest(path, resume=held, command=request.command, options=RunOptions(interval=interval))
        fit_density_run(DensityRequest(target, run, None if held else "paper", [asked]), show_part)
    experiment = collect(request, target)
    write_experiment(experiment, request.directory)
    return experiment


def _check(request: ExperimentRequest, fits: Sequence[_Fit]) -> dict[str, Any]:
    """Check the request before anything is written; the settings that all fits share."""
    drawn = [f"--{name}" for name in DRAW if getattr(request, name) is not None]
    if request.target is not None and drawn:
        raise BadArgument(f"--target and {drawn[0]}: a target is either read or drawn. Give one of the two.")
    if request.repeats < 1:
        raise BadArgument(f"--repeats {request.repeats}: give at least 1.")
    if request.taxa is not None and not 4 <= request.taxa <= MOST_TAXA_TO_LIST:
        raise BadArgument(
            f"--taxa {request.taxa}: the experiment enumerates all topologies. Give 4 to {MOST_TAXA_TO_LIST}."
        )
    if request.concentration is not None and not 0 < request.concentration <= MOST_CONCENTRATION:
        raise BadArgument(
            f"--concentration {request.concentration:g}: give a number above 0, {MOST_CONCENTRATION:,} at most."
        )
    for name in request.convolutions:
        check_choice("--convolutions", name, VARIANTS)
    if len(set(request.convolutions)) < max(1, len(request.convolutions)):
        raise BadArgument("--convolutions: give each once, and at least one.")
    DENSITY.resolve(preset="paper", settings=[{"steps": request.steps}])
    for path in (request.directory / fit.name / CONFIG for fit in fits):
        if request.steps is not None and path.is_file():
            steps = DENSITY.read(read_bytes(path).decode(errors="replace"), str(path)).steps
            if steps != request.steps:
                raise FileProblem(
                    f"{path.parent}: was started with {counted(steps, 'step')}, not {request.steps:,}. Leave out "
                    "--steps to resume it, or name another --out."
                )
    return {"noise": "uniform"} | ({} if request.steps is None else {"steps": request.steps})


def _prepare(request: ExperimentRequest) -> TreeSample:
    """The target, which is also saved in the directory: an experiment resumes with its own target only."""
    directory, path = request.directory, request.directory / TARGET
    try:
        entries = sorted(entry.name for entry in directory.iterdir())
    except FileNotFoundError:
        entries = []
    except OSError as problem:
        raise cannot_write(directory, problem) from None
    if entries and TARGET not in entries:
        raise FileProblem(
            f"{directory}: is not empty (it holds {entries[0]}) and is not an experiment. Name another --out."
        )
    if entries and not request.resume:
        raise FileProblem(f"{directory}: holds an experiment. Resume it (--resume), or name another --out.")
    if entries and request.target is None and all(getattr(request, name) is None for name in DRAW):
        return pool(read_samples([path]))
    wanted = _draw_target(request) if request.target is None else pool(read_samples([request.target]))
    if len(wanted.taxa) > MOST_TAXA_TO_LIST:
        raise BadArgument(f"{request.target}: {len(wanted.taxa)} taxa. Give at most {MOST_TAXA_TO_LIST}.")
    if np.count_nonzero(wanted.distinct().weights) == 1:
        what = "Draw with a higher --concentration." if request.target is None else "Give more trees."
        raise BadArgument(f"{request.target or 'target'}: one topology has all the probability. {what}")
    text = format_target(wanted)
    if entries and read_bytes(path).decode(errors="replace") != text:
        raise FileProblem(
            f"{directory}: holds an experiment with another target. Resume it with its own (leave out --target, "
            "--taxa, --concentration and --seed), or name another --out."
        )
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise cannot_write(directory, problem) from None
    write_text(path, text)
    return pool(read_samples([path]))


def _draw_target(request: ExperimentRequest) -> TreeSample:
    """Probabilities of all topologies from a symmetric Dirichlet distribution."""
    taxa = PAPER_TAXA if request.taxa is None else request.taxa
    concentration = PAPER_CONCENTRATION if request.concentration is None else request.concentration
    topologies = all_topologies(taxa)
    generator = RandomStream(1 if request.seed is None else request.seed, "density/target").generator()
    # Gamma draws with so small a shape often underflow to zero, which is where nearly all of their mass is.
    weights = generator.dirichlet(np.full(len(topologies), concentration))
    return TreeSample(tuple(string.ascii_uppercase[:taxa]), topologies, weights, None)


def format_target(target: TreeSample) -> str:
    """Lines of a probability and a tree, the most probable first; topologies of probability 0 are left out."""
    order = np.argsort(-target.weights, kind="stable")
    order = order[target.weights[order] > 0]
    trees = format_newick(target.topologies[order], target.taxa)
    return "".join(f"{weight!r}\t{tree}\n" for weight, tree in zip(target.weights[order].tolist(), trees, strict=True))


def collect(request: ExperimentRequest, target: TreeSample) -> DensityExperiment:
    """The results of all fits in the directory, those of earlier requests included."""
    topologies = all_topologies(len(target.taxa))
    probabilities = np.zeros(len(topologies))
    np.add.at(probabilities, TopologyIndex(topologies).find(target.topologies), target.weights)
    probabilities /= probabilities.sum()
    names = re.compile(rf"({'|'.join(VARIANTS)})-\d+")
    folders = [path for path in request.directory.iterdir() if names.fullmatch(path.name)]
    repeats = [_repeat(path) for path in folders if (path / SUMMARY).exists()]
    return DensityExperiment(
        taxa=len(target.taxa),
        target=probabilities,
        best_loss=best_loss(probabilities, np.full(len(topologies), 1 / len(topologies))),
        planned_steps=DENSITY.presets["paper"].steps if request.steps is None else request.steps,
        repeats=tuple(sorted(repeats, key=lambda one: (VARIANTS.index(one.convolution), one.seed))),
    )


def _repeat(path: Path) -> Repeat:
    density = load_density(path)
    reports = read_history(density_run(path).checksums.check(HISTORY), DensityReport)
    return Repeat(
        convolution=density.config.convolution,
        seed=density.config.seed,
        seconds=reports[-1].seconds,
        steps=tuple(report.step for report in reports),
        losses=tuple(report.expected_loss for report in reports),
        divergences=tuple(report.divergence for report in reports),
        log_probabilities=enumerate_density(density.unnormalized, density.noise) - density.normalizer.log_value,
    )


def write_experiment(experiment: DensityExperiment, directory: Path) -> None:
    """`density.pdf`, `density.html` and `results.json`."""
    plot.save(experiment_figure(experiment), directory / FIGURE)
    write_text(directory / PAGE, density_page(experiment))
    write_text(directory / RESULTS, json.dumps(results(experiment), indent=2) + "\n")


def results(experiment: DensityExperiment) -> dict[str, Any]:
    """The table and the curves, for JSON."""
    return {
        "taxa": experiment.taxa,
        "topologies": len(experiment.target),
        "target_topologies": int((experiment.target > 0).sum()),
        "best_loss": experiment.best_loss,
        "table": [row._asdict() for row in density_rows(experiment)],
        "repeats": [
            {
                "convolution": one.convolution,
                "seed": one.seed,
                "seconds": one.seconds,
                "steps": list(one.steps),
                "losses": list(one.losses),
                "divergences": list(one.divergences),
            }
            for one in experiment.repeats
        ],
    }
