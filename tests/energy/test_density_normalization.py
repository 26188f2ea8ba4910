"""Normalisers: exact sums, and estimates whose errors are honest."""

import json
import math

import numpy as np
import pytest

from phloem.energy import density as normalization
from phloem.energy.density import Normalizer, estimate, log_sum
from phloem.random_streams import RandomStream
from phloem.trees.generation import random_topologies
from support.small_densities import density_of, sample_of, target, trained, training_of


@pytest.mark.parametrize(
    ("taxa", "noise", "base"), [(5, "uniform", "noise"), (6, "sbn", "noise"), (6, "sbn", "uniform")]
)
def test_estimates_lie_around_the_exact_sum_as_their_errors_say(taxa, noise, base):
    density = trained(taxa, noise, base)
    exact = density.normalizer.log_value
    found = [
        estimate(density.unnormalized, density.noise, 800, stream=RandomStream(seed, "estimate")) for seed in range(60)
    ]
    off = np.array([(one.log_value - exact) / one.error for one in found])
    assert np.abs(off).max() < 4
    assert abs(off.mean()) < 4 / math.sqrt(60)
    assert 0.7 < off.std() < 1.35
    spread = np.std([one.log_value for one in found])
    assert np.mean([one.error for one in found]) == pytest.approx(spread, rel=0.3)
    assert all(one.draws == 800 and not one.is_exact and one.topologies is None for one in found)


def test_an_estimate_is_a_mean_of_weights():
    density = trained(5)
    stream = RandomStream(3, "estimate", step=4)
    drawn = density.noise.draw(50, stream=stream)
    weights = np.exp(density.unnormalized.log_density(drawn.topologies) - drawn.log_prob)
    found = estimate(density.unnormalized, density.noise, 50, stream=stream)
    assert found.log_value == pytest.approx(math.log(weights.mean()), rel=1e-9)
    assert found.effective_draws == pytest.approx(weights.sum() ** 2 / (weights**2).sum())
    assert found.error == pytest.approx(weights.std() / weights.mean() / math.sqrt(50))


def test_chunks_are_other_draws_and_count_alike(monkeypatch):
    density = trained(5)
    monkeypatch.setattr(normalization, "NOISE_CHUNK", 30)
    stream = RandomStream(3, "estimate", step=4)
    told: list[float] = []
    found = estimate(density.unnormalized, density.noise, 70, stream=stream, progress=told.append)
    parts = [density.noise.draw(count, stream=stream.at(4, start)) for start, count in ((0, 30), (30, 30), (60, 10))]
    weights = np.concatenate(
        [np.exp(density.unnormalized.log_density(part.topologies) - part.log_prob) for part in parts]
    )
    assert len({part.topologies.parent[:10].tobytes() for part in parts}) == 3
    assert found.log_value == pytest.approx(math.log(weights.mean()), rel=1e-9)
    assert told == [30 / 70, 60 / 70, 1]


def test_a_perfect_noise_leaves_no_error():
    training = training_of(target(5))
    model = training.density.model
    for parameter in model.readout.parameters():
        parameter.data.zero_()
    model.readout.second.bias.data.fill_(0.5)
    found = estimate(training.density, training.noise, 100, stream=RandomStream(1, "estimate"))
    assert found.log_value == pytest.approx(-0.5)
    assert found.error == pytest.approx(0, abs=1e-6)
    assert found.pareto_shape == 0
    assert found.effective_draws == pytest.approx(100)


def test_log_sums_do_not_overflow():
    assert log_sum(np.array([1000.0, 1000.0])) == pytest.approx(1000 + math.log(2))
    assert log_sum(np.array([-np.inf, -3.0])) == -3


def test_a_normalizer_is_plain_json():
    exact = json.loads(json.dumps(Normalizer(0.5, 0.0, 15).as_json(), allow_nan=False))
    assert exact == {
        "method": "sum",
        "log_value": 0.5,
        "error": 0.0,
        "topologies": 15,
        "draws": 0,
        "effective_draws": None,
        "pareto_shape": None,
        "reliable": True,
    }
    assert Normalizer(0.5, 0.1, None, 20, 7.0, 0.2).as_json()["method"] == "importance"


def test_more_topologies_than_can_be_summed_are_estimated():
    sample = sample_of(random_topologies(11, 3, stream=RandomStream(1, "trees")), [1, 1, 1])
    density = density_of(training_of(sample), sample, draws=40)
    assert not density.normalizer.is_exact
    assert density.normalizer.draws == 40


def test_a_normalizer_is_reliable_if_it_is_exact_or_its_weights_are():
    assert Normalizer(0.5, 0.0, 15).is_reliable
    assert Normalizer(0.5, 0.1, None, 20, 10.0, 3.0).is_reliable  # nearly alike, whatever their tail looks like
    assert Normalizer(0.5, 0.1, None, 20, 2.0, 0.7).is_reliable
    assert not Normalizer(0.5, 0.1, None, 20, 9.9, 0.71).is_reliable
    assert not Normalizer(0.5, 0.1, None, 20, 2.0, None).is_reliable
