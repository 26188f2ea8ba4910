"""Files are written whole or not at all."""

import os
import stat

import pytest

from phloem.errors import FileProblem
from phloem.storage.files import atomic_write


def test_a_file_appears_only_when_it_is_complete(tmp_path):
    path = tmp_path / "out"
    with atomic_write(path) as stream:
        stream.write(b"half")
        stream.flush()
        assert not path.exists()
    assert path.read_bytes() == b"half"
    assert [entry.name for entry in tmp_path.iterdir()] == ["out"]


def test_an_old_file_stays_when_the_new_one_fails(tmp_path):
    path = tmp_path / "out"
    path.write_bytes(b"old")

    def interrupted_write() -> None:
        with atomic_write(path) as stream:
            stream.write(b"new")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted_write()
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["out"]


def test_a_full_disk_is_reported_and_nothing_is_left(tmp_path):
    with (
        pytest.raises(FileProblem, match=r"out: .*No space left on device"),
        atomic_write(tmp_path / "out"),
    ):
        raise OSError(28, "No space left on device")
    assert list(tmp_path.iterdir()) == []


def test_places_where_no_file_can_be(tmp_path):
    with pytest.raises(FileProblem, match=r"out: .*directory"), atomic_write(tmp_path / "nowhere" / "out"):
        pass
    (tmp_path / "folder").mkdir()
    with pytest.raises(FileProblem, match=r"folder: .*directory"), atomic_write(tmp_path / "folder"):
        pass
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FileProblem, match=r"pipe: .*regular file"), atomic_write(tmp_path / "pipe"):
        pass
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["folder", "pipe"]
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


def test_an_input_that_is_missing_is_not_blamed_on_the_outputs_directory(tmp_path):
    def write_without_input() -> None:
        with atomic_write(tmp_path / "out"):
            (tmp_path / "input").read_bytes()

    with pytest.raises(FileProblem, match="out: "):
        write_without_input()


def test_a_link_stays_and_its_target_is_written(tmp_path):
    (tmp_path / "target").write_bytes(b"old")
    (tmp_path / "link").symlink_to("target")
    with atomic_write(tmp_path / "link") as stream:
        stream.write(b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_bytes() == b"new"


def test_permissions_are_those_of_any_new_file(tmp_path):
    previous = os.umask(0o027)
    try:
        with atomic_write(tmp_path / "out"):
            pass
    finally:
        os.umask(previous)
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == 0o640


def test_the_content_is_on_the_disk_before_the_name_is_and_then_the_name(tmp_path, monkeypatch):
    seen: list[tuple[int, int]] = []

    def remember(handle):
        found = os.fstat(handle)
        seen.append((found.st_ino, found.st_size))

    monkeypatch.setattr(os, "fsync", remember)
    with atomic_write(tmp_path / "out") as stream:
        stream.write(b"abc")
        # Beside the file that it will be, so that taking the name is one step; hidden until then.
        assert [path.name[:5] for path in tmp_path.iterdir()] == [".out."]
    assert seen[0] == ((tmp_path / "out").stat().st_ino, 3)
    assert [inode for inode, _ in seen[1:]] == [tmp_path.stat().st_ino]


def test_a_name_as_long_as_the_system_allows(tmp_path):
    with atomic_write(tmp_path / ("x" * 250)):
        pass
    assert (tmp_path / ("x" * 250)).exists()
