"""Four doubles at a time, against numpy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phloem.kernels.jit import at, vector_kernel
from phloem.kernels.lanes import (
    choose_if_smaller,
    clear,
    expm1_below_zero,
    lane,
    least,
    load,
    smaller,
    spread,
    spread_lane,
    store,
    total,
)


@vector_kernel
def arithmetic(x, y, out):
    one, other = load(at(x, 0), 0), load(at(y, 0), 0)
    summed = one + other
    summed += one * other - spread(3.0)
    store(at(out, 0), 0, summed)
    store(at(out, 0), 4, spread_lane(one, 2))
    store(at(out, 0), 8, smaller(one, other))
    store(at(out, 0), 12, choose_if_smaller(one, other, spread(1.0), spread(0.0)))
    return total(one), least(one), lane(one, 3)


@vector_kernel
def all_expm1(x, out):
    for place in range(0, len(x), 4):
        store(at(out, 0), place, expm1_below_zero(load(at(x, 0), place)))


@vector_kernel
def clear_some(values, count):
    clear(at(values, 0), count)


numbers = st.lists(st.floats(-1e3, 1e3), min_size=4, max_size=4)


@given(numbers, numbers)
def test_lanes_are_four_numbers(first, second):
    x, y, out = np.array(first), np.array(second), np.empty(16)
    summed, lowest, last = arithmetic(x, y, out)
    np.testing.assert_allclose(out[:4], x + y + (x * y - 3.0), rtol=1e-12, atol=1e-9)
    assert (out[4:8] == x[2]).all()
    np.testing.assert_array_equal(out[8:12], np.minimum(x, y))
    np.testing.assert_array_equal(out[12:], (x > 0) & (x < y))
    assert (summed, lowest, last) == (pytest.approx(x.sum(), abs=1e-9), x.min(), x[3])


def test_expm1_has_all_digits_from_the_smallest_numbers_to_the_largest():
    x = -np.concatenate([[0.0, 0.0, 1e-300, 1e4], np.logspace(-20, 3, 4000), np.linspace(0, 5, 4000)])
    out = np.empty_like(x)
    all_expm1(x, out)
    np.testing.assert_allclose(out, np.expm1(x), rtol=4e-16, atol=0)


def test_clear_clears_what_it_is_told():
    values = np.ones(12)
    clear_some(values, 2)
    assert values.tolist() == [0.0] * 8 + [1.0] * 4
