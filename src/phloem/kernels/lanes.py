"""Several numbers as one value: arithmetic on it is vector code, whatever the loop around it looks like.

A loop over arrays becomes vector code only if the compiler proves that they do not overlap, sums that it carries along
go through memory, and rows that are gathered from all over memory make no loop at all. A value of lanes lives in
registers: four doubles in one of 256 bits, sixteen floats in two, or in one of 512.

`four_at` and `sixteen_at` read lanes behind a pointer, `put` writes them; +, -, * and / work on lanes, and on lanes and
a number, which stands for as many of itself.
"""

import operator
from collections.abc import Callable
from math import factorial
from typing import Any

import numba
from llvmlite import ir
from numba.core import types
from numba.core.datamodel.models import PrimitiveModel
from numba.core.imputils import lower_builtin
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import intrinsic, register_model

from phloem.kernels.jit import vector_kernel

LOG2_E = 1.4426950408889634
# log 2 in two parts, the first with so few digits that a whole number of thousands times it is exact.
LOG_2_HIGH, LOG_2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
# Added to a small number, it leaves the nearest whole number in the lowest bits.
ROUNDING = 1.5 * 2.0**52
LEAST_EXPONENT = -700.0
C2, C3, C4, C5, C6, C7, C8, C9, C10, C11, C12, C13 = (1 / factorial(order) for order in range(2, 14))


class LanesType(types.Type):
    """The type of so many lanes of one kind of numbers."""

    def __init__(self, element: Any, count: int) -> None:
        self.element = element
        self.count = count
        super().__init__(f"lanes({count}, {element})")


@register_model(LanesType)
class LanesModel(PrimitiveModel):
    """In machine code, a vector."""

    def __init__(self, manager: Any, lanes: LanesType) -> None:
        element = manager.lookup(lanes.element).get_value_type()
        super().__init__(manager, lanes, ir.VectorType(element, lanes.count))


def _repeated(builder: Any, vector: Any, place: int, count: int) -> Any:
    """One of the lanes in all of `count`."""
    order = ir.Constant(ir.VectorType(ir.IntType(32), count), [place] * count)
    return builder.shuffle_vector(vector, ir.Constant(vector.type, ir.Undefined), order)


def _spread(builder: Any, number: Any, count: int) -> Any:
    """The same number in every lane."""
    empty = ir.Constant(ir.VectorType(number.type, count), ir.Undefined)
    return _repeated(builder, builder.insert_element(empty, number, ir.IntType(32)(0)), 0, count)


