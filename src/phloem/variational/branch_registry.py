"""Branch-length models by name."""

from phloem.config import BRANCH_MODELS
from phloem.errors import BadArgument
from phloem.variational.branch_models import BranchModel, GraphModel, PspModel, SplitModel
from phloem.variational.support import SubsplitSupport


def build_branch_model(name: str, support: SubsplitSupport, *, depth: int = 2, width: int = 100) -> BranchModel:
    """The model of that name for the taxa of a support; depth and width are those of graph models."""
    if name == "split":
        return SplitModel(support)
    if name == "psp":
        return PspModel(support)
    if name not in BRANCH_MODELS:
        raise BadArgument(f"branch-length model {name}: choose one of {', '.join(BRANCH_MODELS)}.")
    return GraphModel(len(support.taxa), name, depth=depth, width=width)
