"""A density experiment without training: models that come nearer to a target step by step, with their exact losses."""

from collections.abc import Mapping
from functools import cache

import numpy as np
from scipy.special import log_expit, logsumexp

from phloem.experiments.density.results import DensityExperiment, Repeat

TAXA, TOPOLOGIES, POSITIVE = 8, 10_395, 2_899
STEPS, REPORTS = 200_000, 100
# How far a trained variant is off: the deviation of its log-probabilities, and how soon it gets there.
ERRORS = {"mlp": (1.4, 0.06), "gcn": (0.9, 0.07), "gin": (0.5, 0.12), "sage": (0.6, 0.1), "ggnn": (0.25, 0.1)}
ERRORS["edge"] = (0.3, 0.14)
REPEATS = {"mlp": 3, "gcn": 1, "gin": 1, "sage": 1, "ggnn": 3, "edge": 1}


def made_up_target(topologies: int = TOPOLOGIES, positive: int = POSITIVE, seed: int = 3) -> np.ndarray:
    """A draw from Dirichlet(0.008) of which all but the most probable are set to 0."""
    drawn = np.random.default_rng(seed).dirichlet(np.full(topologies, 0.008))
    drawn[np.argsort(-drawn, kind="stable")[positive:]] = 0
    return drawn / drawn.sum()


def made_up_repeat(
    target: np.ndarray, convolution: str, seed: int, *, steps: int = STEPS, reports: int = REPORTS
) -> Repeat:
    """A training from uniform probabilities to ones that are off by a factor each, too high for the least targets."""
    random = np.random.default_rng([seed, list(ERRORS).index(convolution)])
    error, pace = ERRORS[convolution]
    error *= 1 + 0.15 * random.normal()
    floor = 1e-7 * error
    end = np.log(target + floor * random.lognormal(0, 2, len(target))) + error * random.normal(size=len(target))
    end -= logsumexp(end)
    when = tuple(int(step) for step in np.linspace(steps / reports, steps, reports))
    losses, divergences = [], []
    for step in when:
        nearness = 1 - np.exp(-((step / STEPS / pace) ** 0.7)) + 0.01 * random.normal() * np.exp(-step / STEPS / pace)
        model = nearness * end
        model -= logsumexp(model)
        losses.append(noise_contrastive_loss(target, model))
        divergences.append(divergence(target, model))
    return Repeat(convolution, seed, 0.004 * steps * (1 + error), when, tuple(losses), tuple(divergences), model)


def noise_contrastive_loss(target: np.ndarray, log_model: np.ndarray) -> float:
    """Expected over all topologies, the noise uniform."""
    logit = log_model + np.log(len(target))
    return float(-(target * log_expit(logit)).sum() - log_expit(-logit).mean())


def divergence(target: np.ndarray, log_model: np.ndarray) -> float:
    """Kullback–Leibler, from target to model."""
    positive = target > 0
    return float((target[positive] * (np.log(target[positive]) - log_model[positive])).sum())


def best_loss(target: np.ndarray) -> float:
    """J*: the loss of the target itself."""
    with np.errstate(divide="ignore"):
        log_target = np.log(target)
    positive = target > 0
    logit = log_target[positive] + np.log(len(target))
    return float(-(target[positive] * log_expit(logit)).sum() - log_expit(-logit).sum() / len(target))


@cache
def made_up_experiment() -> DensityExperiment:
    """As large as the paper's: six variants, three repeats of two of them."""
    return experiment_of(made_up_target(), REPEATS)


@cache
def small_experiment() -> DensityExperiment:
    """All variants on the 15 topologies of five taxa."""
    target = np.append(np.random.default_rng(1).dirichlet(np.ones(12)), [0, 0, 0])
    return experiment_of(target, REPEATS, taxa=5, reports=7)


def experiment_of(
    target: np.ndarray, repeats: Mapping[str, int], *, taxa: int = TAXA, reports: int = REPORTS
) -> DensityExperiment:
    """So many repeats of each variant."""
    trained = [
        made_up_repeat(target, convolution, seed, reports=reports)
        for convolution, count in repeats.items()
        for seed in range(1, count + 1)
    ]
    return DensityExperiment(taxa, target, best_loss(target), STEPS, tuple(trained))
