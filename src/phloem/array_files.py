"""Files of named arrays (`.npz`): written whole, the same bytes for the same arrays; no pickled objects."""

import sys
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from phloem.errors import FileProblem, PhloemError
from phloem.files import atomic_write, cannot_read


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
    """Write arrays under their names; on any error nothing is left behind."""
    with atomic_write(path) as stream, zipfile.ZipFile(stream, "w") as archive:
        for name, array in arrays.items():
            add_array(archive, name, array)


def add_array(archive: zipfile.ZipFile, name: str, array: np.ndarray[Any, Any]) -> None:
    """Add one array to an archive that is being written."""
    with new_member(archive, name) as member:
        np.lib.format.write_array(member, array, allow_pickle=False)


def new_member(archive: zipfile.ZipFile, name: str) -> IO[bytes]:
    """Where an array's bytes go; no member carries the time of day."""
    return archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True)


def read_arrays(path: Path, names: tuple[str, ...], made_by: str) -> dict[str, np.ndarray[Any, Any]]:
    """All arrays that `names` asks for; `made_by` is the command that makes such files."""
    with open_archive(path, made_by) as archive:
        check_members(path, archive, names, made_by)
        arrays = {}
        for name in names:
            with reading_member(path, archive, name) as member:
                arrays[name] = np.lib.format.read_array(member, allow_pickle=False)
    return arrays


def check_members(path: Path, archive: zipfile.ZipFile, names: tuple[str, ...], made_by: str) -> None:
    """Raise unless the archive has arrays of these names."""
    missing = [name for name in names if f"{name}.npy" not in archive.namelist()]
    if missing:
        raise FileProblem(f"{path}: has no array `{missing[0]}`. Make the file with `{made_by}`.")


def open_archive(path: Path, made_by: str) -> zipfile.ZipFile:
    """The file as an archive of arrays."""
    try:
        return zipfile.ZipFile(path)
    except OSError as problem:
        raise cannot_read(path, problem) from None
    except (zipfile.BadZipFile, NotImplementedError, ValueError) as problem:
        raise FileProblem(f"{path}: is not an .npz file ({problem}). Make one with `{made_by}`.") from None


@contextmanager
def reading_member(path: Path, archive: zipfile.ZipFile, name: str) -> Iterator[IO[bytes]]:
    """An array's bytes; what is wrong with them is said in terms of the file."""
    try:
        with archive.open(f"{name}.npy") as member:
            yield member
    except PhloemError:
        raise
    except Exception as problem:  # damaged bytes fail in zipfile, zlib and numpy in a dozen ways
        raise FileProblem(f"{path}: array `{name}` cannot be read ({problem}). Make the file again.") from None


def distinct_names(array: np.ndarray[Any, Any]) -> tuple[str, ...] | None:
    """An array's strings, if it is a list of distinct ones; damaged ones may hold what is no character at all."""
    if array.ndim != 1 or array.dtype.kind != "U" or array.size == 0:
        return None
    if (np.ascontiguousarray(array.astype("<U" + str(array.itemsize // 4))).view("<u4") > sys.maxunicode).any():
        return None
    names = tuple(array.tolist())
    return names if len(set(names)) == len(names) else None
