"""Files: read whole, plain or gzipped, with errors that say what to do; written whole or not at all."""

import errno
import gzip
import io
import os
import re
import stat
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from phloem.errors import DiskFull, FileProblem
from phloem.interrupts import held

GZIP_MAGIC = b"\x1f\x8b"
LARGEST_UNPACKED = 2_000_000_000  # bytes, of a gzip file
CHUNK = 1 << 20
SPECIAL = (
    (stat.S_ISFIFO, "pipe"),
    (stat.S_ISSOCK, "socket"),
    (stat.S_ISCHR, "device"),
    (stat.S_ISBLK, "device"),
)
UNFINISHED = ".unfinished"
LEFTOVER = re.compile(r"\.(.+)\.[^.]+\.unfinished")
NO_SPACE = (errno.ENOSPC, errno.EDQUOT)


def read_bytes(path: Path) -> bytes:
    """The file's content, decompressed where it is gzipped, whatever its name."""
    check_regular(path)
    try:
        content = path.read_bytes()
    except (OSError, ValueError) as problem:
        raise cannot_read(path, problem) from None
    return _unpacked(path, content) if content.startswith(GZIP_MAGIC) else content


def check_regular(path: Path) -> None:
    """Raise for pipes, devices and sockets, before they are opened: that would wait, perhaps for ever."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError) as problem:
        raise cannot_read(path, problem) from None
    kind = next((name for is_kind, name in SPECIAL if is_kind(mode)), None)
    if kind:
        raise FileProblem(f"{path}: is a {kind}. Save its content to a file, and name that.")


def _unpacked(path: Path, content: bytes) -> bytes:
    """The content of a gzip file; some that are small expand without end."""
    chunks: list[bytes] = []
    size = 0
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(content)) as stream:
            while chunk := stream.read(CHUNK):
                chunks.append(chunk)
                size += len(chunk)
                if size > LARGEST_UNPACKED:
                    raise FileProblem(
                        f"{path}: holds more than {LARGEST_UNPACKED / 1e9:g} GB. If that is right, unpack it with "
                        "gunzip, and name the plain file."
                    )
    except (OSError, EOFError, zlib.error) as problem:
        raise FileProblem(f"{path}: is not a whole gzip file ({problem}). Fetch or compress it again.") from None
    return b"".join(chunks)


def cannot_read(path: Path, problem: Exception) -> FileProblem:
    """What the system says of a file that cannot be opened, and what to do."""
    if isinstance(problem, FileNotFoundError):
        return FileProblem(f"{path}: no such file. Check the path.")
    if isinstance(problem, IsADirectoryError):
        return FileProblem(f"{path}: is a directory. Name a file inside it.")
    return FileProblem(f"{path}: cannot be read ({getattr(problem, 'strerror', None) or problem}).")


@contextmanager
def atomic_write(path: Path) -> Iterator[IO[bytes]]:
    """A file to write that takes its name only when it is complete; on any error nothing is left behind."""
    temporary = None
    try:
        with held():  # a request to stop must not come between the file and the knowledge of its name
            path, handle, temporary = _open_beside(path)
        with os.fdopen(handle, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
        _keep_name(path.parent)
    except OSError as problem:
        if temporary is not None:
            _remove(temporary)
        raise cannot_write(path, problem) from None
    except BaseException:
        if temporary is not None:
            _remove(temporary)
        raise


def write_text(path: Path, content: str) -> None:
    """Write a text file, whole or not at all."""
    with atomic_write(path) as stream:
        stream.write(content.encode())


def _keep_name(directory: Path) -> None:
    """Have a new name survive a loss of power, where directories can be told so."""
    with suppress(OSError):
        handle = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def remove_leftovers(directory: Path, names: re.Pattern[str]) -> None:
    """Remove what killed writers of files with such names have left in a directory that no one else writes to."""
    with suppress(OSError):
        for path in directory.iterdir():
            found = LEFTOVER.fullmatch(path.name)
            if found and names.fullmatch(found[1]):
                _remove(str(path))


def check_can_write(path: Path) -> None:
    """Raise where `atomic_write` would at once: better before long work than after it."""
    _, handle, temporary = _open_beside(path)
    os.close(handle)
    _remove(temporary)


def refuse_links(folder: Path, names: Iterable[str]) -> None:
    """Raise if one of these names in a folder is a link: what is written or removed there must not be elsewhere."""
    for name in names:
        if os.path.islink(path := folder / name):  # noqa: PTH114  (False for a name that the system does not take)
            raise FileProblem(f"{path}: is a link, and phloem changes nothing outside {folder}. Remove the link.")


def _open_beside(path: Path) -> tuple[Path, int, str]:
    """The path with links followed (a link stays a link: what it points to is written), and an open file beside it."""
    try:
        path = path.resolve()
        if path.exists() and not path.is_file():
            kind = "a directory" if path.is_dir() else "not a regular file"
            raise FileProblem(f"{path}: cannot be written, it is {kind}. Name a file.")
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name[:100]}.", suffix=UNFINISHED, dir=path.parent)
    except FileNotFoundError:
        raise FileProblem(f"{path}: its directory does not exist. Make it first.") from None
    except (OSError, ValueError, RuntimeError) as problem:  # a loop of links is a RuntimeError
        raise cannot_write(path, problem) from None
    return path, handle, temporary


def cannot_write(path: Path, problem: Exception) -> FileProblem:
    """What the system says of a file or directory that cannot be written."""
    reason = getattr(problem, "strerror", None) or problem
    if getattr(problem, "errno", None) in NO_SPACE:
        return DiskFull(f"{path}: cannot be written ({reason}). Free some space.")
    if getattr(problem, "errno", None) == errno.EFBIG:
        return FileProblem(f"{path}: cannot be written ({reason}). Raise the limit (ulimit -f).")
    return FileProblem(f"{path}: cannot be written ({reason}).")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _remove(path: str) -> None:
    Path(path).unlink(missing_ok=True)
