"""A training's reports for TensorBoard, for those who watch many runs."""

import importlib.util
from types import TracebackType
from typing import Any

from phloem.errors import ProgramProblem
from phloem.inference.history import Report
from phloem.pipeline.run_directory import RunDirectory


class TrainingEvents:
    """Scalars below the run's directory `tensorboard`, if enabled; of those from before, later ones than `last` go."""

    def __init__(self, run: RunDirectory, last: int, *, enabled: bool) -> None:
        self._writer: Any = None
        if enabled:
            check_tensorboard()
            from torch.utils.tensorboard import SummaryWriter

            self._writer = SummaryWriter(str(run.tensorboard), purge_step=last + 1)

    def add(self, report: Report) -> None:
        """Write a report."""
        if self._writer is not None:
            for name, value in report._asdict().items():
                if name not in ("step", "seconds"):
                    self._writer.add_scalar(name, value, report.step)

    def __enter__(self) -> "TrainingEvents":
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _problem: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if self._writer is not None:
            self._writer.close()


def check_tensorboard() -> None:
    """Raise unless TensorBoard is installed: better before long work than in it."""
    if importlib.util.find_spec("tensorboard") is None:
        raise ProgramProblem("--tensorboard: TensorBoard is not installed. `pip install phloem[tensorboard]`.")
