"""Statistics of calibration against slow twins; right posteriors pass, wrong ones are seen."""

import math
from itertools import pairwise

import numpy as np
import pytest

from calibration import (
    CREDIBLE,
    CladeCount,
    binomial_band,
    clade_counts,
    credible_set,
    ecdf,
    ecdf_band,
    pooled,
    power,
    rank,
    successes_band,
    uniformity,
)
from phloem.random_streams import RandomStream
from phloem.trees.generation import random_topologies
from phloem.trees.splits import distinct_splits, nontrivial_splits

SETS = 300


def test_a_rank_is_the_weight_below_and_a_share_of_that_at_the_truth():
    values, weights = np.array([3.0, 1.0, 2.0, 2.0]), np.array([0.1, 0.2, 0.3, 0.4])
    assert rank(values, weights, 2.0, 0.25) == pytest.approx(0.2 + 0.25 * 0.7)
    assert rank(values, weights, 2.5, 0.25) == pytest.approx(0.9)
    assert rank(values, 10 * weights, 0.0, 0.9) == 0
    assert rank(values, 10 * weights, 9.0, 0.1) == 1


def ranks_of_normals(seed: int, *, factor: float = 1.0, shift: float = 0.0, draws: int = 1000) -> list[float]:
    """Of a mean with a standard normal prior and one observation y, whose posterior is normal(y/2, sqrt(1/2)).

    Draws have twice that deviation, and weights for the posterior: one whose deviation is off by a factor, or whose
    mean is shifted.
    """
    random = np.random.default_rng(seed)
    deviation = math.sqrt(0.5)
    found = []
    for _ in range(SETS):
        truth = random.standard_normal()
        seen = truth + random.standard_normal()
        noise = 2 * random.standard_normal(draws)  # in deviations
        log_weights = noise**2 / 8 - ((noise - shift) / factor) ** 2 / 2
        found.append(rank(seen / 2 + deviation * noise, np.exp(log_weights), truth, random.random()))
    return found


def test_ranks_of_exact_posteriors_are_uniform():
    found = [uniformity(ranks_of_normals(seed)) for seed in range(40)]
    assert {one.data_sets for one in found} == {SETS}
    assert sum(one.leaves_band for one in found) <= 5  # 2 of 40 are expected
    assert sum(one.p_value < 0.05 for one in found) <= 5
    assert np.mean([one.mean for one in found]) == pytest.approx(0.5, abs=0.01)
    assert np.mean([one.spread for one in found]) == pytest.approx(1.0, abs=0.02)


@pytest.mark.parametrize(("factor", "shift"), [(0.67, 0.0), (1.5, 0.0), (1.0, 0.4), (1.0, -0.4)])
def test_posteriors_that_are_too_narrow_too_wide_or_shifted_are_seen(factor, shift):
    found = uniformity(ranks_of_normals(1, factor=factor, shift=shift))
    assert found.leaves_band
    assert found.p_value < 0.05
    if factor != 1:
        assert (found.spread > 1.1) == (factor < 1)
        assert (found.spread < 0.9) == (factor > 1)
    if shift:
        assert (found.mean < 0.45) == (shift > 0)


def test_ties_need_chance_to_be_uniform():
    """Truths among three values: half of their weight gives three ranks, a random share gives all."""
    random = np.random.default_rng(3)
    values, weights = np.arange(3.0), np.array([0.2, 0.5, 0.3])
    truths = random.choice(3, SETS, p=weights)
    assert uniformity([rank(values, weights, truth, 0.5) for truth in truths]).leaves_band
    assert not uniformity([rank(values, weights, truth, random.random()) for truth in truths]).leaves_band


def test_a_credible_set_has_the_fewest_topologies_that_reach_its_share():
    random = np.random.default_rng(7)
    for _ in range(50):
        probabilities = random.dirichlet(np.full(6, 0.5))
        truth = int(random.integers(6))
        for share in CREDIBLE:
            found = credible_set(probabilities, share, truth)
            ordered = sorted(range(6), key=lambda one: -probabilities[one])
            held: list[int] = []
            while sum(probabilities[held]) < share:
                held.append(ordered[len(held)])
            assert found.topologies == len(held)
            assert found.probability == pytest.approx(sum(probabilities[held]))
            assert found.has_truth == (truth in held)
    assert not credible_set(np.array([0.6, 0.4]), 0.95, None).has_truth


def clades_of(topologies) -> list[set[bytes]]:
    return [{row.tobytes() for row in splits} for splits in nontrivial_splits(topologies)]


def test_clades_are_counted_as_by_sets_of_them():
    """Expectation and variance over the posterior, by looking at every topology."""
    random = np.random.default_rng(11)
    bins = ((0.0, 0.2), (0.2, 0.6), (0.6, 1.0), (0.0, 1.0))
    for seed in range(10):
        topologies = random_topologies(6, 8, stream=RandomStream(seed, "clades"))
        _, number = distinct_splits(topologies)
        weights = random.dirichlet(np.full(7, 0.5))
        found = clade_counts(number[:-1], weights, number[-1], bins)
        *sampled, truth = clades_of(topologies)
        seen = set().union(*sampled, truth)
        probability = {one: sum(weights[tree] for tree in range(7) if one in sampled[tree]) for one in seen}
        for (lower, upper), count in zip(bins, found.values(), strict=True):
            inside = {
                one for one in seen if lower <= probability[one] < upper or (upper == 1 <= probability[one] + 1e-9)
            }
            numbers = [len(inside & own) for own in sampled]
            mean = sum(weight * one for weight, one in zip(weights, numbers, strict=True))
            square = sum(weight * one**2 for weight, one in zip(weights, numbers, strict=True))
            assert count.clades == len(inside)
            assert count.true == len(inside & truth)
            assert count.expected == pytest.approx(mean)
            assert count.variance == pytest.approx(square - mean**2, abs=1e-8)
        assert found["0-1"].expected == pytest.approx(3)


