"""`phloem density`: tree probabilities from a tree sample by an energy-based model."""

import json
import shlex
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from phloem.cli.flags import Flag, Flags, Settings, with_settings
from phloem.cli.options import BURNIN_HELP, CHECKPOINT_HELP, TREES_HELP, parse_burnin, plain_console, plain_table
from phloem.config.density import BASES, DENSITY, NOISES, DensityConfig
from phloem.config.infer import NETWORKS
from phloem.errors import BadArgument, StoppedByUser, counted

if TYPE_CHECKING:
    from phloem.tasks.density import DensityScores, DensitySummary

FIT_EXAMPLES = """
[bold]Examples[/bold]

phloem density fit primates --out primates-density --preset quick

phloem density fit run1.t run2.t --burnin 0.25 --out density --convolution edge

phloem density fit trees.nex --config run.toml --set clipping=inf --out density

phloem density fit --resume --out density
"""

SCORE_EXAMPLES = """
[bold]Examples[/bold]

phloem density score primates-density primates

phloem density score density other-run.t --burnin 0.25 --compare --json
"""

SAMPLE_EXAMPLES = """
[bold]Examples[/bold]

phloem density sample primates-density --count 1000 --out trees.nwk

phloem density sample density --method mcmc --count 5000 --out trees.nex
"""
DIRECTORY_HELP = "The directory of a run of `phloem density fit`."

FIT_FLAGS = Flags(
    DENSITY,
    [
        Flag("--convolution", "convolution", f"Graph convolution: {', '.join(NETWORKS)}.", metavar="NAME"),
        Flag(
            "--noise",
            "noise",
            f"What to contrast the trees with: {', '.join(NOISES)} (a subsplit network fitted to them, all topologies, "
            "the given topologies).",
            metavar="NAME",
        ),
        Flag("--base", "base", f"What the energy is relative to, with sbn: {', '.join(BASES)}.", metavar="NAME"),
        Flag("--noise-ratio", "noise_ratio", "Trees of the noise for each tree of the data."),
        Flag("--uniform-share", "uniform_share", "Share of uniform noise in that of the subsplit network."),
        Flag("--steps", "steps", "Training steps; the preset's schedule stretches with them."),
        Flag("--batch", "batch", "Trees of the data per step."),
        Flag("--rate", "rate", "Initial learning rate."),
        Flag("--depth", "depth", "Layers of the graph network."),
        Flag("--width", "width", "Channels of the graph network."),
        Flag(
            "--samples",
            "samples",
            "Trees of the noise for the normaliser, where there are too many topologies to sum over.",
        ),
        Flag("--seed", "seed", "The same seed gives the same density."),
    ],
)

app = typer.Typer(
    name="density",
    help="Tree probabilities from a tree sample by an energy-based model: fit it, score trees with it, draw trees.",
    epilog="[bold]Example[/bold]\n\nphloem density fit primates --out primates-density --preset quick",
    rich_markup_mode="rich",
)


