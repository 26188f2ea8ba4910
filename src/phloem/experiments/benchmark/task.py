"""Table 1: ELBO and marginal likelihood on DS1–DS8 for every variant, by cells that are runs of `phloem infer`."""

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

from filelock import FileLock

from phloem.config.infer import FAMILIES, PRESETS
from phloem.config.settings import check_choice, check_seed
from phloem.display.bar import ShowProgress
from phloem.errors import BadArgument, FileProblem, PhloemError, ProgramProblem, counted
from phloem.experiments.benchmark.alignments import DATA_SETS, DataSet, prepare_alignment
from phloem.experiments.benchmark.cells import Cell, Setup, add_session, cells_in, check_names
from phloem.experiments.benchmark.processes import Ended, processor_name, run_processes
from phloem.experiments.benchmark.published import VARIANTS, published
from phloem.experiments.benchmark.results import FINISHED, RUNNING, CellResult, cell_result, in_words, results_json
from phloem.experiments.benchmark.supports import (
    Bootstrap,
    SupportTrees,
    prepare_support,
    support_trees,
)
from phloem.experiments.benchmark.table1 import table1_markdown, table1_page
from phloem.storage.files import cannot_write, refuse_links, write_text

NAME: Final = "table1"
TABLES: Final = (NAME, "table2")
FOLDERS: Final = ("alignments", "supports", "cells", "gaps", "figures")
MOST_JOBS: Final = 1000


class BenchmarkRequest(NamedTuple):
    """Which cells, trained how, and where everything goes."""

    out: Path
    datasets: Sequence[str] = tuple(DATA_SETS)
    variants: Sequence[str] = VARIANTS
    seeds: Sequence[int] = (1,)
    setup: Setup = Setup()
    bootstrap: Bootstrap = Bootstrap()
    data: Path | None = None
    jobs: int = 1
    known: Mapping[str, DataSet] = DATA_SETS

    def cells(self) -> list[Cell]:
        """All of them, a data set after the other, so that the first rows of tables fill first."""
        return [
            Cell(self.setup, dataset, variant, seed)
            for dataset in self.datasets
            for seed in self.seeds
            for variant in self.variants
        ]


def check_request(request: BenchmarkRequest) -> None:
    """Raise for what makes no sense, before anything is written."""
    check_names("--datasets", request.datasets, tuple(request.known))
    check_names("--variants", request.variants, VARIANTS)
    check_choice("--family", request.setup.family, FAMILIES)
    check_choice("--preset", request.setup.preset, tuple(PRESETS))
    if len(set(request.seeds)) < max(1, len(request.seeds)):
        raise BadArgument("--seeds: give each once, and at least one.")
    for seed in request.seeds:
        check_seed("--seeds", seed)
    if not 1 <= request.jobs <= MOST_JOBS:
        raise BadArgument(f"--jobs {request.jobs}: give 1 to {MOST_JOBS:,}.")
    for cell in request.cells()[:1]:
        cell.config()


