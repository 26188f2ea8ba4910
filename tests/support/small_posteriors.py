"""Small posteriors for tests: a model with parameters away from their initial values, and sequences with a signal."""

import numpy as np
import torch

from phloem.config import TrainingConfig
from phloem.data.alignment import Alignment
from phloem.data.patterns import compress
from phloem.random_streams import RandomStream
from phloem.target.likelihood import TreeLikelihood
from phloem.target.posterior import TreePosterior
from phloem.trees.generation import nni_neighbors, random_topologies
from phloem.trees.topology import TopologyBatch
from phloem.variational.joint import JointModel, build_branch_model
from phloem.variational.sbn import SubsplitNetwork, support_of

TAXA = tuple("abcdef")
PLAIN = TrainingConfig(steps=100, particles=4, doubly_reparameterized=False)


def example(branches: str) -> tuple[JointModel, TreePosterior]:
    """Six taxa, random sequences, a support of related trees, random parameters, double precision."""
    random = np.random.default_rng(4)
    alignment = Alignment(TAXA, (1 << random.integers(0, 4, (6, 40))).astype(np.uint8))
    tree = random_topologies(6, 1, stream=RandomStream(2, "tree"))
    support = support_of(TAXA, TopologyBatch.concatenate([tree, nni_neighbors(tree)]))
    torch.manual_seed(3)
    network = SubsplitNetwork(support, torch.randn(support.parameter_count, dtype=torch.float64))
    model = JointModel(network, build_branch_model(branches, support, width=7).double())
    with torch.no_grad():
        for parameter in model.branches.parameters():
            parameter.add_(0.2 * torch.randn(parameter.shape, dtype=torch.float64))
    return model, TreePosterior(TreeLikelihood(compress(alignment)))


def no_parameters(trees: int) -> np.ndarray:
    """Coordinates of trees' models of which nothing is inferred."""
    return np.empty((trees, 0))


def evolved(taxa: int, sites: int, seed: int) -> Alignment:
    """Sequences down a random caterpillar: short branches, so that several topologies are likely."""
    random = np.random.default_rng(seed)
    states = random.integers(0, 4, sites)
    rows = []
    for _ in range(taxa):
        states = np.where(random.random(sites) < 0.06, random.integers(0, 4, sites), states)
        rows.append(np.where(random.random(sites) < 0.15, random.integers(0, 4, sites), states))
    return Alignment(tuple("abcdefgh"[:taxa]), (1 << np.array(rows)).astype(np.uint8))
