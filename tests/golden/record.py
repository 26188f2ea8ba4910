"""Record what the command line prints and writes, and compare two recordings byte for byte.

    record.py record --python PYTHON --out DIR [--only CASE ...]   run the cases; each leaves its files in DIR/CASE
    record.py compare DIR_A DIR_B [--only CASE ...]                exit 1 if anything differs that may not
    record.py stop --python PYTHON --out DIR                       leave two stopped runs, DIR/infer and DIR/density
    record.py resume --python PYTHON --stopped DIR --out DIR       finish these runs, as cases for `compare`
    record.py values --python PYTHON --out FILE                    the values of test_golden_values.py

phloem runs as a subprocess and none of its modules are imported, so the script serves any version. Each case has a
working directory of its own, DIR/CASE, and paths are relative to it: `../CASE/…` for what an earlier case wrote and
`../data/…` for the folder that PHLOEM_DATA names. So text holds no path of the machine but that of phloem itself, in
provenance and warnings, which `compare` leaves out as it does times.
"""

import argparse
import csv
import fnmatch
import io
import json
import os
import re
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# What may differ between two recordings: (case, file) as shell patterns, and why.
ALLOWED: dict[tuple[str, str], str] = {
    ("info", "stdout.txt"): "shows paths, the number of cores and the state of the kernel cache",
    ("help", "stdout.txt"): "help texts were reworded after 0.1.0",
    ("errors", "std*.txt"): "messages were reworded after 0.1.0",
    ("density-primates", "run/provenance.json"): "names the bundled trees by where phloem is installed",
}

INTERRUPTED = 130  # phloem's exit code after Ctrl-C
LONGEST_WAIT = 600.0  # seconds until a command is given up
COMMANDS = (
    *("infer", "report", "evaluate", "sample", "gap", "config show", "embed", "recover", "likelihood", "bootstrap"),
    *("search", "support", "sbn fit", "sbn score", "density fit", "density score", "density sample"),
    *("reproduce density", "info"),
)
TARGET = "../data/density/eight_taxa_target.tsv.gz"
# What took no part in results when these were first recorded stays out.
PLAIN = (
    "--preset quick --model JC --family lognormal --set training.refit=0 --set evaluation.anneal=0 "
    "--set evaluation.chains=0"
)
HKY = "--model HKY --kappa 2 --frequencies empirical --gamma 4 --alpha 0.5"  # the last model that is named is taken
ONE_RUN = f"{PLAIN} --runs 1 --threads 1 --out run"
FEW_DRAWS = "--samples 200 --repeats 10"
DS1 = f"infer ../data/alignments/DS1.fasta --trees ../data/ufboot/DS1 {ONE_RUN} --steps 500 {FEW_DRAWS}"
# No checkpoint is due at the last step: it would be saved before the report on that step, unlike the final one.
STOPPABLE_INFER = f"infer primates --trees primates {ONE_RUN} --steps 1000 {FEW_DRAWS} --checkpoint-every 30steps"
DENSITY_FIT = f"density fit {TARGET} --convolution edge --noise uniform --preset quick --steps 300 --out run"
STOPPABLE_DENSITY = f"{DENSITY_FIT} --checkpoint-every 40steps --quiet --json"
# The only checkpoint of a resumed run is then the last: others would depend on when it was stopped.
RESUME = "--resume --checkpoint-every 1h"


@dataclass(frozen=True, slots=True)
class Case:
    """Commands, as typed after `phloem`, that run in one directory in this order."""

    name: str
    commands: tuple[str, ...]
    needs: str | None = None  # a case whose files are read
    data: bool = False  # whether PHLOEM_DATA must be set
    stopped: bool = False  # whether its one command is interrupted and resumed
    same_as: str | None = None  # a case that must have written the same files


