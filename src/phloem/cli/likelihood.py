"""`phloem likelihood`: alignment and trees → log-likelihoods."""

import json
from typing import TYPE_CHECKING, Annotated

import typer

from phloem.cli.flags import with_model
from phloem.cli.options import ALIGNMENT_HELP, LongNames, plain_console, plain_table
from phloem.config import ModelConfig
from phloem.errors import counted

if TYPE_CHECKING:
    from rich.table import Table

    from phloem.tasks.likelihood import LikelihoodTable

EXAMPLES = """
[bold]Examples[/bold]

phloem likelihood primates primates --optimize

phloem likelihood dna.fasta trees.nwk --model HKY --kappa 2 --frequencies empirical --gamma 4 --alpha 0.5

phloem likelihood dna.fasta tree.nwk --model GTR --rates 1,2,1,1,2,1 --frequencies .3,.2,.2,.3 --invariant .1 --json
"""


@with_model
def likelihood(
    alignment: Annotated[
        str,
        typer.Argument(metavar="ALIGNMENT", help=ALIGNMENT_HELP),
    ],
    trees: Annotated[str, typer.Argument(metavar="TREES", help="Newick or NEXUS, plain or .gz, or primates.")],
    model: ModelConfig,
    long_names: LongNames = False,
    optimize: Annotated[bool, typer.Option("--optimize", help="Find the best branch lengths first.")] = False,
    gradient: Annotated[
        bool, typer.Option("--gradient", help="Show the derivative with respect to every branch length.")
    ] = False,
    sites: Annotated[bool, typer.Option("--sites", help="Show the log-likelihood of every site.")] = False,
    threads: Annotated[int | None, typer.Option(min=1, help="Cores to use.", show_default="all cores")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
) -> None:
    """Compute log-likelihoods of trees for an alignment under a fixed substitution model.

    Trees need branch lengths, unless --optimize finds them, and the same taxa as the alignment.
    """
    # Imported here so that `phloem --help` need not wait for numba and torch.
    from phloem.tasks.likelihood import evaluate_likelihood

    table = evaluate_likelihood(
        alignment,
        trees,
        model,
        long_names=long_names,
        optimize=optimize,
        gradient=gradient,
        sites=sites,
        threads=threads,
    )
    if as_json:
        print(json.dumps(table.as_json()))
    else:
        _print_tables(table, optimize)


def _print_tables(table: "LikelihoodTable", optimized: bool) -> None:
    console = plain_console()
    facts = table.alignment
    console.print(
        f"{facts.taxa:,} taxa, {counted(facts.sites, 'site')}, {counted(facts.patterns, 'pattern')}, "
        f"{facts.missing_share:.1%} missing, "
        f"{facts.constant_sites} constant"
    )
    for names in facts.identical:
        console.print(f"identical sequences: {', '.join(names)}", markup=False)
    if facts.empty_sites:
        console.print(f"sites without any data: {facts.empty_sites}")
    if facts.empty_taxa:
        console.print(f"taxa without any data: {', '.join(facts.empty_taxa)}", markup=False)
    console.print(f"model {table.model.in_words()}\n")
    lengths = table.sample.branch_lengths
    assert lengths is not None
    plain = plain_table("tree", "log-likelihood", "tree length")
    for number, (value, row) in enumerate(zip(table.log_likelihoods, lengths, strict=True), 1):
        plain.add_row(str(number), f"{value:.4f}", f"{row.sum():.5f}")
    console.print(plain)
    if optimized:
        console.print("\nwith the best branch lengths:")
        for tree in table.newick():
            console.print(tree, markup=False)
    if table.gradients is not None:
        console.print(_branch_table(table))
    if table.sites is not None:
        console.print(_site_table(table))


def _branch_table(table: "LikelihoodTable") -> "Table":
    """One row per branch: the taxon at its end, or how many taxa are below it."""
    lengths, gradients = table.sample.branch_lengths, table.gradients
    assert lengths is not None
    assert gradients is not None
    rows = plain_table("tree", "branch", "length", "gradient", title="\nbranches", left=("branch",))
    for tree, below in enumerate(table.taxa_below()):
        for branch, names in enumerate(below):
            what = names[0] if len(names) == 1 else f"above {len(names)} taxa: {', '.join(names)}"
            shown = what if len(what) <= 60 else what[:59] + "…"
            rows.add_row(str(tree + 1), shown, f"{lengths[tree, branch]:.6g}", f"{gradients[tree, branch]:.6g}")
    return rows


def _site_table(table: "LikelihoodTable") -> "Table":
    """One row per site, one column per tree."""
    assert table.sites is not None
    rows = plain_table("site", *(f"tree {number}" for number in range(1, len(table.sites) + 1)), title="\nsites")
    for site, values in enumerate(table.sites.T, 1):
        rows.add_row(str(site), *(f"{value:.6f}" for value in values))
    return rows
