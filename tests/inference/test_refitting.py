"""Q(τ) fitted to weighted topologies after training: nearer to the posterior, or as it was, once, and resumable."""

import dataclasses
import math

import numpy as np
import pytest
import torch

from phloem.config import EvaluationConfig, TrainingConfig
from phloem.data.patterns import compress
from phloem.inference import refitting
from phloem.inference.draws import DrawCollector, join
from phloem.inference.evaluation import draw_log_weights, evaluate
from phloem.inference.refitting import refit_topologies
from phloem.inference.training import Training, train
from phloem.random_streams import RandomStream
from phloem.runs.ranks import ALONE
from phloem.target.likelihood import TreeLikelihood
from phloem.target.posterior import TreePosterior
from phloem.trees.generation import all_topologies
from phloem.trees.topology import TopologyBatch
from phloem.variational.families import Warped
from phloem.variational.fitting import refit
from phloem.variational.joint import JointModel, SplitModel
from phloem.variational.sbn import SubsplitNetwork, support_of
from support.small_posteriors import evolved

SHORT = TrainingConfig(steps=1000, particles=5, rate=0.02, refit=0.0)


def untrained() -> tuple[JointModel, TreePosterior]:
    """All topologies of six taxa."""
    patterns = compress(evolved(6, 50, seed=3))
    support = support_of(patterns.taxa, all_topologies(6))
    model = JointModel(SubsplitNetwork(support), SplitModel(support, Warped))
    return model, TreePosterior(TreeLikelihood(patterns))


def trained(config: TrainingConfig = SHORT) -> tuple[JointModel, TreePosterior]:
    model, target = untrained()
    train(Training(model, target, config, seed=1), EvaluationConfig(reports=1))
    return model, target


def posterior_of(model: JointModel, target: TreePosterior) -> tuple[TopologyBatch, np.ndarray]:
    """Topologies and their probabilities, by weighted draws."""
    drawn = DrawCollector()
    draw_log_weights(model, target, 50_000, stream=RandomStream(9, "check"), keep=drawn)
    found = drawn.draws(model.network.support.taxa).weighted()
    return found.topologies, np.bincount(found.group, found.weights)


def distance(network: SubsplitNetwork, topologies: TopologyBatch, weights: np.ndarray) -> float:
    """KL(p ‖ Q)."""
    return float(weights @ (np.log(weights) - network.log_prob(topologies).detach().numpy()))


def test_topologies_come_nearer_to_the_posterior_from_wherever_they_were():
    model, target = trained()
    topologies, weights = posterior_of(model, target)
    with torch.no_grad():
        noise = np.random.default_rng(1).normal(0, 2, len(model.network.logits))
        model.network.logits.add_(torch.from_numpy(noise))
    before = distance(model.network, topologies, weights)
    told: list[float] = []
    stream = RandomStream(1, "refitting")
    refit_topologies(model, target, 4000, stream=stream, progress=told.append)
    after = distance(model.network, topologies, weights)
    assert before > 0.2
    assert after < 0.05
    assert told == pytest.approx(np.array([0, 0.16, 0.32, 0.4, 0.8, 1.2, 1.4]) / 1.4)


def test_far_too_unlikely_topologies_are_drawn_less_and_the_bound_rises():
    model, target = trained()
    config, stream = EvaluationConfig(samples=1000, repeats=20), RandomStream(3, "check")
    before = evaluate(model, target, config, particles=5, stream=stream)
    refit_topologies(model, target, 4000, stream=RandomStream(1, "refitting"))
    after = evaluate(model, target, config, particles=5, stream=stream)
    assert after.elbo.mean > before.elbo.mean
    assert after.log_marginal_likelihood.mean == pytest.approx(before.log_marginal_likelihood.mean, abs=0.05)


def test_fits_that_do_not_describe_other_draws_leave_the_network_alone(monkeypatch):
    model, target = trained()
    before = model.network.logits.detach().clone()
    random, tried = np.random.default_rng(1), []

    def worse(network: SubsplitNetwork, *_trees: object, prior: float) -> SubsplitNetwork:
        tried.append(prior)
        return SubsplitNetwork(network.support, torch.from_numpy(random.normal(0, 9, len(network.logits))))

    monkeypatch.setattr(refitting, "refit", worse)
    told: list[float] = []
    refit_topologies(model, target, 500, stream=RandomStream(1, "refitting"), progress=told.append)
    assert torch.equal(model.network.logits, before)
    assert tried == [max(refitting.PRIORS)]
    assert told[-1] == 1


def test_few_effective_draws_change_little_and_many_change_much(monkeypatch):
    """What is believed follows from the data: with many draws a smaller prior describes the other half better."""
    chosen: list[float] = []

    def remember(network: SubsplitNetwork, *trees: object, prior: float) -> SubsplitNetwork:
        chosen.append(prior)
        return refit(network, *trees, prior=prior)

    last = []
    for draws in (60, 20_000):
        model, target = trained()
        with torch.no_grad():
            noise = np.random.default_rng(1).normal(0, 1, len(model.network.logits))
            model.network.logits.add_(torch.from_numpy(noise))
        monkeypatch.setattr(refitting, "SHARES", (1.0,))
        monkeypatch.setattr(refitting, "refit", remember)
        chosen.clear()
        refit_topologies(model, target, draws, stream=RandomStream(1, "refitting"))
        last.append(chosen[-1])  # of the fit that counts, to all draws
    assert last[0] > 3 * last[1]


