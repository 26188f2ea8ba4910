"""`SHA256SUMS`: a run directory's files as they were written, so that no changed one is taken for a result.

The format is that of the program `sha256sum`, so `sha256sum -c SHA256SUMS` checks a directory without phloem.
"""

import hashlib
import re
from collections.abc import Iterable
from pathlib import Path

from phloem.errors import FileProblem
from phloem.storage.files import cannot_read, write_text

CHECKSUMS = "SHA256SUMS"
LINE = re.compile(r"([0-9a-f]{64})  ([^/\n]+)")


class Checksums:
    """The checksums in one directory. A file that is not listed is not known to be whole."""

    def __init__(self, folder: Path, way_out: str) -> None:
        """way_out: how a file that is missing or was changed is made again, for messages."""
        self._folder = folder
        self._way_out = way_out

    def add(self, names: Iterable[str]) -> None:
        """List these files as they are now, and keep what is listed already; files that do not exist are left out.

        A damaged list is replaced: what only it knew is no longer known to be whole.
        """
        try:
            known = self._read()
        except FileProblem:
            known = {}
        known = {name: digest for name, digest in known.items() if (self._folder / name).is_file()}
        found = {name: _digest(self._folder / name) for name in names if (self._folder / name).is_file()}
        lines = [f"{digest}  {name}\n" for name, digest in sorted((known | found).items())]
        write_text(self._folder / CHECKSUMS, "".join(lines))

    def check(self, name: str) -> Path:
        """Where a file is; an error unless it is byte for byte as it was written."""
        path = self._folder / name
        listed = self._read().get(name)
        if not path.is_file():
            raise FileProblem(f"{path}: is missing. {self._way_out}")
        if listed is None:
            raise FileProblem(f"{path}: has no checksum in {CHECKSUMS}, so it may not be whole. {self._way_out}")
        if _digest(path) != listed:
            raise FileProblem(f"{path}: is damaged, or was changed after phloem wrote it. {self._way_out}")
        return path

    def changed(self) -> list[str]:
        """The listed files that exist and are not as they were written; none if the list itself is damaged."""
        try:
            known = self._read()
        except FileProblem:
            return []
        return [name for name in known if (self._folder / name).is_file() and self.problem([name])]

    def problem(self, names: Iterable[str]) -> FileProblem | None:
        """What is wrong with the first of these files that is not as it was written."""
        try:
            for name in names:
                self.check(name)
        except FileProblem as problem:
            return problem
        return None

    def _read(self) -> dict[str, str]:
        path = self._folder / CHECKSUMS
        try:
            lines = path.read_bytes().decode().split("\n")
        except FileNotFoundError:
            return {}
        except OSError as problem:
            raise cannot_read(path, problem) from None
        except UnicodeDecodeError:
            lines = []
        matches = [LINE.fullmatch(line) for line in lines[:-1]]
        found = {match[2]: match[1] for match in matches if match}
        if not found or lines[-1] or len(found) < len(matches):
            raise FileProblem(f"{path}: is damaged. {self._way_out}")
        return found


def _digest(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except (OSError, ValueError) as problem:
        raise cannot_read(path, problem) from None