# In an order in which each case comes after those that it needs.
CASES = (
    Case("help", ("--help", *(f"{command} --help" for command in COMMANDS))),
    Case(
        "errors",
        (
            "",
            "unknown",
            "infer missing.fasta --out run",
            "infer primates --trees primates --steps 0 --out run",
            "infer primates --model HKY --alpha 0.5 --out run",
            "infer primates --set training.unknown=1 --out run",
            "infer primates --checkpoint-every soon --out run",
            "evaluate missing",
            "likelihood primates missing.nwk",
            "likelihood primates primates",
            "density fit --out density --noise none",
            "density score missing primates",
            "sbn score missing.npz primates",
            "recover missing.npz",
            "search primates --out best.nwk --model JC+X",
            "bootstrap primates --out trees --method iqtree --count 10",
        ),
    ),
    Case("info", ("info", "info --json")),
    Case(
        "config-show",
        (
            "config show",
            "config show --preset paper",
            f"config show --preset quick --steps 500 --branches psp {HKY} --json",
        ),
    ),
    Case(
        "likelihood",
        (
            "likelihood primates primates --optimize --json --threads 1",
            "likelihood primates primates --optimize --gradient --threads 1",
            "likelihood primates primates --optimize --sites --threads 1 --json --model GTR --rates 1,2,1,1,2,1 "
            "--frequencies .3,.2,.2,.3 --gamma 4 --alpha 0.5 --invariant .1",
        ),
    ),
    Case("support", ("support primates --json --out support.npz", "support primates --credible 0.5 --covers primates")),
    Case(
        "sbn",
        (
            "sbn fit primates --out em.npz",
            "sbn fit primates --method average --out average.npz --json",
            "sbn score em.npz primates",
            "sbn score average.npz primates --json",
        ),
    ),
    Case(
        "embed",
        (
            "embed primates --out all.npz",
            "recover all.npz",
            "embed primates --distinct --out distinct.npz",
            "embed primates --keep-root --out rooted.npz",
            "embed primates --dimension 4 --seed 1 --out random.npz",
        ),
    ),
    Case(
        "search",
        (
            "search primates --out best.nwk --threads 1 --json",
            "search primates --out best.nex --threads 1 --model HKY+G4 --count 100 --seed 2 "
            "--bootstrap-trees bootstrap.nwk --best-trees good.nwk --keep 20",
        ),
    ),
    Case(
        "bootstrap",
        (
            "bootstrap primates --method embedded --replicates 2 --count 1000 --threads 1 --out trees",
            "bootstrap primates --method embedded --replicates 1 --count 100 --keep 10 --threads 1 --out more --json",
        ),
    ),
    Case(
        "infer-primates",
        (
            f"infer primates {PLAIN} --runs 2 --steps 1500 --threads 1 "
            "--bootstrap-method embedded --out run "
            "--checkpoint-every 500steps",
        ),
    ),
    Case(
        "evaluate",
        (
            "evaluate ../infer-primates/run --threads 1",
            "evaluate ../infer-primates/run --threads 1 --samples 100 --repeats 20 --seed 3 --bounds 10,50 "
            "--reference primates --json",
        ),
        needs="infer-primates",
    ),
    Case(
        "sample",
        (
            "sample ../infer-primates/run --out trees.nex --log trees.log --lengths lengths.csv",
            "sample ../infer-primates/run --weighted --count 50 --seed 2 --out weighted.nex",
            "sample ../infer-primates/run --count 50 --out trees.nwk",
        ),
        needs="infer-primates",
    ),
    Case(
        "report",
        (
            "report ../infer-primates/run --out plain",
            "report ../infer-primates/run --out rooted --outgroup Lemur_catta --threshold 0.75 --figures svg",
            "report ../infer-primates/run --out midpoint --midpoint",
        ),
        needs="infer-primates",
    ),
    Case(
        "gap",
        (
            "gap ../infer-primates/run --trees primates --threads 1 --samples 500 --out gaps.csv --plot gaps.svg",
            "gap ../infer-primates/run --trees primates --threads 1 --samples 500 --credible 0.5 --seed 2 --json",
        ),
        needs="infer-primates",
    ),
    Case("ds1-edge", (f"{DS1} --branches edge",), data=True),
    Case("ds1-ggnn", (f"{DS1} --branches ggnn",), data=True),
    Case("ds1-psp", (f"{DS1} --branches psp",), data=True),
    Case(
        "hky-gamma",
        (f"infer primates --trees primates {ONE_RUN} --steps 400 {FEW_DRAWS} {HKY}",),
    ),
    Case(
        "branch-models",
        tuple(
            f"infer primates --trees primates {PLAIN} --runs 1 "
            "--threads 1 --steps 100 "
            f"--samples 50 --repeats 4 --branches {name} --estimator {estimator} --out {name} --quiet --json"
            for name, estimator in (
                *(("split", "rws"), ("mlp", "vimco"), ("gcn", "vimco"), ("gin", "rws"), ("gin-text", "vimco")),
                *(("sage", "vimco"), ("edge-text", "vimco")),
            )
        ),
    ),
    Case("infer-unstopped", (STOPPABLE_INFER,)),
    Case("infer-resumed", (STOPPABLE_INFER,), needs="infer-unstopped", stopped=True, same_as="infer-unstopped"),
    Case("density-fit", (STOPPABLE_DENSITY,), data=True),
    Case(
        "density-resumed",
        (STOPPABLE_DENSITY,),
        needs="density-fit",
        data=True,
        stopped=True,
        same_as="density-fit",
    ),
    Case(
        "density-use",
        (
            f"density score ../density-fit/run {TARGET} --quiet",
            f"density score ../density-fit/run {TARGET} --compare --json --quiet",
            "density sample ../density-fit/run --count 200 --out trees.nwk --quiet",
            "density sample ../density-fit/run --method mcmc --count 200 --seed 2 --out trees.nex --quiet --json",
        ),
        needs="density-fit",
        data=True,
    ),
    Case(
        "density-primates",
        (
            "density fit primates --out run --convolution gcn --preset quick --steps 100 --samples 1000 --quiet",
            "density score run primates --compare --quiet",
            "density sample run --count 100 --out trees.nwk --quiet",
        ),
    ),
    Case(
        "reproduce-density",
        ("reproduce density --taxa 5 --steps 200 --convolutions mlp,edge --repeats 2 --out experiment --quiet",),
    ),
)

