"""Rows of arrays as bare pointers.

A slice of an array costs two atomic reference counts and hides its stride from the compiler; for rows of
a few hundred bytes that is as much as the arithmetic on them. A pointer costs nothing, and with constant
offsets the loops over it become vector code. The caller owns the array for as long as the pointer lives, and no
bounds are checked.
"""

from typing import Any, TypeAlias

import numba
from numba.core import types
from numba.extending import intrinsic

Pointer: TypeAlias = Any  # what `at` and `shift` give


@intrinsic
def at(_context: Any, array: Any, offset: Any) -> Any:
    """A pointer to element `offset` of a contiguous array, counted over all its axes."""
    if not (isinstance(array, types.Array) and array.layout == "C" and isinstance(offset, types.Integer)):
        raise numba.TypingError("at: a contiguous array and an integer are needed")
    signature = types.CPointer(array.dtype)(array, types.intp)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        return builder.gep(data, [arguments[1]])

    return signature, generate


@intrinsic
def shift(_context: Any, pointer: Any, offset: Any) -> Any:
    """The pointer `offset` elements further on."""
    if not (isinstance(pointer, types.CPointer) and isinstance(offset, types.Integer)):
        raise numba.TypingError("shift: a pointer and an integer are needed")

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.gep(arguments[0], [arguments[1]])

    return pointer(pointer, types.intp), generate


@intrinsic
def from_address(_context: Any, like: Any, address: Any) -> Any:
    """A pointer to the memory at an address, which holds elements of an array's type."""
    if not (isinstance(like, types.Array) and isinstance(address, types.Integer)):
        raise numba.TypingError("from_address: an array and an integer are needed")
    signature = types.CPointer(like.dtype)(like, types.intp)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[1], context.get_value_type(signature.return_type))

    return signature, generate
