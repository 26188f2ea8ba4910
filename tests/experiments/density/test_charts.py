"""Axes over decades, and the numbers on them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phloem.experiments.density.charts import excess_axis, log_axis

positive = st.lists(st.floats(1e-9, 1e4), min_size=1, max_size=20)


@given(positive)
def test_all_values_are_inside_a_logarithmic_axis_in_their_order(values):
    percents = log_axis(values).percents(np.sort(values))
    assert (np.diff(percents) >= 0).all()
    assert percents[0] > 0
    assert percents[-1] < 100


@given(positive)
def test_an_excess_axis_has_zero_inside_and_all_values_above_it(values):
    axis = excess_axis(values)
    zero, *percents = axis.percents(np.append(0, np.sort(values)))
    assert 0 < zero < percents[0] + 1e-12
    assert percents[-1] < 100
    assert (np.diff(percents) >= 0).all()
    assert 10.0**axis.threshold <= min(values) * (1 + 1e-9)


def test_decades_are_even_above_the_threshold_and_the_axis_does_not_jump_at_it():
    axis = excess_axis([0.003, 2.0])
    assert axis.threshold == -3
    assert [tick.label for tick in axis.ticks()] == ["0", "0.001", "0.01", "0.1", "1"]
    decades = np.diff([tick.place for tick in axis.ticks()][1:])
    assert decades == pytest.approx([decades[0]] * 3)
    below, above = axis.percents(np.array([1 - 1e-9, 1 + 1e-9]) * 1e-3)
    assert below == pytest.approx(above, abs=1e-6)


def test_what_is_not_above_zero_is_at_the_lower_end_and_what_is_no_number_stays_none():
    percents = log_axis([0.1, 1.0]).percents(np.array([0.0, -1.0, np.nan]))
    assert percents[:2].tolist() == [0, 0]
    assert np.isnan(percents[2])
    lowest, unknown = excess_axis([0.1]).percents(np.array([-100.0, np.nan]))
    assert lowest == 0
    assert np.isnan(unknown)


def test_axes_without_a_value_do_no_harm():
    for axis in (log_axis([np.nan, 0.0]), excess_axis([np.nan, -1.0])):
        assert np.isfinite(axis.percents(np.array([1.0]))).all()
        assert axis.ticks()