def test_a_weight_is_the_evidence_over_the_probability_to_be_drawn(monkeypatch):
    """Averaged over many draws of a few trees each, weights that are not normalised estimate p(Y, τ) of every one."""
    monkeypatch.setattr(refitting, "smooth", lambda log_weights: log_weights)  # which is not without bias
    model, target = trained()
    taxa = model.network.support.taxa
    topologies = all_topologies(6)
    exact, weights = posterior_of(model, target)
    posterior = dict(zip((row.tobytes() for row in exact.parent), weights, strict=True))
    level = evaluate(model, target, EvaluationConfig(1000, 20), particles=5, stream=RandomStream(5, "level"))
    network = model.network.log_prob(topologies).detach().exp().numpy()
    total = {row.tobytes(): [] for row in topologies.parent}
    rounds = 400
    for number in range(rounds):
        part = refitting._draw(model, target, 10, RandomStream(2, "few", number), ALONE)
        assert part.draws.taxa == taxa
        assert part.drawn > 10
        assert len(part.draws.topologies.distinct()[0]) == len(part.draws.topologies)
        for place, row in enumerate(part.draws.topologies.parent):
            own = part.draws.group == place
            inclusion = -math.expm1(part.drawn * math.log1p(-network[(topologies.parent == row).all(axis=1)][0]))
            evidence = np.exp(part.log_evidence[own] - level.log_marginal_likelihood.mean).mean()
            total[row.tobytes()].append(evidence / inclusion)
    for row, probability in posterior.items():
        if probability > 0.02:
            found = np.zeros(rounds)
            found[: len(total[row])] = total[row]
            assert found.mean() == pytest.approx(probability, abs=5 * found.std() / math.sqrt(rounds))


def test_topologies_that_are_surely_drawn_count_by_their_evidence_alone():
    model, target = trained()
    exact, weights = posterior_of(model, target)
    parts = [refitting._draw(model, target, 2000, RandomStream(2, "part", number), ALONE) for number in range(2)]
    found = refitting._weigh(parts)
    assert found.weights.sum() == pytest.approx(1)
    posterior = dict(zip((row.tobytes() for row in exact.parent), weights, strict=True))

    def error(topologies: TopologyBatch, shares: np.ndarray) -> float:
        known = np.array([posterior.get(row.tobytes(), 0.0) for row in topologies.parent])
        return float(np.abs(shares - known).sum() / 2)

    counted = join([part.draws for part in parts]).weighted()
    assert error(*found) < 0.03
    assert error(*found) < error(counted.topologies, counted.topology_weights())


def test_topologies_that_are_hardly_ever_drawn_have_finite_weights():
    model, target = trained()
    part = refitting._draw(model, target, 50, RandomStream(2, "part"), ALONE)
    network = SubsplitNetwork(model.network.support, model.network.logits.detach() * 0)
    with torch.no_grad():
        network.logits.sub_(torch.arange(len(network.logits), dtype=torch.float64) * 50)
    found = refitting._weigh([part._replace(network=network)])
    log_q = network.log_prob(found.topologies).detach().numpy()
    assert log_q.min() < -745  # exp of it is 0
    assert np.isfinite(found.weights).all()
    assert found.weights[log_q.argmin()] == found.weights.max()


def test_a_fit_that_is_stopped_leaves_the_network_as_it_was():
    model, target = trained()
    before = model.network.logits.detach().clone()

    def stop(share: float) -> None:
        if share > 0.5:
            assert not torch.equal(model.network.logits, before)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        refit_topologies(model, target, 4000, stream=RandomStream(1, "refitting"), progress=stop)
    assert torch.equal(model.network.logits, before)


def test_training_ends_with_it_once():
    config = dataclasses.replace(SHORT, refit=1.0)
    plain, _ = trained()
    model, target = untrained()
    training = Training(model, target, config, seed=1)
    train(training, EvaluationConfig(reports=1))
    assert not torch.equal(model.network.logits, plain.network.logits)
    for mine, other in zip(model.branches.parameters(), plain.branches.parameters(), strict=True):
        assert torch.equal(mine, other)
    fitted = model.network.logits.detach().clone()
    assert not training.finish()
    assert torch.equal(model.network.logits, fitted)

    restored, target = untrained()
    again = Training(restored, target, config, seed=1)
    again.restore(training.state())
    assert not again.finish()
    assert torch.equal(restored.network.logits, fitted)


def test_a_run_stopped_before_it_is_fitted_as_if_nothing_had_happened():
    config = dataclasses.replace(SHORT, refit=1.0)
    model, target = trained(config)
    stopped, _ = untrained()
    training = Training(stopped, target, config, seed=1)
    for _ in range(config.steps):
        training.step()
    restored, _ = untrained()
    resumed = Training(restored, target, config, seed=1)
    resumed.restore(training.state())
    assert resumed.finish()
    assert torch.equal(restored.network.logits, model.network.logits)