def _add_operator(function: Callable[..., Any], of_floats: str, of_integers: str | None) -> None:
    """Let kernels apply an operator to lanes, and to lanes and a number."""

    @infer_global(function)
    class _Template(AbstractTemplate):
        def generic(self, arguments: Any, keywords: Any) -> Any:
            lanes = [argument for argument in arguments if isinstance(argument, LanesType)]
            if not lanes or keywords or len(set(lanes)) > 1:
                return None
            if not all(isinstance(argument, LanesType | types.Number) for argument in arguments):
                return None
            taken = [kind if isinstance(kind, LanesType) else lanes[0].element for kind in arguments]
            return signature(lanes[0], *taken)

    def generate(_context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        lanes = signature.return_type
        values = [
            value if isinstance(kind, LanesType) else _spread(builder, value, lanes.count)
            for kind, value in zip(signature.args, arguments, strict=True)
        ]
        is_whole = isinstance(lanes.element, types.Integer)
        return getattr(builder, of_integers if is_whole and of_integers else of_floats)(*values)

    for kinds in ((LanesType, LanesType), (LanesType, types.Number), (types.Number, LanesType)):
        lower_builtin(function, *kinds)(generate)


for _function in (operator.add, operator.iadd):
    _add_operator(_function, "fadd", "add")
for _function in (operator.sub, operator.isub):
    _add_operator(_function, "fsub", "sub")
for _function in (operator.mul, operator.imul):
    _add_operator(_function, "fmul", "mul")
_add_operator(operator.truediv, "fdiv", None)


def _reading(count: int) -> Any:
    """The typing and the code of a read of so many lanes."""

    def read(_context: Any, pointer: Any, offset: Any) -> Any:
        if not (isinstance(pointer, types.CPointer) and isinstance(offset, types.Integer)):
            raise numba.TypingError("lanes: a pointer and an integer are needed")
        lanes = LanesType(pointer.dtype, count)

        def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            place = _vector_pointer(context, builder, lanes, arguments)
            return builder.load(place, align=pointer.dtype.bitwidth // 8)

        return lanes(pointer, types.intp), generate

    return read


def _spreading(count: int) -> Any:
    """The typing and the code of a number in so many lanes."""

    def spread(_context: Any, number: Any) -> Any:
        def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            return _spread(builder, arguments[0], count)

        return LanesType(number, count)(number), generate

    return spread


# The lanes that begin `offset` elements behind a pointer.
four_at, sixteen_at = intrinsic(_reading(4)), intrinsic(_reading(16))
# A number in every lane.
four_of, sixteen_of = intrinsic(_spreading(4)), intrinsic(_spreading(16))


@intrinsic
def put(_context: Any, pointer: Any, offset: Any, value: Any) -> Any:
    """Write lanes to `offset` elements behind a pointer."""
    if not (isinstance(pointer, types.CPointer) and isinstance(value, LanesType) and value.element == pointer.dtype):
        raise numba.TypingError("put: needs a pointer and lanes of the same kind")

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        place = _vector_pointer(context, builder, value, arguments)
        builder.store(arguments[2], place, align=pointer.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.none(pointer, types.intp, value), generate


def _vector_pointer(context: Any, builder: Any, lanes: LanesType, arguments: Any) -> Any:
    kind = context.get_value_type(lanes).as_pointer()
    return builder.bitcast(builder.gep(arguments[0], [arguments[1]]), kind)


@intrinsic(prefer_literal=True)
def repeat_lane(_context: Any, value: Any, place: Any) -> Any:
    """One of the lanes, a constant, in all of them."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return _repeated(builder, arguments[0], place.literal_value, value.count)

    return value(value, place), generate


@intrinsic
def smaller(_context: Any, one: Any, other: Any) -> Any:
    """The smaller of two in every lane."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.select(builder.fcmp_ordered("<", *arguments), *arguments)

    return one(one, other), generate


@intrinsic
def larger(_context: Any, value: Any, bound: Any) -> Any:
    """In every lane the larger of its number and another one."""
    if not isinstance(value, LanesType):
        raise numba.TypingError("larger: needs lanes")

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        other = _spread(builder, arguments[1], value.count)
        return builder.select(builder.fcmp_ordered(">", arguments[0], other), arguments[0], other)

    return value(value, value.element), generate


@intrinsic
def any_below(_context: Any, value: Any, bound: Any) -> Any:
    """Whether a lane is below a number."""
    if not isinstance(value, LanesType):
        raise numba.TypingError("any_below: needs lanes")
    bits = ir.IntType(value.count)

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        below = builder.fcmp_ordered("<", arguments[0], _spread(builder, arguments[1], value.count))
        return builder.icmp_unsigned("!=", builder.bitcast(below, bits), bits(0))

    return types.boolean(value, value.element), generate


@intrinsic
def choose_if_between(_context: Any, value: Any, bound: Any, then: Any, otherwise: Any) -> Any:
    """In every lane `then` where it is above zero and below a bound, and else `otherwise`."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        low, high = ir.Constant(ir.DoubleType(), 0.0), arguments[1]
        above = builder.fcmp_ordered(">", arguments[0], _spread(builder, low, value.count))
        below = builder.fcmp_ordered("<", arguments[0], _spread(builder, high, value.count))
        return builder.select(builder.and_(above, below), arguments[2], arguments[3])

    return value(value, types.float64, then, otherwise), generate


@intrinsic
def sum_of(_context: Any, value: Any) -> Any:
    """The sum of all lanes, of neighbours first, in double precision."""
    if not isinstance(value, LanesType):
        raise numba.TypingError("sum_of: needs lanes")

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        numbers = [builder.extract_element(arguments[0], ir.IntType(32)(place)) for place in range(value.count)]
        if value.element != types.float64:
            numbers = [builder.fpext(number, ir.DoubleType()) for number in numbers]
        while len(numbers) > 1:
            numbers = [builder.fadd(*numbers[place : place + 2]) for place in range(0, len(numbers), 2)]
        return numbers[0]

    return types.float64(value), generate


@intrinsic
def least_of(_context: Any, value: Any) -> Any:
    """The smallest of all lanes."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        smallest = builder.extract_element(arguments[0], ir.IntType(32)(0))
        for place in range(1, value.count):
            number = builder.extract_element(arguments[0], ir.IntType(32)(place))
            smallest = builder.select(builder.fcmp_ordered("<", number, smallest), number, smallest)
        return smallest

    return value.element(value), generate


@intrinsic
def in_double(_context: Any, value: Any) -> Any:
    """The same numbers in double precision."""
    if not (isinstance(value, LanesType) and value.element == types.float32):
        raise numba.TypingError("in_double: needs lanes in single precision")

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.fpext(arguments[0], ir.VectorType(ir.DoubleType(), value.count))

    return LanesType(types.float64, value.count)(value), generate


@intrinsic
def _power_of_two(_context: Any, exponent: Any) -> Any:
    """2^k in each lane, from k + ROUNDING, whose lowest bits are k."""

    words = ir.VectorType(ir.IntType(64), exponent.count)

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        bits = builder.bitcast(arguments[0], words)
        biased = builder.add(bits, ir.Constant(words, [1023] * exponent.count))
        return builder.bitcast(builder.shl(biased, ir.Constant(words, [52] * exponent.count)), arguments[0].type)

    return exponent(exponent), generate


@vector_kernel
def clear(pointer, count):
    """Set `count` times four doubles to zero."""
    zero = four_of(0.0)
    for place in range(count):
        put(pointer, 4 * place, zero)


@vector_kernel
def expm1_below_zero(x):
    """exp(x) - 1 for x ≤ 0, in each lane, to the last digits for small x too.

    exp(x) - 1 = 2^k · (exp(r) - 1) + (2^k - 1) with k = round(x / log 2), and for |r| ≤ log 2 / 2 the series up to r^13
    has all digits.
    """
    x = larger(x, LEAST_EXPONENT)
    shifted = x * LOG2_E + ROUNDING
    k = shifted - ROUNDING
    r = (x - k * LOG_2_HIGH) - k * LOG_2_LOW
    series = C13 * r + C12
    series = series * r + C11
    series = series * r + C10
    series = series * r + C9
    series = series * r + C8
    series = series * r + C7
    series = series * r + C6
    series = series * r + C5
    series = series * r + C4
    series = series * r + C3
    series = series * r + C2
    power = _power_of_two(shifted)
    return power * ((series * r) * r + r) + (power - 1.0)
