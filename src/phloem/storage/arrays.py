"""Files of named arrays: plain `.npz` archives, and sealed files, each of which is whole or known not to be.

Equal arrays give equal bytes, and nothing in a file is ever executed: `.npz` archives hold no pickled objects. A sealed
file is in safetensors format: arrays, and a few texts in its header. One of the texts is the SHA-256 of the file with
zeros in place of that digest, so that no byte can change unnoticed.
"""

import hashlib
import json
import sys
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import safetensors.numpy

from phloem.errors import FileProblem, PhloemError, has_control, printable
from phloem.storage.files import LARGEST_UNPACKED, atomic_write, cannot_read, check_regular

NO_DIGEST = b"0" * 64
FIRST_KIND = "infer"  # of files that do not say of which kind they are: there was no other
LONGEST_HEADER = 100_000_000  # bytes, which safetensors has as its limit too


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


def read_arrays(
    path: Path, names: tuple[str, ...], made_by: str, *, optional: tuple[str, ...] = ()
) -> dict[str, np.ndarray[Any, Any]]:
    """All arrays that `names` asks for, and those of `optional` that there are.

    made_by: the command that makes such files.
    """
    with open_archive(path, made_by) as archive:
        check_members(path, archive, names, made_by)
        present = {*archive.namelist()}
        arrays = {}
        for name in (*names, *(name for name in optional if f"{name}.npy" in present)):
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
    check_regular(path)
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
        packed = archive.getinfo(f"{name}.npy")
        if packed.compress_type != zipfile.ZIP_STORED and packed.file_size > LARGEST_UNPACKED:
            raise FileProblem(
                f"{path}: array `{name}` unpacks to more than {LARGEST_UNPACKED / 1e9:g} GB. If that is right, save it "
                "with `numpy.savez`, uncompressed."
            )
        with archive.open(f"{name}.npy") as member:
            yield member
    except PhloemError:
        raise
    except Exception as problem:  # damaged bytes fail in zipfile, zlib and numpy in a dozen ways
        raise FileProblem(
            f"{path}: array `{name}` cannot be read ({printable(str(problem))[:100]}). Make the file again."
        ) from None


def distinct_names(array: np.ndarray[Any, Any]) -> tuple[str, ...] | None:
    """An array's strings, if it is a list of distinct names; damaged ones may hold what is no character at all."""
    if array.ndim != 1 or array.dtype.kind != "U" or array.size == 0:
        return None
    if (np.ascontiguousarray(array.astype("<U" + str(array.itemsize // 4))).view("<u4") > sys.maxunicode).any():
        return None
    names = tuple(array.tolist())
    return names if len(set(names)) == len(names) and not any(map(has_control, names)) else None


class OtherFormat(FileProblem):
    """A file that another version of phloem wrote: it is not damaged, and must not be passed over."""


class OtherKind(FileProblem):
    """A file of a run of another command: it is not damaged either."""


class Sealed(NamedTuple):
    """What such a file holds."""

    arrays: dict[str, np.ndarray[Any, Any]]
    texts: dict[str, str]


def write_sealed(
    path: Path, arrays: Mapping[str, np.ndarray[Any, Any]], texts: Mapping[str, str], *, kind: str, layout: str
) -> None:
    """Write a file; a reader finds all of it or nothing.

    kind: whose it is, the words after `phloem` of the command that makes such files. layout: a number that changes
    when the parts do.
    """
    own = {"kind": kind, "format": layout, "phloem": version("phloem"), "sha256": NO_DIGEST.decode()}
    content = _in_order(
        safetensors.numpy.save({name: np.asarray(array, order="C") for name, array in arrays.items()}, {**texts, **own})
    )
    header_end = _header_end(content)
    digest = hashlib.sha256(content).hexdigest().encode()
    with atomic_write(path) as stream:
        stream.write(_replace_digest(content[:header_end], NO_DIGEST, digest))
        stream.write(content[header_end:])


def read_sealed(path: Path, *, kind: str, layout: str) -> Sealed:
    """What is in a file of this kind and layout; an error that says what is wrong with any other file."""
    content, texts = _read_whole(path)
    if (found := _kind(texts)) != kind:
        raise OtherKind(f"{path}: is of a run of `phloem {found}`, not of `phloem {kind}`. Name another directory.")
    if (written_as := texts["format"]) != layout:
        raise OtherFormat(
            f"{path}: was written by phloem {texts.get('phloem')}, in format {written_as}, and this version has format "
            f"{layout}. Go on with that version, or start anew with --force."
        )
    with making_sense(path):
        return Sealed(safetensors.numpy.load(content), texts)


def sealed_kind(path: Path, *, expected: str) -> str | None:
    """Of which kind a file is, or None if it is too damaged to say it.

    What is expected is believed by the header alone, which is quick; anything else only of a file that is whole.
    """
    try:
        with path.open("rb") as stream:
            length = int.from_bytes(stream.read(8), "little")
            found = _kind(_texts(stream.read(min(length, LONGEST_HEADER))))
        return found if found == expected else _kind(_read_whole(path)[1])
    except Exception:  # a damaged header fails in a dozen ways
        return None


@contextmanager
def making_sense(path: Path) -> Iterator[None]:
    """Whatever goes wrong while the parts of a whole file are put together is said in terms of the file."""
    try:
        yield
    except Exception:
        raise _damaged(path, "its parts make no sense") from None


def prefixed(prefix: str, arrays: Mapping[str, np.ndarray[Any, Any]]) -> dict[str, np.ndarray[Any, Any]]:
    """Arrays of one part of what a file holds, under names that say so."""
    return {f"{prefix}.{name}": array for name, array in arrays.items()}


def without_prefix(prefix: str, arrays: Mapping[str, np.ndarray[Any, Any]]) -> dict[str, np.ndarray[Any, Any]]:
    """The arrays of that part, under their own names."""
    start = f"{prefix}."
    return {name.removeprefix(start): array for name, array in arrays.items() if name.startswith(start)}


def _read_whole(path: Path) -> tuple[bytes, dict[str, str]]:
    """A file's content and its texts, if the seal is right."""
    try:
        content = path.read_bytes()
    except OSError as problem:
        raise cannot_read(path, problem) from None
    try:
        header_end = _header_end(content)
        texts = _texts(content[8:header_end])
        digest, _ = texts["sha256"].encode(), texts["format"]
    except Exception:  # as above
        raise _damaged(path, "it has no header of phloem's") from None
    original = _replace_digest(content[:header_end], digest, NO_DIGEST) + content[header_end:]
    if hashlib.sha256(original).hexdigest().encode() != digest:
        raise _damaged(path, "its checksum is wrong")
    return content, texts


def _in_order(content: bytes) -> bytes:
    """The same with its texts by name: safetensors has them in any order, and equal parts shall make equal files."""
    end = _header_end(content)
    header = json.loads(content[8:end])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # what follows is aligned
    return len(text).to_bytes(8, "little") + text + content[end:]


def _kind(texts: Mapping[str, str]) -> str:
    return texts.get("kind", FIRST_KIND)


def _texts(header: bytes) -> dict[str, str]:
    texts: dict[str, str] = json.loads(header)["__metadata__"]
    return texts


def _header_end(content: bytes) -> int:
    return 8 + int.from_bytes(content[:8], "little")


def _replace_digest(header: bytes, old: bytes, new: bytes) -> bytes:
    return header.replace(b'"sha256":"' + old, b'"sha256":"' + new, 1)


def _damaged(path: Path, what: str) -> FileProblem:
    return FileProblem(f"{path}: is damaged ({what}).")
