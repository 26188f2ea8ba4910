"""The loop of a training: counted steps, reports, stopped only between steps."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, nullcontext
from typing import ClassVar, Protocol, TypeVar

import numpy as np

from phloem.arrays import AnyArray, LongArray
from phloem.errors import BadArgument, TrainingFailed
from phloem.interrupts import held
from phloem.runs.history import AnyReport, StepHistory

MOST_SKIPPED_IN_A_ROW = 100
R = TypeVar("R", bound=AnyReport)
I = TypeVar("I")  # noqa: E741
I_co = TypeVar("I_co", covariant=True)


class CountedSteps(ABC):
    """A training whose next step depends on its state alone, besides what it was made of."""

    name: ClassVar[str]  # for messages, as what follows
    value: ClassVar[str]  # what a step gives
    advice: ClassVar[str]  # where it gives none

    def __init__(self) -> None:
        self.steps_done = 0
        self.skipped = 0  # steps so far that moved nothing
        self._skipped_in_a_row = 0

    @abstractmethod
    def state(self) -> dict[str, AnyArray]:
        """Arrays by name, the memory of the model and of its optimisers, and `counters`."""

    def restore(self, state: dict[str, AnyArray]) -> None:
        """Go on from a state, bit for bit as the training that gave it would have."""
        mine = self.state()
        shapes = [{name: (array.shape, array.dtype) for name, array in one.items()} for one in (mine, state)]
        if shapes[0] != shapes[1]:
            raise BadArgument("training: the state is that of another model. Use its own support and settings.")
        for name, array in mine.items():
            array[...] = state[name]
        self.steps_done, self.skipped, self._skipped_in_a_row = state["counters"].tolist()

    def _counters(self) -> LongArray:
        return np.array([self.steps_done, self.skipped, self._skipped_in_a_row], np.int64)

    def _next_step(self, steps: int) -> int:
        """The number of the next step, counted from 1; raise if there is none."""
        if self.steps_done >= steps:
            raise BadArgument(f"{self.name}: all {steps:,} steps are done. Give the config more steps.")
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


class Steps(Protocol[I_co]):
    """What can take a step, and knows how many it has taken."""

    steps_done: int

    def step(self) -> I_co:
        """Take one."""


def looks_of(steps: int, reports: int) -> set[int]:
    """After which of so many steps there is a report."""
    count = min(reports, steps)
    return {share * steps // count for share in range(1, count + 1)}


def take_steps(
    training: Steps[I],
    history: StepHistory[R],
    *,
    looks: Collection[int],
    look: Callable[[float], R],
    value_of: Callable[[I], float | None],
    is_done: Callable[[], bool],
    progress: Callable[[R], None] | None = None,
    after_step: Callable[[I], None] | None = None,
) -> list[R]:
    """Take steps until it is done, and carry on the history.

    look: makes the report of now, given when the clock of the training began. value_of: what a step adds to the
    history, if anything. A request to stop (Ctrl-C) waits for the end of a step, but not of the first, which compiles
    what no one has used before.
    """
    start = time.monotonic() - history.seconds
    whole: Callable[[], AbstractContextManager[None]] = nullcontext
    while True:
        if training.steps_done in looks and training.steps_done > history.last_step:  # also if stopped just before it
            report = look(start)
            with held():
                history.reports.append(report)
                history.recent.clear()
            if progress:
                progress(report)
        if is_done():
            return history.reports
        with whole():
            info = training.step()
            value = value_of(info)
            if value is not None:
                history.recent.append(value)
            history.seconds = time.monotonic() - start
        whole = held
        if after_step:
            after_step(info)
