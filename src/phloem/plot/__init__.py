"""Figures for a paper, with matplotlib: records in, `Figure` out, drawn on new axes or on those given."""

from typing import TYPE_CHECKING

from phloem.lazy import lazy_names

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Figure

    from phloem.plot.diagnostics import gaps as gaps
    from phloem.plot.diagnostics import training as training
    from phloem.plot.diagnostics import weights as weights
    from phloem.plot.lengths import branch_lengths as branch_lengths
    from phloem.plot.lengths import parameters as parameters
    from phloem.plot.lengths import tree_lengths as tree_lengths
    from phloem.plot.samples import clades as clades
    from phloem.plot.samples import topologies as topologies
    from phloem.plot.style import save as save
    from phloem.plot.trees import cloud as cloud
    from phloem.plot.trees import tree as tree
else:
    __getattr__, __dir__ = lazy_names(__name__, __file__)
