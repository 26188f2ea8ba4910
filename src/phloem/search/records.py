"""What a search reports on its way, and what it finds."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from phloem.kernels.arrays import FloatArray
from phloem.target.substitution import SubstitutionModel
from phloem.trees.sample import TreeSample
from phloem.trees.splits import nontrivial_splits, split_frequencies
from phloem.trees.summary_tree import SummaryTree
from phloem.trees.topology import TopologyBatch
from phloem.trees.tree import Tree


class Stopped(Exception):
    """The search was told to stop before it was done."""


class SearchProgress(NamedTuple):
    """How far a search is, by its own estimate."""

    fraction: float  # below 1
    log_likelihood: float  # of the best tree so far
    climbs: int


@dataclass(frozen=True, slots=True, eq=False)
class SearchResult:
    """The best tree, under the model estimated on it, and the bootstrap trees."""

    topology: TopologyBatch  # one
    branch_lengths: FloatArray  # (2n-3,)
    log_likelihood: float
    model: SubstitutionModel
    bootstrap: TreeSample  # one tree a replicate, in order
    best: TreeSample  # the best trees of all, best first, as many as were asked for
    climbs: int
    correlation: float  # of the split supports after half of the climbs and after all
    is_stable: bool  # whether they agree well enough

    @property
    def tree(self) -> SummaryTree:
        """The best tree with its lengths, and for every branch the share of the bootstrap trees that have it."""
        frequencies = split_frequencies(self.bootstrap)
        share = {row.tobytes(): part for row, part in zip(frequencies.members, frequencies.frequencies, strict=True)}
        supports = [share.get(row.tobytes(), 0.0) for row in nontrivial_splits(self.topology)[0]]
        taxon_count = self.topology.taxon_count
        unknown = np.full(self.topology.node_count, np.nan)
        return SummaryTree(
            self.bootstrap.taxa,
            Tree(self.topology.parent[0], taxon_count),
            np.concatenate([np.ones(taxon_count), supports, [np.nan]]),
            np.append(self.branch_lengths, np.nan),
            unknown,
            unknown,
        )
