"""Machine code on disk: what is damaged is made again, and no disk is needed."""

import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from phloem.kernels import cache as kernel_cache
from phloem.kernels.cache import KernelCache
from phloem.kernels.jit import kernel

KERNEL = """
from phloem.kernels.jit import kernel

@kernel
def triple(x: float) -> float:
    return 3 * x
"""


@pytest.fixture
def triple(tmp_path, monkeypatch):
    """Makes the kernel as a new process would, its files in a directory of the test's."""
    monkeypatch.setattr("numba.core.config.CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(KernelCache, "was_refused", False)
    source = tmp_path / "made_up.py"
    source.write_text(KERNEL)

    def make():
        names: dict = {"__name__": "made_up"}
        exec(compile(source.read_text(), str(source), "exec"), names)
        kernel_cache._sources.cache_clear()
        return names["triple"]

    make.source = source
    return make


def files(folder: Path) -> list[Path]:
    return sorted(path for path in (folder / "cache").rglob("*") if path.is_file())


def is_loaded(made) -> bool:
    """Whether it was loaded when it was called, not compiled."""
    return made(2) == 6 and sum(made.stats.cache_hits.values()) == 1


def test_what_is_compiled_once_is_loaded_afterwards(triple, tmp_path):
    assert not is_loaded(triple())
    (only,) = files(tmp_path)
    assert only.suffix == kernel_cache.SUFFIX
    assert is_loaded(triple())
    made = triple()
    assert made(2.5) == 7.5  # another signature, another file
    assert len(files(tmp_path)) == 2


def flipped(content: bytes, place: int) -> bytes:
    return content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]


DAMAGE = {
    "nothing left": lambda content: b"",
    "cut short": lambda content: content[:-1],
    "cut in the seal": lambda content: content[:10],
    "a bit of the seal": lambda content: flipped(content, 3),
    "a bit of the code": lambda content: flipped(content, len(content) // 2),
    "the last bit": lambda content: flipped(content, len(content) - 1),
    "noise": lambda content: bytes(range(256)) * 20,
    "another pickle": lambda content: pickle.dumps({"not": "code"}),
    "another pickle under the seal": lambda content: content[:32] + pickle.dumps({"not": "code"}),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_file_is_made_again(triple, tmp_path, damage):
    triple()(2)
    (only,) = files(tmp_path)
    whole = only.read_bytes()
    only.write_bytes(DAMAGE[damage](whole))
    assert not is_loaded(triple())
    assert files(tmp_path) == [only]
    assert is_loaded(triple())


def test_a_file_that_cannot_be_read_is_as_good_as_none(triple, tmp_path):
    triple()(2)
    (only,) = files(tmp_path)
    only.unlink()
    only.mkdir()
    with pytest.warns(RuntimeWarning, match="cannot be kept"):
        assert not is_loaded(triple())


def test_a_change_of_the_source_is_noticed_and_replaces_the_file(triple, tmp_path):
    triple()(2)
    triple.source.write_text(KERNEL.replace("3 * x", "4 * x"))
    kernel_cache._sources.cache_clear()
    assert triple()(2) == 8
    assert len(files(tmp_path)) == 1


def test_a_change_of_a_kernel_that_is_called_is_noticed(tmp_path, monkeypatch):
    monkeypatch.setattr(kernel_cache, "HERE", tmp_path)
    (tmp_path / "trees").mkdir()
    inner, outer = tmp_path / "trees" / "inner.py", tmp_path / "outer.py"
    inner.write_text("ONE = 1\n")
    outer.write_text("from phloem.kernels.trees.inner import ONE\n")
    before = kernel_cache._sources(outer)
    inner.write_text("ONE = 2\n")
    kernel_cache._sources.cache_clear()
    assert kernel_cache._sources(outer) != before


def refuse(number: int, words: str):
    def write(*_arguments, **_options):
        raise OSError(number, words)

    return write


@pytest.mark.parametrize("what", ["mkstemp", "replace"])
def test_a_full_disk_is_said_once_and_leaves_no_half_file(triple, tmp_path, monkeypatch, what):
    module = kernel_cache.tempfile if what == "mkstemp" else kernel_cache.os
    monkeypatch.setattr(module, what, refuse(28, "No space left on device"))
    made = triple()
    with pytest.warns(RuntimeWarning, match=r"cannot be kept \(No space left on device\).*NUMBA_CACHE_DIR"):
        assert made(2) == 6
    assert made(2.5) == 7.5  # a second warning would fail the test
    assert files(tmp_path) == []


def test_a_directory_that_cannot_be_used_is_none(tmp_path, monkeypatch):
    """numba then takes another one, or none."""
    (tmp_path / "file").touch()
    monkeypatch.setattr("numba.core.config.CACHE_DIR", str(tmp_path / "file"))
    monkeypatch.setattr("numba.core.config.CACHE_LOCATOR_CLASSES", "UserProvidedCacheLocator")

    def double(x):
        return 2 * x

    made = kernel(double)
    assert made(2) == 4
    assert made.stats.cache_path is None


@pytest.mark.slow
def test_the_program_says_it_in_a_line_and_goes_on(tmp_path):
    """Files may have no more than a kilobyte: all else of the command is on standard output."""
    script = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024));"
        "from phloem.__main__ import main; sys.exit(main())"
    )
    (tmp_path / "trees.nwk").write_text("(A,B,(C,D));")
    command = [sys.executable, "-c", script, "support", "trees.nwk"]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout
    assert done.stderr.count("\n") == 1
    assert "compiled code cannot be kept (File too large)" in done.stderr


def test_kernels_that_one_function_makes_are_not_mistaken_for_each_other():
    def times(factor: int):
        @kernel
        def product(x):
            return factor * x

        return product

    assert [times(factor)(5) for factor in (2, 3)] == [10, 15]
