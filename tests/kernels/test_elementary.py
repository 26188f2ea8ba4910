"""exp and log in plain arithmetic, against the C library."""

import math
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phloem.kernels.elementary import exp_below_zero, log_above_zero
from phloem.kernels.jit import vector_kernel

SMALLEST, LARGEST = sys.float_info.min, sys.float_info.max
PRECISIONS = {np.float32: 4e-7, np.float64: 2e-14}


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


@vector_kernel
def apply_exp(values, results):
    for place in range(len(values)):
        results[place] = exp_below_zero(values[place])


@pytest.mark.parametrize("kind", PRECISIONS)
def test_exponentials_are_exact_to_the_last_digits(kind):
    values = -np.concatenate([np.linspace(0, 1, 10_001), np.linspace(1, 86, 10_001), [1e-30, 0.0]]).astype(kind)
    results = np.empty_like(values)
    apply_exp(values, results)
    np.testing.assert_allclose(results, np.exp(values.astype(np.float64)), rtol=PRECISIONS[kind])
    assert results[-1] == 1


@pytest.mark.parametrize("kind", PRECISIONS)
def test_exponentials_of_very_negative_numbers_are_tiny_and_positive(kind):
    values = np.array([-88, -500, -1e30, -np.inf], kind)
    results = np.empty_like(values)
    apply_exp(values, results)
    assert (results >= 0).all()
    assert (results < 1e-37).all()


def test_exponentials_of_double_precision_reach_down_to_the_least_numbers():
    values = -np.linspace(86, 700, 5000)
    results = np.empty_like(values)
    apply_exp(values, results)
    np.testing.assert_allclose(results, np.exp(values), rtol=2e-14)