# The cases of test_golden_values.py: seconds each, and enough to notice a change anywhere on the way.
FAST_CASES = (
    Case("config", ("config show",)),
    Case("likelihood", ("likelihood primates primates --optimize --json --threads 1",)),
    Case(
        "hky-gamma",
        ("likelihood primates primates --optimize --json --threads 1 --model HKY --kappa 2 --gamma 4 --alpha 0.5",),
    ),
    Case("support", ("support primates --json",)),
    Case("sbn", ("sbn fit primates --out em.npz --json",)),
    Case("recover", ("embed primates --distinct --out all.npz", "recover all.npz")),
    Case("search", ("search primates --out best.nwk --count 200 --threads 1 --json",)),
    Case("infer", (f"infer primates --trees primates {ONE_RUN} --steps 500 {FEW_DRAWS} --quiet --json",)),
    Case("density", ("reproduce density --taxa 5 --steps 100 --convolutions gcn --out experiment --quiet --json",)),
    Case("ds1", (f"{DS1} --branches psp --steps 100 --samples 50 --repeats 4 --quiet --json",), data=True),
)


# Recording


def record(python: str, out: Path, names: Sequence[str]) -> int:
    """Run the cases of these names, or all, and those that they need and that `out` lacks."""
    unknown = set(names) - {case.name for case in CASES}
    if unknown:
        raise SystemExit(f"No such case: {', '.join(sorted(unknown))}. There are: {' '.join(c.name for c in CASES)}")
    wanted = [case for case in CASES if not names or case.name in names]
    missing = {case.needs for case in wanted if case.needs and not (out / case.needs).is_dir()}
    failures = 0
    with data_folder(out) as has_data:
        for case in CASES:
            if case not in wanted and case.name not in missing:
                continue
            if case.data and not has_data:
                print(f"{case.name:20} skipped: PHLOEM_DATA is not set", flush=True)
                continue
            start = time.monotonic()
            run_case(case, python, out / case.name)
            print(f"{case.name:20} {time.monotonic() - start:6.1f} s", flush=True)
            if case.same_as:
                failures += differs_from_unstopped(out / case.same_as, out / case.name)
    return min(failures, 1)


