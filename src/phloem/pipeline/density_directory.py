"""The directory of a run of `phloem density fit`."""

from pathlib import Path

from phloem.config.density_toml import COMMAND
from phloem.energy.density_files import DensityCheckpoint, density_checkpoints
from phloem.pipeline.owned_directory import OwnedDirectory, RunKind
from phloem.pipeline.run_traces import CHECKPOINTS, PROVENANCE

DENSITY = "density.safetensors"
HISTORY = "history.csv"
KIND = RunKind(COMMAND, (PROVENANCE, HISTORY, DENSITY, "summary.json"))


class DensityDirectory(OwnedDirectory[DensityCheckpoint]):
    """A directory that holds one training of a density."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, KIND, density_checkpoints(path / CHECKPOINTS))
