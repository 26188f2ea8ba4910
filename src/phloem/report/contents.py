"""All that a report shows, as results: nothing here is drawn or computed from a model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from phloem.data.summary import AlignmentSummary
from phloem.inference.evaluation import Evaluation
from phloem.inference.history import Report
from phloem.inference.trust import Trust
from phloem.trees.branch_lengths import SplitLengths
from phloem.trees.grouped import GroupedTrees
from phloem.trees.sample import TreeSample
from phloem.trees.summary_tree import SummaryTree


class CredibleSet(NamedTuple):
    """How many of the most probable topologies hold at least this share of the probability."""

    share: float
    topologies: int


@dataclass(frozen=True, slots=True, eq=False)
class ReportContents:
    """What was run, what was found, and how far it can be trusted."""

    title: str  # the alignment's name
    alignment: AlignmentSummary
    model: str  # "JC69", "HKY85+Γ4" …
    branches: str  # "edge" …
    runs: int
    steps_done: int  # of the run that has done the fewest
    steps: int  # that were asked for
    is_finished: bool
    evaluation: Evaluation
    samples: int  # draws an estimate
    repeats: int  # estimates
    particles: int  # K of the multi-sample bound
    trust: Trust
    consensus: SummaryTree  # majority rule
    threshold: float  # that its clades are more probable than
    topologies: TreeSample  # distinct, most probable first
    credible: Sequence[CredibleSet]
    splits: SplitLengths  # every branch that was seen
    trees: GroupedTrees  # all draws with their weights, for distributions
    cloud: TreeSample  # some hundred trees as probable as the posterior has them, all of the same weight
    histories: Sequence[Sequence[Report]]  # one a run
    provenance: Mapping[str, Any]
