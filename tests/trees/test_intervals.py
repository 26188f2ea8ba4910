"""Shortest intervals and medians, against ArviZ, numpy and every pair of end points."""

import warnings
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phloem.errors import BadArgument
from phloem.trees.branch_lengths import describe_groups, shortest_interval, weighted_median
from reference import slow_intervals

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it announces its next version
    import arviz

VALUES = st.lists(st.floats(-100, 100) | st.integers(0, 5).map(float), min_size=1, max_size=60)
SHARES = st.sampled_from([0.95, 0.9, 0.5, 0.25])  # shares of which arviz' products with counts are exact


@given(VALUES, SHARES)
def test_without_weights_it_is_the_interval_of_arviz(values, share):
    expected = arviz.hdi(np.array(values), hdi_prob=share)
    assert shortest_interval(values, share=share) == tuple(expected)


@pytest.mark.parametrize("count", [1, 19, 20, 21, 40, 1000, 20_000])
def test_arviz_agrees_at_counts_where_the_share_is_a_whole_number_of_values(count):
    values = np.random.default_rng(count).lognormal(size=count)
    assert shortest_interval(values, np.full(count, 0.1)) == tuple(arviz.hdi(values, hdi_prob=0.95))


@given(
    st.lists(st.tuples(st.integers(-20, 20), st.integers(0, 6)), min_size=1, max_size=14).filter(
        lambda pairs: any(weight for _, weight in pairs)
    ),
    st.sampled_from([0.95, 0.5, 0.75, 1.0]),
)
def test_with_weights_every_pair_of_end_points_agrees(pairs, share):
    values = [value / 8 for value, _ in pairs]
    weights = [Fraction(weight) for _, weight in pairs]
    expected = slow_intervals.shortest_interval(values, weights, Fraction(str(share)))
    assert shortest_interval(values, [weight / 7 for _, weight in pairs], share) == expected
    assert weighted_median(values, [weight / 7 for _, weight in pairs]) == slow_intervals.median(values, weights)


def test_a_weight_counts_like_as_many_values():
    random = np.random.default_rng(1)
    values, counts = random.gamma(2, size=300), random.integers(0, 5, 300)
    repeated = np.repeat(values, counts)
    assert shortest_interval(values, counts) == shortest_interval(repeated)
    assert weighted_median(values, counts) == pytest.approx(np.median(repeated), rel=1e-15)


@given(VALUES)
def test_the_median_is_that_of_numpy(values):
    assert weighted_median(values) == pytest.approx(np.median(values), rel=1e-12, abs=1e-12)


def test_the_scale_of_weights_does_not_matter():
    random = np.random.default_rng(2)
    values, weights = random.random(50), random.random(50)
    assert shortest_interval(values, weights * 1e-300) == shortest_interval(values, weights)


def test_the_interval_of_a_skewed_sample_leaves_the_long_tail_out():
    values = np.random.default_rng(3).exponential(size=20_000)
    lower, upper = shortest_interval(values)
    assert lower < 0.002
    assert upper == pytest.approx(-np.log(0.05), rel=0.03)


def test_groups_are_described_each_for_itself():
    random = np.random.default_rng(4)
    values, weights = random.normal(size=(200, 3)), random.integers(0, 4, 200).astype(float)
    kind, groups = random.integers(0, 4, 200), random.integers(0, 6, (4, 3))
    statistics = describe_groups(values, weights, kind, groups, 8, 0.9)
    for group in range(8):
        rows, columns = np.nonzero((groups[kind] == group) & (weights[:, None] > 0))
        inside = values[rows, columns]
        if not len(inside):
            assert np.isnan([part[group] for part in statistics]).all()
            continue
        mean = np.average(inside, weights=weights[rows])
        assert statistics.mean[group] == pytest.approx(mean)
        spread = np.average((inside - mean) ** 2, weights=weights[rows])
        assert statistics.deviation[group] == pytest.approx(np.sqrt(spread))
        assert statistics.median[group] == weighted_median(inside, weights[rows])
        interval = (statistics.lower[group], statistics.upper[group])
        assert interval == shortest_interval(inside, weights[rows], 0.9)
    assert np.isnan(statistics.mean[6:]).all()  # no value belongs to them


@pytest.mark.parametrize("share", [0, -1, 1.1, float("nan")])
def test_a_share_that_is_none_is_refused(share):
    with pytest.raises(BadArgument, match="above 0 and up to 1"):
        shortest_interval([1, 2, 3], share=share)


@pytest.mark.parametrize(
    ("values", "weights"),
    [([], None), ([1, np.nan], None), ([1, 2], [0, 0]), ([1, 2], [1, -1]), ([1, 2], [1]), ([[1, 2]], None)],
)
def test_values_and_weights_must_make_sense(values, weights):
    with pytest.raises(BadArgument, match="interval"):
        shortest_interval(values, weights)
