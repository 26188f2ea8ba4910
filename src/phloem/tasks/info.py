"""What phloem runs on: versions, threads, compiled kernels, external programs."""

import platform
from importlib.metadata import version
from typing import Any

import torch

from phloem.kernels.jit import cache_directory, compiled_count
from phloem.search.iqtree import IQTREE, MRBAYES, Program
from phloem.threads import available_threads

PACKAGES = ("phloem", "numpy", "scipy", "torch", "numba", "llvmlite", "biopython", "typer", "rich")


def describe() -> dict[str, Any]:
    """Everything that `phloem info` shows, ready for JSON."""
    return {
        "versions": {"python": platform.python_version()} | {name: version(name) for name in PACKAGES},
        "system": platform.platform(),
        "threads": {"available": available_threads(), "torch": torch.get_num_threads()},
        "kernels": _kernels(),
        "programs": [_find(program) for program in (IQTREE, MRBAYES)],
    }


def _kernels() -> dict[str, Any]:
    directory = cache_directory()
    return {"cache": None if directory is None else str(directory.parent), "compiled": compiled_count()}


def _find(program: Program) -> dict[str, str | None]:
    found = program.find()
    return {
        "name": program.title,
        "purpose": program.purpose,
        "path": found.path if found else None,
        "version": found.version if found else None,
    }
