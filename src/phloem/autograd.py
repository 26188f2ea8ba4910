"""What hand-written gradients share: they can be taken once, and their products can be kept to one thread."""

import torch

from phloem.arrays import RealArray
from phloem.errors import BadArgument


def refuse_second_derivatives() -> None:
    """Raise where a backward pass is itself recorded: its result would silently be taken for a constant."""
    if torch.is_grad_enabled():
        raise BadArgument("second derivatives are not available here. Leave out create_graph.")


def matrix_product(left: RealArray, right: RealArray) -> RealArray:
    """left @ right. numpy's own products use all cores, whatever else is at work there."""
    product: RealArray = (torch.from_numpy(left) @ torch.from_numpy(right)).numpy()
    return product
