"""Appraisals against plain sums over all topologies."""

import math

import numpy as np
import pytest

from phloem.energy.density import estimate
from phloem.energy.noise import ListedNoise, UniformNoise
from phloem.energy.training import Appraiser, few_topologies
from phloem.random_streams import RandomStream
from phloem.trees.generation import all_topologies, random_topologies
from phloem.trees.topology import TopologyBatch
from support.small_densities import sample_of, target, trained, training_of

STREAM = RandomStream(2, "report", step=3)


@pytest.mark.parametrize("ratio", [1, 3])
@pytest.mark.parametrize(
    ("noise", "base"), [("uniform", "noise"), ("listed", "noise"), ("sbn", "noise"), ("sbn", "uniform")]
)
def test_loss_normaliser_and_divergence_are_plain_sums(noise, base, ratio):
    density = trained(5, noise, base)
    topologies = all_topologies(5)[:10] if noise == "listed" else all_topologies(5)
    sample = density.observed[[3, 7, 0, 9, 4]]
    data = dict.fromkeys(range(len(topologies)), 0.0)
    for tree, weight in zip((3, 7, 0, 9, 4), sample.weights.tolist(), strict=True):
        data[tree] += weight / sample.weights.sum()
    found = Appraiser(sample, density.noise, ratio=ratio, draws=10)(density.unnormalized, stream=STREAM)
    log_model = density.unnormalized.log_density(topologies).tolist()
    noises = np.exp(density.noise.log_prob(topologies)).tolist()
    loss = 0.0
    for tree, share in data.items():
        of_data = math.exp(log_model[tree]) / (math.exp(log_model[tree]) + ratio * noises[tree])
        loss -= share * math.log(of_data) + ratio * noises[tree] * math.log(1 - of_data)
    log_total = math.log(sum(map(math.exp, log_model)))
    apart = sum(share * (math.log(share) - log_model[tree] + log_total) for tree, share in data.items() if share)
    assert found.expected_loss == pytest.approx(loss, rel=1e-5)
    assert found.normalizer.log_value == pytest.approx(log_total, abs=1e-5)
    assert (found.normalizer.error, found.normalizer.topologies) == (0, len(topologies))
    assert found.divergence == pytest.approx(apart, abs=1e-5)
    assert found.divergence >= 0


def test_equal_trees_count_together_and_those_of_weight_zero_not_at_all():
    density = trained(5)
    topologies = all_topologies(5)
    many = sample_of(topologies[[2, 5, 2, 9]], [1, 2, 3, 0])
    once = sample_of(topologies[[5, 2]], [1, 2])
    one, two = (
        Appraiser(sample, density.noise, ratio=1, draws=10)(density.unnormalized, stream=STREAM)
        for sample in (many, once)
    )
    assert one.expected_loss == pytest.approx(two.expected_loss)
    assert one.divergence == pytest.approx(two.divergence)


def test_from_nine_taxa_on_it_goes_by_draws():
    topologies = random_topologies(9, 6, stream=STREAM)
    weights = np.array([3.0, 1, 2, 0, 1, 1])
    training = training_of(sample_of(topologies, weights), noise="sbn", steps=5, rate=0.01)
    for _ in range(5):
        training.step()
    density, noise = training.density, training.noise
    appraise = Appraiser(sample_of(topologies, weights), noise, ratio=1, draws=400)
    found = appraise(density, stream=STREAM)
    assert found.expected_loss is None
    expected = estimate(density, noise, 400, stream=STREAM)
    assert found.normalizer == expected
    seen = weights > 0
    shares = weights[seen] / 8
    logs = density.log_density(topologies)[seen]
    assert found.divergence == pytest.approx(sum(shares * (np.log(shares) - logs + expected.log_value)), abs=1e-5)
    assert appraise(density, stream=STREAM.at(4)).normalizer != expected
    everything = np.concatenate([density.log_density(chunk) for chunk in chunks(9)])
    exact = np.logaddexp.reduce(everything)
    assert abs(found.normalizer.log_value - exact) < 4 * found.normalizer.error


def chunks(taxa: int) -> list[TopologyBatch]:
    topologies = all_topologies(taxa)
    return [topologies[start : start + 50_000] for start in range(0, len(topologies), 50_000)]


def test_few_topologies_are_those_of_the_list_or_of_at_most_eight_taxa():
    listed = ListedNoise(random_topologies(12, 4, stream=STREAM))
    assert few_topologies(listed) is listed.listed
    assert len(few_topologies(UniformNoise(8))) == 10_395
    assert few_topologies(UniformNoise(9)) is None
    assert len(few_topologies(trained(6, "sbn").noise)) == 105


def test_a_target_that_is_met_has_no_divergence():
    sample = target(5)
    training = training_of(sample)
    model = training.density.model
    for parameter in model.readout.parameters():
        parameter.data.zero_()
    uniform = sample_of(sample.topologies, np.ones(15))
    found = Appraiser(uniform, training.noise, ratio=1, draws=10)(training.density, stream=STREAM)
    assert found.divergence == pytest.approx(0, abs=1e-9)
    assert found.expected_loss == pytest.approx(2 * math.log(2))