@contextmanager
def data_folder(out: Path) -> Iterator[bool]:
    """`out` with a link to the benchmark data while cases run, if PHLOEM_DATA says where that is."""
    out.mkdir(parents=True, exist_ok=True)
    link, source = out / "data", os.environ.get("PHLOEM_DATA")
    link.unlink(missing_ok=True)
    if source:
        link.symlink_to(Path(source).resolve(), target_is_directory=True)
    try:
        yield bool(source)
    finally:
        link.unlink(missing_ok=True)


def run_case(case: Case, python: str, folder: Path) -> None:
    """Run a case in a new folder, and leave there what it writes, `stdout.txt` and `stderr.txt`."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    commands = list(case.commands)
    if case.stopped:
        stop_after_a_checkpoint(python, commands[0], folder)
        commands = [f"{commands[0]} {RESUME}"]
    run_commands(python, commands, folder)
    if case.stopped or case.name in {other.same_as for other in CASES}:
        keep_newest_checkpoint(folder / "run")


def run_commands(python: str, commands: Iterable[str], folder: Path) -> None:
    """Run commands in a folder; what they print, with their exit codes, goes to two text files there."""
    with (folder / "stdout.txt").open("w") as stdout, (folder / "stderr.txt").open("w") as stderr:
        for command in commands:
            done = subprocess.run(
                command_line(python, command),
                cwd=folder,
                env=environment(),
                capture_output=True,
                text=True,
                encoding="utf-8",
                stdin=subprocess.DEVNULL,
                timeout=LONGEST_WAIT,
            )
            for stream, text in ((stdout, done.stdout), (stderr, done.stderr)):
                stream.write(f"$ phloem {command}\n{text}")
            stdout.write(f"[exit code {done.returncode}]\n")


def stop_after_a_checkpoint(python: str, command: str, folder: Path) -> None:
    """Start a command whose run directory is `run`, and interrupt it once it has saved a step."""
    process = subprocess.Popen(
        command_line(python, command),
        cwd=folder,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=heed_interrupts,
    )
    try:
        give_up = time.monotonic() + LONGEST_WAIT
        while process.poll() is None and not any(map(saved_step, checkpoint_files(folder / "run"))):
            if time.monotonic() > give_up:
                raise TimeoutError(f"{command}: no checkpoint after {LONGEST_WAIT:g} s")
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        if (code := process.wait(LONGEST_WAIT)) != INTERRUPTED:
            raise RuntimeError(f"{command}: ended with {code} and was not interrupted")
    finally:
        process.kill()
        process.wait()


def heed_interrupts() -> None:
    """Shells have their background jobs ignore SIGINT, and a job's commands inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def command_line(python: str, command: str) -> list[str]:
    return [python, "-P", "-m", "phloem", *shlex.split(command)]


def environment() -> dict[str, str]:
    """The environment of a command: one thread, a fixed width, no colours, whatever the user's terminal is."""
    unwanted = {"FORCE_COLOR", "PY_COLORS", "GITHUB_ACTIONS", "PYTHONWARNINGS", "PYTHONPATH", "SOURCE_DATE_EPOCH"}
    fixed = {
        "OMP_NUM_THREADS": "1",
        "COLUMNS": "100",
        "LINES": "40",
        "NO_COLOR": "1",
        "TERM": "dumb",
        "LC_ALL": "C.UTF-8",
        "PYTHONIOENCODING": "utf-8",
        "TZ": "UTC",
    }
    return {name: value for name, value in os.environ.items() if name not in unwanted} | fixed


def checkpoint_files(run: Path) -> list[Path]:
    return sorted((run / "checkpoints").glob("step-*.safetensors"))


def saved_step(path: Path) -> int:
    return int(path.stem.removeprefix("step-"))


