"""Lanes against numpy: arithmetic, reading and writing, what is asked of all lanes at once, and exponentials."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phloem.kernels.jit import at, vector_kernel
from phloem.kernels.lanes import (
    any_below,
    choose_if_between,
    clear,
    expm1_below_zero,
    four_at,
    four_of,
    in_double,
    larger,
    least_of,
    put,
    repeat_lane,
    sixteen_at,
    sixteen_of,
    smaller,
    sum_of,
)

LANES = 16


@vector_kernel
def apply_all(first, second, number, out):
    """One row of `out` for each operation."""
    a, b = sixteen_at(at(first, 0), 0), sixteen_at(at(second, 0), 0)
    to = at(out, 0)
    put(to, 0, a + b)
    put(to, LANES, a - b)
    put(to, 2 * LANES, a * b)
    put(to, 3 * LANES, a / b)
    put(to, 4 * LANES, number * a)
    put(to, 5 * LANES, a + number)
    put(to, 6 * LANES, 1.0 / b)
    put(to, 7 * LANES, larger(a, number))
    put(to, 8 * LANES, sixteen_of(number))


@vector_kernel
def add_whole(first, second, out):
    put(at(out, 0), 0, sixteen_at(at(first, 0), 0) + sixteen_at(at(second, 0), 0))


@vector_kernel
def is_any_below(values, bound):
    return any_below(sixteen_at(at(values, 0), 0), bound)


@vector_kernel
def total(values):
    return sum_of(sixteen_at(at(values, 0), 0))


@vector_kernel
def doubled_total(values):
    lanes = in_double(sixteen_at(at(values, 0), 0))
    return sum_of(lanes + lanes)


@vector_kernel
def copy_from(values, offset, out):
    put(at(out, 1), 0, sixteen_at(at(values, 0), offset))


@pytest.mark.parametrize("precision", [np.float32, np.float64])
def test_operations_are_those_of_numpy_lane_by_lane(precision):
    random = np.random.default_rng(1)
    first, second = random.normal(size=(2, LANES)).astype(precision)
    number = precision(0.3)
    out = np.empty((9, LANES), precision)
    apply_all(first, second, number, out)
    expected = [
        first + second,
        first - second,
        first * second,
        first / second,
        number * first,
        first + number,
        1 / second,
        np.maximum(first, number),
        np.full(LANES, number),
    ]
    np.testing.assert_array_equal(out, np.array(expected, precision))


def test_whole_numbers_add():
    first, second = np.arange(LANES, dtype=np.int32), np.full(LANES, 7, np.int32)
    out = np.zeros(LANES, np.int32)
    add_whole(first, second, out)
    np.testing.assert_array_equal(out, first + second)


@pytest.mark.parametrize("lane", range(LANES))
def test_one_lane_below_is_enough_and_none_of_them_is_not_a_number(lane):
    values = np.full(LANES, 2.0, np.float32)
    assert not is_any_below(values, np.float32(2.0))
    values[lane] = 1.0
    assert is_any_below(values, np.float32(2.0))
    values[lane] = np.nan
    assert not is_any_below(values, np.float32(2.0))


def test_sums_are_in_one_order_and_in_double_precision():
    values = np.random.default_rng(2).normal(size=LANES).astype(np.float32)
    sums = values.astype(np.float64)
    while len(sums) > 1:
        sums = sums[::2] + sums[1::2]
    expected = sums[0]
    assert total(values) == expected
    assert doubled_total(values) == 2 * expected


def test_lanes_may_begin_anywhere_and_nothing_beside_them_is_written():
    values = np.arange(2 * LANES, dtype=np.float32)
    out = np.full(LANES + 2, -1.0, np.float32)
    copy_from(values, 3, out)
    np.testing.assert_array_equal(out[1:-1], values[3 : LANES + 3])
    assert out[0] == out[-1] == -1.0


@vector_kernel
def arithmetic(x, y, out):
    one, other = four_at(at(x, 0), 0), four_at(at(y, 0), 0)
    summed = one + other
    summed += one * other - four_of(3.0)
    put(at(out, 0), 0, summed)
    put(at(out, 0), 4, repeat_lane(one, 2))
    put(at(out, 0), 8, smaller(one, other))
    put(at(out, 0), 12, choose_if_between(one, 5.0, four_of(1.0), four_of(0.0)))
    return sum_of(one), least_of(one)


@vector_kernel
def all_expm1(x, out):
    for place in range(0, len(x), 4):
        put(at(out, 0), place, expm1_below_zero(four_at(at(x, 0), place)))


@vector_kernel
def clear_some(values, count):
    clear(at(values, 0), count)


numbers = st.lists(st.floats(-1e3, 1e3), min_size=4, max_size=4)


@given(numbers, numbers)
def test_lanes_are_four_numbers(first, second):
    x, y, out = np.array(first), np.array(second), np.empty(16)
    summed, lowest = arithmetic(x, y, out)
    np.testing.assert_allclose(out[:4], x + y + (x * y - 3.0), rtol=1e-12, atol=1e-9)
    assert (out[4:8] == x[2]).all()
    np.testing.assert_array_equal(out[8:12], np.minimum(x, y))
    np.testing.assert_array_equal(out[12:], (x > 0) & (x < 5))
    assert (summed, lowest) == (pytest.approx(x.sum(), abs=1e-9), x.min())


def test_expm1_has_all_digits_from_the_smallest_numbers_to_the_largest():
    x = -np.concatenate([[0.0, 0.0, 1e-300, 1e4], np.logspace(-20, 3, 4000), np.linspace(0, 5, 4000)])
    out = np.empty_like(x)
    all_expm1(x, out)
    np.testing.assert_allclose(out, np.expm1(x), rtol=4e-16, atol=0)


def test_clear_clears_what_it_is_told():
    values = np.ones(12)
    clear_some(values, 2)
    assert values.tolist() == [0.0] * 8 + [1.0] * 4
