"""`phloem compare`: which substitution model fits the alignment?"""

import json
import shlex
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from phloem.cli.flags import Settings, with_compare_settings
from phloem.cli.options import (
    ALIGNMENT_HELP,
    CHECKPOINT_HELP,
    LongNames,
    SupportTrees,
    plain_console,
    plain_table,
    terminal_width,
)
from phloem.config import InferConfig
from phloem.errors import BadArgument, StoppedByUser

if TYPE_CHECKING:
    from rich.table import Table

    from phloem.tasks.compare import ComparedModel, Comparison

FAILED = 1
NARROW = 96  # columns of a terminal with less room than all columns of the table need
WIDE = 120  # columns of a file
EXAMPLES = """
[bold]Examples[/bold]

phloem compare dna.fasta

phloem compare primates --models JC,HKY,HKY+G,GTR+G,GTR+I+G --preset quick --out models

phloem compare primates --out models --resume

phloem compare dna.fasta --models HKY+G,GTR+G --branch-prior gamma-dirichlet --seed 7 --json

phloem compare apes-run free-run
"""


@with_compare_settings
def compare(
    sources: Annotated[
        list[str],
        typer.Argument(metavar="ALIGNMENT|RUN…", help=f"{ALIGNMENT_HELP} Or run directories, to compare these."),
    ],
    models: Annotated[
        str | None,
        typer.Option(
            metavar="MODELS",
            help="Substitution models, as --model of `phloem infer` takes them, separated by commas.",
            show_default="JC,HKY,HKY+G,GTR+G,GTR+I+G",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="DIR",
            help="Directory for the runs, one for each model.",
            show_default="named after the alignment: dna-models for dna.fasta",
        ),
    ] = None,
    trees: SupportTrees = None,
    long_names: LongNames = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Resume the comparison in the directory, if there is one.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the comparison in the directory.")] = False,
    checkpoint_every: Annotated[str, typer.Option(metavar="TIME", help=CHECKPOINT_HELP)] = "2m",
    threads: Annotated[int | None, typer.Option(min=1, help="Cores to use.", show_default="all physical cores")] = None,
    plain: Annotated[bool, typer.Option("--plain", help="Show lines instead of a live panel.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show only warnings and errors.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    *,
    settings: Settings[InferConfig],
) -> None:
    """Compare substitution models: marginal likelihoods with errors, Bayes factors, and how strong they are in words.

    Every model is a run of `phloem infer`, in a directory below DIR that all other commands open. Bootstrap trees are
    made once, for all. Ctrl-C stops with a checkpoint; --resume continues, and runs that are finished stay as they are.
    If the run of one model fails, the others go on, and the exit code is 1.

    Directories of finished runs on one alignment are compared as they are, also with and without constraints.
    """
    if len(sources) > 1:
        _compare_runs(sources, as_json=as_json, flags=[models, out, trees, resume, force, settings.layers()[1]])
        return
    (alignment,) = sources
    out = out or default_directory(alignment)

    from phloem.display.bar import progress_bar
    from phloem.display.lines import choose_display
    from phloem.runs.checkpoints import parse_interval
    from phloem.runs.driver import Interrupted, RunOptions, RunRequest
    from phloem.tasks.compare import CompareRequest, Displays, compare_models

    options = RunOptions(threads, parse_interval(checkpoint_every))
    run = RunRequest(out, resume, force, shlex.join(sys.argv), options)
    names = models.split(",") if models is not None else ()
    request = CompareRequest(
        alignment, run, names, trees or (), settings.preset, settings.layers(), long_names=long_names
    )
    displays = Displays(
        bootstrap=lambda: progress_bar("bootstrap", quiet=quiet),
        model=lambda: choose_display(plain=plain, quiet=quiet),
    )
    try:
        comparison = compare_models(request, displays)
    except KeyboardInterrupt as stop:
        saved = f" in {stop.directory.name}, {stop.saved}" if isinstance(stop, Interrupted) else ""
        again = shlex.join(["phloem", "compare", alignment, *(["--long-names"] if long_names else [])])
        again += "".join(f" --trees {shlex.quote(file)}" for file in trees or ())
        resumed = f"{again} --out {shlex.quote(str(out))} --resume"
        raise StoppedByUser(f"stopped{saved}. Resume with: {resumed}") from None
    if as_json:
        print(json.dumps(comparison.as_json()))
    elif not quiet:
        print_comparison(comparison)
    if len(comparison.measured) < len(comparison.models):
        raise typer.Exit(FAILED)


def _compare_runs(directories: list[str], *, as_json: bool, flags: list[object]) -> None:
    """Compare runs that there are. flags: which say how to make others."""
    if any(flags):
        raise BadArgument("compare: runs are compared as they are. Leave flags out, or name one alignment.")
    from phloem.tasks.compare_runs import compare_runs

    found = compare_runs(directories)
    if as_json:
        print(json.dumps(found.as_json()))
        return
    comparison = found.comparison
    _print_table(comparison, is_of_runs=True)
    for paragraph in [*conclusions(comparison), *(one.in_words() for one in found.constraints)]:
        print("\n".join(["", *textwrap.wrap(paragraph, terminal_width())]))


def default_directory(alignment: str) -> Path:
    """`dna-models` for `data/dna.fasta.gz`, in the current directory."""
    name = Path(alignment).name.removesuffix(".gz")
    return Path(f"{name.rsplit('.', 1)[0] or name}-models")


def print_comparison(comparison: "Comparison") -> None:
    """Print the table, and what it says."""
    _print_table(comparison)
    width = terminal_width()
    for paragraph in conclusions(comparison):
        print("\n".join(["", *textwrap.wrap(paragraph, width)]))
    print(f"""
each model is a run in {comparison.subject.directory}, open to all commands:
  phloem report {comparison.models[0].directory}""")


def _print_table(comparison: "Comparison", *, is_of_runs: bool = False) -> None:
    console = plain_console()
    if not sys.stdout.isatty():
        console.width = max(console.width, WIDE)
    console.print(_table(comparison, is_narrow=console.width < NARROW, is_of_runs=is_of_runs))


def _table(comparison: "Comparison", *, is_narrow: bool, is_of_runs: bool) -> "Table":
    """A row for each model; of words, not of numbers, some are broken into lines where there is little room."""
    from phloem.display.words import clock_time

    columns: dict[str, list[str]] = {
        "run" if is_of_runs else "model": [model.name for model in comparison.models],
        "params": ["" if model.parameters is None else str(model.parameters) for model in comparison.models],
        "log p(Y)": [_with_error(model.likelihood) for model in comparison.models],
        "log Bayes factor": ["", *(_with_error(comparison.against_best(model)) for model in comparison.models[1:])],
        "probability": [
            "" if share is None else f"{share:.4f}" for share in map(comparison.probability, comparison.models)
        ],
        "evidence": [comparison.evidence(model) for model in comparison.models],
        "verdict": [_verdict(model) for model in comparison.models],
        "time": [clock_time(model.seconds) for model in comparison.models],
    }
    if is_narrow:
        del columns["params"]
    if is_narrow or is_of_runs:
        del columns["time"]
    table = plain_table(*columns, left=("model", "run", "evidence", "verdict"))
    if is_narrow:
        table.padding = (0, 2, 0, 0)
    for column in table.columns:
        column.no_wrap = column.header not in ("evidence", "verdict")
    for row in zip(*columns.values(), strict=True):
        table.add_row(*row)
    return table


def _with_error(found: tuple[float, float] | None) -> str:
    """A value with its standard error."""
    return "" if found is None else f"{found[0]:.3f} ± {found[1]:.3f}"


def _verdict(model: "ComparedModel") -> str:
    if model.trust is None:
        return "failed"
    return "DO NOT TRUST" if model.trust.level == "do not trust" else model.trust.level


def conclusions(comparison: "Comparison") -> list[str]:
    """What the table says, in sentences: no more than its errors and verdicts allow."""
    measured = comparison.measured
    said = [_best_in_words(comparison)] if measured else []
    advice: dict[tuple[str, str], list[str]] = {}
    for model in measured:
        if model.trust is not None and model.trust.level != "good":
            advice.setdefault((model.trust.level, model.trust.advice), []).append(model.name)
    for (level, what_to_do), names in advice.items():
        verdict = "cannot be trusted" if level == "do not trust" else "can be used with care"
        said.append(f"{listed(names)}: these numbers {verdict}. {what_to_do}")
    return said + [f"{model.name} failed: {model.problem}" for model in comparison.models if model.problem]


def _best_in_words(comparison: "Comparison") -> str:
    """Which model is the best, and by how much."""
    best, *others = comparison.measured
    if not others:
        return f"{best.name} is the only model with a result: there is nothing to compare it with."
    close = comparison.undecided
    if close:
        involved = [best, *close]
        said = (
            f"{listed([model.name for model in involved])} are too close to call: they differ by less than twice "
            "the standard error of the difference. Give more --repeats."
        )
    else:
        involved = [best, others[0]]
        said = (
            f"{best.name} is the best of these models; the evidence for it against the next, {others[0].name}, is "
            f"{comparison.evidence(others[0])}."
        )
    if all(model.is_trusted for model in involved):
        return said
    return f"As far as the numbers go, which is not far enough to be sure: {said}"


def listed(names: list[str]) -> str:
    """`JC`, `JC and HKY`, or `JC, HKY and GTR`."""
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last