def keep_newest_checkpoint(run: Path) -> None:
    """Remove the last checkpoint but one: its step depends on when the run was stopped."""
    for path in checkpoint_files(run)[:-1]:
        path.unlink()


def differs_from_unstopped(unstopped: Path, resumed: Path) -> bool:
    """Whether a resumed run has ended otherwise than an unstopped one; says what differs."""
    # The commands and their number differ by design, in these files and in the report's list of sessions.
    sessions = {"stdout.txt", "stderr.txt", "run/provenance.json"}
    names = (files_below(unstopped) | files_below(resumed)) - sessions
    found = [f"  {name}: {what}" for name in sorted(names) if (what := difference(unstopped, resumed, name, True))]
    if found:
        print(f"{resumed.name} differs from {unstopped.name}:", *found, sep="\n")
    return bool(found)


# Runs of one version that another finishes


STOPPABLE = {"infer": "infer-resumed", "density": "density-resumed"}


def stop(python: str, out: Path) -> int:
    """Leave a stopped run of each kind."""
    with data_folder(out):
        for kind, name in STOPPABLE.items():
            case = case_named(name)
            work = out / name
            shutil.rmtree(out / kind, ignore_errors=True)
            shutil.rmtree(work, ignore_errors=True)
            work.mkdir()
            stop_after_a_checkpoint(python, case.commands[0], work)
            (work / "run").rename(out / kind)
            work.rmdir()
            steps = ", ".join(str(saved_step(path)) for path in checkpoint_files(out / kind))
            print(f"{kind}: stopped, with checkpoints of steps {steps}")
    return 0


def resume(python: str, stopped: Path, out: Path) -> int:
    """Finish copies of the stopped runs; the stopped ones stay as they are."""
    with data_folder(out):
        for kind, name in STOPPABLE.items():
            folder = out / name
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(stopped / kind, folder / "run")
            run_commands(python, [f"{case_named(name).commands[0]} {RESUME}"], folder)
            keep_newest_checkpoint(folder / "run")
            print(f"{kind}: resumed in {name}")
    return 0


def case_named(name: str) -> Case:
    return next(case for case in CASES if case.name == name)


# Comparing


def compare(first: Path, second: Path, names: Sequence[str]) -> int:
    """Print a table of equal and different files by case, of these names or all; 1 if anything differs that may not."""
    recorded = {path.parent.name for folder in (first, second) for path in folder.glob("*/stdout.txt")}
    order = [case.name for case in CASES]
    cases = sorted(names or recorded, key=lambda name: (order.index(name) if name in order else len(order), name))
    if not cases:
        raise SystemExit(f"{first}, {second}: no recorded case.")
    print(f"{'case':20} {'equal':>5} {'different':>9}")
    failed = False
    for case in cases:
        if missing := [str(folder) for folder in (first, second) if not (folder / case / "stdout.txt").is_file()]:
            print(f"{case:20} not recorded in {' and '.join(missing)}")
            failed = True
            continue
        equal, lines = 0, []
        for name in sorted(files_below(first / case) | files_below(second / case)):
            what = difference(first / case, second / case, name)
            if not what:
                equal += 1
                continue
            reason = allowed(case, name)
            failed |= reason is None
            lines.append(f"    {name}: {what}" if reason is None else f"    {name}: may differ: {reason}")
        print(f"{case:20} {equal:5} {len(lines):9}", *lines, sep="\n")
    print("DIFFERENT" if failed else "the same")
    return int(failed)


def files_below(folder: Path) -> set[str]:
    """All files but checksums, which follow from the others and from times in them."""
    paths = (path for path in folder.rglob("*") if path.is_file() and path.name != "SHA256SUMS")
    return {str(path.relative_to(folder)) for path in paths}


def allowed(case: str, name: str) -> str | None:
    """Why a file of a case may differ, or None if it may not."""
    matches = (why for (c, n), why in ALLOWED.items() if fnmatch.fnmatch(case, c) and fnmatch.fnmatch(name, n))
    return next(matches, None)


