"""Everything that a report shows, with its provenance and how to cite it; nothing here is drawn."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, NamedTuple

from phloem.arrays import FloatArray
from phloem.data.patterns import AlignmentSummary
from phloem.trees.branch_lengths import SplitLengths
from phloem.trees.consensus import SummaryTree
from phloem.trees.sample import GroupedTrees, TreeSample

if TYPE_CHECKING:  # these import torch, which a page need not wait for
    from phloem.inference.chain_check import ChainCheck
    from phloem.inference.evaluation import Evaluation
    from phloem.inference.measurement import Annealed
    from phloem.inference.parameter_estimates import ParameterEstimate
    from phloem.inference.summary import CredibleSet
    from phloem.inference.training import Report
    from phloem.inference.trust import Trust

PAPER = "https://openreview.net/forum?id=hVVUY7p64WL"


@dataclass(frozen=True, slots=True, eq=False)
class ReportContents:
    """What was run, what was found, and how far to trust it."""

    title: str  # the alignment's name
    alignment: AlignmentSummary
    model: str  # of substitution, in words
    priors: Mapping[str, str]  # by what they are about
    parameters: "Sequence[ParameterEstimate]"  # of it, as far as they are inferred
    parameter_values: Mapping[str, FloatArray]  # the same, in each of the draws, (draws,)
    branches: str  # "edge" …
    family: str  # "warped" …; empty for a user's own
    runs: int
    steps_done: int  # of the run that has done the fewest
    steps: int  # asked for
    is_finished: bool
    evaluation: "Evaluation"
    samples: int  # draws per estimate
    repeats: int  # estimates
    likelihood_error: float | None  # standard, of the log marginal likelihood
    annealed: "Annealed | None"  # how draws were annealed, if they were
    check: "ChainCheck | None"  # what chains from the draws said
    particles: int  # K of the multi-sample bound
    trust: "Trust"
    consensus: SummaryTree  # majority rule
    threshold: float  # its clades are more probable than this
    topologies: TreeSample  # distinct, most probable first
    topology_errors: FloatArray  # (topologies,)  standard, of their probabilities
    credible: "Sequence[CredibleSet]"
    splits: SplitLengths  # of every split in the sample
    trees: GroupedTrees  # all draws with their weights, for distributions
    cloud: TreeSample  # a few hundred draws from the posterior, all of the same weight
    histories: "Sequence[Sequence[Report]]"  # one per run
    provenance: Mapping[str, Any]


class Session(NamedTuple):
    """One session of work on the run."""

    began: str
    command: str


class Provenance(NamedTuple):
    """What `provenance.json` says, as text; empty where it says nothing."""

    source: str
    sha256: str
    trees: list[str]
    seed: str
    versions: list[tuple[str, str]]
    system: str
    sessions: list[Session]


def read_provenance(found: Mapping[str, Any]) -> Provenance:
    """As much as the file has: a report does not fail because of an old or damaged one."""
    alignment, versions = _mapping(found.get("alignment")), _mapping(found.get("versions"))
    sessions = [_mapping(session) for session in _list(found.get("sessions"))]
    return Provenance(
        source=str(alignment.get("source", "")),
        sha256=str(alignment.get("sha256", "")),
        trees=[str(tree) for tree in _list(found.get("trees")) or filter(None, [found.get("bootstrap")])],
        seed=str(found.get("seed", "")),
        versions=[(str(name), str(number)) for name, number in versions.items()],
        system=str(found.get("system", "")),
        sessions=[Session(str(one.get("began", "")), str(one.get("command", ""))) for one in sessions],
    )


def phloem_version(found: Mapping[str, Any]) -> str:
    """The version of phloem that made the run; this one's where that is unknown."""
    return str(_mapping(found.get("versions")).get("phloem") or version("phloem"))


def bibtex(number: str) -> str:
    """Entries for the method and for the program, ready to copy."""
    return f"""@inproceedings{{zhang2023learnable,
  title     = {{Learnable Topological Features for Phylogenetic Inference via Graph Neural Networks}},
  author    = {{Zhang, Cheng}},
  booktitle = {{International Conference on Learning Representations}},
  year      = {{2023}},
  url       = {{{PAPER}}}
}}

@software{{phloem,
  title   = {{phloem: Bayesian phylogenetics by variational inference}},
  author  = {{{{The phloem authors}}}},
  version = {{{number}}}
}}"""


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
