"""One training step as the paper's formulas say: loops over particles, trees and nodes, all gradients by autograd.

Of the sources it uses what was drawn (topologies and standard normal numbers), the parameters, and where an entry's
logit stands; nothing that computes a probability, a feature, a likelihood or a gradient.
"""

import math

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from phloem.data.patterns import SitePatterns
from phloem.trees.splits import unpack_bits
from phloem.trees.topology import TopologyBatch
from phloem.variational.joint import GraphModel, JointModel, PspModel, SplitModel
from phloem.variational.sbn import SubsplitNetwork
from reference.dictionary_sbn import rootings, uses
from reference.laplacian import dense_features
from reference.nested import from_parent
from reference.node_loops import NAIVE
from reference.torch_pruning import log_likelihood

PRIOR_RATE = 10.0


def log_q_topology(network: SubsplitNetwork, parent: list[int]) -> Tensor:
    """The logarithm of a sum over rootings of products of softmaxes."""
    support = network.support
    taxa = len(support.taxa)
    sets = [frozenset(row.nonzero()[0].tolist()) for row in unpack_bits(support.clades, taxa)]
    probabilities = {}
    for table in range(support.table_count):
        first, last = int(support.starts[table]), int(support.starts[table + 1])
        softmax = torch.softmax(network.logits[first:last], 0) if last - first > 1 else torch.ones(1)
        for entry in range(first, last):
            halves = (support.splits if table == 0 else support.subsplits)[support.divisions[entry]]
            one, two = (sets[clade] for clade in halves)
            sister = frozenset() if table == 0 else sets[support.sisters[entry]]
            probabilities[(sister, one | two), frozenset([one, two])] = softmax[entry - first]
    total = torch.zeros((), dtype=torch.float64)
    for rooted in rootings(from_parent(parent, taxa)):
        product = torch.ones((), dtype=torch.float64)
        for use in uses(rooted):
            product = product * probabilities.get(use, 0.0)
        total = total + product
    return total.log()


def branch_parameters(model: JointModel, topologies: TopologyBatch, tree: int) -> Tensor:
    """Location (before its offset) and log scale of every branch of one tree, (branches, 2)."""
    branches = model.branches
    if isinstance(branches, SplitModel | PspModel):
        indices = model.network.support.indices(topologies)
        rows = branches.table[indices.splits[tree].tolist()]
        if isinstance(branches, PspModel):
            table = branches.table[len(model.network.support.splits) :]
            for side in range(2):
                entries = indices.subsplits[tree, :, side]
                rows = rows + torch.stack([table[entry] if entry >= 0 else torch.zeros(2) for entry in entries])
        return rows
    assert isinstance(branches, GraphModel)
    parent = topologies.parent[tree]
    neighbors = [[int(other) for other in row if other >= 0] for row in topologies.neighbors[tree]]
    states = torch.from_numpy(dense_features(parent, np.eye(topologies.taxon_count)))
    for convolution in branches.features.convolutions:
        states = NAIVE[type(convolution)](convolution, states, neighbors)
    states = F.elu(branches.features.second(F.elu(branches.features.first(states))))
    edges = torch.stack([torch.maximum(states[node], states[parent[node]]) for node in range(len(parent) - 1)])
    return branches.readout.second(F.elu(branches.readout.first(edges)))


def log_posterior(patterns: SitePatterns, parent: list[int], lengths: Tensor, inverse_temperature: float) -> Tensor:
    """Tempered log p(Y given τ, q) + log p(τ, q) under Jukes–Cantor."""
    stay = torch.exp(-4 / 3 * lengths)[:, None, None, None]
    matrices = stay * torch.eye(4, dtype=torch.float64) + (1 - stay) / 4
    quarter, one = torch.full((4,), 0.25, dtype=torch.float64), torch.ones(1, dtype=torch.float64)
    sites = log_likelihood(parent, matrices, torch.from_numpy(patterns.tip_partials), quarter, one)
    taxa = len(patterns.taxa)
    trees = math.prod(range(1, 2 * taxa - 4, 2))
    log_prior = (math.log(PRIOR_RATE) - PRIOR_RATE * lengths).sum() - math.log(trees)
    return inverse_temperature * (sites @ torch.from_numpy(patterns.counts.astype(np.float64))) + log_prior


def surrogate(
    model: JointModel,
    patterns: SitePatterns,
    topologies: TopologyBatch,
    noise: np.ndarray,
    *,
    estimator: str,
    inverse_temperature: float,
    held: bool = False,
) -> tuple[float, Tensor]:
    """The lower bound, and a number whose gradient is the step's: the bound's own plus that of the topologies.

    held: topologies are, so that each has a bound of its own.
    """
    log_weights, log_qs = [], []
    for tree in range(len(topologies)):
        parent = topologies.parent[tree].tolist()
        parameters = branch_parameters(model, topologies, tree)
        location, log_scale = parameters[:, 0] - 2, parameters[:, 1]
        log_lengths = location + log_scale.exp() * torch.from_numpy(noise[tree])
        lognormal = torch.distributions.LogNormal(location, log_scale.exp())
        log_q_lengths = lognormal.log_prob(log_lengths.exp()).sum()
        log_q = log_q_topology(model.network, parent)
        log_joint = log_posterior(patterns, parent, log_lengths.exp(), inverse_temperature)
        log_qs.append(log_q)
        log_weights.append(log_joint - log_q_lengths - (log_q.detach() if estimator == "rws" else log_q))
    stacked = torch.stack(log_weights)
    count = len(stacked)
    bound = torch.logsumexp(stacked, 0) - math.log(count)
    if held:
        rows: dict[bytes, list[Tensor]] = {}
        for tree, row in enumerate(topologies.parent):
            rows.setdefault(row.tobytes(), []).append(stacked[tree])
        bounds = [
            len(own) / count * (torch.logsumexp(torch.stack(own), 0) - math.log(len(own))) for own in rows.values()
        ]
        return bound.item(), torch.stack(bounds).sum()
    total = bound
    for particle in range(count):
        if estimator == "rws":
            signal = torch.softmax(stacked.detach(), 0)[particle]
        else:
            others = [stacked[other].detach() for other in range(count) if other != particle]
            without = torch.stack([*others, sum(others) / len(others)])
            signal = bound.detach() - (torch.logsumexp(without, 0) - math.log(count))
        total = total + signal * log_qs[particle]
    return bound.item(), total
