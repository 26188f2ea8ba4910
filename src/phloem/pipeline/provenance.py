"""`provenance.json`: what a run was made of and by what. All that depends on the time of day is here."""

import hashlib
import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from phloem.files import cannot_read
from phloem.pipeline.owned_directory import OwnedDirectory
from phloem.pipeline.provenance_file import read_provenance
from phloem.pipeline.run_traces import PROVENANCE

PACKAGES = ("phloem", "numpy", "torch", "numba", "safetensors")


def write_provenance(run: OwnedDirectory[Any], inputs: Mapping[str, Any], *, seed: int, command: str) -> None:
    """Write it, with a line for each session that the run has had.

    inputs: what the run is made of, by name, among them `trees`, a list; what is empty is as earlier sessions had it.
    """
    before = read_provenance(run.path / PROVENANCE)
    sessions = [*before.get("sessions", ()), {"began": _now(), "command": command}]
    run.write_json(
        PROVENANCE,
        {
            "kind": run.kind.name,
            **{name: given or before.get(name, given) for name, given in inputs.items()},
            "seed": seed,
            "versions": {"python": platform.python_version()} | {name: version(name) for name in PACKAGES},
            "system": platform.platform(),
            "sessions": sessions,
        },
    )


def describe_file(path: Path) -> dict[str, str]:
    """A file that a run is made of: its name, and what it held."""
    try:
        with path.open("rb") as stream:
            return {"source": str(path), "sha256": hashlib.file_digest(stream, "sha256").hexdigest()}
    except (OSError, ValueError) as problem:
        raise cannot_read(path, problem) from None


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
