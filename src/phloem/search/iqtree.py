"""IQ-TREE's ultrafast bootstrap (Hoang et al. 2018): where the program is, one run, and what can go wrong."""

import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import NamedTuple

import numpy as np

from phloem.data.alignment import STATES, Alignment, is_missing, letter_for
from phloem.errors import AlignmentError, FileProblem, PhloemError, ProgramProblem, listed
from phloem.random_streams import RandomStream
from phloem.search.jobs import Stopped
from phloem.trees.constraints import TopologyConstraints
from phloem.trees.reading import parse_newick
from phloem.trees.sample import TreeSample

POLL_SECONDS = 0.05
TIME_LEFT = re.compile(r"Time: (\d+)h:(\d+)m:(\d+)s \((\d+)h:(\d+)m:(\d+)s left\)")
ERROR_LINE = re.compile(r"^ERROR: .*\S", re.MULTILINE)


class InstalledProgram(NamedTuple):
    """A program that was found; its version is None if it does not tell."""

    title: str
    path: str
    version: str | None

    def __str__(self) -> str:
        return f"{self.title} {self.version or '(version unknown)'}"


class Program(NamedTuple):
    """A program that phloem can use: its names in order of preference and how to ask its version."""

    title: str
    commands: tuple[str, ...]
    version_arguments: tuple[str, ...]
    purpose: str

    @property
    def is_installed(self) -> bool:
        """Whether one of its commands is on PATH."""
        return self._first() is not None

    def find(self) -> InstalledProgram | None:
        """The first of its commands that is on PATH."""
        found = self._first()
        if found is None:
            return None
        path = str(Path(found).absolute())  # PATH may hold relative directories, and programs run elsewhere
        return InstalledProgram(self.title, path, _ask_version(path, self.version_arguments))

    def _first(self) -> str | None:
        return next(filter(None, map(shutil.which, self.commands)), None)


IQTREE = Program("IQ-TREE", ("iqtree3", "iqtree2", "iqtree"), ("--version",), "optional: bootstrap trees")
MRBAYES = Program("MrBayes", ("mb",), ("-v",), "optional: reference posteriors")


