"""Files as they were written, or not."""

import shutil
import subprocess

import pytest

from phloem.errors import FileProblem
from phloem.runs.checksums import CHECKSUMS, Checksums

WAY_OUT = "Make it again."


@pytest.fixture
def sealed(tmp_path):
    for name in ("one.csv", "two.json"):
        (tmp_path / name).write_text(name)
    checksums = Checksums(tmp_path, WAY_OUT)
    checksums.add(["one.csv", "two.json", "missing.csv"])
    return checksums


def test_a_file_that_is_as_it_was_written_is_found(sealed, tmp_path):
    assert sealed.check("one.csv") == tmp_path / "one.csv"
    assert sealed.problem(["one.csv", "two.json"]) is None
    assert sealed.changed() == []


def test_a_changed_file_is_named(sealed, tmp_path):
    (tmp_path / "two.json").write_text("two.jsom")
    with pytest.raises(FileProblem, match=r"two\.json: is damaged, or was changed .* Make it again\."):
        sealed.check("two.json")
    assert "two.json" in str(sealed.problem(["one.csv", "two.json"]))
    assert sealed.changed() == ["two.json"]


def test_a_missing_file_and_one_that_is_not_listed_are_named(sealed, tmp_path):
    with pytest.raises(FileProblem, match=r"missing\.csv: is missing\. Make"):
        sealed.check("missing.csv")
    (tmp_path / "missing.csv").write_text("")
    with pytest.raises(FileProblem, match=rf"missing\.csv: has no checksum in {CHECKSUMS}"):
        sealed.check("missing.csv")


def test_files_are_added_and_those_that_are_gone_are_left_out(sealed, tmp_path):
    (tmp_path / "three").write_text("")
    (tmp_path / "one.csv").unlink()
    sealed.add(["three"])
    assert [line.split()[1] for line in (tmp_path / CHECKSUMS).read_text().splitlines()] == ["three", "two.json"]


def test_what_sealed_files_say_does_not_change_when_others_are_added(sealed, tmp_path):
    (tmp_path / "one.csv").write_text("changed")
    (tmp_path / "three").write_text("")
    sealed.add(["three"])
    assert sealed.changed() == ["one.csv"]


@pytest.mark.parametrize("damage", [b"", b"x", b"\xff\xfe", b"00  one.csv\n", b"0" * 64 + b"  ../one.csv\n"])
def test_a_damaged_list_is_named_and_replaced(damage, sealed, tmp_path):
    (tmp_path / CHECKSUMS).write_bytes(damage)
    with pytest.raises(FileProblem, match=rf"{CHECKSUMS}: is damaged"):
        sealed.check("one.csv")
    assert sealed.changed() == []
    sealed.add(["two.json"])
    assert sealed.problem(["two.json"]) is None
    assert sealed.problem(["one.csv"]) is not None


def test_a_truncated_list_is_damaged(sealed, tmp_path):
    content = (tmp_path / CHECKSUMS).read_bytes()
    for length in range(len(content)):
        (tmp_path / CHECKSUMS).write_bytes(content[:length])
        assert sealed.problem(["one.csv", "two.json"]) is not None


def test_the_program_sha256sum_agrees(sealed, tmp_path):
    program = shutil.which("sha256sum")
    if program is None:
        pytest.skip("sha256sum is not installed")
    assert subprocess.run([program, "-c", CHECKSUMS], cwd=tmp_path, capture_output=True).returncode == 0
    (tmp_path / "one.csv").write_text("changed")
    assert subprocess.run([program, "-c", CHECKSUMS], cwd=tmp_path, capture_output=True).returncode == 1
