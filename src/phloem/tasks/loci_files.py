"""The directory of many loci: their runs, a record of each, and the tables and trees that are made of the records.

    settings.toml       the settings of all runs
    runs/NAME           the run of a locus, as `phloem infer` writes it
    records/NAME.json   what came of it
    trees/NAME.t        its posterior trees, as MrBayes writes them
    loci.csv, consensus.tre, credible.tre   of all loci; they follow from the records

Several processes can be at work in it: each locus belongs to who has the lock of its run.
"""

import csv
import hashlib
import io
import json
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Final, Literal, get_args

from filelock import FileLock, Timeout

from phloem.data.reading import find_alignment
from phloem.errors import BadArgument, FileProblem, quoted
from phloem.runs.directory import SUMMARY
from phloem.storage.files import cannot_read, cannot_write, read_bytes, write_text

Status = Literal["waiting", "done", "failed", "stopped", "replaced"]
COLUMNS: Final = (
    *(
        "locus",
        "taxa",
        "sites",
        "log_marginal_likelihood",
        "error",
        "verdict",
        "seconds",
        "status",
        "message",
        "source",
    ),
)
LOCK, SETTINGS, RUNS, RECORDS, TREES = ".lock", "settings.toml", "runs", "records", "trees"
TABLE, CONSENSUS, CREDIBLE = "loci.csv", "consensus.tre", "credible.tre"
OWN: Final = (LOCK, SETTINGS, RUNS, RECORDS, TREES, TABLE, CONSENSUS, CREDIBLE)
PATIENCE_SECONDS = 60.0  # for another process that writes the tables
SUFFIXES: Final = (
    *(".fasta", ".fas", ".fa", ".fna", ".ffn", ".phy", ".phylip", ".nex", ".nexus", ".nxs", ".sto", ".stk", ".aln"),
)


@dataclass(frozen=True, slots=True)
class Record:
    """A locus and what came of it. seconds: of work on its run, over all sessions that ended by themselves."""

    locus: str
    source: str
    sha256: str  # of the alignment's file
    status: Status
    seconds: float = 0.0
    taxa: int | None = None
    sites: int | None = None
    log_marginal_likelihood: float | None = None
    error: float | None = None  # its standard error
    verdict: str = ""
    message: str = ""  # what went wrong, or what the verdict advises
    consensus: str = ""  # Newick of the majority rule, with supports as labels
    credible: str = ""  # of the tree of maximum clade credibility

    def as_json(self) -> dict[str, Any]:
        """As in its file."""
        return asdict(self)

    @classmethod
    def from_json(cls, content: Any) -> "Record":
        """The record; a `ValueError` or the like if it is none."""
        record = cls(**{field.name: content[field.name] for field in fields(cls)})
        if record.status not in get_args(Status) or not isinstance(record.seconds, int | float):
            raise ValueError(record.status)
        return record

    def row(self) -> list[Any]:
        """Its row of the table."""
        return [getattr(self, column) for column in COLUMNS]


@dataclass(frozen=True, slots=True)
class Locus:
    """An alignment by the name of its file."""

    name: str
    path: Path


