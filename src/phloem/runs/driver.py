"""One driver for everything that trains: a session in a run directory, and the loop of steps, reports and checkpoints.

A task brings three things: settings (a `Schema`), a `Trainable` that takes one step, and a `Reporter`. Then

    with session(RunDirectory(path, kind), request) as directory:
        …  # a new checkpoint, or the newest one
        train(directory, checkpoint, training, reporter, request.options, progress)

gives it a lock, resumable checkpoints, `history.csv`, progress, and a stop on Ctrl-C that loses nothing.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar

import numpy as np

from phloem.arrays import AnyArray, LongArray
from phloem.errors import (
    BadArgument,
    DiskFull,
    FileProblem,
    OutOfMemory,
    TrainingFailed,
    counted,
    is_lack_of_memory,
)
from phloem.interrupts import held, stoppable
from phloem.runs.checkpoints import Checkpoint, CheckpointInterval, Config, Inputs, Saver
from phloem.runs.directory import HISTORY, RunDirectory, claimed
from phloem.runs.events import News, Notice, Progress
from phloem.runs.history import History, HistoryFile, ReportRow, TensorBoard

MOST_SKIPPED_IN_A_ROW = 100
NEWS_SECONDS = 0.2

Row = TypeVar("Row", bound=ReportRow)


class RunOptions(NamedTuple):
    """How a run works, which does not change what it finds."""

    threads: int | None = None  # all physical cores by default
    interval: CheckpointInterval = CheckpointInterval()
    tensorboard: bool = False


class RunRequest(NamedTuple):
    """Where the files of a run go, and what to do with a run that is there."""

    directory: Path
    resume: bool = False
    force: bool = False
    command: str = ""  # for the records
    options: RunOptions = RunOptions()


class Interrupted(KeyboardInterrupt):
    """A run was stopped, or several, each saved at the end of a step, if it had taken one.

    begun: whether it had begun at all, or the directory is as it was before.
    """

    def __init__(self, directory: Path, steps: Sequence[int], *, begun: bool) -> None:
        self.directory = directory
        self.steps = tuple(steps)  # of each run
        self.begun = begun
        how = f"Resume with out={str(directory)!r}, resume=True." if begun else "Nothing has changed."
        super().__init__(f"{directory}: stopped, {self.saved}. {how}")

    @property
    def step(self) -> int | None:
        """The step that was saved, of several runs the least; None if nothing was."""
        return min(self.steps, default=None)

    @property
    def saved(self) -> str:
        """`saved at step 1,200`, or of several runs each."""
        if not any(self.steps):
            return "before the first step"
        if len(self.steps) == 1:
            return f"saved at step {self.steps[0]:,}"
        return "saved at step " + ", ".join(f"{step:,} of run {number}" for number, step in enumerate(self.steps, 1))


class Session(RunDirectory[Config, Inputs]):
    """A run directory that is ours while a command works in it."""

    def __init__(self, directory: RunDirectory[Config, Inputs], request: RunRequest) -> None:
        super().__init__(directory.path, directory.kind)
        self.request = request
        self.has_begun = not request.force  # else a run that is there stays until the new one can begin

    def replace_old_run(self) -> None:
        """From now on this is the new run's directory: a run that it replaces is removed."""
        self.has_begun = True
        if self.request.force:
            self.clear()


@contextmanager
def session(directory: RunDirectory[Config, Inputs], request: RunRequest) -> Iterator[Session[Config, Inputs]]:
    """Claim the directory; a request to stop (Ctrl-C, SIGTERM) becomes `Interrupted`.

    What else ends a run that has begun is said with how to resume it, if that is only a matter of space.
    """
    ours = Session(directory, request)
    try:
        with stoppable(), claimed(directory, resume=request.resume, force=request.force):
            try:
                yield ours
            except FileProblem:
                if directory.path.is_dir():
                    raise
                raise FileProblem(f"{directory.path}: the run directory is gone. Start the run again.") from None
    except KeyboardInterrupt:
        begun = ours.has_begun and directory.holds_run()
        raise Interrupted(directory.path, directory.saved_steps() if begun else (), begun=begun) from None
    except DiskFull as problem:
        if not (ours.has_begun and directory.holds_run()):
            raise
        raise DiskFull(f"{problem} {directory.how_to_finish()}") from None
    except (MemoryError, OSError, RuntimeError, ImportError) as problem:
        if not (is_lack_of_memory(problem) and ours.has_begun and directory.holds_run()):
            raise
        raise OutOfMemory(
            f"{directory.path}: memory ran out. What is saved stays: resume it where there is more, with phloem "
            f"{directory.kind.name} --resume, or start again with settings that need less."
        ) from None


class StepResult(Protocol):
    """What a step found."""

    @property
    def step(self) -> int: ...  # counted from 1

    @property
    def value(self) -> float | None: ...  # for the history; None if the step was skipped


