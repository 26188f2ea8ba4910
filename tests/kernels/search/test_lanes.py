"""Lanes against numpy: arithmetic, reading and writing, and what is asked of all lanes at once."""

import numpy as np
import pytest

from phloem.kernels.jit import at, vector_kernel
from phloem.kernels.search.lanes import LANES, any_below, in_double, lanes_at, larger, put, spread, sum_of


@vector_kernel
def apply_all(first, second, number, out):
    """One row of `out` for each operation."""
    a, b = lanes_at(at(first, 0), 0), lanes_at(at(second, 0), 0)
    to = at(out, 0)
    put(to, 0, a + b)
    put(to, LANES, a - b)
    put(to, 2 * LANES, a * b)
    put(to, 3 * LANES, a / b)
    put(to, 4 * LANES, number * a)
    put(to, 5 * LANES, a + number)
    put(to, 6 * LANES, 1.0 / b)
    put(to, 7 * LANES, larger(a, number))
    put(to, 8 * LANES, spread(number))


@vector_kernel
def add_whole(first, second, out):
    put(at(out, 0), 0, lanes_at(at(first, 0), 0) + lanes_at(at(second, 0), 0))


@vector_kernel
def is_any_below(values, bound):
    return any_below(lanes_at(at(values, 0), 0), bound)


@vector_kernel
def total(values):
    return sum_of(lanes_at(at(values, 0), 0))


@vector_kernel
def doubled_total(values):
    lanes = in_double(lanes_at(at(values, 0), 0))
    return sum_of(lanes + lanes)


@vector_kernel
def copy_from(values, offset, out):
    put(at(out, 1), 0, lanes_at(at(values, 0), offset))


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


def test_sums_are_in_order_and_in_double_precision():
    values = np.random.default_rng(2).normal(size=LANES).astype(np.float32)
    expected = 0.0
    for value in values.tolist():
        expected += value
    assert total(values) == expected
    assert doubled_total(values) == 2 * expected


def test_lanes_may_begin_anywhere_and_nothing_beside_them_is_written():
    values = np.arange(2 * LANES, dtype=np.float32)
    out = np.full(LANES + 2, -1.0, np.float32)
    copy_from(values, 3, out)
    np.testing.assert_array_equal(out[1:-1], values[3 : LANES + 3])
    assert out[0] == out[-1] == -1.0
