"""Axes, histograms, curves and tables: what the pictures of the report are made of."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phloem.inference.training import Report
from phloem.report.charts import histogram, log_ticks, nice_step, ticks, training_charts
from phloem.report.clades import branch_table, clade_table
from phloem.report.wording import brief, interval, length, percent, short_name, text_width
from support.made_up_report import made_up_contents, made_up_history

THIN = "\N{NARROW NO-BREAK SPACE}"


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


def test_clades_are_all_those_that_are_probable_enough_and_the_others_are_counted():
    contents = made_up_contents(12)
    table = clade_table(contents)
    frequency = contents.splits.frequency[12:]
    assert [row.probability for row in table.rows] == frequency[frequency >= 0.01].tolist()
    assert table.left_out == (frequency < 0.01).sum()
    assert all(row.is_in_consensus == (row.probability > 0.5) for row in table.rows)
    assert all(2 <= row.size <= 6 for row in table.rows)


def test_branches_of_the_consensus_come_longest_first_within_their_intervals():
    contents = made_up_contents(12)
    table = branch_table(contents)
    means = [float(row.mean_text) for row in table.rows]
    assert means == sorted(means, reverse=True)
    assert len(means) == len(contents.consensus.tree.parent) - 1
    for row in table.rows:
        lower, mean, width = (float(part[:-1]) for part in (row.lower, row.mean, row.width))
        assert 0 <= lower <= mean <= lower + width + 0.02 <= 100
        assert bool(row.support) != row.is_tip


@pytest.mark.parametrize(
    ("share", "text"),
    [(1.0, "100"), (0.99951, ">99.9"), (0.5, "50"), (0.1234, "12.3"), (0.0001, "<0.1"), (0.0, "0")],
)
def test_shares_are_never_rounded_to_certainty(share, text):
    assert percent(share) == f"{text}{THIN}%"


def test_numbers_that_are_not_known_are_dashes():
    assert percent(math.nan) == length(math.nan) == interval(0.1, math.nan) == "–"
    assert length(0.00012) == "1.2e\N{MINUS SIGN}04"


def test_long_names_keep_both_ends_and_long_lists_their_beginning():
    name = "Genus_species_subspecies_isolate_from_somewhere_KX1234567"
    assert len(short_name(name)) == 34
    assert short_name(name).startswith("Genus_species")
    assert short_name(name).endswith("KX1234567")
    assert brief(["a", "b", "c", "d", "e"]) == "a, b, c and 2 more"
    assert brief(["a", "b"]) == "a, b"
    assert text_width("WWW") > text_width("lll")
