"""What is unknown: topologies, tree samples, tree files, splits, summaries."""

from typing import TYPE_CHECKING

from phloem.lazy import lazy_names

if TYPE_CHECKING:
    from phloem.trees.branch_lengths import SplitLengths as SplitLengths
    from phloem.trees.branch_lengths import shortest_interval as shortest_interval
    from phloem.trees.branch_lengths import split_lengths as split_lengths
    from phloem.trees.branch_lengths import weighted_median as weighted_median
    from phloem.trees.consensus import SummaryTree as SummaryTree
    from phloem.trees.consensus import extended_majority_rule as extended_majority_rule
    from phloem.trees.consensus import majority_rule as majority_rule
    from phloem.trees.consensus import maximum_clade_credibility as maximum_clade_credibility
    from phloem.trees.consensus import summary_tree as summary_tree
    from phloem.trees.generation import all_topologies as all_topologies
    from phloem.trees.generation import nni_neighbors as nni_neighbors
    from phloem.trees.generation import random_topologies as random_topologies
    from phloem.trees.generation import yule_trees as yule_trees
    from phloem.trees.reading import parse_newick as parse_newick
    from phloem.trees.reading import read_any_trees as read_any_trees
    from phloem.trees.reading import read_trees as read_trees
    from phloem.trees.rooting import root_at_midpoint as root_at_midpoint
    from phloem.trees.rooting import root_at_outgroup as root_at_outgroup
    from phloem.trees.sample import GroupedTrees as GroupedTrees
    from phloem.trees.sample import TreeSample as TreeSample
    from phloem.trees.sample import credible_topologies as credible_topologies
    from phloem.trees.sample import pool as pool
    from phloem.trees.splits import robinson_foulds as robinson_foulds
    from phloem.trees.splits import split_frequencies as split_frequencies
    from phloem.trees.topology import TopologyBatch as TopologyBatch
    from phloem.trees.tree import Tree as Tree
    from phloem.trees.tree import WeightedTrees as WeightedTrees
    from phloem.trees.writing import format_annotated as format_annotated
    from phloem.trees.writing import format_newick as format_newick
    from phloem.trees.writing import format_tree as format_tree
    from phloem.trees.writing import write_annotated_newick as write_annotated_newick
    from phloem.trees.writing import write_annotated_nexus as write_annotated_nexus
    from phloem.trees.writing import write_labelled_nexus as write_labelled_nexus
    from phloem.trees.writing import write_newick as write_newick
    from phloem.trees.writing import write_nexus as write_nexus
else:
    __getattr__, __dir__ = lazy_names(__name__, __file__)
