"""A target that is known exactly: data that say nothing, and a prior with topologies and lengths of its own.

p(τ, q) = π(τ) · Π Gamma(q; shape, rate), so the marginal likelihood is 1 and the topologies' probabilities are π.
"""

import math

import numpy as np
import torch
from torch import Tensor

from phloem.arrays import BoolArray
from phloem.data.alignment import Alignment
from phloem.data.patterns import compress
from phloem.target.likelihood import TreeLikelihood
from phloem.target.posterior import TreePosterior
from phloem.trees.generation import all_topologies
from phloem.trees.topology import TopologyBatch, TopologyIndex
from phloem.variational.families import LOCATION_OFFSET, BranchDistribution
from phloem.variational.joint import BranchModel, JointModel
from phloem.variational.sbn import SubsplitIndices, SubsplitNetwork, support_of

RATE = 20.0
MOST_TAXA = "abcdefgh"


def shapes(topologies: TopologyBatch) -> Tensor:
    """Of the gamma densities: leaves have longer branches than interior nodes."""
    return torch.where(torch.arange(topologies.branch_count) < topologies.taxon_count, 3.0, 1.5).double()


class KnownPrior:
    """Log density of every topology with gamma lengths; all topologies of the taxa have some probability."""

    def __init__(self, taxa: int, spread: float = 1.0) -> None:
        self.topologies = all_topologies(taxa)
        weights = np.exp(spread * np.random.default_rng(1).normal(size=len(self.topologies)))
        self.probabilities = weights / weights.sum()
        self.index = TopologyIndex(self.topologies)

    def __call__(self, topologies: TopologyBatch, lengths: Tensor) -> Tensor:
        of_topology = torch.from_numpy(np.log(self.probabilities[self.index.find(topologies)]))
        return of_topology + torch.distributions.Gamma(shapes(topologies), RATE).log_prob(lengths).sum(dim=1)


class TopologyTable(BranchModel):
    """Not far from right, with errors that differ from topology to topology, of whatever size."""

    def __init__(self, topologies: TopologyBatch, family: type[BranchDistribution]) -> None:
        super().__init__(family)
        size = (len(topologies), topologies.branch_count, family.parameters_per_branch)
        self.table = torch.from_numpy(np.random.default_rng(5).normal(0, 0.2, size))
        shape = shapes(topologies)
        self.table[:, :, 0] += torch.digamma(shape) - math.log(RATE) - LOCATION_OFFSET
        self.table[:, :, 1] += torch.polygamma(1, shape).log() / 2 + 0.2
        self.index = TopologyIndex(topologies)

    def branch_parameters(self, topologies: TopologyBatch, _indices: SubsplitIndices | None = None) -> Tensor:
        return self.table[self.index.find(topologies)]

    def knows(self, topologies: TopologyBatch, _indices: SubsplitIndices | None = None) -> BoolArray:
        return np.ones(len(topologies), np.bool_)


def known(taxa: int, family: type[BranchDistribution], *, threads: int = 1) -> tuple[JointModel, TreePosterior]:
    """A model that was never trained, and a known target."""
    patterns = compress(Alignment(tuple(MOST_TAXA[:taxa]), np.full((taxa, 1), 15, np.uint8)))
    prior = KnownPrior(taxa)
    support = support_of(patterns.taxa, prior.topologies)
    torch.manual_seed(2)
    network = SubsplitNetwork(support, 0.3 * torch.randn(support.parameter_count, dtype=torch.float64))
    model = JointModel(network, TopologyTable(prior.topologies, family))
    return model, TreePosterior(TreeLikelihood(patterns, threads=threads), prior)
