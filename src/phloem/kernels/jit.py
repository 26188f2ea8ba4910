"""The one JIT policy: how every kernel of phloem is compiled."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., object])


def kernel(function: Function) -> Function:
    """Compile `function` on first call and keep the machine code on disk.

    Division follows IEEE (no Python exceptions inside a loop), the GIL is released, and `fastmath`
    stays off so that sums have one order and results are the same bits on every run.
    """
    compiled = numba.njit(cache=True, nogil=True, error_model="numpy")(function)
    return cast(Function, compiled)


def cache_directory() -> Path:
    """Where the kernels' machine code is kept: beside the sources if that can be written, else in the user's cache."""
    return Path(cast(Any, _probe).stats.cache_path)


@kernel
def _probe() -> int:
    return 0
