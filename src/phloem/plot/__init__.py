"""Figures for a paper, with matplotlib: records in, `Figure` out, drawn on new axes or on those given."""

from matplotlib.figure import Figure as Figure

from phloem.plot.clade_agreement import clades as clades
from phloem.plot.density_experiment import density as density
from phloem.plot.gaps import gaps as gaps
from phloem.plot.importance_weights import weights as weights
from phloem.plot.length_distribution import tree_lengths as tree_lengths
from phloem.plot.length_intervals import branch_lengths as branch_lengths
from phloem.plot.phylogram import tree as tree
from phloem.plot.saving import save as save
from phloem.plot.topology_probabilities import topologies as topologies
from phloem.plot.training_curves import training as training
from phloem.plot.tree_cloud import cloud as cloud
