"""Our samples as DendroPy has them, and trees of either kind as sets of names."""

import dendropy
import numpy as np

from phloem.trees.sample import TreeSample
from phloem.trees.tree import Tree
from phloem.trees.writing import format_newick
from reference import nested


def tree_list(sample: TreeSample) -> dendropy.TreeList:
    """The sample's trees, unrooted, with weights and lengths; taxon i is bit i."""
    trees = dendropy.TreeList.get(
        data="\n".join(format_newick(sample.topologies, sample.taxa, sample.branch_lengths)),
        schema="newick",
        rooting="force-unrooted",
        preserve_underscores=True,
        taxon_namespace=dendropy.TaxonNamespace(sample.taxa),
    )
    for tree, weight in zip(trees, sample.weights.tolist(), strict=True):
        tree.weight = weight
    return trees


def members_of(bitmask: int, taxon_count: int) -> np.ndarray:
    """The side of a split without taxon 0, (taxa,)."""
    side = np.array([bool(bitmask >> taxon & 1) for taxon in range(taxon_count)])
    return ~side if side[0] else side


def splits_of(tree: dendropy.Tree, first: str) -> set[frozenset[str]]:
    """The nontrivial splits of a tree: the sides without the taxon that is named."""
    everything = {leaf.taxon.label for leaf in tree.leaf_node_iter()}
    sides = ({leaf.taxon.label for leaf in node.leaf_iter()} for node in tree.preorder_node_iter())
    sides = (everything - side if first in side else side for side in sides)
    return {frozenset(side) for side in sides if 1 < len(side) < len(everything) - 1}


def splits_of_ours(tree: Tree, taxa: tuple[str, ...]) -> set[frozenset[str]]:
    """The same of one of our trees: the sides without taxon 0."""
    splits = nested.nontrivial_splits(nested.from_parent(tree.parent.tolist(), tree.leaf_count))
    return {frozenset(taxa[leaf] for leaf in side) for side in splits}
