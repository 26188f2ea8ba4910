"""Repeats, rows and estimates of the density experiment, against plain numpy."""

import math
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phloem.errors import BadArgument
from phloem.experiments.density.charts import divergence_curves, estimates, excess_curves, last_step, repeats_in_words
from phloem.experiments.density.results import (
    DensityExperiment,
    DensityRow,
    Repeat,
    chosen_variant,
    density_rows,
    variants,
)
from support.made_up_density import best_loss, divergence, made_up_experiment, made_up_repeat, small_experiment


def with_repeats(*repeats: Repeat) -> DensityExperiment:
    return replace(small_experiment(), repeats=repeats)


def short_repeat(convolution: str = "edge", seed: int = 9) -> Repeat:
    """Stopped at 80,000 of 200,000 steps."""
    return made_up_repeat(small_experiment().target, convolution, seed, steps=80_000, reports=3)


def constant(convolution: str, seed: int, last: float, steps: tuple[int, ...] = (10, 20)) -> Repeat:
    """A repeat whose divergence at the end is given."""
    values = (*[1.0] * (len(steps) - 1), last)
    return Repeat(convolution, seed, 1.0, steps, values, values, np.log(np.full(15, 1 / 15)))


def test_rows_are_means_and_deviations_at_the_last_step_in_the_papers_order():
    experiment = made_up_experiment()
    rows = density_rows(experiment)
    assert [row.convolution for row in rows] == ["mlp", "gcn", "gin", "sage", "ggnn", "edge"]
    for row in rows:
        own = [repeat for repeat in experiment.repeats if repeat.convolution == row.convolution]
        last = np.array([(repeat.divergences[-1], repeat.losses[-1], repeat.seconds) for repeat in own])
        assert (row.repeats, row.stopped, row.steps) == (len(own), 0, 200_000)
        assert row.divergence == pytest.approx(last[:, 0].mean(), rel=1e-12)
        assert row.excess_loss == pytest.approx(last[:, 1].mean() - experiment.best_loss, rel=1e-9)
        assert row.seconds == pytest.approx(last[:, 2].mean(), rel=1e-12)
        if len(own) > 1:
            assert row.divergence_deviation == pytest.approx(last[:, 0].std(ddof=1), rel=1e-9)
            assert row.excess_loss_deviation == pytest.approx(last[:, 1].std(ddof=1), rel=1e-9)
        else:
            assert row.divergence_deviation is row.excess_loss_deviation is None


def test_rows_hold_plain_numbers_that_json_can_write():
    for row in density_rows(small_experiment()):
        assert {type(value) for value in row} <= {str, int, float, type(None)}
        assert list(row._asdict()) == list(DensityRow._fields)


def test_the_made_up_experiment_is_as_large_as_the_papers():
    experiment = made_up_experiment()
    assert len(experiment.target) == 10_395
    assert (experiment.target > 0).sum() == 2_899
    assert [len(repeat.steps) for repeat in experiment.repeats] == [100] * 10
    assert experiment.best_loss == best_loss(experiment.target)
    assert min(min(repeat.losses) for repeat in experiment.repeats) > experiment.best_loss


def test_a_repeat_that_stopped_before_others_is_in_no_mean():
    whole = small_experiment().repeats
    rows = density_rows(with_repeats(short_repeat("mlp"), *whole, short_repeat("edge")))
    for row, before in zip(rows, density_rows(small_experiment()), strict=True):
        assert row._replace(stopped=0) == before
        assert row.stopped == (row.convolution in ("mlp", "edge"))


def test_a_variant_whose_repeats_all_stopped_has_the_steps_that_it_has():
    (row,) = density_rows(with_repeats(short_repeat("gcn", 1), short_repeat("gcn", 2)))
    assert (row.repeats, row.stopped, row.steps) == (2, 0, 80_000)


def test_curves_have_the_steps_that_all_repeats_were_looked_at():
    one = Repeat("gin", 1, 1.0, (5, 10, 20), (1.0, 2.0, 3.0), (4.0, 5.0, 6.0), np.zeros(15))
    other = Repeat("gin", 2, 1.0, (10, 15, 20), (4.0, 9.0, 7.0), (7.0, 9.0, 10.0), np.zeros(15))
    (variant,) = variants(with_repeats(one, other))
    assert variant.losses.steps.tolist() == [10, 20]
    assert variant.losses.mean.tolist() == [3.0, 5.0]
    assert variant.divergences.mean.tolist() == [6.0, 8.0]
    assert variant.divergences.deviation == pytest.approx(np.std([[5, 6], [7, 10]], axis=0, ddof=1))


def test_places_do_not_depend_on_which_variants_are_there():
    found = variants(with_repeats(constant("edge", 1, 1.0), constant("edge-text", 1, 1.0), constant("gcn", 1, 1.0)))
    assert [(variant.name, variant.place) for variant in found] == [("GCN", 1), ("EDGE", 5), ("EDGE-TEXT", 6)]


def test_the_variant_that_ends_nearest_to_the_target_is_chosen_unless_one_is_named():
    found = variants(
        with_repeats(
            constant("mlp", 1, 0.3), constant("gin", 1, 0.1), constant("gin", 2, 0.3), constant("sage", 1, 0.25)
        )
    )
    assert chosen_variant(found).name == "GIN"
    assert chosen_variant(found, "MLP").name == "MLP"
    lost = variants(with_repeats(constant("mlp", 1, math.nan), constant("edge", 1, 7.0)))
    assert chosen_variant(lost).name == "EDGE"


