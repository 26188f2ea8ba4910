"""Q(τ) fitted to weighted draws after training: nearer to the posterior, never worse, once, and resumable."""

import dataclasses
import math

import numpy as np
import pytest
import torch

from phloem.config import EvaluationConfig, TrainingConfig
from phloem.data.patterns import compress
from phloem.inference import refitting
from phloem.inference.draws import DrawCollector
from phloem.inference.evaluation import draw_log_weights, evaluate
from phloem.inference.refitting import refit_topologies
from phloem.inference.training import Training, train
from phloem.random_streams import RandomStream
from phloem.target.likelihood import TreeLikelihood
from phloem.target.posterior import TreePosterior
from phloem.trees.generation import all_topologies
from phloem.trees.topology import TopologyBatch
from phloem.variational.families import Warped
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
    refit_topologies(model, target, 4000, particles=5, stream=stream, progress=told.append)
    after = distance(model.network, topologies, weights)
    assert before > 0.2
    assert after < 0.05
    assert told == pytest.approx([0, 0.25, 0.875, 1])


def test_far_too_unlikely_topologies_are_drawn_less_and_the_bound_rises():
    model, target = trained()
    config, stream = EvaluationConfig(samples=1000, repeats=20), RandomStream(3, "check")
    before = evaluate(model, target, config, particles=5, stream=stream)
    refit_topologies(model, target, 4000, particles=5, stream=RandomStream(1, "refitting"))
    after = evaluate(model, target, config, particles=5, stream=stream)
    assert after.elbo.mean > before.elbo.mean
    assert after.log_marginal_likelihood.mean == pytest.approx(before.log_marginal_likelihood.mean, abs=0.05)


def test_a_fit_that_lowers_the_bound_is_undone(monkeypatch):
    model, target = trained()
    best = model.network.logits.detach().clone()
    random = np.random.default_rng(1)

    def worse(network: SubsplitNetwork, *_trees: object, prior: float) -> SubsplitNetwork:
        assert 0 < prior < math.inf
        return SubsplitNetwork(network.support, torch.from_numpy(random.normal(0, 9, len(network.logits))))

    monkeypatch.setattr(refitting, "refit", worse)
    refit_topologies(model, target, 500, particles=5, stream=RandomStream(1, "refitting"))
    assert torch.equal(model.network.logits, best)


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
