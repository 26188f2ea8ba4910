"""A directory belongs to the command that began a run in it; `test_run_directory.py` has the rest."""

import shutil

import pytest

from phloem.config import InferConfig
from phloem.config.settings import heading
from phloem.errors import BadArgument, FileProblem
from phloem.runs.directory import LOCK, claimed
from phloem.tasks.run_files import infer_run
from support.begun_trainings import begun, checkpoint_of
from support.counting_runs import COUNT, KIND, checkpoint_at, count_directory, counted
from support.messages import assert_says, saying

ASKED = [{}, {"resume": True}, {"force": True}]
NOT_INFERRED = "`phloem count up` … `phloem infer`"
NOT_COUNTED = "`phloem infer` … `phloem count up`"


@pytest.fixture(scope="module")
def checkpoint():
    return checkpoint_of(*begun("split"))


def inferred(path, checkpoint) -> infer_run:
    """A run of `phloem infer` that has begun."""
    path.mkdir(parents=True)
    run = infer_run(path)
    run.record(InferConfig(), {"alignment": {}, "trees": []}, seed=1, command="phloem infer")
    run.checkpoints.add(checkpoint)
    return run


def content(path) -> dict[str, bytes]:
    files = [file for file in path.rglob("*") if file.is_file() and file.name != LOCK]
    return {str(file.relative_to(path)): file.read_bytes() for file in files}


def refusal(directory, **options) -> str:
    """What is said to one who wants a directory that is not his; nothing in it changes."""
    before = content(directory.path)
    with pytest.raises(FileProblem) as caught, claimed(directory, **options):
        pytest.fail("a run of another command was claimed")
    assert content(directory.path) == before
    assert "\n" not in str(caught.value)
    return str(caught.value)


def keep_only(path, part: str) -> None:
    for entry in path.iterdir():
        if entry.name != part:
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()


def test_a_run_of_any_command_begins_goes_on_and_is_replaced(tmp_path):
    path = tmp_path / "run"
    with claimed(count_directory(path)) as run:
        assert not run.holds_run()
        run.write("config.toml", heading(KIND))
    with pytest.raises(FileProblem, match="--resume"), claimed(count_directory(path)):
        pytest.fail("a run was overwritten")
    with claimed(count_directory(path), resume=True) as run:
        run.checkpoints.add(checkpoint_at(3))
        assert run.newest_checkpoint(pytest.fail).step == 3
    (path / "thesis.tex").write_text("mine")
    with claimed(count_directory(path), force=True) as run:
        run.clear()
    assert [entry.name for entry in path.iterdir() if entry.name != LOCK] == ["thesis.tex"]


@pytest.mark.parametrize("options", ASKED)
@pytest.mark.parametrize("part", ["all", "config.toml", "provenance.json", "checkpoints"])
def test_a_run_of_another_command_is_refused_whatever_is_asked_and_left_of_it(tmp_path, checkpoint, part, options):
    mine, other = counted(tmp_path / "counted").path, inferred(tmp_path / "inferred", checkpoint).path
    if part != "all":
        keep_only(mine, part)
        keep_only(other, part)
    assert_says(refusal(infer_run(mine), **options), f"{mine}: … {NOT_INFERRED}")
    assert_says(refusal(count_directory(other), **options), f"{other}: … {NOT_COUNTED}")
    with claimed(count_directory(mine), resume=True), claimed(infer_run(other), resume=True):
        pass


@pytest.mark.parametrize("options", ASKED)
def test_a_stray_checkpoint_of_another_command_is_named(tmp_path, checkpoint, options):
    run = inferred(tmp_path / "run", checkpoint)
    stray = count_directory(run.path).checkpoints
    shutil.copy(counted(tmp_path / "counted").path / "checkpoints" / "step-000000002.safetensors", stray.path)
    file = stray.path / "step-000000002.safetensors"
    assert_says(refusal(run, **options), f"{file}: … {NOT_INFERRED}")
    with pytest.raises(FileProblem, match="`phloem count up`"):
        run.clear()
    assert file.exists()


