"""The loop of a training: one step after the other, a look every now and then, stopped only between steps."""

import time
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol, TypeVar

from phloem.inference.history import AnyReport, StepHistory
from phloem.interrupts import held

R = TypeVar("R", bound=AnyReport)
I = TypeVar("I")  # noqa: E741
I_co = TypeVar("I_co", covariant=True)


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
