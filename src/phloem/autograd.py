"""What hand-written gradients share: they can be taken once."""

import torch

from phloem.errors import BadArgument


def refuse_second_derivatives() -> None:
    """Raise where a backward pass is itself recorded: its result would silently be taken for a constant."""
    if torch.is_grad_enabled():
        raise BadArgument("second derivatives are not available here. Leave out create_graph.")
