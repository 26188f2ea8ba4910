"""Which topologies weighted draws have, and how much weight each."""

import numpy as np

from phloem.errors import BadArgument
from phloem.kernels.arrays import FloatArray, IntArray
from phloem.trees.sample import TreeSample
from phloem.trees.topology import TopologyBatch

MOST_NODES = 20_000_000  # of draws that are looked at: all 100,000 of up to 100 taxa, and never much memory


class TopologyTally:
    """Distinct topologies in order of first appearance. Draws beyond `MOST_NODES` are not looked at."""

    def __init__(self) -> None:
        self._numbers: dict[bytes, int] = {}
        self._parents: list[IntArray] = []
        self._groups: list[IntArray] = []
        self._log_weights: list[FloatArray] = []
        self._nodes_left = MOST_NODES

    def __len__(self) -> int:
        return len(self._parents)

    def add(self, topologies: TopologyBatch, log_weights: FloatArray) -> None:
        """Count draws, each with the logarithm of its weight."""
        count = min(len(topologies), self._nodes_left // topologies.node_count)
        self._nodes_left -= count * topologies.node_count
        groups = np.empty(count, np.int32)
        for draw, parent in enumerate(topologies.parent[:count]):
            groups[draw] = number = self._numbers.setdefault(parent.tobytes(), len(self._parents))
            if number == len(self._parents):
                self._parents.append(parent.copy())
        self._groups.append(groups)
        self._log_weights.append(log_weights[:count])

    def sample(self, taxa: tuple[str, ...]) -> TreeSample:
        """The topologies, most probable first, with their shares of all weight."""
        if not self._parents:
            raise BadArgument("topologies: nothing was drawn.")
        log_weights = np.concatenate(self._log_weights)
        shares = np.exp(log_weights - log_weights.max())
        weights = np.bincount(np.concatenate(self._groups), shares, minlength=len(self))
        order = np.argsort(-weights, kind="stable")
        topologies = TopologyBatch.from_canonical(np.stack(self._parents))
        return TreeSample(taxa, topologies[order], weights[order] / weights.sum(), None)