@app.command(epilog=FIT_EXAMPLES)
@with_settings(FIT_FLAGS, "clipping=inf")
def fit(
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="The directory for the run.")],
    trees: Annotated[
        list[str] | None,
        typer.Argument(metavar="TREES", help=f"{TREES_HELP} All files have equal weight. Not needed with --resume."),
    ] = None,
    *,
    settings: Settings[DensityConfig],
    burnin: Annotated[str, typer.Option(help=BURNIN_HELP)] = "0",
    resume: Annotated[bool, typer.Option("--resume", help="Resume the run in the directory.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the run in the directory.")] = False,
    checkpoint_every: Annotated[str, typer.Option(metavar="TIME", help=CHECKPOINT_HELP)] = "2m",
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only errors.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON instead of text.")] = False,
) -> None:
    """Fit a density to weighted trees, such as an MCMC sample: a probability for any topology.

    A graph network learns to tell the trees from noise. All files are in one directory. Ctrl-C stops a fit and saves
    it; with --resume it ends up the same as if it had never stopped.
    """
    if not trees and not resume:
        raise BadArgument("name trees, or a run to resume: phloem density fit --resume --out DIR")
    settings.resolve()  # bad settings are reported before numba and torch are loaded

    from phloem.display.bar import bar_display
    from phloem.runs.checkpoints import parse_interval
    from phloem.runs.driver import Interrupted, RunOptions, RunRequest
    from phloem.tasks.density import DensityRequest, DensitySummary, fit_density_run

    options = RunOptions(interval=parse_interval(checkpoint_every))
    run = RunRequest(out, resume, force, shlex.join(sys.argv), options)
    try:
        with bar_display("density", quiet=quiet) as show:
            fit_density_run(
                DensityRequest(trees or (), run, settings.preset, settings.layers(), parse_burnin(burnin)), show
            )
    except Interrupted as stop:
        if not stop.begun:
            raise StoppedByUser(f"stopped; {out} is unchanged. Run the same command again.") from None
        again = f"phloem density fit --resume --out {shlex.quote(str(out))}"
        raise StoppedByUser(f"stopped, {stop.saved}. Resume with: {again}") from None
    summary = DensitySummary.read(out)
    if as_json:
        print(json.dumps(asdict(summary)))
    elif not quiet:
        _print_summary(summary, out)


def _print_summary(summary: "DensitySummary", out: Path) -> None:
    normalizer = summary.normalizer
    loss = "none" if summary.loss is None else f"{summary.loss:.5f}"
    method = (
        f"a sum over {counted(normalizer['topologies'], 'topology', 'topologies')}"
        if normalizer["method"] == "sum"
        else f"{counted(normalizer['draws'], 'draw')}, standard error {normalizer['error']:.4f}"
    )
    named, topologies = shlex.quote(str(out)), counted(summary.topologies, "topology", "topologies")
    print(f"""\
{topologies} on {summary.taxa:,} taxa; {summary.convolution}, {summary.noise} noise, \
{counted(summary.steps, "step")}, {summary.seconds:,.0f} s
loss            {loss}   of the last steps
divergence      {summary.divergence:.5f}   from the trees to the density, in nats
log normaliser  {normalizer["log_value"]:.5f}   by {method}

next:
  phloem density score {named} TREES --compare          log-probabilities of trees
  phloem density sample {named} --count 1000 --out FILE  new trees
  phloem.load_density({str(out)!r})  in Python""")
    if warning := _warning(normalizer, summary.noise):
        print(f"\nphloem: {warning}", file=sys.stderr)


def _warning(normalizer: Mapping[str, Any], noise: str) -> str:
    """A line about a normaliser that cannot be trusted; empty for one that can."""
    if normalizer["reliable"]:
        return ""
    other = "" if noise == "sbn" else ", or use --noise sbn"
    return (
        f"the normaliser is unreliable: the effective number of its {counted(normalizer['draws'], 'draw')} is "
        f"{normalizer['effective_draws']:,.0f}. Train for more steps{other}."
    )


