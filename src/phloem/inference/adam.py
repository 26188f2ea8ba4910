"""Adam for a few small tensors: one kernel call each, where torch's optimisers spend their time between calls."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from torch import Tensor, nn

from phloem.errors import BadArgument
from phloem.kernels.adam import adam_update
from phloem.kernels.arrays import RealArray

DECAY, SQUARE_DECAY, EPSILON = 0.9, 0.999, 1e-8


@dataclass(frozen=True, slots=True, eq=False)
class _Slot:
    """A parameter with its two moments, flat."""

    tensor: nn.Parameter
    values: RealArray
    mean: RealArray
    square: RealArray


class Adam:
    """Adam (Kingma & Ba 2015) with its usual decay rates; each step says its learning rate.

    Parameters keep their memory for as long as the optimiser lives: they are updated in place.
    """

    def __init__(self, parameters: Iterable[nn.Parameter]) -> None:
        self.step_count = 0
        self._slots = []
        for tensor in parameters:
            if not tensor.is_contiguous():
                raise BadArgument(f"Adam: a parameter of shape {tuple(tensor.shape)} is not contiguous.")
            values = tensor.detach().numpy().reshape(-1)
            self._slots.append(_Slot(tensor, values, np.zeros_like(values), np.zeros_like(values)))

    def clear_gradients(self) -> None:
        """Forget the gradients of the last step."""
        for slot in self._slots:
            slot.tensor.grad = None

    def step(self, rate: float) -> None:
        """Move every parameter that has a gradient."""
        self.step_count += 1
        for slot in self._slots:
            gradient: Tensor | None = slot.tensor.grad
            if gradient is not None:
                flat = gradient.contiguous().numpy().reshape(-1)
                adam_update(
                    slot.values, flat, slot.mean, slot.square, rate, DECAY, SQUARE_DECAY, EPSILON, self.step_count
                )
