"""Where a report comes from, and how to cite it."""

from collections.abc import Mapping
from importlib.metadata import version
from typing import Any, NamedTuple

PAPER = "https://openreview.net/forum?id=hVVUY7p64WL"


class Session(NamedTuple):
    """One time that the run was worked on."""

    began: str
    command: str


class Provenance(NamedTuple):
    """What `provenance.json` says, as text; nothing where it says nothing."""

    source: str
    sha256: str
    trees: list[str]
    seed: str
    versions: list[tuple[str, str]]
    system: str
    sessions: list[Session]


def read_provenance(found: Mapping[str, Any]) -> Provenance:
    """Whatever of it is there: an old or damaged file is no reason for having no report."""
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
    """Of the phloem that made the run, or of this one where that is not known."""
    return str(_mapping(found.get("versions")).get("phloem") or version("phloem"))


def bibtex(number: str) -> str:
    """Entries for the method and for the program, for people to copy."""
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
