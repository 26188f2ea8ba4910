"""Temperatures and rates step by step."""

import dataclasses
import math

import pytest

from phloem.config import TrainingConfig, preset
from phloem.inference.training import HELD_RAMP, Training, settings_at
from support.small_posteriors import example


def test_the_papers_schedule_is_the_papers():
    """λ_n = min(1, 0.001 + n / 100,000); 0.001, times 0.75 every 20,000 steps, for topologies and branch lengths."""
    config = preset("paper")
    for step in (1, 2, 19_999, 20_000, 20_001, 50_000, 99_899, 99_901, 250_000, 400_000):
        inverse_temperature, branch_rate, topology_rate = settings_at(step, config)
        assert inverse_temperature == pytest.approx(min(1, 0.001 + step / 100_000))
        assert branch_rate == topology_rate == pytest.approx(0.001 * 0.75 ** ((step - 1) // 20_000))


def test_a_cosine_goes_from_the_first_rate_to_almost_nothing():
    config = TrainingConfig(steps=1000, rate=0.01, topology_rate_factor=3.0, decay="cosine")
    rates = [settings_at(step, config).branch_rate for step in range(1, 1001)]
    assert rates[0] == 0.01
    assert rates[500] == pytest.approx(0.005)
    assert 0 < rates[-1] < 1e-7
    assert rates == sorted(rates, reverse=True)
    assert settings_at(501, config).topology_rate == pytest.approx(0.015)


def test_schedules_stretch_with_the_steps():
    short, long = preset("standard", steps=100), preset("standard", steps=1000)
    for share in (0.1, 0.5, 0.9):
        one, other = settings_at(int(100 * share), short), settings_at(int(1000 * share), long)
        assert one.inverse_temperature == pytest.approx(other.inverse_temperature)
    assert settings_at(51, short)[1:] == pytest.approx(settings_at(501, long)[1:])


def test_without_a_ramp_nothing_is_tempered():
    assert settings_at(1, TrainingConfig(ramp=0.0)).inverse_temperature == 1


def test_every_setting_of_a_schedule_changes_it():
    first = TrainingConfig(decay="stairs")
    changes = {
        "steps": 50_000,
        "ramp": 0.5,
        "first_inverse_temperature": 0.1,
        "rate": 0.1,
        "topology_rate_factor": 2.0,
        "decay": "cosine",
        "stairs": 7,
        "stair_factor": 0.5,
    }
    before = [settings_at(step, first) for step in range(1, 40_000, 100)]
    for name, value in changes.items():
        changed = TrainingConfig(**{"decay": "stairs", name: value})
        after = [settings_at(step, changed) for step in range(1, 40_000, 100)]
        assert after != before, name
        assert all(math.isfinite(number) for settings in after for number in settings)


def test_with_topologies_held_the_likelihood_is_tempered_for_a_shorter_time():
    config = TrainingConfig(steps=100, ramp=0.5)
    model, target = example("split")
    trainings = {held: Training(model, target, config, seed=1, held=held) for held in (False, True)}
    assert trainings[False].config == config
    assert trainings[True].config == dataclasses.replace(config, ramp=HELD_RAMP * 0.5)
    trainings[True].restore(trainings[False].state())
    assert trainings[True].config == config
