"""Adam (Kingma & Ba 2015) in one pass over a parameter and its moments."""

import math

from phloem.kernels.arrays import RealArray
from phloem.kernels.jit import vector_kernel
from phloem.kernels.pointers import at


@vector_kernel
def adam_update(
    parameter: RealArray,
    gradient: RealArray,
    mean: RealArray,
    square: RealArray,
    rate: float,
    decay: float,
    square_decay: float,
    epsilon: float,
    step: int,
) -> None:
    """parameter -= rate · m̂ / (√v̂ + ε), with the moments' decay; flat arrays of one type, `step` counted from 1."""
    kind = parameter.dtype.type
    target, source, first, second = at(parameter, 0), at(gradient, 0), at(mean, 0), at(square, 0)
    scale = kind(rate / (1 - decay**step))
    root = kind(1 / math.sqrt(1 - square_decay**step))
    keep, add, keep_square, add_square = kind(decay), kind(1 - decay), kind(square_decay), kind(1 - square_decay)
    small = kind(epsilon)
    for place in range(parameter.size):
        slope = source[place]
        moment = keep * first[place] + add * slope
        spread = keep_square * second[place] + add_square * slope * slope
        first[place] = moment
        second[place] = spread
        target[place] -= scale * moment / (root * math.sqrt(spread) + small)