def _ask_version(path: str, arguments: tuple[str, ...]) -> str | None:
    """The first dotted number in what the program says of its version; None if it says nothing of use."""
    try:
        run = subprocess.run(
            [path, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=10, errors="replace"
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r"\d+(?:\.\d+)+\w*", run.stdout + run.stderr)
    return found.group() if found else None


def _letter(code: int) -> str:
    return letter_for("".join(state for bit, state in enumerate(STATES) if code >> bit & 1))


LETTER_OF_CODE = np.array([ord(_letter(code)) for code in range(16)], np.uint8)  # (16,)


class FailedRun(ProgramProblem):
    """IQ-TREE did not do its work; `log` is all that it printed."""

    def __init__(self, problem: str, log: bytes) -> None:
        super().__init__(problem)
        self.log = log


def find_iqtree() -> InstalledProgram:
    """The IQ-TREE that is on PATH, or an error that says how to get one."""
    if found := IQTREE.find():
        return found
    raise ProgramProblem(
        f"{IQTREE.title} is not installed: none of {', '.join(IQTREE.commands)} is on PATH. Install it (`apt install "
        "iqtree`, `conda install -c bioconda iqtree` or www.iqtree.org), or do without it: the method embedded."
    )


def check_data(alignment: Alignment) -> None:
    """Raise for taxa that IQ-TREE refuses."""
    empty = np.flatnonzero(is_missing(alignment).all(axis=1))
    if len(empty):
        names = listed([alignment.taxa[taxon] for taxon in empty])
        raise AlignmentError(
            f"alignment: taxa without any data: {names}. IQ-TREE refuses them: leave them out, or do without it: the "
            "method embedded."
        )


def ultrafast_bootstrap(
    program: InstalledProgram,
    alignment: Alignment,
    *,
    count: int,
    model: str,
    seed: int,
    timeout: float,
    stop: Event,
    report: Callable[[float], None],
    constraints: TopologyConstraints | None = None,
) -> TreeSample:
    """`count` binary trees on all taxa of the alignment, the same for the same seed, that satisfy the constraints.

    `report` gets the share of the search that is done, by IQ-TREE's own estimate. `stop` ends the run early with
    `Stopped`. However it ends, no process and no file of it is left.
    """
    # Odd names would come back rewritten. Without -keep-ident, IQ-TREE leaves out all but two of identical sequences
    # and adds them beside the first in every tree; without -st, it may take ambiguous nucleotides for proteins.
    names = [f"t{taxon}" for taxon in range(len(alignment.taxa))]
    arguments = f"-s alignment.fasta -st DNA -m {model} -bb {count} -wbt -keep-ident -nt 1 -seed {seed} -pre bootstrap"
    try:
        with tempfile.TemporaryDirectory(prefix="phloem-bootstrap-", ignore_cleanup_errors=True) as name:
            folder = Path(name)
            with (folder / "alignment.fasta").open("wb") as fasta:
                for taxon, row in zip(names, alignment.states, strict=True):
                    fasta.write(b">%b\n%b\n" % (taxon.encode(), LETTER_OF_CODE[row].tobytes()))
            if constraints is not None:
                (folder / "constraints.nwk").write_text(constraints.newick(names) + "\n")
                arguments += " -g constraints.nwk"
            log = folder / "screen.log"
            try:
                _run([program.path, *arguments.split()], folder, log, timeout, stop, report)
                sample = _read(folder / "bootstrap.ufboot", names, count)
            except ProgramProblem as problem:
                raise FailedRun(str(problem), log.read_bytes()) from None
    except OSError as problem:
        raise FileProblem(
            f"temporary files cannot be written ({problem.strerror}). Set TMPDIR to a directory with more space."
        ) from None
    topologies = sample.topologies
    if constraints is not None:  # should IQ-TREE let any of them go
        topologies = constraints.imposed_on(topologies, stream=RandomStream(seed, "constraints"))
    return TreeSample(alignment.taxa, topologies, sample.weights, None)


def _run(
    command: list[str], folder: Path, log: Path, timeout: float, stop: Event, report: Callable[[float], None]
) -> None:
    """Run the program to its end, everything that it prints in `log`."""
    deadline = time.monotonic() + timeout
    with log.open("wb") as screen, log.open(errors="replace") as printed:
        try:
            process = subprocess.Popen(
                command,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=screen,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # so that it can be killed with all that it started
            )
        except OSError as problem:
            raise ProgramProblem(f"{command[0]} cannot be started ({problem.strerror}).") from None
        try:
            while process.poll() is None:
                if stop.wait(POLL_SECONDS):
                    raise Stopped
                if time.monotonic() > deadline:
                    raise ProgramProblem(
                        f"IQ-TREE took more than {timeout:g} seconds and was killed. "
                        "Give phloem bootstrap a longer --timeout."
                    )
                if found := TIME_LEFT.findall(printed.read()):
                    report(_share_done(found[-1]))
        finally:
            if process.poll() is None:
                with suppress(ProcessLookupError, PermissionError):  # it may end in this very moment
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    if process.returncode < 0:
        number = -process.returncode
        name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
        hint = " Perhaps memory ran out: give fewer --threads." if name == "SIGKILL" else ""
        raise ProgramProblem(f"IQ-TREE was killed by {name}.{hint}")
    if process.returncode > 0:
        errors = ERROR_LINE.findall(log.read_text(errors="replace"))  # details come first, what went wrong last
        raise ProgramProblem(
            f"IQ-TREE ended with exit code {process.returncode}{f' ({errors[-1]})' if errors else ''}."
        )


def _share_done(times: Sequence[str]) -> float:
    """Of the time so far and the time left, each as hours, minutes and seconds, the share of the first; below 1."""
    hours, minutes, seconds, hours_left, minutes_left, seconds_left = map(int, times)
    elapsed = 3600 * hours + 60 * minutes + seconds
    left = 3600 * hours_left + 60 * minutes_left + seconds_left
    return elapsed / (elapsed + left + 1)


def _read(path: Path, names: list[str], count: int) -> TreeSample:
    try:
        text = path.read_text(errors="replace")
    except FileNotFoundError:
        raise ProgramProblem("IQ-TREE ended without writing bootstrap trees.") from None
    try:
        sample = parse_newick(text, taxa=names)
    except PhloemError as problem:
        raise ProgramProblem(f"IQ-TREE wrote trees that cannot be used: {problem}") from None
    if len(sample) != count:
        raise ProgramProblem(f"IQ-TREE wrote {len(sample)} bootstrap trees instead of {count}.")
    return sample
