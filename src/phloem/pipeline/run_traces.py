"""Whose run is in a directory? Settings, provenance and checkpoints say it, each by itself: others may be lost."""

import re
from pathlib import Path

from phloem.checkpoint_folder import checkpoint_files
from phloem.config import command_of
from phloem.pipeline.provenance_file import read_provenance
from phloem.sealed_files import FIRST_KIND, sealed_kind

CONFIG = "config.toml"
PROVENANCE = "provenance.json"
CHECKPOINTS = "checkpoints"
RUN_NAME = re.compile(r"run-([1-9]\d{0,2})")


def find_traces(path: Path, *, expected: str) -> dict[Path, str | None]:
    """The files by which a run is known, each with the words after `phloem` of the command that it is of.

    None for a checkpoint that is too damaged to say it. expected: what they are likely to say, which is quicker.
    """
    traces: dict[Path, str | None] = {}
    try:
        command = command_of((path / CONFIG).read_bytes().decode(errors="replace"))
    except OSError:
        command = None
    if command is not None:
        traces[path / CONFIG] = command
    provenance = read_provenance(path / PROVENANCE)
    if provenance:
        traces[path / PROVENANCE] = str(provenance.get("kind", FIRST_KIND))
    return traces | {file: sealed_kind(file, expected=expected) for file in checkpoint_files(path / CHECKPOINTS)}


def run_folders(path: Path) -> dict[Path, int]:
    """What is named as the directories of several runs are, with their numbers."""
    names = {folder: RUN_NAME.fullmatch(folder.name) for folder in sorted(path.glob("run-*"))}
    return {folder: int(name[1]) for folder, name in names.items() if name}