def difference(first: Path, second: Path, name: str, other_sessions: bool = False) -> str | None:
    """Where two files of one name differ first once what depends on time is taken out; None if nowhere."""
    paths = first / name, second / name
    for folder, path in zip((first, second), paths, strict=True):
        if not path.exists():
            return f"not in {folder}"
    contents = [path.read_bytes() for path in paths]
    if contents[0] == contents[1]:
        return None
    for normalize in (*normalizers(name), reworded):
        contents = [normalize(content) for content in contents]
    if other_sessions and name.endswith(".html"):
        contents = [SESSION.sub(b"", content) for content in contents]
    return None if contents[0] == contents[1] else first_difference(*contents)


def first_difference(first: bytes, second: bytes) -> str:
    """The first line that differs, of texts, or the first byte."""
    try:
        texts = [content.decode().splitlines(keepends=True) for content in (first, second)]
    except UnicodeDecodeError:
        texts = []
    if texts and b"\0" not in first:
        for number, (one, other) in enumerate(zip(*texts, strict=False), 1):
            if one != other:
                start = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), 0)
                start = max(0, start - 20)
                where = f"line {number}" if start < 40 else f"line {number}, {one[:40]!r}…"
                return f"{where}: {one[start : start + 80]!r} / {other[start : start + 80]!r}"
        return f"{len(texts[0])} / {len(texts[1])} lines"
    place = next((i for i, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), None)
    sizes = f"{len(first)} / {len(second)} bytes"
    return sizes if place is None else f"byte {place}: {first[place]:#04x} / {second[place]:#04x} ({sizes})"


# What legitimately depends on time or place, and is taken out before files are compared


Normalizer = Callable[[bytes], bytes]
# A session in a report's provenance: a resumed run has more of them than an unstopped one.
SESSION = re.compile(rb"<div><dt>(Command|Session \d+)</dt>.*?</div>\n?", re.DOTALL)


def normalizers(name: str) -> list[Normalizer]:
    """What to do with a file before it is compared."""
    base = Path(name).name
    by_name: dict[str, Normalizer] = {
        "provenance.json": without_machine,
        "history.csv": without_seconds_column,
        "stderr.txt": without_progress,
    }
    if "checkpoints" in Path(name).parts:
        return [checkpoint_as_text, with_losses]
    if base in by_name:
        return [by_name[base]]
    if base.endswith((".json", ".txt")):
        return [without_seconds]
    if base.endswith(".html"):
        return [without_times_in_report]
    return []


def substituting(*substitutions: tuple[str, str]) -> Normalizer:
    """Replace what matches, in texts; other files stay as they are."""
    patterns = [(re.compile(pattern, re.MULTILINE), new) for pattern, new in substitutions]

    def normalize(content: bytes) -> bytes:
        try:
            text = content.decode()
        except UnicodeDecodeError:
            return content
        for pattern, new in patterns:
            text = pattern.sub(new, text)
        return text.encode()

    return normalize


# What version 0.1.0 said in other words, in results and in print; the numbers around it must be the same.
reworded = substituting(
    (r"from so many trees\.", "from this many trees."),
    (r"\bgoing on from step", "resuming from step"),
    (r"probability in all", "total probability"),
    (r"channels a node", "channels per node"),
    (r"with the best lengths:", "with the best branch lengths:"),
    (r"all trees alike", "all trees weighted equally"),
    (r"by their probabilities in the reference", "by probability in the reference"),
    (r"(?s)^files in run:\n.*", ""),  # the list of files and the advice after a run
)
# The losses of a density since its last report had the name of a posterior's bounds.
with_losses = substituting((r"^history\.(bounds|losses): ", "history.recent: "))

# How long it took: `seconds` of a density's summary, of a search and of an experiment, and the same in print.
without_seconds = substituting((r'("seconds": )[-+.\de]+', r"\1…"), (r"( steps, )[\d,]+ s$", r"\1… s"))

