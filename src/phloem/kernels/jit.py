"""The one JIT policy: how every kernel of phloem is compiled; rows of arrays as bare pointers.

A slice of an array costs two atomic reference counts and hides its stride from the compiler; for rows of
a few hundred bytes that is as much as the arithmetic on them. A pointer costs nothing, and with constant
offsets the loops over it become vector code. The caller owns the array for as long as the pointer lives, and no
bounds are checked.
"""

import hashlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias, TypeVar, cast

import numba
from numba.core import types
from numba.extending import intrinsic

from phloem.kernels.cache import SUFFIX, KernelCache

Function = TypeVar("Function", bound=Callable[..., object])
Pointer: TypeAlias = Any  # returned by `at`, `shift` and `from_address`


def kernel(function: Function) -> Function:
    """Compile `function` on first call and keep the machine code on disk.

    A function without annotations is a part of other kernels. It is compiled without what calls from Python need,
    which for tuples of arrays takes as long as the function itself.

    Division follows IEEE (no Python exceptions inside a loop), the GIL is released so that threads can share
    work, and `fastmath` stays off so that sums have one order and results are the same bits on every run.
    """
    return _compile(function)


def vector_kernel(function: Function) -> Function:
    """Like `kernel`, for long arithmetic: a product and the sum after it may be fused, which changes no order."""
    return _compile(function, fastmath={"contract"})


def _compile(function: Function, **options: Any) -> Function:
    options |= {"nogil": True, "error_model": "numpy"}
    is_part = not function.__annotations__
    wrappers: dict[str, Any] = {"no_cpython_wrapper": is_part, "no_cfunc_wrapper": is_part}
    compiled: Any = numba.njit(**options, **wrappers)(function)
    if is_part:
        _leave_python_to(numba.njit(**options)(function), compiled)
    if function.__closure__ is None:  # one function within another has one name for any number of codes
        with suppress(RuntimeError):  # no place to write the cache: every process compiles for itself
            compiled._cache = KernelCache(function)
    return cast(Function, compiled)


def _leave_python_to(whole: Any, part: Any) -> None:
    """Leave calls from Python, for which a part has no code, to the whole function, compiled when that happens."""

    def keep(result: Any) -> None:
        part.overloads[tuple(result.signature.args)] = result

    def whole_function(*_arguments: Any, **_keywords: Any) -> Any:
        return whole

    part.add_overload, part._compile_for_args = keep, whole_function


def cache_directory() -> Path | None:
    """Where machine code is cached: beside the sources, else in the user's cache directory, else nowhere (None)."""
    path = cast(Any, _probe).stats.cache_path
    return Path(path) if path else None


def compiled_count() -> int:
    """How many kernels have been compiled on this machine before."""
    return sum(1 for directory in _cache_directories() for _ in directory.glob(f"*{SUFFIX}"))


def _cache_directories() -> list[Path]:
    """Where machine code is cached for each folder of kernels; in the user's cache numba names them by a hash."""
    directory = cache_directory()
    if directory is None:
        return []
    here = Path(__file__).absolute().parent
    folders = [here, *(path for path in here.iterdir() if path.is_dir() and path.name != "__pycache__")]
    if directory.name == "__pycache__":
        return [folder / "__pycache__" for folder in folders]
    return [directory.parent / f"{folder.name}_{hashlib.sha1(str(folder).encode()).hexdigest()}" for folder in folders]


@kernel
def _probe() -> int:
    return 0


@intrinsic
def wide_vectors(_context: Any) -> Any:
    """Let the loops of the calling kernel use the widest vectors of the machine.

    LLVM uses half of AVX-512's width unless a function asks for all of it; the matrix products that run beside our
    kernels use it anyway. On other machines this changes nothing.
    """

    def generate(context: Any, builder: Any, _signature: Any, _arguments: Any) -> Any:
        # llvmlite's own check refuses this attribute, but LLVM reads it.
        set.add(builder.function.attributes, '"prefer-vector-width"="512"')
        return context.get_dummy_value()

    return types.none(), generate


@intrinsic
def at(_context: Any, array: Any, offset: Any) -> Any:
    """A pointer to element `offset` of a contiguous array, counted over all its axes."""
    if not (isinstance(array, types.Array) and array.layout == "C" and isinstance(offset, types.Integer)):
        raise numba.TypingError("at: needs a contiguous array and an integer")
    signature = types.CPointer(array.dtype)(array, types.intp)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        return builder.gep(data, [arguments[1]])

    return signature, generate


@intrinsic
def shift(_context: Any, pointer: Any, offset: Any) -> Any:
    """The pointer `offset` elements further on."""
    if not (isinstance(pointer, types.CPointer) and isinstance(offset, types.Integer)):
        raise numba.TypingError("shift: needs a pointer and an integer")

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.gep(arguments[0], [arguments[1]])

    return pointer(pointer, types.intp), generate


@intrinsic
def from_address(_context: Any, like: Any, address: Any) -> Any:
    """A pointer to the memory at an address, to elements of the type of the array, or of the pointer, `like`."""
    if not (isinstance(like, types.Array | types.CPointer) and isinstance(address, types.Integer)):
        raise numba.TypingError("from_address: needs an array or a pointer, and an integer")
    signature = types.CPointer(like.dtype)(like, types.intp)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[1], context.get_value_type(signature.return_type))

    return signature, generate
