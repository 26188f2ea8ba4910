"""Q(τ, q): subsplit networks over topologies, models of branch lengths, and their joint."""

from typing import TYPE_CHECKING

from phloem.lazy import lazy_names

if TYPE_CHECKING:
    from phloem.variational.families import BranchDistribution as BranchDistribution
    from phloem.variational.families import BranchSample as BranchSample
    from phloem.variational.families import Lognormal as Lognormal
    from phloem.variational.families import Warped as Warped
    from phloem.variational.fitting import SubsplitFit as SubsplitFit
    from phloem.variational.fitting import fit_network as fit_network
    from phloem.variational.fitting import refit as refit
    from phloem.variational.joint import BranchModel as BranchModel
    from phloem.variational.joint import GraphModel as GraphModel
    from phloem.variational.joint import JointModel as JointModel
    from phloem.variational.joint import PspModel as PspModel
    from phloem.variational.joint import SplitModel as SplitModel
    from phloem.variational.joint import TreeDraw as TreeDraw
    from phloem.variational.joint import build_branch_model as build_branch_model
    from phloem.variational.sbn import SubsplitNetwork as SubsplitNetwork
    from phloem.variational.sbn import SubsplitSupport as SubsplitSupport
    from phloem.variational.sbn import collect_support as collect_support
    from phloem.variational.sbn import read_network as read_network
    from phloem.variational.sbn import read_support as read_support
    from phloem.variational.sbn import write_network as write_network
    from phloem.variational.sbn import write_support as write_support
else:
    __getattr__, __dir__ = lazy_names(__name__, __file__)