class Trainable(ABC):
    """A training whose next step depends on its state alone, besides what it was made from."""

    name: ClassVar[str]  # for messages, as the next two
    value: ClassVar[str]  # what a step gives
    advice: str  # if it gives none

    def __init__(self, steps: int) -> None:
        self.steps = steps  # planned
        self.steps_done = 0
        self.skipped = 0  # steps so far that moved nothing
        self._skipped_in_a_row = 0

    @abstractmethod
    def step(self) -> StepResult:
        """Take one step."""

    @abstractmethod
    def state(self) -> dict[str, AnyArray]:
        """Arrays by name: the parameters, the memory of the optimisers, and `counters`."""

    def is_done(self, reports: list[Any]) -> bool:
        """Whether training ends here; it depends on the steps and reports so far alone, so a resumed run agrees."""
        return self.steps_done >= self.steps

    def finish(self, _progress: Callable[[float], None]) -> bool:
        """What comes after the last step, once; returns whether there was anything. The progress is a share."""
        return False

    def restore(self, state: dict[str, AnyArray]) -> None:
        """Continue from a state, bit for bit as the training that gave it would have."""
        mine = self.state()
        shapes = [{name: (array.shape, array.dtype) for name, array in one.items()} for one in (mine, state)]
        if shapes[0] != shapes[1]:
            raise BadArgument("training: the state is that of another model. Use its own inputs and settings.")
        for name, array in mine.items():
            array[...] = state[name]
        self.steps_done, self.skipped, self._skipped_in_a_row = state["counters"].tolist()

    def _counters(self) -> LongArray:
        return np.array([self.steps_done, self.skipped, self._skipped_in_a_row], np.int64)

    def _next_step(self) -> int:
        """The number of the next step, counted from 1; raise if there is none."""
        if self.steps_done >= self.steps:
            raise BadArgument(f"{self.name}: all of {counted(self.steps, 'step')} taken. Give the config more.")
        return self.steps_done + 1

    def _count(self, number: int, moved: bool) -> None:
        """A step was taken; raise if too many in a row moved nothing."""
        self.skipped += not moved
        self._skipped_in_a_row = 0 if moved else self._skipped_in_a_row + 1
        if self._skipped_in_a_row == MOST_SKIPPED_IN_A_ROW:
            raise TrainingFailed(
                f"{self.name}, step {number:,}: the last {MOST_SKIPPED_IN_A_ROW} steps gave no finite {self.value} or "
                f"gradient. {self.advice}"
            )
        self.steps_done = number


class Reporter(Protocol[Row]):
    """Says how good a training is, after some of its steps."""

    @property
    def steps(self) -> Collection[int]:
        """The report steps."""

    def __call__(self, history: History[Row], start: float) -> Row:
        """The report after the last step. start: when the clock of the training began."""


def report_steps(steps: int, reports: int) -> set[int]:
    """The report steps: so many, evenly spread, the last step among them."""
    count = min(reports, steps)
    return {share * steps // count for share in range(1, count + 1)}


def take_steps(training: Trainable, reporter: Reporter[Row], history: History[Row]) -> Iterator[Row | None]:
    """Take the steps that are left and extend the history: None after each step, then the report if one is due.

    A request to stop (Ctrl-C) waits for the end of a step, but not of the first, which compiles what has not been
    used before.
    """
    start = time.monotonic() - history.seconds
    whole: Callable[[], AbstractContextManager[None]] = nullcontext
    while True:
        done = training.steps_done
        if done in reporter.steps and done > history.last_step:  # also if it was stopped just before the report
            report = reporter(history, start)
            with held():
                history.reports.append(report)
                history.recent.clear()
            yield report
        if training.is_done(history.reports):
            return
        with whole():
            value = training.step().value
            if value is not None:
                history.recent.append(value)
            history.seconds = time.monotonic() - start
        whole = held
        yield None


def train(
    run: RunDirectory[Config, Inputs],
    checkpoint: Checkpoint[Config, Inputs],
    training: Trainable,
    reporter: Reporter[Any],
    options: RunOptions,
    progress: Progress,
    *,
    number: int = 1,
) -> History[Any]:
    """Take the steps that are left after a checkpoint, with reports, checkpoints and news on the way.

    The checkpoint's history is extended, and returned. number: of the run among several.
    """
    history, steps = checkpoint.history, training.steps
    history_file = HistoryFile(run.path / HISTORY, run.kind.report)
    history_file.write_if_possible(history.reports)
    saver = Saver(run.checkpoints, checkpoint, training, options.interval, lambda text: progress(Notice(text)))
    next_news = 0.0
    progress(
        News(number, "training", training.steps_done / steps, training.steps_done, *history.reports[-1:])
    )  # the last report again, for the display of a resumed run
    with (
        TensorBoard(run.tensorboard, history.last_step, enabled=options.tensorboard) as tensorboard,
        saver.saving_the_end(),
    ):
        for report in take_steps(training, reporter, history):
            done = training.steps_done
            if report is not None:
                history_file.write_if_possible(history.reports)
                tensorboard.add(report)
                progress(News(number, "training", done / steps, done, report))
                continue
            saver.after_step()
            if (now := time.monotonic()) >= next_news:
                next_news = now + NEWS_SECONDS
                progress(News(number, "training", done / steps, done))
        if training.finish(lambda share: progress(News(number, "refitting", share, training.steps_done))):
            saver.save_patiently()
    return history
