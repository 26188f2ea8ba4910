"""What a network sees of a tree: raw features, and features learned by graph convolutions."""

from typing import TYPE_CHECKING

from phloem.lazy import lazy_names

if TYPE_CHECKING:
    from phloem.features.convolutions import BranchReadout as BranchReadout
    from phloem.features.convolutions import Convolution as Convolution
    from phloem.features.convolutions import NodeFeatures as NodeFeatures
    from phloem.features.convolutions import TreeReadout as TreeReadout
    from phloem.features.layers import DenseStates as DenseStates
    from phloem.features.layers import NodeStates as NodeStates
    from phloem.features.layers import RawStates as RawStates
    from phloem.features.layers import TreeGraph as TreeGraph
    from phloem.features.raw import dirichlet_features as dirichlet_features
    from phloem.features.raw import random_tips as random_tips
    from phloem.features.raw import recover_topologies as recover_topologies
    from phloem.features.raw import recover_tree as recover_tree
    from phloem.features.raw import tree_features as tree_features
else:
    __getattr__, __dir__ = lazy_names(__name__, __file__)
