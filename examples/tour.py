"""A tour of the parts: features and back, likelihoods, tree distributions."""

import numpy as np
from rich.console import Console
from rich.table import Table

from phloem import RandomStream, read_alignment, read_trees
from phloem.data import compress, find_trees
from phloem.features import dirichlet_features, recover_topologies
from phloem.models import TreeLikelihood, optimize_branch_lengths
from phloem.trees import format_newick
from phloem.variational import fit_network


def shade(share: float) -> str:
    """A feature as a table cell: what is near stands out."""
    style = "bold green" if share > 0.3 else "dim" if share < 0.05 else "default"
    return f"[{style}]{share:.2f}[/]"


console = Console(highlight=False, soft_wrap=True)

sample = read_trees(find_trees("primates"))
taxa = len(sample.taxa)
console.print(f"[bold]1. Read[/]     {len(sample)} topologies of {taxa} primates, from 1,000 bootstrap trees.\n")

features = dirichlet_features(sample.topologies)  # (trees, nodes, taxa)
console.print(
    f"[bold]2. Embed[/]    Node features of shape {features.shape}: each interior node is its neighbours' mean."
)
best = int(np.argmax(sample.weights))
frequency = sample.weights[best] / sample.weights.sum()
table = Table(title=f"Interior nodes of the most frequent tree ({frequency:.0%})", box=None, padding=(0, 1))
table.add_column("", style="italic")
for node in range(taxa, sample.topologies.node_count):
    table.add_column(str(node), justify="right")
for taxon, name in enumerate(sample.taxa):
    table.add_row(name, *map(shade, features[best, taxa:, taxon]))
console.print(table, soft_wrap=False)

interior = np.random.default_rng(0).permutation(np.arange(taxa, sample.topologies.node_count))
shuffled = features[:, [*range(taxa), *interior]]
recovered = recover_topologies(shuffled, taxa)
same = recovered.equal(sample.topologies).sum()
console.print(
    f"\n[bold]3. Recover[/]  {same} of {len(sample)} topologies, from shuffled features alone. The most frequent:"
)
console.print(format_newick(recovered[best], sample.taxa)[0])

alignment = read_alignment("primates")
likelihood = TreeLikelihood(compress(alignment))
found = optimize_branch_lengths(likelihood, sample.with_taxa(alignment.taxa).topologies)
console.print(
    f"\n[bold]4. Fit[/]      Best branch lengths for {alignment.site_count} sites of mtDNA under Jukes–Cantor."
)
fits = Table(box=None, padding=(0, 1))
for heading in ("tree", "bootstrap trees", "log-likelihood", "tree length"):
    fits.add_column(heading, justify="right")
for tree in range(5):
    value, length = found.log_likelihoods[tree], found.branch_lengths[tree].sum()
    fits.add_row(str(tree + 1), f"{sample.weights[tree]:.0f}", f"{value:.3f}", f"{length:.4f}")
console.print(fits, soft_wrap=False)

fitted = fit_network(sample, smoothing=1e-6).network
draws = fitted.sample(10_000, stream=RandomStream(1, "demo draws"))
known = {row.tobytes() for row in sample.topologies.parent}
new = [row.tobytes() for row in draws.parent if row.tobytes() not in known]
console.print(
    f"\n[bold]5. Extend[/]   A subsplit network fitted to these trees: {len(new) / 100:.2f} % of 10,000 draws are "
    f"{len(set(new))} topologies that the bootstrap never met."
)

console.print(
    "\nThe posterior of trees and branch lengths, with learned features:  phloem infer primates --preset quick"
)
