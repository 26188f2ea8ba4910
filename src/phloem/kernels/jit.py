"""The one JIT policy: how every kernel of phloem is compiled."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba.core import types
from numba.extending import intrinsic

Function = TypeVar("Function", bound=Callable[..., object])


def kernel(function: Function) -> Function:
    """Compile `function` on first call and keep the machine code on disk.

    Division follows IEEE (no Python exceptions inside a loop), the GIL is released so that threads can share
    work, and `fastmath` stays off so that sums have one order and results are the same bits on every run.
    """
    return _compile(function)


def vector_kernel(function: Function) -> Function:
    """Like `kernel`, for long arithmetic: a product and the sum after it may be fused, which changes no order."""
    return _compile(function, fastmath={"contract"})


def _compile(function: Function, **options: Any) -> Function:
    policy: dict[str, Any] = {"nogil": True, "error_model": "numpy"} | options
    try:
        return cast(Function, numba.njit(cache=True, **policy)(function))
    except RuntimeError:  # nowhere to write: every process compiles for itself
        return cast(Function, numba.njit(**policy)(function))


def cache_directory() -> Path | None:
    """Where the kernels' machine code is kept: beside the sources, else in the user's cache, else nowhere."""
    path = cast(Any, _probe).stats.cache_path
    return Path(path) if path else None


def has_compiled() -> bool:
    """Whether anything has been compiled on this machine before."""
    directory = cache_directory()
    return directory is not None and any(directory.glob("*.nbc"))


@kernel
def _probe() -> int:
    return 0


@intrinsic
def wide_vectors(_context: Any) -> Any:
    """Let the loops of the calling kernel use the widest vectors that the machine has.

    LLVM stays with half of AVX-512's width unless a function asks for all of it; the matrix products beside our kernels
    use it in any case. Elsewhere this changes nothing.
    """

    def generate(context: Any, builder: Any, _signature: Any, _arguments: Any) -> Any:
        # llvmlite knows no such attribute and would refuse it, but LLVM reads it.
        set.add(builder.function.attributes, '"prefer-vector-width"="512"')
        return context.get_dummy_value()

    return types.none(), generate
