"""Adam for a few small tensors: one kernel call each, where torch's optimisers spend their time between calls."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from phloem.errors import BadArgument
from phloem.kernels.adam import adam_update
from phloem.kernels.arrays import RealArray

DECAY, SQUARE_DECAY, EPSILON = 0.9, 0.999, 1e-8


@dataclass(slots=True, eq=False)
class _Slot:
    """A parameter with its two moments, flat, and how often it was moved."""

    tensor: Tensor
    values: RealArray
    mean: RealArray
    square: RealArray
    step_count: int = 0


class Adam:
    """Adam (Kingma & Ba 2015) with its usual decay rates; each step says its learning rate.

    Parameters are updated in place and must keep their memory for as long as the optimiser lives.
    """

    def __init__(self, parameters: Iterable[nn.Parameter]) -> None:
        self._slots: list[_Slot] = []
        for tensor in parameters:
            if not tensor.is_leaf or any(tensor is slot.tensor for slot in self._slots):
                raise BadArgument("Adam: give every parameter once, and no results of computations.")
            if not tensor.is_contiguous() or tensor.dtype not in (torch.float32, torch.float64):
                raise BadArgument(
                    f"Adam: a parameter of shape {tuple(tensor.shape)} is not contiguous or not of single or double "
                    "precision."
                )
            values = tensor.detach().numpy().reshape(-1)
            self._slots.append(_Slot(tensor, values, np.zeros_like(values), np.zeros_like(values)))

    def clear_gradients(self) -> None:
        """Forget the gradients of the last step."""
        for slot in self._slots:
            slot.tensor.grad = None

    def step(self, rate: float) -> None:
        """Move every parameter that has a gradient."""
        for slot in self._slots:
            tensor, gradient = slot.tensor, slot.tensor.grad
            if gradient is None:
                continue
            if tensor.data_ptr() != slot.values.ctypes.data and tensor.numel():
                raise BadArgument("Adam: a parameter has other memory than before. Make the optimiser after moving it.")
            slot.step_count += 1
            flat = gradient.contiguous().numpy().reshape(-1)
            adam_update(slot.values, flat, slot.mean, slot.square, rate, DECAY, SQUARE_DECAY, EPSILON, slot.step_count)
            torch.autograd.graph.increment_version(tensor)  # so that torch sees that it has changed
