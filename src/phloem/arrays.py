"""The array types that the parts of phloem hand to each other."""

from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

BoolArray: TypeAlias = NDArray[np.bool_]
ByteArray: TypeAlias = NDArray[np.uint8]
ShortArray: TypeAlias = NDArray[np.uint16]
IntArray: TypeAlias = NDArray[np.int32]
LongArray: TypeAlias = NDArray[np.int64]
WordArray: TypeAlias = NDArray[np.uint64]
FloatArray: TypeAlias = NDArray[np.float64]
RealArray: TypeAlias = NDArray[Any]  # single or double precision
AnyArray: TypeAlias = NDArray[Any]
Array = TypeVar("Array", bound=NDArray[Any])


def read_only(array: Array) -> Array:
    """A view that cannot be written through: records hold these, and leave the caller's array as it is."""
    view = array.view()
    view.setflags(write=False)
    return view
