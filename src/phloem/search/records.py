"""What a search reports on its way, and what it finds."""

from dataclasses import dataclass
from typing import NamedTuple

from phloem.kernels.arrays import FloatArray
from phloem.target.substitution import SubstitutionModel
from phloem.trees.sample import TreeSample
from phloem.trees.topology import TopologyBatch


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