@app.command(epilog=SCORE_EXAMPLES)
def score(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help=DIRECTORY_HELP)],
    trees: Annotated[list[str], typer.Argument(metavar="TREES", help=f"{TREES_HELP} All files have equal weight.")],
    burnin: Annotated[str, typer.Option(help=BURNIN_HELP)] = "0",
    compare: Annotated[
        bool, typer.Option("--compare", help="Compare with frequencies and subsplit networks of the same sample.")
    ] = False,
    smoothing: Annotated[
        float | None,
        typer.Option(help="The share of each of these estimates to spread over all topologies.", show_default="0.001"),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Print the log-probability of every tree, in file order, and their weighted mean.

    seen: the share of the trees' weight on topologies that the density was fitted to.
    """
    if smoothing is not None and not compare:
        raise BadArgument(f"--smoothing {smoothing:g}: there is nothing to smooth without --compare. Give both.")

    from phloem.display.bar import progress_bar
    from phloem.display.words import complain
    from phloem.tasks.density import USUAL_SMOOTHING, score_density

    with progress_bar("scoring", quiet=quiet) as show:
        scores = score_density(
            directory,
            trees,
            burnin=parse_burnin(burnin),
            smoothing=(USUAL_SMOOTHING if smoothing is None else smoothing) if compare else None,
            progress=show,
            notice=complain,
        )
    if as_json:
        print(json.dumps(scores.as_json()))
    else:
        _print_scores(scores)


def _print_scores(scores: "DensityScores") -> None:
    print(f"{'tree':>6}   {'weight':>10}   log-probability")
    for number, (weight, value) in enumerate(zip(scores.trees.weights, scores.log_probabilities, strict=True), 1):
        print(f"{number:>6}   {weight:>10.6f}   {value:>15.6f}")
    normalizer = scores.density.normalizer
    error = "exact" if normalizer.is_exact else f"± {normalizer.error:.4f}"
    print(
        f"\n{counted(scores.topologies, 'topology', 'topologies')}, seen {scores.seen:.6f}, "
        f"mean log-probability {scores.mean:.6f}\n"
        f"log normaliser {normalizer.log_value:.6f} ({error})"
    )
    if scores.comparison:
        compared = plain_table("estimate", "mean log-probability", "divergence", left=("estimate",))
        for row in scores.comparison:
            compared.add_row(row.estimate, f"{row.log_probability:.6f}", f"{row.divergence:.6f}")
        print()
        plain_console().print(compared)
    if warning := _warning(normalizer.as_json(), scores.density.config.noise):
        print(f"phloem: {warning}", file=sys.stderr)


@app.command(epilog=SAMPLE_EXAMPLES)
def sample(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help=DIRECTORY_HELP)],
    out: Annotated[
        Path,
        typer.Option("--out", "-o", metavar="FILE", help="Trees: NEXUS for .nex, .nexus, .t and .trees, else Newick."),
    ],
    count: Annotated[int, typer.Option(help="How many trees.")] = 1000,
    method: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="exact: from all topologies, up to 10 taxa. importance: from draws of the noise, by weight. mcmc: "
            "chains of interchanges and draws. auto: exact, else importance.",
        ),
    ] = "auto",
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same trees.")] = 1,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """Draw topologies from a density and write them, without branch lengths and with equal weights."""
    from phloem.display.bar import progress_bar
    from phloem.display.words import complain
    from phloem.tasks.density import sample_density_run

    with progress_bar("drawing", quiet=quiet) as show:
        done = sample_density_run(directory, out, count=count, method=method, seed=seed, progress=show, notice=complain)
    draws = done.draws
    if as_json:
        found = {"trees": count, "topologies": done.topologies, "method": draws.method, "quality": draws.quality}
        print(json.dumps(found))
        return
    trees, topologies = counted(count, "tree"), counted(done.topologies, "topology", "topologies")
    print(f"{trees}, {topologies}, {_drawn(draws.method, draws.quality)}: {out}")


def _drawn(method: str, quality: dict[str, Any]) -> str:
    """How trees were drawn, and how reliable they are."""
    if method == "exact":
        return f"independent draws from the probabilities of all {quality['topologies']:,}"
    if method == "importance":
        return f"resampled from {counted(quality['draws'], 'draw')} worth {quality['effective_draws']:,.0f}"
    reduction = quality["scale_reduction"]
    agree = (
        "" if reduction is None else f", R̂ {reduction:.3f}, worth {quality['effective_draws']:,.0f} independent ones"
    )
    return (
        f"{quality['chains']} chains of {counted(quality['steps'], 'step')}, accepted "
        f"{quality['accepted_interchanges']:.2f} of interchanges and {quality['accepted_draws']:.2f} of draws{agree}"
    )
