"""A program that stands in for IQ-TREE, and does what a test wants of it."""

import os
from pathlib import Path

import pytest

# An alignment of seven taxa, as FASTA, and a script that gives it bootstrap trees.
SEQUENCES = ("AAAA", "AACA", "CACA", "CCAG", "CTAG", "CTTG", "GTTG")
SEVEN = "".join(f">{name}\n{row}\n" for name, row in zip("ABCDEFG", SEQUENCES, strict=True))
SEVEN_TREES = "yes '(t0,t1,(t2,(t3,(t4,(t5,t6)))));' | head -n 1000 > bootstrap.ufboot"


class FakeIqtree:
    """A shell script that comes before any real IQ-TREE; each run adds its arguments to a file."""

    good = "yes '(t0,t1,(t2,t3));' | head -n 1000 > bootstrap.ufboot"

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.path = folder / "bin" / "iqtree3"
        self.path.parent.mkdir()
        self._calls = folder / "calls"
        self._calls.touch()
        self(self.good)
        monkeypatch.setenv("PATH", f"{self.path.parent}{os.pathsep}{os.environ['PATH']}")

    def __call__(self, script: str) -> None:
        """From now on IQ-TREE runs this script."""
        self.path.write_text(
            '#!/bin/sh\n[ "$1" = --version ] && { echo IQ-TREE version 9.8.7; exit; }\n'
            f'echo "$@" >> {self._calls}\n{script}\n'
        )
        self.path.chmod(0o755)

    @property
    def calls(self) -> list[str]:
        return self._calls.read_text().splitlines()
