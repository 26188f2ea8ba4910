"""Bootstrap trees for the supports: once for each data set, in `supports`, and shared by all of its cells."""

import hashlib
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

from filelock import FileLock

from phloem.config import BootstrapConfig
from phloem.errors import BadArgument, FileProblem, counted
from phloem.experiments.benchmark.alignments import data_folder
from phloem.storage.files import atomic_write, read_bytes, write_text
from phloem.tasks.search import ShareDone, run_bootstrap
from phloem.tasks.support import read_samples

FOLDER: Final = "supports"
UFBOOT: Final = "ufboot"  # the folder of bootstrap trees among benchmark data
OWN: Final = re.compile(r"replicate_\d+\.nwk\.gz")  # that phloem makes
NUMBER: Final = re.compile(r"(\d+)")
PAPER_REPLICATES, PAPER_TREES = 10, 10_000
MODEL: Final = "JC"


class Bootstrap(NamedTuple):
    """What bootstrap trees are wanted; None for what the paper had, or what there is already."""

    replicates: int | None = None
    trees: int | None = None
    method: str | None = None


class SupportTrees(NamedTuple):
    """The trees of a data set, and where they come from."""

    path: Path  # a directory with a file for each replicate
    replicates: int
    trees: int  # in each
    origin: str  # in words

    def as_json(self) -> dict[str, Any]:
        """All but the path."""
        return {"replicates": self.replicates, "trees": self.trees, "origin": self.origin}


def support_trees(out: Path, dataset: str) -> SupportTrees | None:
    """The trees that are there, each file as it was written; None if there is no record of any."""
    record = _record_path(out, dataset)
    if not record.exists():
        return None
    try:
        found: dict[str, Any] = json.loads(read_bytes(record))
        trees = SupportTrees(
            record.with_suffix(""), int(found["replicates"]), int(found["trees"]), str(found["origin"])
        )
        digests = dict(found["files"])
    except (ValueError, KeyError, TypeError):
        raise FileProblem(f"{record}: is damaged. Delete it to have the trees made again.") from None
    for name, digest in digests.items():
        if _digest(trees.path / name) != digest:
            raise FileProblem(f"{trees.path / name}: is not as it was written. Delete {record} and {trees.path}.")
    return trees


def prepare_support(
    dataset: str,
    alignment: Path,
    out: Path,
    data: Path | None,
    wanted: Bootstrap,
    *,
    threads: int,
    progress: Callable[[float], None] = lambda _share: None,
) -> SupportTrees:
    """The trees of a data set: those that are there, those of the benchmark's data, or new ones.

    The data's are taken where they have as many replicates as are wanted. A process that makes them has the others,
    also those on other machines, wait.
    """
    record = _record_path(out, dataset)
    record.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(record.with_suffix(".lock")):
        there = support_trees(out, dataset)
        if there is not None:
            _check_wanted(there, wanted)
            return there
        folder = record.with_suffix("")
        origin = _copy(dataset, data, wanted, folder) or _make(alignment, folder, wanted, threads, progress)
        samples = read_samples([folder])
        trees = SupportTrees(folder, len(samples), max(map(len, samples)), origin)
        files = {path.name: _digest(path) for path in sorted(folder.iterdir()) if path.suffix == ".gz"}
        write_text(record, json.dumps(trees.as_json() | {"files": files}, indent=2) + "\n")
    return trees


def _record_path(out: Path, dataset: str) -> Path:
    return out / FOLDER / f"{dataset}.json"


def _check_wanted(there: SupportTrees, wanted: Bootstrap) -> None:
    """Raise if others are asked for than there are: cells of one experiment share their support."""
    for name, asked, has in (
        ("replicates", wanted.replicates, there.replicates),
        ("trees", wanted.trees, there.trees),
    ):
        if asked not in (None, has):
            raise BadArgument(
                f"{there.path}: holds {counted(there.replicates, 'replicate')} of {counted(there.trees, 'tree')}, and "
                f"--bootstrap-{name} {asked} asks for others. Leave it out, or name another --out."
            )


def _copy(dataset: str, data: Path | None, wanted: Bootstrap, folder: Path) -> str:
    """Copy the replicates of the benchmark's data, if it has enough that fit; where they come from, or nothing."""
    source = data_folder(data)
    count = wanted.replicates or PAPER_REPLICATES
    if source is None or wanted.method is not None or wanted.trees not in (None, PAPER_TREES):
        return ""
    # rep_10 comes after rep_9.
    found = sorted(
        (source / UFBOOT / dataset).glob("*.gz"),
        key=lambda path: [int(part) if part.isdigit() else part for part in NUMBER.split(path.name)],
    )
    if len(found) < count:
        return ""
    _refuse_others(folder, re.compile("|".join(re.escape(path.name) for path in found[:count])))
    folder.mkdir(parents=True, exist_ok=True)
    for path in found[:count]:
        with path.open("rb") as original, atomic_write(folder / path.name) as stream:
            shutil.copyfileobj(original, stream)
    return f"IQ-TREE's ultrafast bootstrap under {MODEL}, of the benchmark's data"


def _make(alignment: Path, folder: Path, wanted: Bootstrap, threads: int, progress: Callable[[float], None]) -> str:
    config = BootstrapConfig(
        count=wanted.trees or PAPER_TREES,
        replicates=wanted.replicates or PAPER_REPLICATES,
        model=MODEL,
        method=wanted.method or "auto",
        threads=threads,
    )
    _refuse_others(folder, OWN)
    share = ShareDone(config.replicates)
    made = run_bootstrap(alignment, folder, config, progress=lambda news: progress(share.after(news)))
    by = f"ultrafast bootstrap by {made.program}" if made.method == "iqtree" else f"bootstrap by {made.program}"
    return f"{by} under {MODEL}, seed {config.seed}"


def _refuse_others(folder: Path, own: re.Pattern[str]) -> None:
    """Raise if there are tree files of another beginning, as every file in the folder counts as a replicate."""
    others = sorted(path.name for path in folder.glob("*.gz") if not own.fullmatch(path.name))
    if others:
        raise FileProblem(f"{folder / others[0]}: is of another bootstrap, which was not finished. Delete {folder}.")


def _digest(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""
