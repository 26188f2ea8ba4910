"""Sixteen patterns side by side as one value: arithmetic on it is vector code, whatever the loop around it looks like.

A loop over arrays becomes vector code only if the compiler proves that they do not overlap, and sums that it carries
along go through memory. A value of lanes lives in registers: two of 256 bits, or one of 512.

`lanes_at` reads one behind a pointer, `put` writes one; +, -, * and / work on lanes, and on lanes and a number, which
stands for sixteen times itself.
"""

import operator
from collections.abc import Callable
from typing import Any

import numba
from llvmlite import ir
from numba.core import types
from numba.core.datamodel.models import PrimitiveModel
from numba.core.imputils import lower_builtin
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import intrinsic, register_model

LANES = 16


class LanesType(types.Type):
    """The type of lanes of one kind of numbers."""

    def __init__(self, element: Any) -> None:
        self.element = element
        super().__init__(f"lanes({element})")


@register_model(LanesType)
class LanesModel(PrimitiveModel):
    """In machine code, a vector."""

    def __init__(self, manager: Any, lanes: LanesType) -> None:
        element = manager.lookup(lanes.element).get_value_type()
        super().__init__(manager, lanes, ir.VectorType(element, LANES))


def _spread(builder: Any, number: Any) -> Any:
    """The same number in every lane."""
    empty = ir.Constant(ir.VectorType(number.type, LANES), ir.Undefined)
    one = builder.insert_element(empty, number, ir.IntType(32)(0))
    return builder.shuffle_vector(one, empty, ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES))


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
        values = [
            value if isinstance(kind, LanesType) else _spread(builder, value)
            for kind, value in zip(signature.args, arguments, strict=True)
        ]
        is_whole = isinstance(signature.return_type.element, types.Integer)
        return getattr(builder, of_integers if is_whole and of_integers else of_floats)(*values)

    for kinds in ((LanesType, LanesType), (LanesType, types.Number), (types.Number, LanesType)):
        lower_builtin(function, *kinds)(generate)


_add_operator(operator.add, "fadd", "add")
_add_operator(operator.sub, "fsub", "sub")
_add_operator(operator.mul, "fmul", "mul")
_add_operator(operator.truediv, "fdiv", None)


@intrinsic
def lanes_at(_context: Any, pointer: Any, offset: Any) -> Any:
    """The lanes that begin `offset` elements behind a pointer."""
    if not (isinstance(pointer, types.CPointer) and isinstance(offset, types.Integer)):
        raise numba.TypingError("lanes_at: needs a pointer and an integer")
    lanes = LanesType(pointer.dtype)

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        place = _vector_pointer(context, builder, lanes, arguments)
        return builder.load(place, align=pointer.dtype.bitwidth // 8)

    return lanes(pointer, types.intp), generate


@intrinsic
def put(_context: Any, pointer: Any, offset: Any, value: Any) -> Any:
    """Write lanes to `offset` elements behind a pointer."""
    if not (isinstance(pointer, types.CPointer) and value == LanesType(pointer.dtype)):
        raise numba.TypingError("put: needs a pointer and lanes of the same kind")

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        place = _vector_pointer(context, builder, value, arguments)
        builder.store(arguments[2], place, align=pointer.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.none(pointer, types.intp, value), generate


def _vector_pointer(context: Any, builder: Any, lanes: LanesType, arguments: Any) -> Any:
    kind = context.get_value_type(lanes).as_pointer()
    return builder.bitcast(builder.gep(arguments[0], [arguments[1]]), kind)


@intrinsic
def spread(_context: Any, number: Any) -> Any:
    """A number in every lane."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return _spread(builder, arguments[0])

    return LanesType(number)(number), generate


@intrinsic
def any_below(_context: Any, value: Any, bound: Any) -> Any:
    """Whether a lane is below a number."""
    if not isinstance(value, LanesType):
        raise numba.TypingError("any_below: needs lanes")

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        below = builder.fcmp_ordered("<", arguments[0], _spread(builder, arguments[1]))
        return builder.icmp_unsigned("!=", builder.bitcast(below, ir.IntType(LANES)), ir.IntType(LANES)(0))

    return types.boolean(value, value.element), generate


@intrinsic
def larger(_context: Any, value: Any, bound: Any) -> Any:
    """In every lane the larger of its number and another one."""
    if not isinstance(value, LanesType):
        raise numba.TypingError("larger: needs lanes")

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        other = _spread(builder, arguments[1])
        return builder.select(builder.fcmp_ordered(">", arguments[0], other), arguments[0], other)

    return value(value, value.element), generate


@intrinsic
def sum_of(_context: Any, value: Any) -> Any:
    """The sum of all lanes, in their order and in double precision."""
    if not isinstance(value, LanesType):
        raise numba.TypingError("sum_of: needs lanes")

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        total = ir.Constant(ir.DoubleType(), 0.0)
        for lane in range(LANES):
            number = builder.extract_element(arguments[0], ir.IntType(32)(lane))
            if number.type != ir.DoubleType():
                number = builder.fpext(number, ir.DoubleType())
            total = builder.fadd(total, number)
        return total

    return types.float64(value), generate


@intrinsic
def in_double(_context: Any, value: Any) -> Any:
    """The same numbers in double precision."""
    if value != LanesType(types.float32):
        raise numba.TypingError("in_double: needs lanes in single precision")

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.fpext(arguments[0], ir.VectorType(ir.DoubleType(), LANES))

    return LanesType(types.float64)(value), generate
