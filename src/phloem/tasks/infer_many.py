"""Many alignments → as many posteriors, each an ordinary run, by worker processes that do one after another.

The same command goes on where it was: what is done stays, what was stopped is resumed, what failed is tried again.
Settings are the same for all. The seed of a locus comes from that of the settings and its name, so that
neither the order of the loci, nor how many are at work, nor which others there are shows in a result.
"""

import shlex
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final, NamedTuple

from phloem.config import InferConfig
from phloem.config.infer import INFER
from phloem.config.settings import Layer
from phloem.display.loci import LociOverview
from phloem.errors import BadArgument, FileProblem, PhloemError, StoppedByUser, counted
from phloem.interrupts import held
from phloem.random_streams import RandomStream
from phloem.runs.checkpoints import CheckpointInterval
from phloem.runs.pool import Task, TaskEvent, work_through
from phloem.storage.files import read_bytes, write_text
from phloem.tasks.loci_files import LociDirectory, Locus, Record, find_loci, hash_of_file
from phloem.threads import physical_cores

WORK: Final = "phloem.tasks.locus:infer_locus"
TABLE_SECONDS = 60.0  # between two tables while loci are at work
MOST_SHOWN = 3  # alignments in a message

Progress = Callable[[LociOverview | TaskEvent], None]


class ManyRequest(NamedTuple):
    """Which alignments to infer from, how, and where the files go."""

    sources: Sequence[str | Path]
    directory: Path
    preset: str | None = None
    settings: Sequence[Layer] = ()
    jobs: int | None = None
    threads: int | None = None  # of each job
    force: bool = False
    long_names: bool = False
    interval: CheckpointInterval = CheckpointInterval()
    command: Sequence[str] = ()


class ManyLoci(NamedTuple):
    """What came of all loci."""

    directory: Path
    records: list[Record]  # of all loci in the directory, in the order of their names
    named: frozenset[str]  # this command's loci
    failed: dict[str, str]  # those of them that failed, and why


def infer_many(request: ManyRequest, progress: Progress) -> ManyLoci:
    """Infer from all alignments, as many at a time as there are jobs."""
    loci = find_loci(request.sources)
    directory = LociDirectory(request.directory)
    for count, option in ((request.jobs, "--jobs"), (request.threads, "--threads")):
        if count is not None and count < 1:
            raise BadArgument(f"{option} {count}: at least 1 is needed.")
    config = _begin(directory, loci, request)
    by_name = {locus.name: locus for locus in loci}
    done, failed = _look(directory, loci)
    left = [locus for locus in loci if locus.name not in done and locus.name not in failed]
    jobs, threads = shared_cores(len(left), request.jobs, request.threads)
    progress(LociOverview(request.directory, len(loci), len(done), jobs, threads))
    written = time.monotonic()
    try:
        for name, problem in failed.items():
            _fail(directory, by_name[name], problem)
            progress(TaskEvent(name, "failed", problem))
        tasks = [Task(locus.name, _task(locus, request, config, threads)) for locus in left]
        with closing(work_through(tasks, WORK, jobs)) as events:
            for event in events:
                if event.kind == "failed":
                    failed[event.name] = event.text
                    _fail(directory, by_name[event.name], event.text)
                progress(event)
                if event.kind in ("done", "failed") and time.monotonic() - written > TABLE_SECONDS:
                    directory.write_tables(loci)
                    written = time.monotonic()
    except KeyboardInterrupt:
        with held():
            records = directory.write_tables(loci)
        raise StoppedByUser(how_to_go_on(records, loci, request)) from None
    with held():
        records = directory.write_tables(loci)
    return ManyLoci(request.directory, records, frozenset(by_name), failed)


def shared_cores(loci: int, jobs: int | None, threads: int | None) -> tuple[int, int]:
    """Jobs, and threads of each, together no more than there are cores, unless both are given."""
    cores, most = physical_cores(), max(1, loci)
    if jobs is None:
        jobs = min(most, max(1, cores // (threads or 1)))
    jobs = min(jobs, most)
    return jobs, threads or max(1, cores // jobs)


def seed_of(seed: int, locus: str) -> int:
    """The seed of a locus's run."""
    return int(RandomStream(seed, f"locus/{locus}").key()[0] >> 1)


def _begin(directory: LociDirectory, loci: Sequence[Locus], request: ManyRequest) -> InferConfig:
    """The settings of all runs, which are those of the directory, if it has any."""
    INFER.resolve(preset=request.preset, settings=request.settings)  # mistakes leave nothing behind
    directory.make()
    with directory.locked():
        before: InferConfig | None = None
        if directory.settings.exists():
            text = read_bytes(directory.settings).decode(errors="replace")
            before = INFER.read_record(text, str(directory.settings))
        config = INFER.resolve(base=None if request.force else before, preset=request.preset, settings=request.settings)
        different = [] if before is None else INFER.differences(before, config)
        if different and not request.force:
            raise FileProblem(
                f"{directory.path}: has loci with other settings: {different[0]}. Leave the settings out to go on with "
                "them, name another --out, or start again with --force."
            )
        named = {locus.name for locus in loci}
        others = sorted(directory.records().keys() - named) if different else []
        if others:
            raise FileProblem(
                f"{directory.path}: {others[0]} has other settings: {different[0]}. With --force, name all of its loci."
            )
        write_text(directory.settings, INFER.to_toml(config))
        if request.force:
            for locus in loci:
                directory.keep(Record(locus.name, str(locus.path), "", "replaced"))
    return config


def _look(directory: LociDirectory, loci: Sequence[Locus]) -> tuple[set[str], dict[str, str]]:
    """The loci that are done, and those whose files cannot be read, with the reason."""
    done: set[str] = set()
    failed: dict[str, str] = {}
    for locus in loci:
        try:
            if directory.is_done(locus.name, hash_of_file(locus.path)):
                done.add(locus.name)
        except PhloemError as problem:
            failed[locus.name] = str(problem)
    return done, failed


def _task(locus: Locus, request: ManyRequest, config: InferConfig, threads: int) -> dict[str, object]:
    return {
        "name": locus.name,
        "source": str(locus.path),
        "directory": str(request.directory),
        "seed": seed_of(config.seed, locus.name),
        "threads": threads,
        "interval": list(request.interval),
        "long_names": request.long_names,
        "command": shlex.join(request.command),
    }


def _fail(directory: LociDirectory, locus: Locus, problem: str) -> None:
    """Keep what went wrong, unless there is a result of this very file, by another process or from before."""
    before = directory.record(locus.name)
    try:
        sha256 = hash_of_file(locus.path)
    except PhloemError:
        sha256 = ""
    if before is not None and before.status == "done" and before.sha256 == (sha256 or before.sha256):
        return
    seconds = 0.0 if before is None else before.seconds
    directory.keep(Record(locus.name, str(locus.path), sha256, "failed", seconds=seconds, message=problem))


def how_to_go_on(records: Sequence[Record], loci: Sequence[Locus], request: ManyRequest) -> str:
    """What is done, and the command that goes on: the directory has the settings."""
    named = {locus.name for locus in loci}
    states = Counter(record.status for record in records if record.locus in named)
    failed = f", {states['failed']:,} failed" if states["failed"] else ""
    long_names = ["--long-names"] if request.long_names else []
    sources = shlex.join(map(str, request.sources)) if len(request.sources) <= MOST_SHOWN else "ALIGNMENTS…"
    again = f"phloem infer-many {sources} {shlex.join(['--out', str(request.directory), *long_names])}"
    return f"stopped: {states['done']:,} of {counted(len(loci), 'locus', 'loci')} done{failed}. Go on with: {again}"