class LociDirectory:
    """Where everything is."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.settings = path / SETTINGS

    def run(self, name: str) -> Path:
        """The run directory of a locus."""
        return self.path / RUNS / name

    def trees(self, name: str) -> Path:
        """The posterior trees of a locus."""
        return self.path / TREES / f"{name}.t"

    def make(self) -> None:
        """Create it, if it does not exist; raise if it holds something else."""
        try:
            if self.path.exists() and not self.path.is_dir():
                raise FileProblem(f"{self.path}: is not a directory. Name a new or an empty one for --out.")
            self.path.mkdir(parents=True, exist_ok=True)
            others = sorted(entry.name for entry in self.path.iterdir() if entry.name not in OWN)
            if others and not self.settings.exists():
                raise FileProblem(
                    f"{self.path}: holds {others[0]} and no loci. Name a new or an empty directory for --out."
                )
            for folder in (RUNS, RECORDS, TREES):
                (self.path / folder).mkdir(exist_ok=True)
        except (OSError, ValueError) as problem:
            raise cannot_write(self.path, problem) from None

    @contextmanager
    def locked(self) -> Iterator[None]:
        """While settings or tables are read and written."""
        lock = FileLock(self.path / LOCK, timeout=PATIENCE_SECONDS)
        try:
            lock.acquire()
        except Timeout:
            raise FileProblem(f"{self.path}: another process has kept it for a minute. Try again later.") from None
        except OSError as problem:
            raise cannot_write(self.path, problem) from None
        try:
            yield
        finally:
            lock.release()

    def record(self, name: str) -> Record | None:
        """What came of a locus; None if nothing is known, or the file is damaged: its run knows everything."""
        try:
            return Record.from_json(json.loads(self._record_path(name).read_bytes()))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def records(self) -> dict[str, Record]:
        """Of all loci that have one, by name."""
        try:
            names = [path.stem for path in (self.path / RECORDS).glob("*.json")]
        except OSError as problem:
            raise cannot_read(self.path / RECORDS, problem) from None
        return {name: record for name in names if (record := self.record(name)) is not None}

    def keep(self, record: Record) -> None:
        """Write a record."""
        write_text(self._record_path(record.locus), json.dumps(record.as_json(), indent=2) + "\n")

    def forget(self, name: str) -> None:
        """Remove a record."""
        with suppress(OSError):
            self._record_path(name).unlink()

    def is_done(self, name: str, sha256: str) -> bool:
        """Whether nothing is left to do: the run has ended, of the alignment with this hash, and is still there."""
        record = self.record(name)
        if record is None or record.status != "done" or record.sha256 != sha256:
            return False
        return (self.run(name) / SUMMARY).exists() and self.trees(name).exists()

    def write_tables(self, loci: Iterable[Locus]) -> list[Record]:
        """Tables and trees of all records, and rows for these loci where they have none; returns the rows."""
        with self.locked():
            records = self.records()
            for locus in loci:
                records.setdefault(locus.name, Record(locus.name, str(locus.path), "", "waiting"))
            rows = [records[name] for name in sorted(records, key=natural)]
            table = io.StringIO()
            writer = csv.writer(table, lineterminator="\n")
            writer.writerow(COLUMNS)
            writer.writerows(record.row() for record in rows)
            write_text(self.path / TABLE, table.getvalue())
            done = [record for record in rows if record.status == "done"]
            write_text(self.path / CONSENSUS, "".join(f"{record.consensus}\n" for record in done))
            write_text(self.path / CREDIBLE, "".join(f"{record.credible}\n" for record in done))
        return rows

    def _record_path(self, name: str) -> Path:
        return self.path / RECORDS / f"{name}.json"


def natural(name: str) -> list[tuple[int, str]]:
    """A key by which `locus2` comes before `locus10`."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]


def find_loci(sources: Iterable[str | Path]) -> list[Locus]:
    """Alignments by the names of their files, without endings; a directory stands for the alignments in it."""
    found: dict[str, Locus] = {}
    for source in sources:
        for path in _files(Path(source)):
            name = locus_name(path)
            other = found.setdefault(name.casefold(), Locus(name, path))
            if other.path != path and not _is_same(other.path, path):
                raise BadArgument(
                    f"{other.path} and {path}: two alignments of the same name, {quoted(name)}. Rename one: results go "
                    "by the name of the file."
                )
    if not found:
        raise BadArgument("no alignments. Name files, or directories of them.")
    return list(found.values())


def locus_name(path: Path) -> str:
    """`gene1` for `data/gene1.fasta.gz`."""
    name = path.name.removesuffix(".gz")
    return name.rsplit(".", 1)[0] or name


def _files(source: Path) -> list[Path]:
    if not source.is_dir():
        return [find_alignment(source)]
    try:
        files = [path for path in source.iterdir() if path.is_file()]
    except OSError as problem:
        raise cannot_read(source, problem) from None
    found = [path for path in files if path.name.lower().removesuffix(".gz").endswith(SUFFIXES)]
    if not found:
        raise BadArgument(f"{source}: has no files that end like alignments ({', '.join(SUFFIXES[:4])} …). Name them.")
    return sorted(found, key=lambda path: natural(path.name))


def _is_same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return False


def hash_of_file(path: Path) -> str:
    """Of its content, unpacked."""
    return hashlib.sha256(read_bytes(path)).hexdigest()
