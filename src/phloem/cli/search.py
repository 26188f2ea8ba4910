"""`phloem search`: alignment → the maximum-likelihood tree with bootstrap supports."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from phloem.cli.flags import Flag, Flags, with_config
from phloem.cli.options import ALIGNMENT_HELP, LongNames
from phloem.config.search import SEARCH, SearchConfig
from phloem.errors import counted

if TYPE_CHECKING:
    from phloem.tasks.search import SearchProgress, SearchRun

EXAMPLES = """
[bold]Examples[/bold]

phloem search primates --out best.nwk

phloem search dna.fasta --out best.nex --model GTR+I+G4 --seed 7

phloem search dna.fasta --out best.nwk --bootstrap-trees bootstrap.nwk --best-trees good.nwk --keep 100 --within 5
"""


FLAGS = Flags(
    SEARCH,
    [
        Flag("--model", "model", "Substitution model, whose parameters are estimated: JC, HKY, GTR+I+G4, …"),
        Flag("--count", "count", "Bootstrap trees for the supports."),
        Flag("--seed", "seed", "The same seed gives the same files."),
        Flag("--keep", "keep", "How many of the best trees to write to --best-trees."),
        Flag("--within", "within", "How many log-likelihood units below the very best they may be."),
        Flag("--threads", "threads", "Cores to use.", "all cores"),
    ],
)


@with_config(FLAGS)
def search(
    alignment: Annotated[str, typer.Argument(metavar="ALIGNMENT", help=ALIGNMENT_HELP)],
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", metavar="FILE", help="The tree: NEXUS for .nex, else Newick with supports as labels."
        ),
    ],
    config: SearchConfig,
    long_names: LongNames = False,
    bootstrap_trees: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the bootstrap trees too.", show_default="none")
    ] = None,
    best_trees: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the best trees of the search too, best first.", show_default="none"),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """Find the maximum-likelihood tree, with branch lengths and bootstrap supports in percent.

    The search is phloem's own. Bootstrap trees come from resampling the sites of all good trees that it visits.
    """
    # Imported here to keep `phloem --help` fast.
    from phloem.display.bar import progress_bar
    from phloem.tasks.search import SearchFiles, run_search

    with progress_bar("search", quiet=quiet) as show:

        def report(news: "SearchProgress") -> None:
            show(news.fraction, f"log-likelihood {news.log_likelihood:,.2f}")

        files = SearchFiles(out, bootstrap_trees, best_trees)
        done = run_search(alignment, files, config, long_names=long_names, progress=report)
    if as_json:
        print(json.dumps(done.as_json()))
    else:
        print_search(done)


def print_search(done: "SearchRun") -> None:
    """The result for people."""
    found, files = done.found, done.files
    stable = "stable" if found.is_stable else "not stable"
    print(f"log-likelihood   {found.log_likelihood:.3f}")
    print(f"model            {found.model.in_words()}")
    print(f"search           {counted(found.climbs, 'climb')}")
    trees = counted(len(found.bootstrap), "bootstrap tree")
    print(f"supports         of {trees}, {stable} (correlation {found.correlation:.3f})")
    print(f"tree             {files.tree}")
    if files.bootstrap_trees:
        print(f"bootstrap trees  {files.bootstrap_trees}")
    if files.best_trees:
        print(f"best trees       {files.best_trees} ({len(found.best):,} within {done.config.within:g})")
    if not found.is_stable:
        print("The supports still changed when the search ended: compare those of another --seed before trusting them.")
