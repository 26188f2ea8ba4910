"""Files are read whole, and written whole or not at all."""

import gzip
import os
import socket
import stat
from pathlib import Path

import pytest

from phloem.config.infer import INFER
from phloem.errors import FileProblem
from phloem.storage import files
from phloem.storage.arrays import open_archive
from phloem.storage.files import atomic_write, read_bytes
from support.messages import saying


def test_gzip_files_of_several_members_are_read_whole(tmp_path):
    (tmp_path / "x").write_bytes(gzip.compress(b"abc" * 1000) + gzip.compress(b"def"))
    assert read_bytes(tmp_path / "x") == b"abc" * 1000 + b"def"


def test_a_gzip_file_that_expands_without_end_is_stopped_at_a_stated_size(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "LARGEST_UNPACKED", 3_000_000)
    monkeypatch.setattr(files, "CHUNK", 1000)
    (tmp_path / "x").write_bytes(gzip.compress(bytes(3_000_000)))
    assert len(read_bytes(tmp_path / "x")) == 3_000_000
    read = 0

    class Counting(gzip.GzipFile):
        def read(self, size=-1):
            nonlocal read
            read += size
            return super().read(size)

    monkeypatch.setattr(gzip, "GzipFile", Counting)
    (tmp_path / "x").write_bytes(gzip.compress(bytes(30_000_000)))
    with pytest.raises(FileProblem, match=saying("x … 0.003 GB … gunzip")):
        read_bytes(tmp_path / "x")
    assert read <= 3_001_000


def special_file(folder: Path, kind: str) -> Path:
    path = folder / kind
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(str(path))
    else:
        path.symlink_to("/dev/zero")
    return path


@pytest.mark.parametrize("kind", ["pipe", "socket", "device"])
@pytest.mark.parametrize("read", [read_bytes, lambda path: open_archive(path, "phloem embed"), INFER.read_toml])
def test_what_is_no_file_is_refused_and_never_opened(tmp_path, monkeypatch, kind, read):
    monkeypatch.chdir(tmp_path)  # the path of a socket must be short
    special_file(Path(), kind)
    monkeypatch.setattr("io.open", refuse_to_open)
    with pytest.raises(FileProblem, match=saying(f"{kind}: … is a {kind}")):
        read(Path(kind))


def refuse_to_open(*_arguments, **_options):
    raise AssertionError("it was opened")


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