# When it was run, by which file, and on which machine; the rest, such as settings and versions, must be the same.
without_machine = substituting(
    (r'("began": )"[^"]*"', r'\1"…"'),
    (r'("command": ")\S*__main__\.py', r"\1phloem"),
    (r'("system": )"[^"]*"', r'\1"…"'),
)

# The same in a report's provenance, and in an experiment's table the time of a repeat and milliseconds a step.
CELL = '<td data-value="[^"]*" class="number-cell">'
without_times_in_report = substituting(
    (r"<time\b[^>]*>[^<]*</time>", "<time>…</time>"),
    (r'(<code class="command">)\S*__main__\.py', r"\1phloem"),
    (r"(<dt>System</dt><dd>)[^<]*", r"\1…"),
    (rf"{CELL}[\d.]+\s(s|min|h)</td>\n{CELL}[\d.]+</td>", "<td>…</td>"),
)

# How fast it goes, lines that come by the clock, and where in the sources a warning is raised.
without_progress = substituting(
    (r"   [\d.,]+ steps/s", ""),
    (r"   \d+ (s|min|h) left$", ""),
    (r"^[\w ]+: \d+ %.*\n", ""),
    (r"^\S+\.py:\d+: (\w+: .*)\n  .*$", r"\1"),
)


def without_seconds_column(content: bytes) -> bytes:
    """A history without its column `seconds`: how long training has taken so far."""
    rows = list(csv.reader(io.StringIO(content.decode())))
    column = rows[0].index("seconds")
    return "\n".join(",".join(cell for i, cell in enumerate(row) if i != column) for row in rows).encode()


def checkpoint_as_text(content: bytes) -> bytes:
    """A checkpoint, line by line: its texts and its arrays with their bytes, but for times and the seal.

    Times are `history.seconds` and the second column of `history.reports`; the seal is a hash of the whole file.
    """
    end = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:end])
    texts = header.pop("__metadata__")
    del texts["sha256"]
    lines = [f"{name} = {text!r}" for name, text in texts.items()]
    for name, entry in header.items():
        begin, stop_at = entry["data_offsets"]
        data = content[end + begin : end + stop_at]
        if name == "history.seconds":
            data = b""
        elif name == "history.reports":
            data = without_second_column(data, *entry["shape"])
        lines.append(f"{name}: {entry['dtype']} {entry['shape']} {data.hex()}")
    return "\n".join(lines).encode()


def without_second_column(data: bytes, rows: int, columns: int) -> bytes:
    numbers = list(struct.unpack(f"<{rows * columns}d", data))
    del numbers[1::columns]
    return struct.pack(f"<{len(numbers)}d", *numbers)


# Values


Values = dict[str, dict[str, Any]]


def measure(case: Case, python: str, folder: Path) -> Values:
    """Run a fast case and return what it has found, by how well another machine must agree with it."""
    run_case(case, python, folder)
    outputs = printed(folder)
    match case.name:
        case "config":
            return {"exact": {"settings": outputs[0]}}
        case "likelihood" | "hky-gamma":
            trees = json.loads(outputs[0])["trees"]
            return {
                "exact": {"trees": [topology(tree["newick"]) for tree in trees]},
                "computed": {f"log-likelihood {i}": tree["log_likelihood"] for i, tree in enumerate(trees, 1)},
            }
        case "support":
            return {"exact": json.loads(outputs[0])}
        case "sbn":
            fit = json.loads(outputs[0])
            return {
                "exact": {name: fit[name] for name in ("taxa", "topologies", "parameters", "converged")},
                "computed": {"mean log-probability": fit["log_likelihood"]},
            }
        case "recover":
            return {"exact": {"trees": outputs[1].splitlines()}}
        case "search":
            tree = (folder / "best.nwk").read_text()
            supports = map(float, re.findall(r"\)([\d.]+):", tree))
            return {
                "exact": {"tree": topology(tree)},
                "computed": {"log-likelihood": json.loads(outputs[0])["log_likelihood"]},
                "probabilities": {f"support {i}": support / 100 for i, support in enumerate(supports, 1)},
            }
        case "density":
            results = json.loads(outputs[0])
            history = rows_of(folder / "experiment" / "gcn-1" / "history.csv")
            return {
                "exact": {name: results[name] for name in ("taxa", "topologies", "target_topologies")},
                "computed": {"best loss": results["best_loss"]},
                "early": {f"first {name}": float(history[0][name]) for name in ("loss", "expected_loss")},
                "trained": {f"last {name}": float(history[-1][name]) for name in ("expected_loss", "divergence")},
            }
        case _:
            values = posterior_values(json.loads(outputs[0]), folder / "run")
            if case.name != "infer":  # trained too little for probabilities: a few draws have all the weight
                del values["probabilities"]
            return values


