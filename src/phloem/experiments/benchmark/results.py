"""What cells have found, as records that JSON, tables and pages are made of."""

import json
import math
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from phloem.config.infer import INFER
from phloem.errors import PhloemError
from phloem.experiments.benchmark.cells import Cell, Sessions
from phloem.experiments.benchmark.published import (
    PUBLISHED_REPEATS,
    QUANTITIES,
    PublishedEstimate,
    published_estimate,
    published_step,
)
from phloem.experiments.benchmark.supports import support_trees
from phloem.runs.directory import HISTORY, PROVENANCE, read_provenance
from phloem.runs.history import read_history
from phloem.tasks.run_files import read_summary

FINISHED, RUNNING, STOPPED, FAILED, WAITING = "finished", "running", "stopped", "failed", "not begun"


class Estimate(NamedTuple):
    """Ours: the mean, and the standard deviation of a single estimate, beside the published."""

    mean: float
    std: float | None  # None for a single estimate
    repeats: int
    published: PublishedEstimate | None

    @property
    def error(self) -> float | None:
        """The standard error of the mean, as far as draws go: another training ends elsewhere."""
        return None if self.std is None else self.std / math.sqrt(self.repeats)

    @property
    def difference(self) -> float | None:
        """Ours less the published."""
        return None if self.published is None else self.mean - self.published.mean

    @property
    def difference_error(self) -> float | None:
        """Its standard error, from those of both means."""
        if self.published is None or self.error is None:
            return None
        return math.hypot(self.error, self.published.std / math.sqrt(PUBLISHED_REPEATS))

    def as_json(self) -> dict[str, Any]:
        """Everything."""
        return {
            "mean": self.mean,
            "std": self.std,
            "standard_error": self.error,
            "published": None if self.published is None else self.published._asdict(),
            "difference": self.difference,
            "difference_standard_error": self.difference_error,
        }


class CellResult(NamedTuple):
    """A cell, finished or not."""

    cell: Cell
    state: str  # one of the five above
    problem: str  # of one that failed
    steps: int  # planned
    steps_done: int
    estimates: dict[str, Estimate]  # by quantity; empty until it is finished
    lower_bound: float | None  # of ten particles
    pareto_shape: float | None
    effective_share: float | None  # of the draws
    training_seconds: float | None
    sessions: Sessions
    settings: dict[str, Any]  # what differs from the preset
    support: dict[str, Any] | None
    versions: dict[str, str]
    system: str

    @property
    def step_milliseconds(self) -> float | None:
        """Of training, reports included."""
        if not self.steps_done or self.training_seconds is None:
            return None
        return 1000 * self.training_seconds / self.steps_done

    def as_json(self) -> dict[str, Any]:
        """Everything."""
        cell = self.cell
        return {
            **cell.as_json(),
            "state": self.state,
            "problem": self.problem,
            "steps": self.steps,
            "steps_done": self.steps_done,
            **{name: self.estimates[name].as_json() if name in self.estimates else None for name in QUANTITIES},
            "lower_bound": self.lower_bound,
            "pareto_shape": self.pareto_shape,
            "effective_share": self.effective_share,
            "training_seconds": self.training_seconds,
            "step_milliseconds": self.step_milliseconds,
            "published_step_milliseconds": published_step(cell.dataset, cell.variant),
            "wall_seconds": self.sessions.seconds or None,
            "processor_seconds": self.sessions.processor_seconds or None,
            "processor": self.sessions.processor,
            "support": self.support,
            "settings": self.settings,
            "versions": self.versions,
            "system": self.system,
        }


def cell_result(cell: Cell, out: Path) -> CellResult:
    """What there is of a cell."""
    run = cell.run(out)
    sessions = Sessions.read(cell.sessions_path(out))
    support = None
    with suppress(PhloemError):
        found = support_trees(out, cell.dataset)
        support = None if found is None else found.as_json()
    seconds, done = None, 0
    with suppress(PhloemError):
        reports = read_history(run.path / HISTORY, run.kind.report)
        seconds, done = (reports[-1].seconds, reports[-1].step) if reports else (None, 0)
    provenance = read_provenance(run.path / PROVENANCE)
    config = cell.config()
    result = CellResult(
        cell=cell,
        state=WAITING,
        problem="",
        steps=config.training.steps,
        steps_done=done,
        estimates={},
        lower_bound=None,
        pareto_shape=None,
        effective_share=None,
        training_seconds=seconds,
        sessions=sessions,
        settings=_differing(cell),
        support=support,
        versions=dict(provenance.get("versions", {})),
        system=str(provenance.get("system", "")),
    )
    problem = cell.problem(out)
    if problem:
        return result._replace(state=FAILED, problem=problem)
    if run.is_in_use():
        return result._replace(state=RUNNING)
    try:
        summary = read_summary(run)
    except PhloemError:
        summary = None
    if summary is not None and summary.finished:
        evaluation, draws = summary.evaluation, summary.found.draws
        found_estimates = {"elbo": evaluation.elbo, "log_marginal_likelihood": evaluation.log_marginal_likelihood}
        return result._replace(
            state=FINISHED,
            steps_done=summary.steps,
            estimates={
                name: Estimate(one.mean, one.std, summary.repeats, published_estimate(name, cell.variant, cell.dataset))
                for name, one in found_estimates.items()
            },
            lower_bound=evaluation.lower_bound.mean,
            pareto_shape=draws.pareto_shape,
            effective_share=draws.effective_sample_size / draws.count,
        )
    if sessions.outcome == "failed":
        return result._replace(state=FAILED, problem=sessions.problem)
    return result._replace(state=STOPPED if sessions.outcome or run.holds_run() else WAITING)


def results_json(results: Iterable[CellResult]) -> list[dict[str, Any]]:
    """All cells."""
    return [result.as_json() for result in results]


def in_words(results: Sequence[CellResult]) -> str:
    """`60 of 64 cells are finished, 1 failed`."""
    states = [result.state for result in results]
    others = [f"{states.count(state)} {state}" for state in (RUNNING, STOPPED, FAILED, WAITING) if state in states]
    return ", ".join([f"{states.count(FINISHED)} of {len(states)} cells are finished", *others])


def _differing(cell: Cell) -> dict[str, Any]:
    """The settings that are not the preset's."""
    preset = INFER.values(INFER.resolve(preset=cell.setup.preset))
    return {
        key: json.loads(json.dumps(value))
        for key, value in INFER.values(cell.config()).items()
        if value != preset[key] and value is not None
    }
