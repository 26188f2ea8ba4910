"""Laplace's approximation, and peaks of the model's parameters, against integration and on larger data."""

import math
from dataclasses import replace

import numpy as np
import pytest

from phloem.config import InferConfig, ModelConfig
from phloem.data.patterns import compress
from phloem.inference import laplace
from phloem.inference.draws import Draws
from phloem.inference.laplace import ParameterStart, Peak, peaks_of, scattered_places, share_elsewhere, start_of
from phloem.random_streams import RandomStream
from phloem.target.posterior import TreePosterior
from phloem.tasks.run_files import build_target
from phloem.tasks.simulate import simulate
from phloem.trees.topology import TopologyBatch
from support.weighted_priors import INFERRED, Known, known_posterior

STREAM = RandomStream(5, "peaks")
TAXA = tuple("abcde")


@pytest.fixture(scope="module")
def posterior() -> Known:
    return known_posterior(INFERRED, 5, 6)


def peak_of(target: TreePosterior, topology: TopologyBatch) -> Peak:
    """Where a search from the usual place ends."""
    (found,) = peaks_of(target, topology, [(target.parameters.start(), np.full(topology.branch_count, 0.1))])
    return found


def test_laplace_is_a_normal_distribution_at_the_mode(posterior):
    target = posterior.target
    start = peak_of(target, posterior.topologies[3]).parameters
    assert start.center.shape == (5,)
    covariance = start.factor @ start.factor.T
    assert (np.linalg.eigvalsh(covariance) > 0).all()
    mean, variance = posterior.mean(posterior.theta)
    assert (np.abs(start.center - mean) < 2 * np.sqrt(variance)).all()
    ratio = np.sqrt(np.diagonal(covariance) / variance)
    assert ((ratio > 0.4) & (ratio < 2)).all()


def test_laplace_turns_back_where_slopes_are_no_numbers(posterior, monkeypatch):
    expected = peak_of(posterior.target, posterior.topologies[3]).parameters
    negated, met = laplace._LogPosterior.negated, []
    begin = np.abs(posterior.target.parameters.start() - expected.center)

    def walled(self, place):
        value, slope = negated(self, place)
        met.append((np.abs(place[:5] - expected.center) > 0.2 + begin).any())
        return value, np.full_like(slope, math.nan) if met[-1] else slope

    monkeypatch.setattr(laplace._LogPosterior, "negated", walled)
    found = peak_of(posterior.target, posterior.topologies[3]).parameters
    assert any(met)
    np.testing.assert_allclose(found.center, expected.center, atol=0.02)


def test_laplace_finds_the_mode_of_a_steep_posterior():
    """Where slopes are thousands to begin with, as here, a search whose first step is as long leaves for good."""
    data = simulate(100, 1000, topology="yule", height=0.3, model={"name": "GTR+G4"}, seed=7)
    target = build_target(compress(data.alignment), InferConfig(model=ModelConfig("GTR+G4")), 1)
    found = start_of(target, replace(data.tree, branch_lengths=None), stream=STREAM).parameters
    noise = STREAM.generator().standard_normal((1000, target.dimension))
    values = target.parameters.values(found.center + noise @ found.factor.T)
    truth = np.array(list(data.parameters.values()))
    assert (values.std(axis=0) < 0.1 * truth + 0.01).all()
    assert (np.abs(values.mean(axis=0) - truth) < 5 * values.std(axis=0)).all()


def test_a_search_from_many_places_finds_one_peak_whose_volume_is_the_evidence(posterior):
    topology = posterior.topologies[3]
    places = scattered_places(posterior.target, np.full(7, 0.1), STREAM)
    (found,) = peaks_of(posterior.target, topology, places)
    alone = peak_of(posterior.target, topology)
    assert found.log_density == pytest.approx(alone.log_density, abs=0.02)
    # Six sites leave posteriors that are not normal at all. Without the constant of one of twelve dimensions it is 0.9
    # less, without the volume 7.
    assert found.log_evidence == pytest.approx(posterior.log_evidence[3], abs=1.2)
    assert found.log_evidence - found.log_density > 5


def peak_at(center: float, log_evidence: float) -> Peak:
    return Peak(ParameterStart(np.full(5, center), np.eye(5)), np.full(7, 0.1), log_evidence, log_evidence)


def draws_at(posterior: Known, *centers: float) -> Draws:
    """As many around each of some peaks."""
    count = 100 * len(centers)
    theta = np.repeat(centers, 100)[:, None] + 0.5 * STREAM.generator().standard_normal((count, 5))
    zeros, lengths = np.zeros(count), np.full((count, 7), 0.1, np.float32)
    return Draws(TAXA, posterior.topologies[:1], np.zeros(count, np.int32), lengths, zeros, zeros, zeros, theta=theta)


def test_peaks_that_draws_do_not_reach_are_elsewhere(posterior, monkeypatch):
    target, begun = posterior.target, []

    def known(_target, _topology, places):
        begun.extend(places)
        return [peak_at(0.0, math.log(0.6)), peak_at(10.0, math.log(0.3)), peak_at(-10.0, math.log(0.1))]

    monkeypatch.setattr(laplace, "peaks_of", known)
    assert share_elsewhere(draws_at(posterior, 0.0), target, stream=STREAM) == pytest.approx(0.4)
    assert share_elsewhere(draws_at(posterior, 0.0, 10.0), target, stream=STREAM) == pytest.approx(0.1)
    assert share_elsewhere(draws_at(posterior, 0.0, 10.0, -10.0), target, stream=STREAM) == 0.0
    assert share_elsewhere(draws_at(posterior, 30.0), target, stream=STREAM) == pytest.approx(1.0)
    assert abs(begun[0][0] - draws_at(posterior, 0.0).theta[0]).max() == 0  # the run's own peak is among them


def test_one_peak_on_which_draws_are_is_not_elsewhere(posterior):
    found = peak_of(posterior.target, posterior.topologies[0])
    draws = draws_at(posterior, 0.0)
    noise = STREAM.generator().standard_normal(draws.theta.shape)
    there = replace(draws, theta=found.parameters.center + noise @ found.parameters.factor.T)
    assert share_elsewhere(there, posterior.target, stream=STREAM) == 0.0
    assert share_elsewhere(replace(there, theta=there.theta + 20), posterior.target, stream=STREAM) > 0.99


def test_peaks_far_below_the_highest_are_left_out_and_curvature_that_is_no_number_is_none(posterior, monkeypatch):
    target, topology = posterior.target, posterior.topologies[0]
    begin, lengths = target.parameters.start(), np.full(7, 0.1)
    place, surface = np.concatenate([begin, np.log(lengths)]), laplace._LogPosterior
    ends = iter([(-130.0, place), (-20.0, place + 1), (-119.0, place + 2), (-20.05, place)])
    monkeypatch.setattr(surface, "climb", lambda _self, _theta, _lengths: next(ends))
    found = peaks_of(target, topology, [(begin, lengths)] * 4)
    assert [peak.log_density for peak in found] == [-20.0, -119.0]
    monkeypatch.setattr(surface, "_precision", lambda _self, mode: np.full((len(mode), len(mode)), math.nan))
    peak = surface(target, topology).peak(place, -20.0)
    np.testing.assert_allclose(peak.parameters.factor, np.eye(5) / math.sqrt(laplace.LEAST_PRECISION))
    assert math.isfinite(peak.log_evidence)
