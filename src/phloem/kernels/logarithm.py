"""log(x) for x > 0 in plain arithmetic, so that loops over it become vector code, which calls of a library do not.

x = 2^k · m with m from 1/√2 to √2, and log m = 2 artanh(s) with s = (m - 1) / (m + 1), |s| ≤ 0.172, where the series
up to s^19 gives 15 digits.
"""

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from phloem.kernels.jit import vector_kernel

LOG_2 = 0.6931471805599453
DIGITS, BIAS = 52, 1023  # of a double
HALF_ROOT = 0x3FE6A09E667F3BCD  # the bits of 1/√2


@intrinsic
def split_power(_context: Any, number: Any) -> Any:
    """(k, m) as above of a normal number above zero, both as doubles."""
    word, double = ir.IntType(64), ir.DoubleType()

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        bits = builder.bitcast(arguments[0], word)
        # Counted from 1/√2 instead of 1, the exponent of the bits is k.
        above = builder.sub(bits, ir.Constant(word, HALF_ROOT))
        power = builder.ashr(above, ir.Constant(word, DIGITS))
        rest = builder.sub(bits, builder.shl(power, ir.Constant(word, DIGITS)))
        pair = builder.sitofp(power, double), builder.bitcast(rest, double)
        return context.make_tuple(builder, types.UniTuple(types.float64, 2), pair)

    return types.UniTuple(types.float64, 2)(types.float64), generate


@vector_kernel
def log_above_zero(x):
    """log(x) of a normal number above zero."""
    k, m = split_power(x)
    s = (m - 1.0) / (m + 1.0)
    square = s * s
    series = square * (1 / 19) + 1 / 17
    series = series * square + 1 / 15
    series = series * square + 1 / 13
    series = series * square + 1 / 11
    series = series * square + 1 / 9
    series = series * square + 1 / 7
    series = series * square + 1 / 5
    series = series * square + 1 / 3
    return k * LOG_2 + (2.0 * s + 2.0 * s * square * series)
