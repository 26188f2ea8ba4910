"""What phloem runs on: versions, threads, compiled kernels, external programs."""

import platform
import re
import shutil
import subprocess
from importlib.metadata import version
from typing import Any, NamedTuple

import torch

from phloem.kernels.jit import cache_directory
from phloem.target.threads import available_threads

PACKAGES = ("phloem", "numpy", "scipy", "torch", "numba", "llvmlite", "biopython", "typer", "rich")


class Program(NamedTuple):
    """An external program that phloem can use: its names in order of preference and how to ask its version."""

    title: str
    commands: tuple[str, ...]
    version_arguments: tuple[str, ...]
    purpose: str


PROGRAMS = (
    Program("IQ-TREE", ("iqtree3", "iqtree2", "iqtree"), ("--version",), "bootstrap trees"),
    Program("MrBayes", ("mb",), ("-v",), "reference posteriors"),
)


def describe() -> dict[str, Any]:
    """Everything that `phloem info` shows, ready for JSON."""
    return {
        "versions": {"python": platform.python_version()} | {name: version(name) for name in PACKAGES},
        "system": platform.platform(),
        "threads": {"available": available_threads(), "torch": torch.get_num_threads()},
        "kernels": _kernels(),
        "programs": [_find(program) for program in PROGRAMS],
    }


def _kernels() -> dict[str, Any]:
    directory = cache_directory()
    if directory is None:
        return {"cache": None, "compiled": 0}
    return {"cache": str(directory), "compiled": len(list(directory.glob("*.nbc")))}


def _find(program: Program) -> dict[str, str | None]:
    path = next(filter(None, map(shutil.which, program.commands)), None)
    return {
        "name": program.title,
        "purpose": program.purpose,
        "path": path,
        "version": _version(path, program.version_arguments) if path else None,
    }


def _version(path: str, arguments: tuple[str, ...]) -> str | None:
    """The first dotted number in what the program says of its version; None if it says nothing of use."""
    try:
        run = subprocess.run(
            [path, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=10, errors="replace"
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r"\d+(?:\.\d+)+\w*", run.stdout + run.stderr)
    return found.group() if found else None
