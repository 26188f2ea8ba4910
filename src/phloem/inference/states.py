"""The states of trainings: arrays by name, the memory of a model and of its optimisers."""

from phloem.errors import BadArgument
from phloem.kernels.arrays import AnyArray


def restore_state(mine: dict[str, AnyArray], saved: dict[str, AnyArray]) -> None:
    """Put a saved state in the place of the present one, in place; raise if it is of another model."""
    shapes = [{name: (array.shape, array.dtype) for name, array in state.items()} for state in (mine, saved)]
    if shapes[0] != shapes[1]:
        raise BadArgument("training: the state is that of another model. Use its own support and settings.")
    for name, array in mine.items():
        array[...] = saved[name]
