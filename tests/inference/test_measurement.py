"""Plain draws where their weights are good, annealed ones where they are not."""

import numpy as np
import pytest

from phloem.config import EvaluationConfig
from phloem.inference import measurement
from phloem.inference.annealing import plan_path
from phloem.inference.diagnostics import effective_sample_size, smooth
from phloem.inference.evaluation import estimate
from phloem.inference.measurement import Measurement, measure, measure_annealed
from phloem.inference.trust import judge_weights
from phloem.random_streams import RandomStream
from phloem.variational.families import Lognormal, Warped
from support.known_posteriors import known

CONFIG = EvaluationConfig(samples=100, repeats=5, anneal=250)


def measured(config: EvaluationConfig = CONFIG, **changes) -> Measurement:
    return measure(*known(5, Lognormal), config, particles=10, seed=3, **changes)


def test_draws_whose_weights_are_poor_are_annealed():
    told = []
    found = measured(progress=lambda phase, share: told.append((phase, share)))
    plain = measured(EvaluationConfig(samples=100, repeats=5, anneal=0))
    assert judge_weights(plain.draws.log_weights) != "good"
    assert plain.annealed is None
    assert len(plain.draws) == 500
    assert found.annealed is not None
    assert found.annealed.draws == len(found.draws) == 300  # whole estimates
    assert (found.evaluated.samples, found.evaluated.repeats) == (100, 3)
    assert found.evaluation == estimate(found.draws.log_weights.reshape(3, 100), 10)
    before = found.annealed.plain
    assert before is not None
    assert before.evaluation == plain.evaluation
    assert before.draws == 500
    assert before.effective_sample_size == effective_sample_size(smooth(plain.draws.log_weights))
    assert effective_sample_size(found.draws.log_weights) / 300 > before.effective_sample_size / 500
    assert [phase for phase, share in told if share == 1] == ["evaluation", "annealing"]
    assert told == sorted(told, key=lambda each: (each[0] == "annealing", each[1]))
    np.testing.assert_array_equal(measured().draws.log_weights, found.draws.log_weights)


def test_no_more_draws_are_annealed_than_there_were():
    found = measured(EvaluationConfig(samples=70, repeats=1))
    assert found.annealed is not None
    assert len(found.draws) == 70


def test_annealing_takes_a_share_of_the_time_of_training(monkeypatch):
    monkeypatch.setattr(measurement, "judge_weights", lambda weights: "usable")
    monkeypatch.setattr(measurement, "_quality", lambda draws: draws.annealed is not None)
    config = EvaluationConfig(samples=100, repeats=20, anneal=2000)
    model, target = known(5, Lognormal)
    path = plan_path(model, target, stream=RandomStream(3, "annealing/pilot"))
    found = measured(config, trained=50 * path.weighings)
    assert len(found.draws) == 500
    assert len(measured(config, trained=1).draws) == 100
    assert len(measured(config, trained=10**9).draws) == 2000


@pytest.mark.parametrize(
    ("plain", "annealed", "is_annealed"),
    [
        (("good", 5.0), ("good", 9.0), False),
        (("usable", 5.0), ("good", 4.0), True),
        (("usable", 5.0), ("usable", 4.0), False),
        (("usable", 5.0), ("usable", 6.0), True),
        (("usable", 5.0), ("do not trust", 9.0), False),
        (("do not trust", 5.0), ("usable", 4.0), True),
    ],
)
def test_the_better_draws_are_kept(plain, annealed, is_annealed, monkeypatch):
    def found(part):
        return lambda weights: (annealed if len(weights) == 300 else plain)[part]

    monkeypatch.setattr(measurement, "judge_weights", found(0))
    monkeypatch.setattr(measurement, "effective_sample_size", found(1))
    assert (measured().annealed is not None) == is_annealed


def test_a_family_without_noise_is_left_as_it_is(monkeypatch):
    monkeypatch.setattr(measurement, "is_made_of_noise", lambda family: family is not Lognormal)
    assert measured().annealed is None


def test_annealing_alone_needs_no_plain_draws():
    found = measure_annealed(*known(5, Warped), CONFIG, 120, particles=10, seed=3)
    assert found.annealed is not None
    assert found.annealed.plain is None
    assert len(found.draws) == 200
    assert found.annealed.temperatures >= 10
    few = measure_annealed(*known(5, Warped), CONFIG, 30, particles=10, seed=3)
    assert (few.evaluated.samples, few.evaluated.repeats) == (30, 1)
