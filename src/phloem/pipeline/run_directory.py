"""The files of a run of `phloem infer`."""

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import tomli_w

from phloem.config import InferConfig
from phloem.errors import FileProblem
from phloem.files import atomic_write, cannot_write, check_can_write
from phloem.inference.parameters import write_parameters
from phloem.inference.training import Report
from phloem.variational.joint import JointModel
from phloem.variational.support_file import write_support

BOOTSTRAP = "bootstrap"


class RunDirectory:
    """A directory that holds one run, or nothing but its bootstrap trees so far."""

    def __init__(self, path: Path) -> None:
        self.path = path
        if path.exists() and not path.is_dir():
            raise FileProblem(f"{path}: is not a directory. Name a new or an empty one for --out.")
        try:
            path.mkdir(parents=True, exist_ok=True)
            inside = sorted(entry.name for entry in path.iterdir())
        except OSError as problem:
            raise cannot_write(path, problem) from None
        if inside not in ([], [BOOTSTRAP]):
            raise FileProblem(f"{path}: is not empty (it holds {inside[0]}). Name another directory for --out.")
        check_can_write(path / "config.toml")

    @property
    def bootstrap(self) -> Path:
        """Where bootstrap trees go."""
        return self.path / BOOTSTRAP

    def write_config(self, config: InferConfig) -> None:
        """Every setting, with those that were left to their defaults."""
        self._write("config.toml", tomli_w.dumps(asdict(config)))

    def write_model(self, model: JointModel) -> None:
        """The support and the trained parameters."""
        write_support(model.network.support, self.path / "support.npz")
        write_parameters(model, self.path / "parameters.safetensors")

    def write_history(self, history: Sequence[Report]) -> None:
        """A row a report."""
        table = io.StringIO()
        writer = csv.writer(table, lineterminator="\n")
        writer.writerow(Report._fields)
        writer.writerows((step, f"{seconds:.3f}", *map(repr, rest)) for step, seconds, *rest in history)
        self._write("history.csv", table.getvalue())

    def write_summary(self, summary: dict[str, Any]) -> None:
        """The result in a few numbers."""
        self._write("summary.json", json.dumps(summary, indent=2) + "\n")

    def _write(self, name: str, text: str) -> None:
        with atomic_write(self.path / name) as stream:
            stream.write(text.encode())
