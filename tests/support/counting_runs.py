"""A third task that trains, `phloem count up`, which does not exist: the least that the engine of runs serves."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from phloem.config.settings import Schema
from phloem.runs.checkpoints import Checkpoint, CheckpointFolder, CheckpointInterval, RunKind
from phloem.runs.directory import RunDirectory, SavedRuns
from phloem.runs.driver import RunOptions, RunRequest, Trainable, report_steps, session, train
from phloem.runs.history import History
from phloem.storage.arrays import Sealed


@dataclass(frozen=True, slots=True)
class CountConfig:
    """Its settings."""

    steps: int = 5
    reports: int = 2
    seed: int = 1


class CountReport(NamedTuple):
    """A row of its history."""

    step: int
    seconds: float
    total: float

    @classmethod
    def from_row(cls, row):
        step, seconds, total = row
        return cls(int(step), float(seconds), float(total))

    @classmethod
    def recent_name(cls) -> str:
        return "summands"


class CountStep(NamedTuple):
    """What a step adds."""

    step: int
    value: float


class Counting(Trainable):
    """A training that adds the number of the step."""

    name = "counting"
    value = "sum"
    advice = "Count again."

    def __init__(self, steps: int = 1000, *, done: int = 0) -> None:
        super().__init__(steps)
        self.total = np.zeros(1)
        for _ in range(done):
            self.step()

    def step(self) -> CountStep:
        number = self._next_step()
        self.total += number
        self._count(number, True)
        return CountStep(number, float(number))

    def state(self) -> dict[str, Any]:
        return {"total": self.total, "counters": self._counters()}


class CountReporter:
    """Reports the total."""

    def __init__(self, training: Counting, reports: int) -> None:
        self.steps = report_steps(training.steps, reports)
        self._training = training

    def __call__(self, history: History[CountReport], start: float) -> CountReport:
        return CountReport(self._training.steps_done, 0.0, float(self._training.total[0]))


KIND = "count up"
COUNT: RunKind[CountConfig, str] = RunKind(
    schema=Schema(CountConfig, KIND),
    report=CountReport,
    pack=lambda unit: Sealed({}, {"unit": unit}),
    unpack=lambda found, _config, _path: found.texts["unit"],
    results=("total.txt",),
    layout="5",
)


def count_up(
    request: RunRequest, config: CountConfig | None = None, *, progress: Callable[[Any], None] = lambda _event: None
) -> float:
    """The task: begin or resume, train, write the result."""
    with session(count_directory(request.directory), request) as directory:
        saved = SavedRuns.find(directory, print) if request.resume else SavedRuns(directory)
        config = config or saved.config or CountConfig()
        saved.check_config(config, [config])
        training = Counting(config.steps)
        checkpoint = saved.first or Checkpoint(config, "sheep", training.state(), History(CountReport))
        directory.replace_old_run()
        directory.record(config, {"trees": []}, seed=config.seed, command=request.command)
        if saved.first is None:
            directory.checkpoints.add(checkpoint)
        training.restore(checkpoint.training)
        train(directory, checkpoint, training, CountReporter(training, config.reports), request.options, progress)
        directory.write("total.txt", f"{training.total[0]:.0f} {checkpoint.inputs}")
        directory.write_summary({"total": training.total[0]})
        return float(training.total[0])


def checkpoint_at(step: int, unit: str = "sheep") -> Checkpoint[CountConfig, str]:
    """A checkpoint after so many steps."""
    return Checkpoint(CountConfig(), unit, Counting(done=step).state(), History(CountReport))


def count_folder(path: Path) -> CheckpointFolder[CountConfig, str]:
    return CheckpointFolder(path, COUNT)


def newest_count(folder: CheckpointFolder[CountConfig, str]) -> tuple[int, str] | None:
    """Step and unit of the newest checkpoint, which must be the only news."""
    found, problems = folder.newest()
    assert problems == []
    return found and (found.step, found.inputs)


def count_directory(path: Path) -> RunDirectory[CountConfig, str]:
    return RunDirectory(path, COUNT)


def counted(path: Path) -> RunDirectory[CountConfig, str]:
    """A finished run of two steps, with a checkpoint of each."""
    every_step = RunOptions(interval=CheckpointInterval(None, 1))
    count_up(RunRequest(path, command="phloem count up", options=every_step), CountConfig(steps=2))
    return count_directory(path)
