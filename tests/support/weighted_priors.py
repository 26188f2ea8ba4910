"""Posteriors of few taxa and sites, known by weighting draws of the prior."""

from functools import cache

import numpy as np
import torch

from phloem.config import ModelConfig
from phloem.data.alignment import Alignment
from phloem.data.partitions import SitePartition
from phloem.data.patterns import compress
from phloem.target.coordinates import Multipliers, Ratio, Shape, Shares
from phloem.target.free_parameters import FreeParameters
from phloem.target.likelihood import TreeLikelihood
from phloem.target.partitioned import PartitionedModel
from phloem.target.posterior import TreePosterior
from phloem.target.priors import GammaDirichletPrior, LengthPrior, TreePrior, UniformPrior
from phloem.target.substitution import SiteRates, build_model, gtr, hky85, jc69
from phloem.trees.generation import all_topologies
from phloem.trees.topology import TopologyIndex
from support.small_posteriors import evolved, no_parameters

RATE = 10.0
MODELS = {
    "JC": jc69(),
    "GTR+I+G": gtr([1, 3, 0.5, 0.7, 4, 1], [0.3, 0.2, 0.15, 0.35], SiteRates(shape=0.6, invariant=0.2)),
}
INFERRED, FROM_EQUAL = "HKY+G2, inferred", "SYM, inferred"  # the second begins as JC
GAMMA_DIRICHLET, UNIFORM = "JC, gamma-Dirichlet", "JC, uniform"
# Two parts, of the first sites and of the others: fixed models, and parameters of their own.
PARTS, PARTS_INFERRED = "GTR+I+G and HKY", "HKY+G2 and HKY, inferred"
FIRST = 2  # sites in the first part
PRIORS = {GAMMA_DIRICHLET: GammaDirichletPrior(2.0, 2.0), UNIFORM: UniformPrior(0.2)}


def target_of(alignment: Alignment, model: str) -> TreePosterior:
    if model in (PARTS, PARTS_INFERRED):
        return target_of_parts(alignment, model)
    patterns, prior = compress(alignment), PRIORS.get(model, TreePrior(RATE))
    if model not in (INFERRED, FROM_EQUAL):
        return TreePosterior(TreeLikelihood(patterns, MODELS.get(model, jc69()), threads=1), prior)
    config = ModelConfig(model.partition(",")[0])
    fixed = build_model(config, patterns)
    likelihood = TreeLikelihood(patterns, fixed, threads=1, states_differ=True)
    return TreePosterior(likelihood, prior, FreeParameters.of(config, fixed))


def target_of_parts(alignment: Alignment, model: str) -> TreePosterior:
    names, parts = ("first", "others"), (np.arange(alignment.site_count) >= FIRST).astype(np.int32)
    partition = SitePartition(names, parts, (None, None))
    patterns = compress(alignment, partition)
    if model == PARTS:
        fixed = PartitionedModel(names, (MODELS["GTR+I+G"], hky85(5.0, [0.1, 0.2, 0.3, 0.4])))
        return TreePosterior(TreeLikelihood(patterns, fixed, threads=1), TreePrior(RATE))
    configs = [ModelConfig(name) for name in model.partition(",")[0].split(" and ")]
    models = tuple(build_model(config, own) for config, own in zip(configs, patterns.parts, strict=True))
    parameters = FreeParameters.of(configs, models, sizes=partition.sizes)
    likelihood = TreeLikelihood(patterns, PartitionedModel(names, models), threads=1, states_differ=True)
    return TreePosterior(likelihood, TreePrior(RATE), parameters)


def draw_lengths(random: np.random.Generator, prior: LengthPrior, count: int, branches: int) -> np.ndarray:
    """From a prior."""
    if isinstance(prior, GammaDirichletPrior):
        total = random.gamma(prior.shape, 1 / prior.rate, (count, 1))
        return total * random.dirichlet(np.ones(branches), count)
    if isinstance(prior, UniformPrior):
        return random.uniform(0, prior.longest, (count, branches))
    return random.exponential(1 / RATE, (count, branches))


def draw_theta(random: np.random.Generator, target: TreePosterior, count: int) -> np.ndarray:
    """Coordinates of what is inferred, from the priors."""
    columns = [no_parameters(count)]
    for one in target.parameters.inferred if target.parameters else ():
        if isinstance(one.kind, Shares):
            shares = random.dirichlet(np.ones(len(one.kind.names)), count)
            if isinstance(one.kind, Multipliers):  # the shares are those of rate · sites
                shares /= shares_of_sites(one.kind)
            columns.append(np.stack([one.kind.coordinates(row) for row in shares]))
        elif isinstance(one.kind, Ratio):
            share = random.random((count, 1))
            columns.append(np.log(share / (1 - share)))
        else:
            assert isinstance(one.kind, Shape)
            columns.append(np.log(random.exponential(1, (count, 1))))
    return np.hstack(columns)


def shares_of_sites(kind: Multipliers) -> np.ndarray:
    """Of the two parts, whose rates are 1 on average over all sites."""
    rates = kind.values(np.array([[0.0], [1.0]]))
    share = np.linalg.solve(rates, np.ones(2))
    np.testing.assert_allclose(share.sum(), 1)
    return share


class Known:
    """A posterior by weighted draws of the prior."""

    def __init__(self, model: str, taxa: int, sites: int) -> None:
        self.target = target_of(evolved(taxa, sites, seed=5), model)
        self.topologies = all_topologies(taxa)
        self.index = TopologyIndex(self.topologies)
        random = np.random.default_rng(8)
        count = 200_000
        self.number = random.integers(0, len(self.topologies), count)
        prior = self.target.prior
        assert isinstance(prior, LengthPrior)
        self.lengths = draw_lengths(random, prior, count, 2 * taxa - 3)
        self.theta = draw_theta(random, self.target, count)
        topologies, theta = self.topologies[self.number], torch.from_numpy(self.theta)
        with torch.no_grad():
            log_weights = self.target.log_likelihood(topologies, torch.from_numpy(self.lengths), theta).numpy()
        highest = log_weights.max()
        self.weights = np.exp(log_weights - highest)
        # log p(Y), and for each topology log p(Y, τ)
        self.log_marginal = highest + np.log(self.weights.mean())
        sums = np.bincount(self.number, self.weights, minlength=len(self.topologies)) / count
        self.log_evidence = highest + np.log(sums)
        self.weights /= self.weights.sum()
        assert self.worth > 5000

    @property
    def worth(self) -> float:
        """How many independent draws there are."""
        return float(1 / (self.weights**2).sum())

    def mean(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Posterior means of columns, and variances."""
        mean = self.weights @ values
        return mean, self.weights @ (values - mean) ** 2


@cache
def known_posterior(model: str, taxa: int, sites: int) -> Known:
    return Known(model, taxa, sites)
