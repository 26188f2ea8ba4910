"""What every training has: steps that are counted, those that moved nothing too, and a state to go on from."""

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from phloem.errors import BadArgument, TrainingFailed
from phloem.kernels.arrays import AnyArray, LongArray

MOST_SKIPPED_IN_A_ROW = 100


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
