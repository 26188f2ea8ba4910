"""Sealed files: whole or known not to be, and of one kind."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phloem.errors import FileProblem
from phloem.storage.arrays import (
    OtherFormat,
    OtherKind,
    making_sense,
    prefixed,
    read_sealed,
    sealed_kind,
    without_prefix,
    write_sealed,
)
from support.messages import saying
from support.sealed_files import seal_by_hand

ARRAYS = {"a.x": np.arange(6.0).reshape(2, 3).T, "b.x": np.array([7], np.int32), "none": np.zeros((0, 4), np.uint8)}


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    path = tmp_path_factory.mktemp("sealed") / "file"
    write_sealed(path, ARRAYS, {"text": "τ"}, kind="count up", layout="5")
    return path


@given(st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=9), st.text(st.characters(codec="utf-8"))))
def test_arrays_and_texts_come_back_exactly(tmp_path_factory, texts):
    path = tmp_path_factory.mktemp("sealed") / "file"
    given_texts = {f"my {name}": text for name, text in texts.items()} | {"trap": '"sha256":"' + "0" * 64}
    write_sealed(path, ARRAYS, given_texts, kind="count up", layout="5")
    found = read_sealed(path, kind="count up", layout="5")
    assert given_texts.items() <= found.texts.items()
    assert found.arrays.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        assert found.arrays[name].dtype == array.dtype
        np.testing.assert_array_equal(found.arrays[name], array)


@given(place=st.floats(0, 1, exclude_max=True), change=st.integers(1, 255))
def test_no_byte_can_change_unnoticed_nor_make_a_file_one_of_another_command(written, place, change):
    content = bytearray(written.read_bytes())
    content[int(place * len(content))] ^= change
    damaged = written.with_name("damaged")
    damaged.write_bytes(content)
    with pytest.raises(FileProblem, match="damaged"):
        read_sealed(damaged, kind="count up", layout="5")
    assert sealed_kind(damaged, expected="count up") in ("count up", None)
    assert sealed_kind(damaged, expected="infer") in ("infer", None)


@pytest.mark.parametrize("share", [0, 0.01, 0.5, 0.99])
def test_no_part_can_be_missing_unnoticed(written, share):
    content = written.read_bytes()
    damaged = written.with_name("short")
    damaged.write_bytes(content[: int(share * len(content))])
    with pytest.raises(FileProblem, match="damaged"):
        read_sealed(damaged, kind="count up", layout="5")


def test_a_file_of_another_command_says_which_and_is_not_called_damaged(written):
    for layout in ("5", "6"):
        with pytest.raises(OtherKind, match=saying("file: … `phloem count up` … `phloem infer`")):
            read_sealed(written, kind="infer", layout=layout)


def test_a_file_of_another_layout_says_which_version_wrote_it(written):
    with pytest.raises(OtherFormat, match=saying("file: … phloem 0 … format 5 … format 6")):
        read_sealed(written, kind="count up", layout="6")


def test_a_file_that_does_not_say_of_which_kind_it_is_is_of_inference(tmp_path):
    seal_by_hand(tmp_path / "file", {"a": np.zeros(2)}, {"format": "1", "phloem": "0.1"})
    assert read_sealed(tmp_path / "file", kind="infer", layout="1").texts["phloem"] == "0.1"
    with pytest.raises(OtherKind, match=saying("`phloem infer` … `phloem count up`")):
        read_sealed(tmp_path / "file", kind="count up", layout="1")
    for expected in ("infer", "count up"):
        assert sealed_kind(tmp_path / "file", expected=expected) == "infer"


def test_the_kind_is_known_whatever_is_expected(written):
    for expected in ("infer", "count up"):
        assert sealed_kind(written, expected=expected) == "count up"


@pytest.mark.parametrize("content", [b"", b"\xff" * 100, b"\2\0\0\0\0\0\0\0{}", b"\2\0\0\0\0\0\0\0[]", None])
def test_what_is_no_such_file_is_of_no_kind(tmp_path, content):
    if content is None:
        (tmp_path / "file").mkdir()
    else:
        (tmp_path / "file").write_bytes(content)
    assert sealed_kind(tmp_path / "file", expected="infer") is None
    with pytest.raises(FileProblem):
        read_sealed(tmp_path / "file", kind="infer", layout="1")


def test_a_missing_file_is_a_line(tmp_path):
    with pytest.raises(FileProblem, match="no such file"):
        read_sealed(tmp_path / "file", kind="infer", layout="1")


def test_parts_that_make_no_sense_are_damage(tmp_path):
    with (
        pytest.raises(FileProblem, match=saying("file: … damaged")),
        making_sense(tmp_path / "file"),
    ):
        {}["taxa"]


def test_prefixes_keep_parts_apart():
    one, two = {"x": np.zeros(1), "y.z": np.ones(2)}, {"x": np.ones(3)}
    arrays = {**prefixed("one", one), **prefixed("one two", two)}
    assert without_prefix("one", arrays) == one
    assert without_prefix("one two", arrays) == two
