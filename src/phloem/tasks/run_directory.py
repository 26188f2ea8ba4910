"""The directory of a run of `phloem infer`, or of several in directories of their own below it, and its checkpoints."""

import json
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from phloem.arrays import AnyArray
from phloem.data.patterns import SitePatterns
from phloem.runs.checkpoints import CheckpointFolder
from phloem.runs.directory import CHECKPOINTS, LOCK, PROVENANCE, OwnedDirectory, RunKind, run_folders
from phloem.runs.history import History
from phloem.storage.arrays import making_sense, prefixed, read_sealed, without_prefix, write_sealed
from phloem.storage.files import cannot_write
from phloem.variational.sbn import SubsplitSupport, support_arrays, support_from

KIND = "infer"
FORMAT = "1"
BOOTSTRAP = "bootstrap"
TENSORBOARD = "tensorboard"
DRAWS = "draws.safetensors"
RESULTS = (
    PROVENANCE,
    "support.npz",
    "history.csv",
    "parameters.safetensors",
    "topologies.csv",
    "clades.csv",
    "summary.json",
    DRAWS,
)
EXPORTS = ("posterior.nex", "posterior.log", "consensus.nex", "report.html")
INFER = RunKind(KIND, RESULTS, EXPORTS, beginnings=(BOOTSTRAP,))


@dataclass(frozen=True, slots=True, eq=False)
class Checkpoint:
    """A run at the end of a step."""

    source: str  # the alignment as the user named it
    config: str  # as TOML
    patterns: SitePatterns
    support: SubsplitSupport
    training: dict[str, AnyArray]
    history: History

    @property
    def step(self) -> int:
        return int(self.training["counters"][0])


def write_checkpoint(checkpoint: Checkpoint, path: Path) -> None:
    """Write a checkpoint; a reader finds all of it or nothing."""
    patterns, support = checkpoint.patterns, support_arrays(checkpoint.support)
    taxa = support.pop("taxa").tolist()
    arrays = {
        **prefixed("training", checkpoint.training),
        **prefixed("history", checkpoint.history.as_arrays()),
        **prefixed("support", support),
        "patterns.states": patterns.states,
        "patterns.counts": patterns.counts,
        "patterns.sites": patterns.pattern_of_site,
    }
    texts = {"source": checkpoint.source, "config": checkpoint.config, "taxa": json.dumps(taxa)}
    write_sealed(path, arrays, texts, kind=KIND, layout=FORMAT)


def read_checkpoint(path: Path) -> Checkpoint:
    """The checkpoint in a file; an error that says what is wrong with any other file."""
    arrays, texts = read_sealed(path, kind=KIND, layout=FORMAT)
    with making_sense(path):
        taxa = json.loads(texts["taxa"])
        return Checkpoint(
            source=texts["source"],
            config=texts["config"],
            patterns=SitePatterns(
                tuple(taxa), arrays["patterns.states"], arrays["patterns.counts"], arrays["patterns.sites"]
            ),
            support=support_from(path, {"taxa": np.array(taxa), **without_prefix("support", arrays)}),
            training=without_prefix("training", arrays),
            history=History.from_arrays(**without_prefix("history", arrays)),
        )


def checkpoint_folder(path: Path) -> CheckpointFolder[Checkpoint]:
    """The folder of such checkpoints."""
    return CheckpointFolder(path, read_checkpoint, write_checkpoint)


class RunDirectory(OwnedDirectory[Checkpoint]):
    """A directory that holds one run, or several in directories of their own below it."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, INFER, checkpoint_folder(path / CHECKPOINTS))
        self.bootstrap = path / BOOTSTRAP
        self.tensorboard = path / TENSORBOARD

    def child(self, number: int) -> "RunDirectory":
        """The directory of one of several runs, counted from 1."""
        return RunDirectory(self.path / f"run-{number}")

    def children(self) -> list["RunDirectory"]:
        """The directories of several runs, up to the last that is there: one before it may have been lost."""
        numbers = [number for number in run_folders(self.path).values() if self.child(number)._has_begun()]
        return [self.child(number) for number in range(1, max(numbers, default=0) + 1)]

    def holds_run(self) -> bool:
        """Whether a run, or one of several, has begun here."""
        return self._has_begun() or bool(self.children())

    def _has_begun(self) -> bool:
        return super().holds_run()

    def clear(self) -> None:
        """Remove a run, and nothing that is not phloem's. Bootstrap trees stay: they know what they are of."""
        super().clear()
        try:
            for child in self.children():
                child.clear()
                (child.path / LOCK).unlink(missing_ok=True)
                with suppress(OSError):  # somebody else's files are in it
                    child.path.rmdir()
            for path in self.tensorboard.glob("events.out.tfevents.*"):
                path.unlink()
            with suppress(OSError):
                self.tensorboard.rmdir()
        except OSError as problem:
            raise cannot_write(self.path, problem) from None

    def refuse_overwriting(self, path: Path) -> None:
        """Raise if a file to be written is one that the run, or one of several, needs."""
        super().refuse_overwriting(path)
        for child in self.children():
            child.refuse_overwriting(path)