def open_directory(out: Path) -> None:
    """Make the directory of a benchmark; one that holds something else is not touched, nor are links followed."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        entries = sorted(entry.name for entry in out.iterdir() if not entry.name.startswith("."))
    except OSError as problem:
        raise cannot_write(out, problem) from None
    if entries and not set(entries) & set(FOLDERS):
        raise FileProblem(f"{out}: is not empty (it holds {entries[0]}) and is no benchmark. Name another --out.")
    refuse_links(out, [*FOLDERS, *(f"{name}.{suffix}" for name in TABLES for suffix in ("json", "md", "html"))])


def reproduce_table1(request: BenchmarkRequest, show: ShowProgress, notice: Callable[[str], None]) -> list[CellResult]:
    """Train the cells that are not finished, and write the table whenever one ends."""
    check_request(request)
    open_directory(request.out)
    try:
        failed = complete_cells(request, show, notice, ended=lambda: write_table1(request))
    finally:
        results = write_table1(request)
    if failed:
        raise ProgramProblem(
            f"{counted(len(failed), 'cell')} failed, {failed[0]}; {in_words(results)}. "
            "The same command tries again, and leaves finished cells as they are."
        )
    return results


def complete_cells(
    request: BenchmarkRequest,
    show: ShowProgress,
    notice: Callable[[str], None],
    *,
    ended: Callable[[], object] = lambda: None,
) -> list[str]:
    """Run what is not finished; what failed, a line each. ended: called whenever a cell has ended."""
    cells, out = request.cells(), request.out
    left: list[Cell] = []
    failed: list[str] = []

    def fail(cell: Cell, problem: str) -> None:
        failed.append(f"{cell.name}: {problem}")
        notice(failed[-1])

    for cell in cells:
        run = cell.run(out)
        if problem := cell.problem(out):
            fail(cell, problem)
        elif run.is_in_use():
            notice(f"{cell.name}: another process is at work on it, which is left alone")
        elif cell_result(cell, out).state != FINISHED or not run.has_results():
            left.append(cell)
    if len(left) < len(cells):
        there = counted(len(cells) - len(left) - len(failed), "cell")
        notice(f"{there} of {len(cells)} {'is' if there.startswith('1 ') else 'are'} there already")

    inputs, problems = prepare_inputs(request, list(dict.fromkeys(cell.dataset for cell in left)), show, notice)
    for cell in left:
        if cell.dataset in problems:
            failed.append(f"{cell.name}: {problems[cell.dataset]}")
            _add_session(cell, out, datetime.now(UTC), Ended(2, 0.0, 0.0, problems[cell.dataset]))
    doable = [cell for cell in left if cell.dataset in inputs]
    commands = [cell.arguments(out, *inputs[cell.dataset]) for cell in doable]

    begins: dict[int, datetime] = {}

    def on_begin(place: int) -> None:
        doable[place].directory(out).parent.mkdir(parents=True, exist_ok=True)
        begins[place] = datetime.now(UTC)

    def on_end(place: int, how: Ended) -> None:
        cell = doable[place]
        state = cell_result(cell, out).state
        if how.outcome == "failed" and state in (FINISHED, RUNNING):  # another call was sooner
            notice(f"{cell.name}: another process {'has finished' if state == FINISHED else 'is at work on'} it")
        else:
            _add_session(cell, out, begins[place], how)
            if how.outcome == "failed":
                fail(cell, how.problem)
            elif how.outcome == "finished":
                notice(_news(cell_result(cell, out)))
        ended()

    def on_wait(at_work: list[int]) -> None:
        shares = [_share(doable[place], out) for place in at_work]
        waiting = sum(1 for place in range(len(doable)) if place not in begins)
        done = len(doable) - waiting - len(at_work)
        note = ", ".join(f"{doable[place].name} {share:.0%}" for place, share in zip(at_work[:3], shares, strict=False))
        show((done + sum(shares)) / max(1, len(doable)), f"{done} of {counted(len(doable), 'cell')}   {note}".rstrip())

    run_processes(commands, request.jobs, begun=on_begin, ended=on_end, waiting=on_wait)
    return failed


def reproduce_supports(
    request: BenchmarkRequest, show: ShowProgress, notice: Callable[[str], None]
) -> dict[str, SupportTrees]:
    """Only what cells share: the alignments, and the trees of the supports."""
    check_request(request)
    open_directory(request.out)
    _, problems = prepare_inputs(request, request.datasets, show, notice)
    if problems:
        name, problem_text = next(iter(problems.items()))
        raise ProgramProblem(f"{counted(len(problems), 'data set')} failed, {name}: {problem_text}")
    found = {name: support_trees(request.out, name) for name in request.datasets}
    return {name: trees for name, trees in found.items() if trees is not None}


def prepare_inputs(
    request: BenchmarkRequest, names: Sequence[str], show: ShowProgress, notice: Callable[[str], None]
) -> tuple[dict[str, tuple[Path, Path]], dict[str, str]]:
    """Alignment and trees of each data set, and what kept others from having them."""
    found: dict[str, tuple[Path, Path]] = {}
    problems: dict[str, str] = {}
    for number, name in enumerate(names):

        def show_bootstrap(share: float, *, number: int = number, name: str = name) -> None:
            show((number + share) / len(names), f"bootstrap of {name} ({number + 1} of {len(names)})")

        try:
            alignment = prepare_alignment(request.known[name], request.out, request.data)
            trees = prepare_support(
                name,
                alignment,
                request.out,
                request.data,
                request.bootstrap,
                threads=request.jobs,
                progress=show_bootstrap,
            )
            found[name] = (alignment, trees.path)
        except PhloemError as problem:  # of this data set: the others can be done
            problems[name] = str(problem)
            notice(f"{name}: {problem}")
    return found, problems


def ordered_cells(request: BenchmarkRequest) -> list[Cell]:
    """The cells that were asked for, and all that are in the directory, in the order of tables."""
    cells = dict.fromkeys([*request.cells(), *cells_in(request.out)])
    datasets, variants = list(request.known), list(VARIANTS)
    return sorted(
        (cell for cell in cells if cell.dataset in datasets),
        key=lambda cell: (cell.setup, datasets.index(cell.dataset), variants.index(cell.variant), cell.seed),
    )


def write_table1(request: BenchmarkRequest) -> list[CellResult]:
    """`table1.json`, `table1.md` and `table1.html`, of everything that is there. Several processes may want to."""
    with FileLock(request.out / f"{NAME}.lock"):
        results = [cell_result(cell, request.out) for cell in ordered_cells(request)]
        found = table1_json(results)
        write_text(request.out / f"{NAME}.json", json.dumps(found, indent=1) + "\n")
        write_text(request.out / f"{NAME}.md", table1_markdown(found))
        write_text(request.out / f"{NAME}.html", table1_page(found))
    return results


def table1_json(results: Sequence[CellResult]) -> dict[str, Any]:
    """All that tables and pages are made of."""
    return {"sources": published()["sources"], "cells": results_json(results)}


def _add_session(cell: Cell, out: Path, began: datetime, how: Ended) -> None:
    add_session(
        cell.sessions_path(out),
        {
            "began": began.isoformat(timespec="seconds"),
            "seconds": round(how.seconds, 2),
            "processor_seconds": None if how.processor_seconds is None else round(how.processor_seconds, 2),
            "outcome": how.outcome,
            "problem": how.problem,
            "processor": processor_name(),
        },
    )


def _share(cell: Cell, out: Path) -> float:
    """How far a cell is, of its steps; what comes after them is short."""
    return min(1.0, cell.steps_done(out) / cell.config().training.steps)


def _news(result: CellResult) -> str:
    parts = [f"{result.cell.name}: finished"]
    for name, label in (("elbo", "ELBO"), ("log_marginal_likelihood", "marginal likelihood")):
        if (one := result.estimates.get(name)) is not None:
            beside = "" if one.difference is None else f" ({one.difference:+.2f})"
            parts.append(f"{label} {one.mean:.2f}{beside}")
    return "   ".join(parts)
