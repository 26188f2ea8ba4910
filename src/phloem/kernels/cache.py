"""Machine code on disk, which kernels can do without: a file that is damaged or out of date is made again.

numba's own cache raises when a file of it is damaged or cannot be written, runs machine code in which a bit has
flipped, and does not notice that a kernel which another one calls has changed. Here each signature of a kernel has one
file,

    seal    SHA-256 of all that the code comes from, and of the code
    code    numba's own form of it, pickled

and the code is not even looked at unless the seal is right.
"""

import hashlib
import os
import pickle
import re
import tempfile
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from inspect import getfile
from pathlib import Path
from typing import Any

import llvmlite
import numba
from numba.core.caching import CompileResultCacheImpl, NullCache
from numba.core.serialize import dumps

SUFFIX = ".kernel"
SEAL_BYTES = hashlib.sha256().digest_size
HERE = Path(__file__).absolute().parent
IMPORTED_KERNELS = re.compile(r"^from phloem\.kernels\.([\w.]+) import", re.MULTILINE)


class KernelCache(NullCache):
    """The files of one kernel. Raises RuntimeError if there is no directory for them that can be written."""

    was_refused = False  # by any directory: said once

    def __init__(self, function: Callable[..., object]) -> None:
        self._form = CompileResultCacheImpl(function)
        self._folder = Path(self._form.locator.get_cache_path())
        self._origin = (numba.__version__, llvmlite.__version__, _sources(Path(getfile(function))))

    @property
    def cache_path(self) -> str:
        """The directory of the files."""
        return str(self._folder)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The compiled code for a signature, or None."""
        target_context.refresh()
        machine = target_context.codegen().magic_tuple()
        with suppress(OSError):
            content = self._path(sig, machine).read_bytes()
            seal, code = content[:SEAL_BYTES], content[SEAL_BYTES:]
            if seal == self._seal(sig, machine, code):
                return self._form.rebuild(target_context, pickle.loads(code))
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep compiled code, if that is possible; if not, say so once."""
        if not self._form.check_cachable(data):
            return
        machine = data.codegen.magic_tuple()
        code = dumps(self._form.reduce(data))
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            _write_whole(self._path(sig, machine), self._seal(sig, machine, code) + code)
        except OSError as problem:
            if not KernelCache.was_refused:
                KernelCache.was_refused = True
                warnings.warn(
                    f"{self._folder}: compiled code cannot be kept ({problem.strerror}), so every start compiles it "
                    "again. Set NUMBA_CACHE_DIR to a directory with space.",
                    RuntimeWarning,
                    stacklevel=2,
                )

    def _path(self, sig: Any, machine: Any) -> Path:
        name = hashlib.sha256(repr((sig, machine)).encode()).hexdigest()[:16]
        return self._folder / f"{self._form.filename_base}.{name}{SUFFIX}"

    def _seal(self, sig: Any, machine: Any, code: bytes) -> bytes:
        return hashlib.sha256(repr((self._origin, sig, machine)).encode() + code).digest()


@cache
def _sources(path: Path) -> str:
    """A digest of a file of kernels and of all that it imports: the code of a kernel is part of those that call it."""
    text = path.read_text(encoding="utf-8")
    imported = sorted(set(IMPORTED_KERNELS.findall(text)))
    parts = [text, *(_sources(HERE.joinpath(*name.split(".")).with_suffix(".py")) for name in imported)]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _write_whole(path: Path, content: bytes) -> None:
    """Write a file that others may read at the same time: they see all of it or nothing."""
    descriptor, unfinished = tempfile.mkstemp(prefix=f"{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content)
        os.replace(unfinished, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(unfinished)  # noqa: PTH108
        raise
