"""Checkpoints: all that a run needs to go on, in one file that is whole or is known not to be.

A file is in safetensors format: arrays, and in its header a few texts. One of these is the SHA-256 of the file with
that text's own place full of zeros, so that no byte can change unnoticed. Nothing in it is ever executed.
"""

import hashlib
import json
import re
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy

from phloem.data.patterns import SitePatterns
from phloem.errors import FileProblem
from phloem.files import atomic_write, cannot_read, cannot_write
from phloem.inference.history import History
from phloem.kernels.arrays import AnyArray
from phloem.variational.support import SubsplitSupport
from phloem.variational.support_file import support_arrays, support_from

FORMAT = "1"
NO_DIGEST = b"0" * 64
KEPT = 2  # the newest and the one before it
FILE_NAME = re.compile(r"step-\d+\.safetensors")


class OtherFormat(FileProblem):
    """A checkpoint that another version of phloem wrote: it is not damaged, and must not be passed over."""


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
        **_prefixed("training", checkpoint.training),
        **_prefixed("history", checkpoint.history.as_arrays()),
        **_prefixed("support", support),
        "patterns.states": patterns.states,
        "patterns.counts": patterns.counts,
        "patterns.sites": patterns.pattern_of_site,
    }
    texts = {
        "format": FORMAT,
        "phloem": version("phloem"),
        "source": checkpoint.source,
        "config": checkpoint.config,
        "taxa": json.dumps(taxa),
        "sha256": NO_DIGEST.decode(),
    }
    content = safetensors.numpy.save({name: np.asarray(array, order="C") for name, array in arrays.items()}, texts)
    header_end = _header_end(content)
    digest = hashlib.sha256(content).hexdigest().encode()
    with atomic_write(path) as stream:
        stream.write(_replace_digest(content[:header_end], NO_DIGEST, digest))
        stream.write(content[header_end:])


def read_checkpoint(path: Path) -> Checkpoint:
    """The checkpoint in a file; an error that says what is wrong with any other file."""
    try:
        content = path.read_bytes()
    except OSError as problem:
        raise cannot_read(path, problem) from None
    try:
        header_end = _header_end(content)
        texts = json.loads(content[8:header_end])["__metadata__"]
        digest, written_as = texts["sha256"].encode(), texts["format"]
    except Exception:  # a damaged header fails in a dozen ways
        raise _damaged(path, "it has no header of phloem's") from None
    original = _replace_digest(content[:header_end], digest, NO_DIGEST) + content[header_end:]
    if hashlib.sha256(original).hexdigest().encode() != digest:
        raise _damaged(path, "its checksum is wrong")
    if written_as != FORMAT:
        raise OtherFormat(
            f"{path}: was written by phloem {texts.get('phloem')}, in format {written_as}, and this version has format "
            f"{FORMAT}. Go on with that version, or start anew with --force."
        )
    try:
        return _from_parts(path, texts, safetensors.numpy.load(content))
    except Exception:  # whole, and yet no checkpoint
        raise _damaged(path, "its parts make no sense") from None


def _from_parts(path: Path, texts: dict[str, str], arrays: dict[str, AnyArray]) -> Checkpoint:
    taxa = json.loads(texts["taxa"])
    return Checkpoint(
        source=texts["source"],
        config=texts["config"],
        patterns=SitePatterns(
            tuple(taxa), arrays["patterns.states"], arrays["patterns.counts"], arrays["patterns.sites"]
        ),
        support=support_from(path, {"taxa": np.array(taxa), **_without_prefix("support", arrays)}),
        training=_without_prefix("training", arrays),
        history=History.from_arrays(**_without_prefix("history", arrays)),
    )


class CheckpointFolder:
    """The last two checkpoints of a run, each named after its step."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def add(self, checkpoint: Checkpoint) -> None:
        """Write one, then remove those that are too old."""
        name = f"step-{checkpoint.step:09}.safetensors"
        try:
            self.path.mkdir(exist_ok=True)
        except OSError as problem:
            raise cannot_write(self.path, problem) from None
        write_checkpoint(checkpoint, self.path / name)
        older = [path for path in self._files() if path.name < name]
        later = [path for path in self._files() if path.name > name]  # damaged, or this run would have gone on from it
        for path in [*older[KEPT - 1 :], *later]:
            with suppress(OSError):
                path.unlink()

    def clear(self) -> None:
        """Remove all checkpoints."""
        for path in self._files():
            path.unlink()

    def newest(self) -> tuple[Checkpoint | None, list[str]]:
        """The checkpoint with the most steps that is whole, and what is wrong with the others.

        Files are known by what they hold: their names may have been swapped.
        """
        found: list[Checkpoint] = []
        problems: list[str] = []
        for path in self._files():
            try:
                found.append(read_checkpoint(path))
            except OtherFormat:
                raise
            except FileProblem as problem:
                problems.append(str(problem))
        return max(found, key=lambda checkpoint: checkpoint.step, default=None), problems

    def newest_step(self) -> int | None:
        """The step that the newest file is named after."""
        return next((int(path.stem.removeprefix("step-")) for path in self._files()), None)

    def _files(self) -> list[Path]:
        """All checkpoints by their names, the newest first."""
        try:
            return sorted((path for path in self.path.iterdir() if FILE_NAME.fullmatch(path.name)), reverse=True)
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as problem:
            raise cannot_read(self.path, problem) from None


def _header_end(content: bytes) -> int:
    return 8 + int.from_bytes(content[:8], "little")


def _replace_digest(header: bytes, old: bytes, new: bytes) -> bytes:
    return header.replace(b'"sha256":"' + old, b'"sha256":"' + new, 1)


def _prefixed(prefix: str, arrays: dict[str, Any]) -> dict[str, AnyArray]:
    return {f"{prefix}.{name}": array for name, array in arrays.items()}


def _without_prefix(prefix: str, arrays: dict[str, AnyArray]) -> dict[str, AnyArray]:
    start = f"{prefix}."
    return {name.removeprefix(start): array for name, array in arrays.items() if name.startswith(start)}


def _damaged(path: Path, what: str) -> FileProblem:
    return FileProblem(f"{path}: is damaged ({what}).")
