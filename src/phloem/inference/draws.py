"""Trees drawn from Q, with all that their weights are made of."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phloem.errors import BadArgument, TaxonMismatch
from phloem.inference.diagnostics import smooth
from phloem.inference.particles import Particles
from phloem.kernels.arrays import FloatArray, IntArray
from phloem.trees.grouped import GroupedTrees
from phloem.trees.topology import TopologyBatch

MOST_NODES = 20_000_000  # of draws that are kept: all 100,000 of up to 100 taxa, and never much memory


@dataclass(frozen=True, slots=True, eq=False)
class Draws:
    """Independent trees from Q; each distinct topology is held once, in order of first appearance."""

    taxa: tuple[str, ...]
    topologies: TopologyBatch
    group: IntArray  # (draws,)  which of the topologies each draw has
    branch_lengths: NDArray[np.float32]  # (draws, 2n-3)
    log_joint: FloatArray  # (draws,)  log p(Y, τ, q)
    log_q_topology: FloatArray  # (draws,)
    log_q_branches: FloatArray  # (draws,)

    def __post_init__(self) -> None:
        if not len(self.group):
            raise BadArgument("draws: nothing was drawn.")
        rows = (self.branch_lengths, self.log_joint, self.log_q_topology, self.log_q_branches)
        if len(self.taxa) != self.topologies.taxon_count or any(len(row) != len(self.group) for row in rows):
            raise BadArgument("draws: names, topologies, lengths and logarithms do not fit together.")

    def __len__(self) -> int:
        return len(self.group)

    @property
    def log_weights(self) -> FloatArray:
        """log p(Y, τ, q) - log Q(τ, q), (draws,)."""
        return np.asarray(self.log_joint - self.log_q_topology - self.log_q_branches)

    def weighted(self) -> GroupedTrees:
        """The draws with their shares of all weight, the largest weights smoothed: a sample of the posterior."""
        weights = shares(smooth(self.log_weights))
        return GroupedTrees(self.taxa, self.topologies, self.group, weights, self.branch_lengths.astype(np.float64))


def shares(log_weights: FloatArray) -> FloatArray:
    """Weights that sum to one."""
    greatest = log_weights.max()
    if not np.isfinite(greatest):
        raise BadArgument("draws: no draw is possible under the model. Train longer, or check the alignment.")
    weights = np.exp(log_weights - greatest)
    return np.asarray(weights / weights.sum())


def join(parts: Sequence[Draws]) -> Draws:
    """The draws of several runs on the same taxa, as one.

    Whichever run a draw is from, its weight p/Q estimates p(Y) without bias. So all draws with their weights are a
    sample of the posterior in which a run counts as its marginal likelihood says: one that lost a mode counts little.
    """
    collector = DrawCollector()
    for part in parts:
        if part.taxa != parts[0].taxa:
            raise TaxonMismatch(
                "draws: the runs are on other taxa, or have them in another order. Use runs of one kind."
            )
        collector.extend(part)
    return collector.draws(parts[0].taxa)


class DrawCollector:
    """Keeps draws as they are made, up to a number of nodes in all; later ones are not looked at."""

    def __init__(self, most_nodes: int = MOST_NODES) -> None:
        self._numbers: dict[bytes, int] = {}
        self._parents: list[IntArray] = []
        self._columns: list[tuple[NDArray[Any], ...]] = []
        self._nodes_left = most_nodes

    @property
    def topology_count(self) -> int:
        """Distinct topologies so far."""
        return len(self._parents)

    def add(self, particles: Particles) -> None:
        """Keep particles, or as many of them as there is room for."""
        count = min(len(particles.topologies), self._nodes_left // particles.topologies.node_count)
        self._nodes_left -= count * particles.topologies.node_count
        lengths, *logarithms = (part.detach().numpy()[:count] for part in particles[1:])
        group = self._number(particles.topologies.parent[:count])
        self._columns.append((group, lengths.astype(np.float32), *logarithms))

    def extend(self, draws: Draws) -> None:
        """Keep draws that were collected before, all of them."""
        group = self._number(draws.topologies.parent)[draws.group]
        self._columns.append((group, draws.branch_lengths, draws.log_joint, draws.log_q_topology, draws.log_q_branches))

    def draws(self, taxa: tuple[str, ...]) -> Draws:
        """All that was kept."""
        if not self._parents:
            raise BadArgument("draws: nothing was drawn.")
        columns = [np.concatenate(parts) for parts in zip(*self._columns, strict=True)]
        return Draws(taxa, TopologyBatch.from_canonical(np.stack(self._parents)), *columns)

    def _number(self, parents: IntArray) -> IntArray:
        """Which topology each row is, new ones numbered on."""
        group = np.empty(len(parents), np.int32)
        for draw, parent in enumerate(parents):
            group[draw] = number = self._numbers.setdefault(parent.tobytes(), len(self._parents))
            if number == len(self._parents):
                self._parents.append(parent.copy())
        return group
