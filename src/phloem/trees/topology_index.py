"""Topologies by number: where each of some stands in a list."""

import numpy as np

from phloem.errors import BadArgument
from phloem.kernels.arrays import LongArray
from phloem.trees.topology import TopologyBatch


class TopologyIndex:
    """Finds topologies in a list of distinct ones, many at a time."""

    def __init__(self, topologies: TopologyBatch) -> None:
        self._taxon_count = topologies.taxon_count
        rows = _packed(topologies)
        self._order = np.argsort(rows)
        self._rows = rows[self._order]

    def find(self, topologies: TopologyBatch) -> LongArray:
        """The place in the list of each topology, (batch,); -1 for those that are not in it."""
        if topologies.taxon_count != self._taxon_count:
            raise BadArgument(f"topologies on {topologies.taxon_count} taxa in a list of some on {self._taxon_count}.")
        if not len(self._rows):
            return np.full(len(topologies), -1)
        rows = _packed(topologies)
        nearest = np.minimum(np.searchsorted(self._rows, rows), len(self._rows) - 1)
        found: LongArray = np.where(self._rows[nearest] == rows, self._order[nearest], -1)
        return found


def _packed(topologies: TopologyBatch) -> np.ndarray:
    """One item a tree: canonical arrays are equal where topologies are."""
    parent = np.ascontiguousarray(topologies.parent)
    return parent.view(np.dtype((np.void, parent.itemsize * parent.shape[1])))[:, 0]
