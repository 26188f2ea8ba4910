"""Kernels and their parts."""

import numpy as np

from phloem.arrays import FloatArray
from phloem.kernels.jit import kernel


@kernel
def _part(values, number):
    return values[0] + number


@kernel
def _whole(values: FloatArray, number: float) -> float:
    return _part(values, number)


def test_a_part_of_kernels_can_be_called_from_python_before_and_after_they_use_it():
    values = np.array([2.0])
    assert _part(values, 1.0) == 3.0
    assert _whole(values, 1.0) == 3.0
    assert _part(values, 1.0) == 3.0
    assert _part(values, 1) == 3.0
