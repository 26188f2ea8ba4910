"""`phloem infer`: alignment → posterior."""

import json
import os
import shlex
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from phloem.cli.flags import Settings, with_infer_settings
from phloem.cli.options import ALIGNMENT_HELP, CHECKPOINT_HELP, LongNames, SupportTrees, terminal_width
from phloem.config import InferConfig
from phloem.errors import BadArgument, ProgramProblem, StoppedByUser, counted

if TYPE_CHECKING:
    from phloem.runs.driver import Interrupted
    from phloem.tasks.posterior import Posterior

EXAMPLES = """
[bold]Examples[/bold]

phloem infer primates --preset quick

phloem infer dna.fasta --out run

phloem infer dna.fasta --out run --resume

phloem infer dna.fasta --trees bootstrap/ --model HKY --kappa 2 --gamma 4 --alpha 0.5 --steps 100000 --seed 7

phloem infer dna.fasta --config run.toml --set training.ramp=0.5 --runs 4 --plain
"""


@with_infer_settings
def infer(
    alignment: Annotated[
        str | None,
        typer.Argument(metavar="ALIGNMENT", help=f"{ALIGNMENT_HELP} Optional with --resume."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="DIR",
            help="Run directory.",
            show_default="named after the alignment: dna-run for dna.fasta",
        ),
    ] = None,
    trees: SupportTrees = None,
    long_names: LongNames = False,
    mrbayes: Annotated[
        bool, typer.Option("--mrbayes/--no-mrbayes", help="Take model and priors from a NEXUS file's MrBayes block.")
    ] = True,
    write_mrbayes: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Also write alignment, model and priors for MrBayes there.", show_default="none"
        ),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Resume the run in the directory, if there is one.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the run in the directory.")] = False,
    checkpoint_every: Annotated[str, typer.Option(metavar="TIME", help=CHECKPOINT_HELP)] = "2m",
    threads: Annotated[
        int | None, typer.Option(min=1, help="Cores to use for all runs together.", show_default="all physical cores")
    ] = None,
    plain: Annotated[bool, typer.Option("--plain", help="Show lines instead of a live panel.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show only warnings and errors.")] = False,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Also write the reports for TensorBoard.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON instead of text.")] = False,
    *,
    settings: Settings[InferConfig],
) -> None:
    """Infer the posterior over trees and branch lengths: bootstrap trees, exploring, training, a report.

    Everything is kept in one directory. Ctrl-C stops a run with a checkpoint; --resume continues as if nothing had
    happened.

    Settings come from a preset, a file and flags; `phloem config show` prints the result.
    """
    if is_one_of_many() and os.environ.get("RANK") != "0":
        follow_rank_0(threads)
    if out is None and alignment is None:
        raise BadArgument("name an alignment, or a run to resume: phloem infer --resume --out DIR")
    out = out or default_directory(str(alignment))
    from phloem.tasks.mrbayes_settings import may_have_block

    if not (resume or is_one_of_many() or (mrbayes and may_have_block(str(alignment)))):
        settings.resolve()  # bad settings are reported before numba and torch are loaded

    from phloem.display.lines import choose_display
    from phloem.runs.checkpoints import parse_interval
    from phloem.runs.driver import Interrupted, RunOptions, RunRequest
    from phloem.runs.meeting import ending, meet_if_told
    from phloem.tasks.infer import InferRequest, run_inference

    options = RunOptions(threads, parse_interval(checkpoint_every), tensorboard)
    run = RunRequest(out, resume, force, shlex.join(sys.argv), options)
    request = InferRequest(
        alignment,
        run,
        trees or (),
        settings.preset,
        settings.layers(),
        long_names=long_names,
        mrbayes=mrbayes,
        mrbayes_file=write_mrbayes,
    )
    with ending(meet_if_told()) as ranks:
        try:
            with choose_display(plain=plain, quiet=quiet) as show:
                posterior = run_inference(request, show, ranks)
        except Interrupted as stop:
            how = how_to_resume(stop, alignment, long_names=long_names)
            if ranks.failure is not None:
                raise ProgramProblem(f"{ranks.failure}; {how}") from None
            raise StoppedByUser(how) from None
    if as_json:
        print(json.dumps(posterior.summary.as_json()))
    elif not quiet:
        print_posterior(posterior)


def is_one_of_many() -> bool:
    """Whether a launcher started several processes for this command."""
    return os.environ.get("WORLD_SIZE", "1") != "1"


def follow_rank_0(threads: int | None) -> NoReturn:
    """Be another rank than 0, which alone reads settings, writes and speaks."""
    from phloem.runs.meeting import Follower, meet_if_told
    from phloem.tasks.following import follow

    ranks = meet_if_told()
    assert isinstance(ranks, Follower)
    follow(ranks, threads)


def default_directory(alignment: str) -> Path:
    """`dna-run` for `data/dna.fasta.gz`, in the current directory."""
    name = Path(alignment).name.removesuffix(".gz")
    return Path(f"{name.rsplit('.', 1)[0] or name}-run")


def how_to_resume(stop: "Interrupted", alignment: str | None, *, long_names: bool = False) -> str:
    """What was saved, and the command that resumes it."""
    if not stop.begun:
        return f"stopped; {stop.directory} is unchanged. Run the same command again."
    named = "" if alignment is None else f"{shlex.quote(alignment)} {'--long-names ' if long_names else ''}"
    return f"stopped, {stop.saved}. Resume with: phloem infer {named}--out {shlex.quote(str(stop.directory))} --resume"


def print_posterior(posterior: "Posterior") -> None:
    """Print the results, where the files are, and what to do next."""
    directory = posterior.directory
    from phloem.tasks.posterior import USUAL_COUNT

    draws, trust = posterior.summary.draws, posterior.trust
    trees = min(USUAL_COUNT, draws.count)
    print("\n".join(posterior.describe(terminal_width())))
    print(f"""
files in {directory}:
  report.html                   all of this, for the browser
  consensus.nex                 consensus trees with supports, for FigTree
  consensus-labels.nex          the same, supports as node labels, for R's ape
  posterior.nex, posterior.log  {trees:,} posterior trees, and a trace for Tracer
  topologies.csv, clades.csv    topologies and clades with their probabilities
  summary.json, history.csv     these numbers, and the course of training
  config.toml                   every setting, for --config

next:
  phloem report {directory} --outgroup NAME  the trees rooted where you want them
  phloem.load_posterior({str(directory)!r})  in Python: the trained model, to draw from""")
    if trust.level == "do not trust":
        worth = counted(round(min(trees, draws.effective_sample_size)), "independent one")
        verdict = f"DO NOT TRUST these results. The trees of posterior.nex are worth {worth}. {trust.advice}"
        print("\n".join(["", *textwrap.wrap(verdict, terminal_width())]))
    elif not posterior.runs:
        seed = posterior.config.seed + 1
        print(f"  phloem infer … --seed {seed} --out ANOTHER  does a second run find the same?")
