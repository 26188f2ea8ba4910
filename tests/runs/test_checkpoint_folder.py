"""The folder of checkpoints serves any run; `tasks/test_run_files.py` has those of `phloem infer`."""

import pytest

from phloem.errors import FileProblem
from phloem.runs.checkpoints import checkpoint_files
from phloem.storage.arrays import OtherKind
from phloem.tasks.run_files import infer_run
from support.counting_runs import checkpoint_at, count_folder, newest_count
from support.messages import assert_says, saying


def test_the_two_newest_of_another_kind_are_kept_and_come_back(tmp_path):
    folder = count_folder(tmp_path / "new")
    assert newest_count(folder) is None
    for step in (1, 2, 3):
        folder.add(checkpoint_at(step, "wolves"))
    assert [path.name for path in checkpoint_files(folder.path)] == [
        "step-000000003.safetensors",
        "step-000000002.safetensors",
    ]
    assert newest_count(folder) == (3, "wolves")
    assert folder.newest_step() == 3
    folder.clear()
    assert checkpoint_files(folder.path) == []


def test_a_damaged_one_of_another_kind_is_told_of(tmp_path):
    folder = count_folder(tmp_path)
    for step in (1, 2):
        folder.add(checkpoint_at(step))
    newest = tmp_path / "step-000000002.safetensors"
    newest.write_bytes(newest.read_bytes()[:-1])
    found, (problem,) = folder.newest()
    assert found.step == 1
    assert_says(problem, f"{newest}: … damaged … checksum")


def test_checkpoints_of_another_command_are_never_passed_over(tmp_path):
    count_folder(tmp_path / "checkpoints").add(checkpoint_at(1))
    with pytest.raises(OtherKind, match=saying("`phloem count up` … `phloem infer`")):
        infer_run(tmp_path).checkpoints.newest()


def test_a_folder_that_cannot_be_listed_is_a_line(tmp_path, monkeypatch):
    def fail(_path):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pathlib.Path.iterdir", fail)
    with pytest.raises(FileProblem, match="Permission denied"):
        checkpoint_files(tmp_path)
