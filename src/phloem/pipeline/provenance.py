"""`provenance.json`: what a run was made of and by what. All that depends on the time of day is here."""

import json
import platform
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from phloem.config import InferConfig
from phloem.data.alignment import Alignment
from phloem.pipeline.run_directory import RunDirectory
from phloem.search.replicates import alignment_hash

PACKAGES = ("phloem", "numpy", "torch", "numba", "safetensors")


def write_provenance(run: RunDirectory, alignment: Alignment, source: str, config: InferConfig, command: str) -> None:
    """Write it, with a line for each session that the run has had."""
    sessions = [*_sessions(run.path / "provenance.json"), {"began": _now(), "command": command}]
    run.write_json(
        "provenance.json",
        {
            "alignment": {"source": source, "sha256": alignment_hash(alignment)},
            "seed": config.seed,
            "versions": {"python": platform.python_version()} | {name: version(name) for name in PACKAGES},
            "system": platform.platform(),
            "sessions": sessions,
        },
    )


def _sessions(path: Path) -> list[dict[str, Any]]:
    try:
        found = json.loads(path.read_bytes())["sessions"]
    except (OSError, ValueError, KeyError, TypeError):  # none yet, or not to be read: it is for the records only
        return []
    return found if isinstance(found, list) else []


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