@pytest.mark.parametrize(("ends", "seed"), [([3, 1, 2], 3), ([2, 1], 2), ([5], 1), ([math.nan, 2, 3], 3)])
def test_the_typical_repeat_has_the_median_divergence(ends, seed):
    repeats = [constant("ggnn", number, end) for number, end in enumerate(ends, 1)]
    assert variants(with_repeats(*repeats))[0].typical.seed == seed


def test_estimates_leave_out_zeros_and_what_is_negligible_together_and_count_them():
    experiment = made_up_experiment()
    found = estimates(experiment, chosen_variant(variants(experiment)))
    target, model = experiment.target, found.repeat.log_probabilities
    shown = target >= 10.0**found.least
    assert found.zeros == (target == 0).sum() == 10_395 - 2_899
    assert len(found.target) + found.tiny + found.zeros == len(target)
    assert target[~shown].sum() < 1e-6
    assert target[target < 10.0 ** (found.least + 1)].sum() > 1e-6  # with one decade more it would not be
    np.testing.assert_allclose(10**found.target, target[shown], rtol=1e-12)
    np.testing.assert_allclose(found.model, np.maximum(model[shown] / np.log(10), found.range[0]), rtol=1e-12)
    assert found.range[0] <= found.model.min()
    assert max(found.target.max(), found.model.max()) <= found.range[1]


@given(st.lists(st.floats(0, 1), min_size=15, max_size=15).filter(any), st.floats(0, 800), st.integers(0, 99))
def test_every_topology_is_shown_or_counted_whatever_the_numbers(weights, spread, seed):
    target = np.array(weights) / np.sum(weights)
    model = spread * np.random.default_rng(seed).normal(size=15)
    experiment = DensityExperiment(
        5, target, 0.1, 9, (Repeat("gcn", 1, 1.0, (9,), (1.0,), (1.0,), model - model.max()),)
    )
    found = estimates(experiment, variants(experiment)[0])
    assert len(found.target) + found.tiny + found.zeros == 15
    assert found.least <= found.target.min() + 1e-9
    assert target[(target > 0) & (target < 10.0**found.least * 0.999)].sum() <= 1e-6
    low, high = found.range
    assert low <= found.least < high
    assert low >= found.least - 4
    assert (found.model >= low).all()
    assert (np.maximum(found.model, found.target) <= high + 1e-9).all()
    assert found.too_low <= (found.model == low).sum()


def test_a_model_that_says_impossible_or_nothing_is_drawn_at_the_edge():
    experiment = small_experiment()
    broken = experiment.repeats[0].log_probabilities.copy()
    broken[:2] = -np.inf, np.nan
    repeat = replace(experiment.repeats[0], log_probabilities=broken)
    found = estimates(experiment, variants(with_repeats(repeat))[0])
    assert found.too_low == (experiment.target[:2] > 0).sum() == 2
    assert (found.model == found.range[0]).sum() == 2


def test_curves_hold_means_deviations_and_repeats_that_ended_early():
    experiment = with_repeats(*small_experiment().repeats, short_repeat())
    found = variants(experiment)
    losses, divergences = excess_curves(found, experiment.best_loss), divergence_curves(found)
    for loss, distance, variant in zip(losses.curves, divergences.curves, found, strict=True):
        own = [repeat for repeat in experiment.repeats if repeat in variant.repeats]
        expected = np.array([repeat.losses for repeat in own]).mean(axis=0) - experiment.best_loss
        np.testing.assert_allclose(loss.band.mean, expected)
        np.testing.assert_allclose(distance.band.mean, np.array([repeat.divergences for repeat in own]).mean(axis=0))
        assert (distance.band.deviation is None) == (len(own) == 1)
    (early,) = divergences.curves[-1].stopped
    assert early.steps.tolist() == list(short_repeat().steps)
    assert early.values.tolist() == list(short_repeat().divergences)
    assert last_step(found) == 200_000
    assert repeats_in_words(found) == "3 repeats"
    assert repeats_in_words(variants(with_repeats(short_repeat()))) == ""


def test_the_divergence_of_the_made_up_model_is_that_of_its_probabilities():
    experiment = made_up_experiment()
    for repeat in experiment.repeats:
        assert divergence(experiment.target, repeat.log_probabilities) == pytest.approx(repeat.divergences[-1])


def test_bad_experiments_are_one_line():
    repeat = small_experiment().repeats[0]
    for repeats in ((), (replace(repeat, steps=(), losses=(), divergences=()),)):
        with pytest.raises(BadArgument, match=r"^density experiment: no repeat has a report\. Train .*\.$"):
            variants(with_repeats(*repeats))
    with pytest.raises(BadArgument, match=r"^density experiment, mlp with seed 1: steps, losses and .* differ in num"):
        variants(with_repeats(replace(repeat, losses=repeat.losses[1:])))
    with pytest.raises(
        BadArgument, match=r"^density experiment, mlp with seed 1: 4 probabilities for 15 topologies\. "
    ):
        variants(with_repeats(replace(repeat, log_probabilities=np.zeros(4))))
    with pytest.raises(BadArgument, match=r"^density experiment: no topology has a target above 0\."):
        variants(replace(small_experiment(), target=np.zeros(15)))
    with pytest.raises(BadArgument, match=r"^density experiment: no repeat of 'gat'\. Choose one of mlp, gcn, gin, "):
        chosen_variant(variants(small_experiment()), "gat")


def test_neither_the_table_nor_the_page_waits_for_torch():
    script = "import sys, phloem.experiments.density.page; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", script], check=True)