def posterior_values(summary: dict[str, Any], run: Path) -> Values:
    """Bounds at the beginning and the end of training, of the evaluation, and clade probabilities."""
    history, clades = rows_of(run / "history.csv"), rows_of(run / "clades.csv")
    estimates = ("log_marginal_likelihood", "elbo", "lower_bound")
    return {
        "exact": {"support": summary["support"], "model": summary["model"], "steps": summary["steps"]},
        "early": {f"first {name}": float(history[0][name]) for name in ("lower_bound", "elbo")},
        "trained": {name: summary[name]["mean"] for name in estimates}
        | {f"last {name}": float(history[-1][name]) for name in ("lower_bound", "elbo")},
        "probabilities": {
            f"clade {row['members']}": float(row["probability"])
            for row in clades
            if int(row["taxa"]) > 1 and float(row["probability"]) > 0.5
        },
    }


def printed(folder: Path) -> list[str]:
    """What each command of a case has printed; an error unless all have ended well."""
    text = (folder / "stdout.txt").read_text(encoding="utf-8")
    if set(re.findall(r"^\[exit code (-?\d+)\]$", text, re.MULTILINE)) != {"0"}:
        raise RuntimeError(f"a command failed:\n{text}\n{(folder / 'stderr.txt').read_text(encoding='utf-8')}")
    return re.findall(r"^\$ phloem [^\n]*\n(.*?)^\[exit code 0\]$", text, re.MULTILINE | re.DOTALL)


def topology(newick: str) -> str:
    """A Newick tree without lengths and supports."""
    return re.sub(r":[-+.\de]+|(?<=\))[\d.]+", "", newick).strip()


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as stream:
        return list(csv.DictReader(stream))


def write_values(python: str, out: Path) -> int:
    """Write what the fast cases find as the values that others are tested against."""
    with tempfile.TemporaryDirectory() as name, data_folder(Path(name)) as has_data:
        if not has_data:
            raise SystemExit("PHLOEM_DATA is not set: it names the folder of benchmark data.")
        values = {case.name: measure(case, python, Path(name) / case.name) for case in FAST_CASES}
        version = subprocess.run(
            command_line(python, "--version"), env=environment(), capture_output=True, text=True, check=True
        )
    origin = f"record.py values, by {version.stdout.strip()} before the reorganisation of its source tree"
    out.write_text(json.dumps({"origin": origin, "values": values}, indent=1, ensure_ascii=False) + "\n", "utf-8")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("record", "stop", "resume", "values"):
        command = commands.add_parser(name)
        command.add_argument("--python", default=sys.executable)
        command.add_argument("--out", type=Path, required=True)
        if name == "record":
            command.add_argument("--only", nargs="+", default=(), metavar="CASE")
        if name == "resume":
            command.add_argument("--stopped", type=Path, required=True)
    both = commands.add_parser("compare")
    both.add_argument("first", type=Path)
    both.add_argument("second", type=Path)
    both.add_argument("--only", nargs="+", default=(), metavar="CASE")
    given = parser.parse_args()
    match given.command:
        case "record":
            return record(given.python, given.out, given.only)
        case "stop":
            return stop(given.python, given.out)
        case "resume":
            return resume(given.python, given.stopped, given.out)
        case "values":
            return write_values(given.python, given.out)
        case _:
            return compare(given.first, given.second, given.only)


if __name__ == "__main__":
    sys.exit(main())
