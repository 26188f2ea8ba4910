"""External programs that phloem can use: where they are, and which version."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple


class InstalledProgram(NamedTuple):
    """A program that was found; its version is None if it does not tell."""

    title: str
    path: str
    version: str | None

    def __str__(self) -> str:
        return f"{self.title} {self.version or '(version unknown)'}"


class Program(NamedTuple):
    """A program that phloem can use: its names in order of preference and how to ask its version."""

    title: str
    commands: tuple[str, ...]
    version_arguments: tuple[str, ...]
    purpose: str

    @property
    def is_installed(self) -> bool:
        """Whether one of its commands is on PATH."""
        return self._first() is not None

    def find(self) -> InstalledProgram | None:
        """The first of its commands that is on PATH."""
        found = self._first()
        if found is None:
            return None
        path = str(Path(found).absolute())  # PATH may hold relative directories, and programs run elsewhere
        return InstalledProgram(self.title, path, _ask_version(path, self.version_arguments))

    def _first(self) -> str | None:
        return next(filter(None, map(shutil.which, self.commands)), None)


IQTREE = Program("IQ-TREE", ("iqtree3", "iqtree2", "iqtree"), ("--version",), "optional: bootstrap trees")
MRBAYES = Program("MrBayes", ("mb",), ("-v",), "optional: reference posteriors")


def _ask_version(path: str, arguments: tuple[str, ...]) -> str | None:
    """The first dotted number in what the program says of its version; None if it says nothing of use."""
    try:
        run = subprocess.run(
            [path, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=10, errors="replace"
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r"\d+(?:\.\d+)+\w*", run.stdout + run.stderr)
    return found.group() if found else None
