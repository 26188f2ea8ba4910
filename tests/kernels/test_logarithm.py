"""The logarithm in plain arithmetic against the C library's."""

import math
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phloem.kernels.elementary import log_above_zero

SMALLEST, LARGEST = sys.float_info.min, sys.float_info.max


def close(x: float) -> bool:
    """Fifteen digits, or as much beside 1, where the logarithm itself is small."""
    return math.isclose(log_above_zero(x), math.log(x), rel_tol=1e-15, abs_tol=4e-16)


@given(st.floats(SMALLEST, LARGEST))
def test_it_is_the_logarithm_of_every_normal_number(x):
    assert close(x)


@given(st.floats(0.5, 2.0))
def test_it_is_exact_beside_one(x):
    assert close(x)


def test_every_power_of_two_and_its_neighbours():
    for power in range(-1022, 1024):
        x = math.ldexp(1.0, power)
        assert close(x)
        assert close(math.nextafter(x, math.inf))
        assert x == SMALLEST or close(math.nextafter(x, 0.0))


@pytest.mark.parametrize("middle", [math.sqrt(0.5), math.sqrt(2.0), 1.0])
def test_it_does_not_jump_where_the_power_changes(middle):
    for x in middle * (1 + np.arange(-50, 51) * 2.0**-52):
        assert close(float(x))


def test_the_ends_of_the_range():
    assert close(SMALLEST)
    assert close(LARGEST)
    assert log_above_zero(1.0) == 0.0
