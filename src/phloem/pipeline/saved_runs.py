"""What an earlier session has left in a run directory, and whether this one may go on from it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from phloem.config import InferConfig, differences, read_config
from phloem.data.alignment import Alignment
from phloem.data.patterns import SitePatterns
from phloem.errors import BadArgument, FileProblem
from phloem.files import read_bytes
from phloem.inference.checkpoints import Checkpoint
from phloem.pipeline.provenance_file import read_provenance
from phloem.pipeline.run_directory import RunDirectory
from phloem.pipeline.run_traces import CONFIG, PROVENANCE
from phloem.pipeline.support_source import Trees
from phloem.variational.support import SubsplitSupport
from phloem.variational.support_file import support_arrays


@dataclass(frozen=True, slots=True)
class SavedRuns:
    """The settings that a directory's run was begun with, and the newest checkpoint of each of its runs, if any."""

    path: Path
    config: InferConfig | None = None
    checkpoints: tuple[Checkpoint | None, ...] = ()
    several: bool = False  # whether the runs have directories of their own
    trees: tuple[str, ...] = ()  # that were given for the support

    @property
    def first(self) -> Checkpoint | None:
        """Any checkpoint: all are of the same alignment and support."""
        return next((checkpoint for checkpoint in self.checkpoints if checkpoint is not None), None)

    @property
    def support(self) -> SubsplitSupport:
        """That of the checkpoints, of which there must be one."""
        assert self.first is not None
        return self.first.support

    def check_trees(self, trees: Trees) -> None:
        """Raise if trees were given to a run that has no checkpoint yet, and are not given again."""
        if self.first is None and self.trees and not trees:
            raise BadArgument(
                f"{self.path}: the run was begun with --trees {' '.join(self.trees)} and has no checkpoint yet. "
                "Give them again."
            )

    def check_config(self, config: InferConfig) -> None:
        """Raise unless every checkpoint is of these settings."""
        if self.first is None:
            return
        before = [self.config, *(read_config(found.config, str(self.path)) for found in self.checkpoints if found)]
        wanted = [config, *(own for own, found in zip(run_configs(config), self.checkpoints, strict=False) if found)]
        different = [line for one, two in zip(before, wanted, strict=False) if one for line in differences(one, two)]
        if self.several != (config.runs > 1) or len(self.checkpoints) > config.runs:
            different = [f"runs is {len(self.checkpoints)}, not {config.runs}"]
        if different:
            raise FileProblem(
                f"{self.path}: is a run with other settings: {different[0]}. Leave the settings out to go on with its "
                "own, or start anew with --force."
            )

    def check_alignment(self, alignment: Alignment, source: str) -> None:
        """Raise unless every checkpoint is of this alignment."""
        for checkpoint in self.checkpoints:
            if checkpoint is not None and not _is_alignment_of(checkpoint.patterns, alignment):
                raise FileProblem(
                    f"{self.path}: is a run on another alignment than {source}, or {source} has changed since. "
                    "Use the alignment that the run began with, or start anew with --force."
                )

    def check_support(self, support: SubsplitSupport) -> None:
        """Raise unless every checkpoint has this support."""
        for checkpoint in self.checkpoints:
            if checkpoint is not None and not _is_same_support(checkpoint.support, support):
                raise FileProblem(
                    f"{self.path}: is a run with another support than these trees give. Leave --trees out to go on "
                    "with its own, or start anew with --force."
                )


def find_saved(directory: RunDirectory, notice: Callable[[str], None]) -> SavedRuns:
    """Read the newest whole checkpoint of every run in the directory; damaged ones are told of."""
    children = directory.children()
    checkpoints = tuple(run.newest_checkpoint(notice) for run in children or [directory])
    path = directory.path / CONFIG
    config = None
    if path.exists():
        config = read_config(read_bytes(path).decode(errors="replace"), str(path))
    elif checkpoints[0] is not None:
        config = replace(read_config(checkpoints[0].config, str(directory.path)), runs=max(1, len(children)))
    trees = read_provenance(directory.path / PROVENANCE).get("trees", ())
    return SavedRuns(directory.path, config, checkpoints, several=bool(children), trees=tuple(map(str, trees)))


def run_configs(config: InferConfig) -> list[InferConfig]:
    """The settings of each of several runs: ordinary runs with seeds of their own."""
    return [replace(config, runs=1, seed=config.seed + number) for number in range(config.runs)]


def alignment_of(patterns: SitePatterns) -> Alignment:
    """The alignment that the patterns were found in."""
    return Alignment(patterns.taxa, patterns.states[:, patterns.pattern_of_site])


def _is_alignment_of(patterns: SitePatterns, alignment: Alignment) -> bool:
    before = alignment_of(patterns)
    return before.taxa == alignment.taxa and np.array_equal(before.states, alignment.states)


def _is_same_support(one: SubsplitSupport, two: SubsplitSupport) -> bool:
    parts, others = support_arrays(one), support_arrays(two)
    return all(np.array_equal(parts[name], others[name]) for name in parts)
