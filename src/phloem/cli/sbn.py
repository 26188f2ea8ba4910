"""`phloem sbn`: tree probabilities from a tree sample by a subsplit network."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from phloem.cli.options import BURNIN_HELP, CLOSURE_HELP, TREES_HELP, parse_burnin
from phloem.errors import counted

if TYPE_CHECKING:
    from phloem.tasks.sbn import TreeScores

FIT_EXAMPLES = """
[bold]Examples[/bold]

phloem sbn fit primates --out primates.sbn.npz

phloem sbn fit run1.t run2.t --burnin 0.25 --method average --out quick.npz

phloem sbn fit run1.t --burnin 0.25 --closure clades --smoothing 1e-4 --out wide.npz
"""

SCORE_EXAMPLES = """
[bold]Examples[/bold]

phloem sbn score primates.sbn.npz primates

phloem sbn score posterior.npz other-run.t --burnin 0.25 --json
"""

app = typer.Typer(
    name="sbn",
    help="Tree probabilities by a subsplit network: fit it to a tree sample, score trees with it.",
    epilog="[bold]Example[/bold]\n\nphloem sbn fit primates --out primates.sbn.npz",
    rich_markup_mode="rich",
)


@app.command(epilog=FIT_EXAMPLES)
def fit(
    trees: Annotated[list[str], typer.Argument(metavar="TREES", help=f"{TREES_HELP} Each file counts the same.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The .npz file to write.")],
    method: Annotated[
        Literal["em", "average"],
        typer.Option(help="em: maximum likelihood over rootings. average: all rootings equal, in one pass."),
    ] = "em",
    smoothing: Annotated[
        float, typer.Option(min=0, help="Pseudo-count for every subsplit, as a share of the sample.")
    ] = 1e-6,
    closure: Annotated[Literal["none", "clades"], typer.Option(help=CLOSURE_HELP)] = "none",
    burnin: Annotated[str, typer.Option(help=BURNIN_HELP)] = "0",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a line.")] = False,
) -> None:
    """Fit a subsplit network to trees: it also gives probabilities to trees that were never sampled."""
    # Imported here so that `phloem --help` need not wait for numba and torch.
    from phloem.tasks.sbn import fit_trees

    with _progress() as show:
        done = fit_trees(
            trees,
            out,
            method=method,
            smoothing=smoothing,
            closure=closure,
            burnin=parse_burnin(burnin),
            progress=show,
        )
    if as_json:
        print(json.dumps(done._asdict()))
        return
    iterations = "" if method == "average" else f", {counted(done.iterations, 'iteration')} of EM"
    stopped = "" if done.converged else " (not converged)"
    left_out = f"{counted(done.splits_left_out, 'rare split')} left out, " if done.splits_left_out else ""
    print(
        f"{counted(done.topologies, 'topology', 'topologies')} on {done.taxa:,} taxa, {left_out}"
        f"{counted(done.parameters, 'parameter')}{iterations}{stopped}, "
        f"mean log-probability {done.log_likelihood:.4f}: {out}"
    )


@contextmanager
def _progress() -> Iterator[Any]:
    """A status line during EM, on a terminal only."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    with console.status("reading trees") as status:
        yield lambda step: status.update(
            f"EM iteration {step.iteration:,}, mean log-probability {step.log_likelihood:.6f}"
        )


@app.command(epilog=SCORE_EXAMPLES)
def score(
    network: Annotated[Path, typer.Argument(metavar="FILE", help="A network written by `phloem sbn fit`.")],
    trees: Annotated[list[str], typer.Argument(metavar="TREES", help=f"{TREES_HELP} Each file counts the same.")],
    burnin: Annotated[str, typer.Option(help=BURNIN_HELP)] = "0",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Print the log-probability of every tree, in file order, and how well the network fits the sample as a whole.

    coverage: the share of the sample within the network's support. divergence: Kullback–Leibler, from the sample's
    frequencies to the network.
    """
    # Imported here so that `phloem --help` need not wait for numba and torch.
    from phloem.tasks.sbn import score_trees

    scores = score_trees(network, trees, burnin=parse_burnin(burnin))
    if as_json:
        print(json.dumps(scores.as_json()))
    else:
        _print_scores(scores)


def _print_scores(scores: "TreeScores") -> None:
    print(f"{'tree':>6}   {'weight':>10}   log-probability")
    for number, (weight, value) in enumerate(zip(scores.sample.weights, scores.log_probabilities, strict=True), 1):
        print(f"{number:>6}   {weight:>10.6f}   {value:>15.6f}")
    divergence = "infinite" if scores.divergence is None else f"{scores.divergence:.6f}"
    print(
        f"\n{counted(scores.topologies, 'topology', 'topologies')}, coverage {scores.coverage:.6f}, "
        f"total probability {scores.total_probability:.6f}, divergence {divergence}"
    )
