"""Table 2: amortisation gaps on the credible trees of DS1, of the cells of table 1, by `phloem gap`."""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from filelock import FileLock

from phloem.display.bar import ShowProgress
from phloem.errors import BadArgument, FileProblem, ProgramProblem, counted
from phloem.experiments.benchmark.alignments import VARIABLE, data_folder
from phloem.experiments.benchmark.cells import Cell
from phloem.experiments.benchmark.processes import Ended, run_processes
from phloem.experiments.benchmark.published import published, published_gaps
from phloem.experiments.benchmark.results import FAILED, FINISHED, cell_result
from phloem.experiments.benchmark.table2 import AVERAGE, BY_PROBABILITY, table2_markdown, table2_page
from phloem.experiments.benchmark.task import (
    BenchmarkRequest,
    check_request,
    complete_cells,
    open_directory,
    ordered_cells,
    write_table1,
)
from phloem.runs.checksums import CHECKSUMS
from phloem.storage.files import read_bytes, write_text
from phloem.tasks.run_files import PARAMETERS
from phloem.tasks.support import list_tree_files

NAME: Final = "table2"
DATASET: Final = "DS1"  # the paper's
FOLDER: Final = "gaps"
MRBAYES: Final = "mrbayes"  # the folder of reference trees among benchmark data
SAMPLES: Final = 5000  # draws of branch lengths for each bound


def reproduce_table2(
    request: BenchmarkRequest,
    references: Sequence[Path],
    samples: int,
    show: ShowProgress,
    notice: Callable[[str], None],
) -> dict[str, Any]:
    """Measure what is missing, after training what is missing, and write the table whenever a cell is measured.

    references: tree files of the posterior, by default those of the benchmark's data.
    """
    check_request(request)
    trees = reference_files(request.datasets[0], references, request.data)
    open_directory(request.out)
    try:
        failed = complete_cells(request, show, notice, ended=lambda: write_table1(request))
        failed += _measure(request, trees, samples, show, notice)
    finally:
        write_table1(request)
        found = write_table2(request)
    if failed:
        raise ProgramProblem(f"{counted(len(failed), 'cell')} failed, {failed[0]}. The same command tries again.")
    return found


def reference_files(dataset: str, references: Sequence[Path], data: Path | None) -> list[Path]:
    """The trees whose credible set counts."""
    if references:
        return list_tree_files(references)
    folder = data_folder(data)
    if folder is not None and (folder / MRBAYES / dataset).is_dir():
        return list_tree_files([folder / MRBAYES / dataset])
    raise BadArgument(
        f"{dataset}: found no trees of its posterior. Name those of long MrBayes runs by --trees, or a directory with "
        f"{MRBAYES}/{dataset} by --data or {VARIABLE}."
    )


def gaps_path(cell: Cell, out: Path) -> Path:
    """Where the gaps of a cell are kept."""
    return out / FOLDER / cell.setup.name / f"{cell.name}.json"


def _measure(
    request: BenchmarkRequest,
    trees: Sequence[Path],
    samples: int,
    show: ShowProgress,
    notice: Callable[[str], None],
) -> list[str]:
    """Measure the gaps of finished cells that are not measured yet; what failed."""
    out = request.out
    cells = [cell for cell in request.cells() if cell_result(cell, out).state == FINISHED]
    asked = {"trees": [path.name for path in trees], "samples": samples}
    left = [cell for cell in cells if _read(cell, out).get("asked") != asked]
    failed: list[str] = []

    def on_end(place: int, how: Ended) -> None:
        cell = left[place]
        if how.outcome == "finished":
            path = gaps_path(cell, out)
            path.parent.mkdir(parents=True, exist_ok=True)
            record = {
                "asked": asked,
                "parameters": _parameters_digest(cell, out),
                "seconds": round(how.seconds, 2),
                "gaps": json.loads(how.output),
            }
            write_text(path, json.dumps(record) + "\n")
            average = record["gaps"]["average"]
            notice(f"{cell.name}: average gap {average['gap']:.3f} ± {average['error']:.3f}")
        elif how.outcome == "failed":
            failed.append(f"{cell.name}: {how.problem}")
            notice(failed[-1])
        write_table2(request)

    def on_wait(at_work: list[int]) -> None:
        done = sum(1 for cell in left if _read(cell, out).get("asked") == asked)
        show(done / max(1, len(left)), f"gaps of {', '.join(left[place].name for place in at_work[:3])}")

    run_processes(
        [
            [
                *("gap", str(cell.directory(out)), *(part for path in trees for part in ("--trees", str(path)))),
                *("--samples", str(samples), "--threads", "1", "--quiet", "--json"),
            ]
            for cell in left
        ],
        request.jobs,
        begun=lambda _place: None,
        ended=on_end,
        waiting=on_wait,
    )
    return failed


