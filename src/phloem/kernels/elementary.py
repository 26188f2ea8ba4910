"""exp and log in plain arithmetic: loops over them become vector code, which library calls prevent.

exp(x) = 2^k · exp(r) with k = round(x / log 2) and |r| ≤ log 2 / 2, where the series up to r^11 gives 14 digits, and up
to r^6, in single precision, 6 or 7.

log(x) = k log 2 + log m for x = 2^k · m with m from 1/√2 to √2, and log m = 2 artanh(s) with s = (m - 1) / (m + 1),
|s| ≤ 0.172, where the series up to s^19 gives 15 digits.
"""

from typing import Any

import numba
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from phloem.kernels.jit import vector_kernel

LOG2_E = 1.4426950408889634
# log 2 in two parts, the first with few digits, so that k times it is exact in single precision too.
LOG_2_HIGH = 0.693145751953125
LOG_2_LOW = 1.42860682030941723212e-6
LOG_2 = 0.6931471805599453
DIGITS, BIAS = 52, 1023  # of a double
HALF_ROOT = 0x3FE6A09E667F3BCD  # the bits of 1/√2


@intrinsic
def nearest(_context: Any, number: Any) -> Any:
    """The nearest whole number, of the same type."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        rounding = builder.module.declare_intrinsic("llvm.rint", [arguments[0].type])
        return builder.call(rounding, arguments)

    return number(number), generate


@intrinsic
def power_of_two(_context: Any, exponent: Any) -> Any:
    """2 to a whole number within the range of normal numbers, of the same type: its bits are the exponent's."""
    if exponent not in (types.float32, types.float64):
        raise numba.TypingError("power_of_two: a floating-point number is needed")
    word = ir.IntType(exponent.bitwidth)
    bias, digits = (127, 23) if exponent == types.float32 else (1023, 52)

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        shifted = builder.add(builder.fptosi(arguments[0], word), ir.Constant(word, bias))
        return builder.bitcast(builder.shl(shifted, ir.Constant(word, digits)), arguments[0].type)

    return exponent(exponent), generate


@intrinsic
def same_type(_context: Any, _number: Any, like: Any) -> Any:
    """A constant as the type of `like`: numba would compute in double precision otherwise."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return context.cast(builder, arguments[0], signature.args[0], signature.return_type)

    return like(_number, like), generate


@intrinsic
def is_single(_context: Any, number: Any) -> Any:
    """Whether a number is of single precision: a constant, so that the branch not taken is compiled away."""

    def generate(context: Any, _builder: Any, signature: Any, _arguments: Any) -> Any:
        return context.get_constant(types.boolean, signature.args[0] == types.float32)

    return types.boolean(number), generate


@vector_kernel
def exp_below_zero(x):
    """exp(x) for x ≤ 0; results too small for a normal number become about the least of them."""
    least = same_type(-87.0, x) if is_single(x) else same_type(-708.0, x)
    x = least if x < least else x  # nan stays nan
    k = nearest(x * same_type(LOG2_E, x))
    r = (x - k * same_type(LOG_2_HIGH, x)) - k * same_type(LOG_2_LOW, x)
    series = same_type(1 / 720, x)
    if not is_single(x):
        series = same_type(1 / 39916800, x) * r + same_type(1 / 3628800, x)
        series = series * r + same_type(1 / 362880, x)
        series = series * r + same_type(1 / 40320, x)
        series = series * r + same_type(1 / 5040, x)
        series = series * r + same_type(1 / 720, x)
    series = series * r + same_type(1 / 120, x)
    series = series * r + same_type(1 / 24, x)
    series = series * r + same_type(1 / 6, x)
    series = series * r + same_type(0.5, x)
    series = series * r + same_type(1.0, x)
    series = series * r + same_type(1.0, x)
    return series * power_of_two(k)


@intrinsic
def split_power(_context: Any, number: Any) -> Any:
    """(k, m) of a normal number x = 2^k · m above zero, both as doubles."""
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
