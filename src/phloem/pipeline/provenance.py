"""`provenance.json`: what a run was made of and by what. All that depends on the time of day is here."""

import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version

from phloem.config import InferConfig
from phloem.data.alignment import Alignment
from phloem.pipeline.provenance_file import read_provenance
from phloem.pipeline.run_directory import PROVENANCE, RunDirectory
from phloem.search.replicates import alignment_hash

PACKAGES = ("phloem", "numpy", "torch", "numba", "safetensors")


def write_provenance(
    run: RunDirectory, alignment: Alignment, source: str, config: InferConfig, command: str, trees: Sequence[str]
) -> None:
    """Write it, with a line for each session that the run has had. trees: that were given, or none."""
    before = read_provenance(run.path / PROVENANCE)
    sessions = [*before.get("sessions", ()), {"began": _now(), "command": command}]
    run.write_json(
        PROVENANCE,
        {
            "alignment": {"source": source, "sha256": alignment_hash(alignment)},
            "trees": list(trees) or before.get("trees", []),
            "seed": config.seed,
            "versions": {"python": platform.python_version()} | {name: version(name) for name in PACKAGES},
            "system": platform.platform(),
            "sessions": sessions,
        },
    )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
