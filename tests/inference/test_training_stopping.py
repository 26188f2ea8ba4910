"""When training ends."""

import numpy as np
import pytest

from phloem.config import EvaluationConfig, TrainingConfig
from phloem.inference.training import LEAST_RISE, WINDOW, Report, Training, is_flat, train
from phloem.runs.history import History
from support.small_posteriors import example


def reports(bounds, inverse_temperature=1.0) -> list[Report]:
    return [
        Report(step, 0.0, inverse_temperature, bound, bound - 1, 3, 0) for step, bound in enumerate(bounds, start=1)
    ]


def test_a_bound_that_rises_is_not_flat_and_one_that_does_not_is():
    line = np.arange(WINDOW) / WINDOW
    assert not is_flat(reports(-100 + 1.01 * LEAST_RISE * line))
    assert is_flat(reports(-100 + 0.99 * LEAST_RISE * line))
    assert is_flat(reports(-100 - line))


def test_noise_around_a_line_does_not_hide_its_rise():
    noise = np.array([1, -1, -1, 1, 0, 0, 1, -1, -1, 1]) * 0.1  # without a slope of its own
    line = np.arange(WINDOW) / WINDOW
    assert not is_flat(reports(noise + 0.06 * line))
    assert is_flat(reports(noise + 0.04 * line))


def test_only_the_last_reports_count_and_all_of_them_must_be_at_full_temperature():
    rising, flat = list(range(20)), [30.0] * WINDOW
    assert is_flat(reports(rising + flat))
    assert not is_flat(reports(flat[1:]))
    assert not is_flat([*reports([30.0], 0.99), *reports(flat[1:])])


def test_bounds_that_are_no_numbers_are_not_flat():
    assert not is_flat(reports([float("nan")] * WINDOW))


def test_a_flat_bound_ends_training_only_where_the_config_says_so():
    flat = reports([1.0] * WINDOW)
    model, target = example("split")

    def is_done(steps_done: int, history: list[Report], **settings) -> bool:
        training = Training(model, target, TrainingConfig(steps=11, **settings), seed=1)
        training.steps_done = steps_done
        return training.is_done(history)

    assert not is_done(10, flat)
    assert is_done(11, [])
    assert is_done(10, flat, stop="auto")
    assert not is_done(10, flat[1:], stop="auto")


def test_a_training_stops_early_and_a_restored_one_at_the_same_step():
    config = TrainingConfig(steps=4000, particles=4, ramp=0.01, rate=0.05, decay="stairs", stop="auto")
    model, target = example("split")
    training, history = Training(model, target, config, seed=1), History(Report)
    train(training, EvaluationConfig(reports=40, report_samples=2), history=history)
    assert 1000 <= training.steps_done < 4000
    assert history.reports[-1].step == training.steps_done
    again = Training(example("split")[0], target, config, seed=1)
    again.restore(training.state())
    train(again, EvaluationConfig(reports=40, report_samples=2), history=history)
    assert again.steps_done == training.steps_done


def test_the_rule_is_the_least_squares_line():
    bounds = np.random.default_rng(1).normal(0, 0.03, WINDOW) + np.linspace(0, 0.05, WINDOW)
    slope = np.polyfit(np.arange(WINDOW), bounds, 1)[0]
    assert is_flat(reports(bounds)) == (slope * WINDOW < LEAST_RISE)
    assert slope * WINDOW == pytest.approx(0.05, abs=0.05)
