"""The directory of a run of `phloem infer`, or of several in directories of their own below it."""

from contextlib import suppress
from pathlib import Path

from phloem.files import cannot_write
from phloem.inference.checkpoints import KIND, Checkpoint, checkpoint_folder
from phloem.pipeline.owned_directory import LOCK, OwnedDirectory, RunKind
from phloem.pipeline.run_traces import CHECKPOINTS, PROVENANCE, run_folders

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