def test_a_true_clade_that_no_draw_has_is_counted():
    number, truth = np.array([[0, 1], [0, 2]]), np.array([0, 3])
    found = clade_counts(number, np.array([0.5, 0.5]), truth, ((0.0, 0.05), (0.4, 0.6), (0.9, 1.0)))
    assert found["0-0.05"] == CladeCount(1, 0.0, 0.0, 1)
    assert found["0.4-0.6"] == CladeCount(2, 1.0, 0.0, 0)  # they exclude each other: one of them, surely
    assert found["0.9-1"] == CladeCount(1, 1.0, 0.0, 1)


def clade_deviation(power_of_weights: float) -> float:
    """Of clades with a probability of one half or more, where truths are drawn from right or wrong weights."""
    random = np.random.default_rng(13)
    counts = []
    for seed in range(SETS):
        topologies = random_topologies(6, 5, stream=RandomStream(seed, "clades"))
        _, number = distinct_splits(topologies)
        weights = random.dirichlet(np.ones(5))
        truth = random.choice(5, p=weights)
        stated = weights**power_of_weights / (weights**power_of_weights).sum()
        counts.append(clade_counts(number, stated, number[truth])["0.5-1"])
    return pooled(counts).deviation


def test_right_clade_probabilities_pass_and_wrong_ones_are_seen():
    assert abs(clade_deviation(1.0)) < 2
    assert clade_deviation(2.0) < -4
    assert clade_deviation(0.3) > 3


def test_data_sets_add_up():
    found = pooled([CladeCount(3, 1.5, 0.25, 2), CladeCount(2, 1.0, 0.75, 1)])
    assert found == CladeCount(5, 2.5, 1.0, 3)
    assert found.deviation == pytest.approx(0.5)
    assert CladeCount(2, 2.0, 0.0, 2).deviation == 0


def test_an_empirical_distribution_is_the_share_of_ranks_up_to_each_point():
    ranks = np.array([0.02, 0.5, 0.77, 0.1])
    band = ecdf_band(4)
    assert ecdf(ranks).tolist() == [sum(one <= point for one in ranks) / 4 for point in band.points]


@pytest.mark.parametrize("count", [20, 150])
def test_the_band_holds_95_percent_of_uniform_ranks_as_a_whole(count):
    random = np.random.default_rng(count + 1)
    band = ecdf_band(count)
    inside = 0
    for _ in range(2000):
        difference = ecdf(random.random(count)) - band.points
        inside += bool(((difference >= band.lower - 1e-9) & (difference <= band.upper + 1e-9)).all())
    assert 0.935 < inside / 2000 < 0.975  # few ranks cannot meet a level exactly


def chance(successes: int, count: int, share: float) -> float:
    return math.comb(count, successes) * share**successes * (1 - share) ** (count - successes)


@pytest.mark.parametrize(("count", "share"), [(40, 0.5), (200, 0.95), (7, 0.8)])
def test_a_binomial_band_leaves_at_most_half_of_the_rest_on_each_side(count, share):
    lower, upper = (round(count * end) for end in binomial_band(count, share))
    below = [sum(chance(one, count, share) for one in range(end)) for end in (lower, lower + 1)]
    above = [sum(chance(one, count, share) for one in range(end + 1, count + 1)) for end in (upper, upper - 1)]
    for kept, next_one in (below, above):
        assert kept <= 0.025 < next_one
    assert successes_band([share] * count) == pytest.approx((lower / count, upper / count))


def test_trials_of_different_probabilities_are_added_up_exactly():
    """All outcomes of five, one by one."""
    shares = [0.1, 0.4, 0.5, 0.9, 0.97]
    distribution = np.zeros(6)
    for outcome in range(32):
        hits = [outcome >> place & 1 for place in range(5)]
        each = [share if hit else 1 - share for share, hit in zip(shares, hits, strict=True)]
        distribution[sum(hits)] += math.prod(each)
    lower, upper = (round(5 * end) for end in successes_band(shares))
    assert distribution[:lower].sum() < 0.025 <= distribution[: lower + 1].sum()
    assert distribution[:upper].sum() < 0.975 <= distribution[: upper + 1].sum()


def test_power_is_the_level_where_posteriors_are_right_and_grows_with_errors():
    assert power(100) == pytest.approx(0.05, abs=0.02)
    for found in ([power(100, narrower=by) for by in (1, 1.3, 2)], [power(100, shift=by) for by in (0, 0.3, 1)]):
        assert all(less < more for less, more in pairwise(found))
        assert found[-1] > 0.99
