"""When a run is saved, and what happens if that fails: a full disk must not end a training."""

import re
import time
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from phloem.errors import BadArgument, DiskFull, FileProblem
from phloem.inference.checkpoints import Checkpoint
from phloem.inference.history import History
from phloem.inference.training import Training
from phloem.pipeline.history_file import HistoryFile
from phloem.pipeline.run_directory import RunDirectory

RETRY_SECONDS = 10.0
PATIENCE_SECONDS = 600.0  # at the end of training, when there is nothing else left to do
UNITS = {"": 1, "s": 1, "m": 60, "min": 60, "h": 3600}


class CheckpointInterval(NamedTuple):
    """How often a run is saved: one of the two is None."""

    seconds: float | None = 120.0
    steps: int | None = None


def parse_interval(text: str) -> CheckpointInterval:
    """`90`, `90s`, `5m` or `1h` of time, or `1000steps`."""
    found = re.fullmatch(r"(\d{1,12}(?:\.\d+)?)\s*(s|m|min|h|steps?)?", text.strip())
    if found:
        number, unit = float(found[1]), found[2] or ""
        if not unit.startswith("step"):
            return CheckpointInterval(number * UNITS[unit], None)
        if number >= 1 and number == int(number):
            return CheckpointInterval(None, int(number))
    raise BadArgument(f"--checkpoint-every {text}: give seconds, such as 90s, 5m or 1h, or steps, such as 1000steps.")


class Saver:
    """Keeps a run's checkpoints and its history file up to date."""

    def __init__(
        self,
        run: RunDirectory,
        begun: Checkpoint,
        training: Training,
        interval: CheckpointInterval,
        notice: Callable[[str], None],
    ) -> None:
        self._run = run
        self._begun = begun
        self._training = training
        self._interval = interval
        self._notice = notice
        self._history_file = HistoryFile(run.path / "history.csv")
        self._due = self._next_due()
        self._retry_at = 0.0
        self._problem: FileProblem | None = None
        self.saved_step = begun.step

    @property
    def history(self) -> History:
        return self._begun.history

    def after_step(self) -> None:
        """Save if it is time."""
        now = time.monotonic()
        step = self._training.steps_done
        steps = self._interval.steps
        if (now >= self._due if steps is None else step - self.saved_step >= steps) and now >= self._retry_at:
            self.save_if_possible()

    def save(self) -> None:
        """Write a checkpoint of the training as it is."""
        begun = self._begun
        state = self._training.state()
        self._run.checkpoints.add(
            Checkpoint(begun.source, begun.config, begun.patterns, begun.support, state, begun.history)
        )
        self.saved_step = self._training.steps_done
        self._due = self._next_due()

    def save_if_possible(self, meanwhile: str = "training goes on") -> bool:
        """Save; a disk that is full is told of, once, and tried again after a while."""
        try:
            self.save()
        except FileProblem as problem:
            if not self._run.path.is_dir():
                raise FileProblem(f"{self._run.path}: the run directory is gone. Start the run again.") from None
            if not self._retry_at:
                self._notice(f"{problem} The last checkpoint is of step {self.saved_step:,}; {meanwhile}.")
            self._retry_at = time.monotonic() + RETRY_SECONDS
            self._problem = problem
            return False
        if self._retry_at:
            self._notice(f"the run could be saved again, at step {self.saved_step:,}")
            self._retry_at = 0.0
        return True

    def save_patiently(self) -> None:
        """Save, and wait for a disk that is full: nothing else is left to do and much to lose."""
        give_up = time.monotonic() + PATIENCE_SECONDS
        while not self.save_if_possible("waiting for space"):
            if not isinstance(self._problem, DiskFull) or time.monotonic() + RETRY_SECONDS > give_up:
                self.save()
            time.sleep(RETRY_SECONDS)

    def write_history(self) -> None:
        """Have all reports in the history file, if that is possible now."""
        with suppress(FileProblem):  # the next report writes it, or the end of the run, and checkpoints hold it
            self._history_file.write(self.history.reports)

    def _next_due(self) -> float:
        return time.monotonic() + (self._interval.seconds or 0.0)
