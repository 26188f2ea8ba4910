"""Adam for a few small tensors: one kernel call for all, where torch's optimisers spend their time between calls."""

import math
from collections.abc import Iterable

import numpy as np
import torch
from torch import nn

from phloem.arrays import AnyArray
from phloem.errors import BadArgument
from phloem.kernels.training import adam_update

DECAY, SQUARE_DECAY, EPSILON = 0.9, 0.999, 1e-8


class Adam:
    """Adam (Kingma & Ba 2015) with its usual decay rates; each step says its learning rate.

    clipping: a gradient whose norm is more than so many times the usual one, as the second moments know it, is scaled
    down to that. A gradient that is no number moves nothing. Parameters are of one type, are updated in place and must
    keep their memory for as long as the optimiser lives.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], *, clipping: float = math.inf) -> None:
        if not clipping > 0:
            raise BadArgument(f"Adam: clipping {clipping:g}. Give a number above 0.")
        self._clipping = clipping
        self._parameters = list(parameters)
        if len(set(map(id, self._parameters))) != len(self._parameters):
            raise BadArgument("Adam: give every parameter once.")
        for parameter in self._parameters:
            if not parameter.is_leaf:
                raise BadArgument("Adam: give parameters, and no results of computations.")
            if not parameter.is_contiguous() or parameter.dtype not in (torch.float32, torch.float64):
                raise BadArgument(
                    f"Adam: a parameter of shape {tuple(parameter.shape)} is not contiguous or not of single or "
                    "double precision."
                )
        if len({parameter.dtype for parameter in self._parameters}) > 1:
            raise BadArgument("Adam: parameters of single and of double precision. Make an optimiser for each.")
        single = any(parameter.dtype == torch.float32 for parameter in self._parameters)
        self._starts = np.cumsum([0, *(parameter.numel() for parameter in self._parameters)], dtype=np.int64)
        self._mean = np.zeros(self._starts[-1], np.float32 if single else np.float64)
        self._square = np.zeros_like(self._mean)
        self._step_counts = np.zeros(len(self._parameters), np.int64)
        self._addresses = np.array([(parameter.data_ptr(), 0) for parameter in self._parameters], np.int64)
        self._addresses = self._addresses.reshape(-1, 2)

    def clear_gradients(self) -> None:
        """Forget the gradients of the last step."""
        for parameter in self._parameters:
            parameter.grad = None

    def state(self) -> dict[str, AnyArray]:
        """The moments and how many steps each parameter has had: the optimiser's own memory, not a copy."""
        return {"mean": self._mean, "square": self._square, "step_counts": self._step_counts}

    def step(self, rate: float) -> bool:
        """Move every parameter that has a gradient; returns whether the gradient was a number."""
        gradients = [None if p.grad is None else p.grad.contiguous() for p in self._parameters]
        if [parameter.data_ptr() for parameter in self._parameters] != self._addresses[:, 0].tolist():
            raise BadArgument("Adam: a parameter has other memory than before. Make the optimiser after moving it.")
        self._addresses[:, 1] = [0 if gradient is None else gradient.data_ptr() for gradient in gradients]
        moved: bool = adam_update(
            self._addresses,
            self._starts,
            self._step_counts,
            self._mean,
            self._square,
            rate,
            DECAY,
            SQUARE_DECAY,
            EPSILON,
            self._clipping,
        )
        for parameter in self._parameters:
            torch.autograd.graph.increment_version(parameter)  # so that torch sees that it has changed
        return moved