def _read(cell: Cell, out: Path) -> dict[str, Any]:
    """The record of a cell's gaps; nothing if there is none of the run as it is now."""
    try:
        found = dict(json.loads(read_bytes(gaps_path(cell, out))))
        return found if found["parameters"] == _parameters_digest(cell, out) else {}
    except (FileProblem, ValueError, KeyError, TypeError):
        return {}


def _parameters_digest(cell: Cell, out: Path) -> str:
    """The checksum of the trained model."""
    with suppress(OSError):
        for line in (cell.directory(out) / CHECKSUMS).read_text().splitlines():
            digest, _, name = line.partition("  ")
            if name == PARAMETERS:
                return digest
    return ""


def write_table2(request: BenchmarkRequest) -> dict[str, Any]:
    """`table2.json`, `table2.md` and `table2.html`, of the request's cells and all that were measured before."""
    out = request.out
    with FileLock(out / f"{NAME}.lock"):
        found = table2_json(request)
        write_text(out / f"{NAME}.json", json.dumps(found, indent=1) + "\n")
        write_text(out / f"{NAME}.md", table2_markdown(found))
        write_text(out / f"{NAME}.html", table2_page(found))
    return found


def table2_json(request: BenchmarkRequest) -> dict[str, Any]:
    """All that tables, pages and figures are made of."""
    cells = [
        _cell_json(cell, request.out)
        for cell in ordered_cells(request)
        if cell in request.cells() or gaps_path(cell, request.out).exists()
    ]
    return {
        "sources": {"gaps": published()["sources"]["gaps"]},
        "dataset": request.datasets[0],
        "cells": cells,
    }


def _cell_json(cell: Cell, out: Path) -> dict[str, Any]:
    result = cell_result(cell, out)
    record = _read(cell, out)
    found: Mapping[str, Any] = record.get("gaps", {})
    state = result.state
    if state == FINISHED and not found:
        state = "not measured"
    theirs = published_gaps(cell.variant) if cell.dataset == DATASET else {}
    rows = {row["rank"]: row for row in found.get("trees", [])}
    ours: dict[str, Any] = {}
    for name in theirs:
        if name == AVERAGE:
            ours[name] = found.get("average")
            continue
        row = rows.get(int(name.removeprefix("tree ")))
        ours[name] = None if row is None else {"gap": row["gap"], "error": row["gap_error"]}
    return {
        **cell.as_json(),
        "state": state,
        "problem": result.problem if state == FAILED else "",
        "published": theirs,
        "gaps": ours | {BY_PROBABILITY: found.get("weighted_average")},
        "trees": [
            {name: row[name] for name in ("rank", "probability", "model_probability", "gap", "gap_error", "converged")}
            for row in found.get("trees", [])
        ],
        "outside": [row["rank"] for row in found.get("outside", [])],
        "topologies": found.get("topologies"),
        "samples": found.get("samples"),
        "seconds": record.get("seconds"),
    }
