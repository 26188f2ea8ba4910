"""What the tests of searches share."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from phloem.data.alignment import Alignment
from support.fake_iqtree import FakeIqtree


@pytest.fixture
def fake(tmp_path, monkeypatch) -> FakeIqtree:
    return FakeIqtree(tmp_path, monkeypatch)


@pytest.fixture(autouse=True)
def nothing_left_behind(tmp_path, monkeypatch) -> Iterator[None]:
    """Temporary directories are made where they can be counted, and are gone after every test."""
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(place))
    yield
    assert list(place.iterdir()) == []


@pytest.fixture
def alignment() -> Alignment:
    return Alignment.from_sequences("ABCD", ["ACGTACGT", "ACGTACGA", "ACTTACGA", "ACTTACCA"])


@pytest.fixture
def contents() -> Callable[[Path], dict[str, bytes]]:
    """What is in a directory, hidden files too."""
    return lambda directory: {path.name: path.read_bytes() for path in directory.iterdir()}
