"""DS1–DS8: where their alignments may be, how they are recognised, and the copy that an experiment works on."""

import hashlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np

from phloem.data.alignment import STATES, Alignment, letter_for
from phloem.data.reading import load_alignment
from phloem.errors import BadArgument, FileProblem, counted
from phloem.storage.files import write_text

VARIABLE: Final = "PHLOEM_DATA"  # of the environment
PACKAGE: Final = "beast2-mcmc-examples"
PACKAGE_FOLDER: Final = Path("/usr/share/doc/beast2-mcmc/examples/benchmark/mrbayes")
FOLDER: Final = "alignments"  # of data, and of an experiment
SUFFIXES: Final = (".fasta", ".fasta.gz", ".fa", ".nex", ".nex.gz", ".phy")
LINE: Final = 60  # sites


class DataSet(NamedTuple):
    """A benchmark alignment."""

    name: str
    taxa: int
    sites: int
    digest: str  # of its sequences: see `sequences_digest`
    packaged: str = ""  # its file in Debian's package


# By name, with taxa, sites, the digest, and the file of Debian's package.
DATA_SETS: Final[Mapping[str, DataSet]] = MappingProxyType(
    {
        name: DataSet(name, taxa, sites, digest, f"testHKY{number}.nex.gz")
        for name, taxa, sites, number, digest in (
            ("DS1", 27, 1949, 336, "d38619072545b7a391bf5230355b6612ea70f188f5cdc08a94848538ef4b74f6"),
            ("DS2", 29, 2520, 501, "aa68e09a25ae351768efd0fe45fe049e3cb1f85d871c9af3f2a41fb9513ad7e2"),
            ("DS3", 36, 1812, 1510, "437af9d1beaff48599eac6e25ce392c14e61cac1b08096b43772f1923fec4066"),
            ("DS4", 41, 1137, 1366, "3e89304ec8550c05c81b58bcefc0ceda75bb53c28ae1580841091b449f48c41b"),
            ("DS5", 50, 378, 3475, "a5471540de6148aa4246332615e3f0471ae6cf4db9a027427e14edfe60a448ef"),
            ("DS6", 50, 1133, 1044, "394c71e2a419d0fdc8fa50b799f85c2271557420b832da494c4022977787b158"),
            ("DS7", 59, 1824, 1809, "f2fee3941e6ef2ad70b437f7aa6dc7ee9d2c2dfb3bcf90a4d66f8188f89529a1"),
            ("DS8", 64, 1008, 755, "3f1d676cfcdca311dee51880dd017f4c3caa14b74c7349f987824219a6876fb5"),
        )
    }
)


def sequences_digest(alignment: Alignment) -> str:
    """SHA-256 of the sequences in order of their content: the same whatever taxa are called and in which order.

    Sequences are sets of states, so that all symbols for missing data, and U and T, are alike.
    """
    return hashlib.sha256(b"".join(sorted(row.tobytes() for row in alignment.states))).hexdigest()


def prepare_alignment(wanted: DataSet, out: Path, data: Path | None) -> Path:
    """The experiment's own copy, made if there is none: FASTA with the taxa by name, whatever it was read from.

    So it does not matter for results where the data came from. data: a directory to look in and nowhere else.
    """
    path = out / FOLDER / f"{wanted.name}.fasta"
    if path.exists():
        _check(wanted, load_alignment(path).alignment, path)
        return path
    source = _find(wanted, data)
    alignment = load_alignment(source, mrbayes=True).alignment  # what a MRBAYES block says is no part of the benchmark
    _check(wanted, alignment, source)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, format_fasta(alignment))
    return path


def data_folder(data: Path | None) -> Path | None:
    """The directory of benchmark data: the one that is named, or that of the environment."""
    if data is not None:
        if not data.is_dir():
            raise BadArgument(f"--data {data}: no such directory. Name one that has DS1.fasta and so on.")
        return data
    named = os.environ.get(VARIABLE)
    return Path(named) if named else None


def format_fasta(alignment: Alignment) -> str:
    """The sequences in order of the names."""
    letters = np.array([letter_for("".join(s for i, s in enumerate(STATES) if code >> i & 1)) for code in range(16)])
    lines: list[str] = []
    for name, row in sorted(zip(alignment.taxa, alignment.states, strict=True), key=lambda pair: pair[0]):
        text = "".join(letters[row].tolist())
        lines += [f">{name}", *(text[first : first + LINE] for first in range(0, len(text), LINE))]
    return "\n".join(lines) + "\n"


def _find(wanted: DataSet, data: Path | None) -> Path:
    for path in _places(wanted, data):
        if path.is_file():
            return path
    packaged = f", or install Debian's package {PACKAGE}, which has it as {wanted.packaged}" if wanted.packaged else ""
    where = f"in {data}" if data is not None else "on this machine"
    raise FileProblem(
        f"{wanted.name}: found no alignment {where}. Name a directory with {wanted.name}.fasta "
        f"({_size(wanted.taxa, wanted.sites)}) by --data or {VARIABLE}{packaged}."
    )


def _places(wanted: DataSet, data: Path | None) -> Iterator[Path]:
    folder = data_folder(data)
    for inside in () if folder is None else (folder / FOLDER, folder):
        yield from (inside / f"{wanted.name}{suffix}" for suffix in SUFFIXES)
        if wanted.packaged:
            yield inside / wanted.packaged
    if data is None and wanted.packaged:
        yield PACKAGE_FOLDER / wanted.packaged


def _check(wanted: DataSet, alignment: Alignment, path: Path) -> None:
    if sequences_digest(alignment) != wanted.digest:
        raise FileProblem(
            f"{path}: is not {wanted.name} of the benchmark, which has {_size(wanted.taxa, wanted.sites)}, but another "
            f"alignment ({_size(len(alignment.taxa), alignment.site_count)}). Name the directory of that one by --data."
        )


def _size(taxa: int, sites: int) -> str:
    return f"{counted(taxa, 'taxon', 'taxa')}, {counted(sites, 'site')}"
