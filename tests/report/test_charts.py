"""Axes, histograms and training curves of the report."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phloem.inference.training import Report
from phloem.report.charts import histogram, log_ticks, nice_step, ticks, training_charts, whole_powers
from support.made_up_report import made_up_history


@given(st.floats(1e-9, 1e9))
def test_a_nice_step_is_the_largest_of_1_2_5_that_is_not_above(rough):
    step = nice_step(rough)
    digit = step / 10 ** math.floor(math.log10(step) + 1e-9)
    assert round(digit) in (1, 2, 5)
    assert digit == pytest.approx(round(digit))
    assert rough / 2.5 * (1 - 1e-6) <= step <= rough * (1 + 1e-6)


@given(st.floats(-1e5, 1e5), st.floats(1e-3, 1e5), st.integers(3, 8))
def test_ticks_are_in_the_range_where_their_labels_say_and_not_too_many(low, spread, most):
    found = ticks(low, low + spread, most)
    assert 1 <= len(found) <= most + 1
    for tick in found:
        value = float(tick.label.replace("\N{MINUS SIGN}", "-").replace(",", ""))
        assert tick.place == pytest.approx(100 * (value - low) / spread, abs=1e-3)
        assert -1e-3 <= tick.place <= 100 + 1e-3


def test_powers_of_ten_on_a_logarithmic_axis():
    assert [(round(tick.place), tick.label) for tick in log_ticks(-3, 0)] == [
        (0, "0.001"),
        (33, "0.01"),
        (67, "0.1"),
        (100, "1"),
    ]
    assert [tick.label for tick in log_ticks(-1.5, -0.2)] == ["0.05", "0.1", "0.2", "0.5"]


def test_bars_are_as_high_as_the_weight_in_them():
    values, weights = np.array([0.0, 1.0, 1.0, 36.0]), np.array([1.0, 2.0, 2.0, 8.0])
    found = histogram(values, weights, inside=(0.0, 2.0), mean=18.0)
    assert found is not None
    assert [bar.height for bar in found.bars] == ["12.50%", "50.00%", "100.00%"]
    assert [bar.y for bar in found.bars] == ["87.50%", "50.00%", "0.00%"]
    assert [bar.is_inside for bar in found.bars] == [True, True, False]
    assert found.mean == 50


def test_one_value_is_one_bar_and_no_value_is_no_histogram():
    one = histogram(np.array([3.0, 3.0]), np.ones(2), inside=(3.0, 3.0), mean=3.0)
    assert one is not None
    assert len(one.bars) == 1
    assert one.mean == pytest.approx(50)
    assert histogram(np.array([np.nan]), np.ones(1), inside=(0, 0), mean=0) is None


def test_the_end_of_every_curve_is_inside_the_plot_and_tempering_is_marked():
    bound, elbo = training_charts([made_up_history(), made_up_history(1.0)])
    assert bound.tempered == pytest.approx(100 * 19_600 / 40_000)
    assert bound.is_cut
    assert not elbo.is_cut
    for chart in (bound, elbo):
        for curve in chart.curves:
            x, y = map(float, curve.points.split()[-1].split(","))
            assert x == 1000
            assert 0 <= y <= 1000


def test_curves_without_finite_values_or_with_a_single_report_do_no_harm():
    assert training_charts([[]]) == []
    report = Report(400, 1.0, 1.0, math.nan, -5.0, 1, 0)
    (elbo,) = training_charts([[report], []])
    assert elbo.title == "ELBO"
    assert [len(curve.points.split()) for curve in elbo.curves] == [1, 0]


@given(st.integers(-30, 0), st.integers(1, 30), st.integers(2, 8))
def test_whole_powers_are_even_inside_and_not_too_many(low, spread_of, most):
    found = whole_powers(low, low + spread_of, most)
    assert 1 <= len(found) <= most
    assert found[-1] == low + spread_of
    assert found[0] >= low
    assert len(set(np.diff(found))) <= 1
