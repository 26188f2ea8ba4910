"""What the commands for posteriors say of a run of another command: one line, and nothing in it changes."""

import pytest

from phloem.cli.main import run
from support.command_line import complaint
from support.counting_runs import counted
from support.messages import assert_says


@pytest.mark.parametrize(
    "arguments",
    [
        ["infer", "primates", "--out", "run"],
        ["infer", "primates", "--out", "run", "--resume"],
        ["infer", "--out", "run", "--resume"],
        ["infer", "primates", "--out", "run", "--force"],
        ["evaluate", "run"],
        ["evaluate", "run", "--reference", "primates"],
        ["evaluate", "run", "--seed", "2"],
        ["sample", "run", "--out", "trees.nex"],
        ["sample", "run", "--out", "run/total.txt"],
        ["report", "run"],
        ["gap", "run", "--trees", "primates"],
    ],
    ids=" ".join,
)
def test_a_run_of_another_command_is_named_in_one_line(arguments, tmp_path, capsys):
    counted(tmp_path / "run")
    before = {path: path.is_file() and path.read_bytes() for path in tmp_path.rglob("*")}
    assert run(arguments) == 2
    assert_says(complaint(capsys), "run: … `phloem count up` … `phloem infer`")
    assert {path: path.is_file() and path.read_bytes() for path in tmp_path.rglob("*")} == before
