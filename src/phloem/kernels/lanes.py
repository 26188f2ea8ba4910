"""Four doubles in one vector register, as a type that kernels can compute with.

Where rows are short and gathered from all over memory, the compiler finds no loop to make vectors of. Here they are
written out: `x * y + z` on lanes is one instruction for four numbers, and stays lanes. A machine with shorter registers
uses two.
"""

import operator
from math import factorial
from typing import Any

from llvmlite import ir
from numba.core import types
from numba.core.imputils import lower_builtin
from numba.core.typing.templates import ConcreteTemplate, infer_global, signature
from numba.extending import intrinsic, models, register_model

from phloem.kernels.jit import vector_kernel

WIDTH = 4
DOUBLE_BYTES = 8
LOG2_E = 1.4426950408889634
# log 2 in two parts, the first with so few digits that a whole number of thousands times it is exact.
LOG_2_HIGH, LOG_2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
# Added to a small number, it leaves the nearest whole number in the lowest bits.
ROUNDING = 1.5 * 2.0**52
LEAST_EXPONENT = -700.0
C2, C3, C4, C5, C6, C7, C8, C9, C10, C11, C12, C13 = (1 / factorial(order) for order in range(2, 14))


class LanesType(types.Type):
    """numba's name for them."""

    def __init__(self) -> None:
        super().__init__("Lanes")


lanes = LanesType()
VECTOR = ir.VectorType(ir.DoubleType(), WIDTH)
WORDS = ir.VectorType(ir.IntType(64), WIDTH)


@register_model(LanesType)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, VECTOR)


def _arithmetic(function: Any, instruction: str) -> None:
    """Make an operator work on two lanes."""

    @infer_global(function)
    class _Typing(ConcreteTemplate):
        cases = (signature(lanes, lanes, lanes),)

    @lower_builtin(function, lanes, lanes)  # type: ignore[untyped-decorator]
    def _generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return getattr(builder, instruction)(*arguments)


for _functions, _instruction in (
    ((operator.add, operator.iadd), "fadd"),
    ((operator.sub, operator.isub), "fsub"),
    ((operator.mul, operator.imul), "fmul"),
):
    for _function in _functions:
        _arithmetic(_function, _instruction)


def _address(builder: Any, pointer: Any, offset: Any) -> Any:
    return builder.bitcast(builder.gep(pointer, [offset]), VECTOR.as_pointer())


def _repeated(builder: Any, vector: Any, place: int) -> Any:
    order = ir.Constant(ir.VectorType(ir.IntType(32), WIDTH), [place] * WIDTH)
    return builder.shuffle_vector(vector, ir.Constant(VECTOR, ir.Undefined), order)


@intrinsic
def load(_context: Any, pointer: Any, offset: Any) -> Any:
    """The four doubles from `offset` on."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.load(_address(builder, *arguments), align=DOUBLE_BYTES)

    return lanes(pointer, types.intp), generate


@intrinsic
def store(_context: Any, pointer: Any, offset: Any, value: Any) -> Any:
    """Write the four doubles from `offset` on."""

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        builder.store(arguments[2], _address(builder, *arguments[:2]), align=DOUBLE_BYTES)
        return context.get_dummy_value()

    return types.none(pointer, types.intp, value), generate


@intrinsic
def spread(_context: Any, number: Any) -> Any:
    """A number in all four lanes."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        first = ir.Constant(ir.IntType(32), 0)
        vector = builder.insert_element(ir.Constant(VECTOR, ir.Undefined), arguments[0], first)
        return _repeated(builder, vector, 0)

    return lanes(types.float64), generate


@intrinsic(prefer_literal=True)
def spread_lane(_context: Any, value: Any, place: Any) -> Any:
    """One of the lanes, a constant, in all four."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return _repeated(builder, arguments[0], place.literal_value)

    return lanes(value, place), generate


@intrinsic(prefer_literal=True)
def lane(_context: Any, value: Any, place: Any) -> Any:
    """One of the lanes, a constant, as a number."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.extract_element(arguments[0], ir.Constant(ir.IntType(32), place.literal_value))

    return types.float64(value, place), generate


@intrinsic
def smaller(_context: Any, one: Any, other: Any) -> Any:
    """The smaller of two in each lane."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.select(builder.fcmp_ordered("<", *arguments), *arguments)

    return lanes(one, other), generate


@intrinsic
def choose_if_smaller(_context: Any, one: Any, other: Any, then: Any, otherwise: Any) -> Any:
    """In each lane `then` where 0 < one < other, and else `otherwise`."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        zero = ir.Constant(VECTOR, [ir.Constant(ir.DoubleType(), 0.0)] * WIDTH)
        above = builder.fcmp_ordered(">", arguments[0], zero)
        return builder.select(
            builder.and_(above, builder.fcmp_ordered("<", arguments[0], arguments[1])), arguments[2], arguments[3]
        )

    return lanes(one, other, then, otherwise), generate


@intrinsic
def _power_of_two(_context: Any, exponent: Any) -> Any:
    """2^k in each lane, from k + ROUNDING, whose lowest bits are k."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        bits = builder.bitcast(arguments[0], WORDS)
        biased = builder.add(bits, ir.Constant(WORDS, [1023] * WIDTH))
        return builder.bitcast(builder.shl(biased, ir.Constant(WORDS, [52] * WIDTH)), VECTOR)

    return lanes(exponent), generate


@vector_kernel
def total(value):
    """The sum of the lanes."""
    return (lane(value, 0) + lane(value, 1)) + (lane(value, 2) + lane(value, 3))


@vector_kernel
def least(value):
    """The smallest of the lanes."""
    return min(min(lane(value, 0), lane(value, 1)), min(lane(value, 2), lane(value, 3)))


@vector_kernel
def clear(pointer, count):
    """Set `count` lanes to zero."""
    zero = spread(0.0)
    for place in range(count):
        store(pointer, WIDTH * place, zero)


@vector_kernel
def expm1_below_zero(x):
    """exp(x) - 1 for x ≤ 0, in each lane, to the last digits for small x too.

    exp(x) - 1 = 2^k · (exp(r) - 1) + (2^k - 1) with k = round(x / log 2), and for |r| ≤ log 2 / 2 the series up to r^13
    has all digits.
    """
    x = spread(0.0) - smaller(spread(0.0) - x, spread(-LEAST_EXPONENT))
    shifted = x * spread(LOG2_E) + spread(ROUNDING)
    k = shifted - spread(ROUNDING)
    r = (x - k * spread(LOG_2_HIGH)) - k * spread(LOG_2_LOW)
    series = spread(C13) * r + spread(C12)
    series = series * r + spread(C11)
    series = series * r + spread(C10)
    series = series * r + spread(C9)
    series = series * r + spread(C8)
    series = series * r + spread(C7)
    series = series * r + spread(C6)
    series = series * r + spread(C5)
    series = series * r + spread(C4)
    series = series * r + spread(C3)
    series = series * r + spread(C2)
    power = _power_of_two(shifted)
    return power * ((series * r) * r + r) + (power - spread(1.0))