@pytest.mark.parametrize("options", ASKED)
def test_a_run_of_another_command_in_the_place_of_one_of_several_is_refused(tmp_path, checkpoint, options):
    several = tmp_path / "several"
    counted(several / "run-1")
    inferred(several / "run-2", checkpoint)
    assert_says(refusal(infer_run(several), **options), f"{several / 'run-1'}: … {NOT_INFERRED}")
    assert_says(refusal(count_directory(several), **options), f"{several / 'run-2'}: … {NOT_COUNTED}")
    with pytest.raises(FileProblem, match="`phloem count up`"):
        infer_run(several).clear()


def test_a_run_of_another_command_is_not_one_of_several(tmp_path):
    counted(tmp_path / "run-1")
    assert infer_run(tmp_path).children() == []
    assert not infer_run(tmp_path).holds_run()


def test_runs_below_are_no_part_of_one_that_has_no_several(tmp_path):
    run = counted(tmp_path / "run")
    below = counted(tmp_path / "run" / "run-1")
    before = content(below.path)
    run.clear()
    assert content(below.path) == before
    assert [entry.name for entry in run.path.iterdir() if entry.name != LOCK] == ["run-1"]


def test_damaged_checkpoints_do_not_make_a_run_that_of_another_command(tmp_path, checkpoint):
    run = inferred(tmp_path / "run", checkpoint)
    (file,) = run.checkpoints.path.iterdir()
    whole = file.read_bytes()
    for damaged in (whole.replace(b'"infer"', b'"inner"'), whole.replace(b'"kind"', b'"kine"'), whole[:-1], b""):
        assert damaged != whole
        file.write_bytes(damaged)
        with claimed(run, resume=True):
            pass
    keep_only(run.path, "checkpoints")  # no one can tell whose they are, and they are not in the way of anybody
    for directory in (run, count_directory(run.path)):
        assert directory.holds_run()
        directory.refuse_others()


def test_damaged_checkpoints_of_another_command_are_not_taken_for_ones_own(tmp_path):
    run = counted(tmp_path / "run-1")
    for file in run.checkpoints.path.iterdir():
        file.write_bytes(b"")
    assert not infer_run(run.path).holds_run()
    assert infer_run(tmp_path).children() == []


def test_somebody_who_looks_for_a_run_is_told_what_is_there(tmp_path, checkpoint):
    with pytest.raises(FileProblem, match=saying(NOT_INFERRED)):
        infer_run(counted(tmp_path / "counted").path).check_holds_run()
    with pytest.raises(FileProblem, match=saying(NOT_COUNTED)):
        count_directory(inferred(tmp_path / "inferred", checkpoint).path).check_holds_run()
    with pytest.raises(FileProblem, match="no phloem run"):
        count_directory(tmp_path / "none").check_holds_run()
    counted(tmp_path / "again").check_holds_run()


def test_bootstrap_trees_are_no_beginning_of_another_run(tmp_path):
    (tmp_path / "bootstrap").mkdir()
    with claimed(infer_run(tmp_path)):
        pass
    assert_says(refusal(count_directory(tmp_path)), f"{tmp_path}: … bootstrap … no run")


def test_results_are_those_of_the_kind(tmp_path):
    run = counted(tmp_path / "run")
    assert run.has_results()
    assert run.has_exports()
    for name in ("config.toml", *COUNT.results):
        with pytest.raises(BadArgument, match="file of the run"):
            run.refuse_overwriting(run.path / name)
        (run.path / name).rename(tmp_path / "away")
        assert not run.has_results()
        (tmp_path / "away").rename(run.path / name)
    with pytest.raises(BadArgument, match="checkpoints"):
        run.refuse_overwriting(run.path / "checkpoints" / "x")
    run.refuse_overwriting(run.path / "support.npz")


def test_the_newest_whole_checkpoint_is_gone_on_from_and_damage_is_told_of(tmp_path):
    run = counted(tmp_path / "run")
    newest, before = (run.checkpoints.path / f"step-00000000{step}.safetensors" for step in (2, 1))
    newest.write_bytes(b"")
    told = []
    assert run.newest_checkpoint(told.append).step == 1
    (line,) = told
    assert_says(line, f"{newest}: … damaged")
    before.write_bytes(b"")
    with pytest.raises(BadArgument, match=r"checkpoint.*--force"):
        run.newest_checkpoint(told.append)
    run.checkpoints.clear()
    assert run.newest_checkpoint(pytest.fail) is None
