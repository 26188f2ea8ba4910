"""Who may use a run directory, and what is removed from it."""

import threading
from pathlib import Path

import pytest

from phloem.config.settings import heading
from phloem.errors import BadArgument, FileProblem
from phloem.runs.directory import LOCK, claimed
from phloem.tasks.run_files import InferRun, infer_run
from support.messages import saying

HEADING = heading("infer")


def names(path: Path) -> set[str]:
    return {entry.name for entry in path.iterdir()}


def finished_run(path: Path) -> InferRun:
    path.mkdir(parents=True)
    for name in infer_run(path).needed:
        (path / name).write_text("")
    (path / "checkpoints").mkdir()
    (path / "checkpoints" / "step-000000001.safetensors").write_text("")
    run = infer_run(path)
    run.checksums.add(run.needed)
    return run


def test_a_new_directory_is_made_with_its_parents_and_nothing_is_left_of_an_unused_one(tmp_path):
    path = tmp_path / "a" / "b"
    with claimed(infer_run(path)) as run:
        assert path.is_dir()
        assert run.path == path
    assert names(tmp_path) == set()


def test_what_was_written_stays(tmp_path):
    with claimed(infer_run(tmp_path / "run")) as run:
        run.write("config.toml", HEADING)
    assert names(tmp_path / "run") == {"config.toml", LOCK}


def test_an_empty_directory_of_the_users_stays(tmp_path):
    with claimed(infer_run(tmp_path)):
        pass
    assert tmp_path.is_dir()


def test_a_claimed_directory_is_refused_to_others_and_free_afterwards(tmp_path):
    with claimed(infer_run(tmp_path / "run")) as run:
        run.write("config.toml", HEADING)
        with (
            pytest.raises(FileProblem, match="another run"),
            claimed(infer_run(tmp_path / "run"), resume=True),
        ):
            pytest.fail("two in one directory")
    with claimed(infer_run(tmp_path / "run"), resume=True):
        pass


def test_a_run_is_not_overwritten_without_being_asked_to(tmp_path):
    finished_run(tmp_path / "run")
    with pytest.raises(FileProblem, match=r"--resume.*--force"):
        claimed(infer_run(tmp_path / "run")).__enter__()
    for option in ({"resume": True}, {"force": True}):
        with claimed(infer_run(tmp_path / "run"), **option):
            pass
    with pytest.raises(BadArgument, match=r"--resume.*--force"):
        claimed(infer_run(tmp_path / "run"), resume=True, force=True).__enter__()


@pytest.mark.parametrize("part", ["config.toml", "checkpoints", "run-1"])
def test_what_is_left_of_a_run_is_not_overwritten(tmp_path, part):
    whole = finished_run(tmp_path / "whole")
    (whole.path / "config.toml").write_text(HEADING)
    tmp_path = tmp_path / "left"
    tmp_path.mkdir()
    (whole.path if part == "run-1" else whole.path / part).rename(tmp_path / part)
    with pytest.raises(FileProblem, match=r"--resume.*--force"):
        claimed(infer_run(tmp_path)).__enter__()


def test_another_run_is_waited_for_with_patience(tmp_path):
    seen = []

    def wait():
        with claimed(infer_run(tmp_path), resume=True, patience=30):
            seen.append("the second")

    second = threading.Thread(target=wait)
    with claimed(infer_run(tmp_path)):
        second.start()
        second.join(0.2)
        seen.append("the first")
    second.join()
    assert seen == ["the first", "the second"]


def test_a_directory_that_cannot_be_written_to_is_a_line_before_any_work(tmp_path):
    (tmp_path / "config.toml").mkdir()
    with pytest.raises(FileProblem, match=r"config.toml: "):
        claimed(infer_run(tmp_path), resume=True).__enter__()


@pytest.mark.parametrize("options", [{}, {"resume": True}, {"force": True}])
def test_somebody_elses_directory_is_refused_whatever_is_asked(tmp_path, options):
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(FileProblem, match=r"thesis.tex.*no run"):
        claimed(infer_run(tmp_path), **options).__enter__()
    assert "thesis.tex" in names(tmp_path)


def test_bootstrap_trees_alone_are_a_beginning(tmp_path):
    (tmp_path / "bootstrap").mkdir()
    with claimed(infer_run(tmp_path)):
        pass


def test_clearing_removes_a_run_and_nothing_else(tmp_path):
    run = finished_run(tmp_path / "run")
    for name in ("run-1", "run-2"):
        (finished_run(tmp_path / "run" / name).path / LOCK).write_text("")
    (tmp_path / "run" / "run-2" / "notes").write_text("mine")
    (tmp_path / "run" / "bootstrap").mkdir()
    (tmp_path / "run" / "tensorboard").mkdir()
    (tmp_path / "run" / "tensorboard" / "events.out.tfevents.1").write_text("")
    (tmp_path / "run" / "thesis.tex").write_text("mine")
    run.clear()
    assert names(tmp_path / "run") == {"bootstrap", "thesis.tex", "run-2"}
    assert names(tmp_path / "run" / "run-2") == {"notes"}


def test_what_killed_writers_have_left_is_removed(tmp_path):
    finished_run(tmp_path / "run")
    checkpoint = ".step-000000002.safetensors.abc.unfinished"
    left = [tmp_path / "run" / ".config.toml.abc.unfinished", tmp_path / "run" / "checkpoints" / checkpoint]
    mine = [tmp_path / "run" / "thesis.unfinished", tmp_path / "run" / ".thesis.tex.abc.unfinished"]
    for path in (*left, *mine):
        path.write_text("")
    with claimed(infer_run(tmp_path / "run"), resume=True):
        assert not any(path.exists() for path in left)
        assert all(path.exists() for path in mine)


def test_a_run_is_finished_when_all_its_results_are_there(tmp_path):
    run = finished_run(tmp_path / "run")
    assert run.has_results()
    for name in run.needed:
        (run.path / name).write_text("other")
        assert not run.has_results()
        (run.path / name).unlink()
        assert not run.has_results()
        (run.path / name).write_text("")
        assert run.has_results()


def test_several_runs_are_counted_from_one_to_the_last_and_one_that_is_lost_counts(tmp_path):
    assert infer_run(tmp_path).children() == []
    for name in ("run-1", "run-3", "run-x", "run-07", "run-9999"):
        finished_run(tmp_path / name)
    (tmp_path / "run-4").mkdir()  # somebody else's
    (tmp_path / "run-5").write_text("")
    assert [child.path.name for child in infer_run(tmp_path).children()] == ["run-1", "run-2", "run-3"]


def test_a_file_in_the_place_of_a_directory_is_a_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(FileProblem, match="not a directory"):
        claimed(infer_run(tmp_path / "file")).__enter__()
    with pytest.raises(FileProblem, match="written"):
        claimed(infer_run(tmp_path / "file" / "below")).__enter__()


def test_files_of_other_programs_that_have_the_same_names_are_no_run_and_stay(tmp_path):
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "resnet.pt").write_text("mine")
    (tmp_path / "config.toml").write_text("mine = 1")
    (tmp_path / "provenance.json").write_text("{}")
    (tmp_path / "run-1").mkdir()
    for options in ({}, {"resume": True}, {"force": True}):
        with pytest.raises(FileProblem, match=saying("checkpoints … no run")):
            claimed(infer_run(tmp_path), **options).__enter__()
    run = finished_run(tmp_path / "run")
    (run.checkpoints.path / "resnet.pt").write_text("mine")
    run.tensorboard.mkdir()
    (run.tensorboard / "mine").write_text("mine")
    run.clear()
    assert names(run.path) == {"checkpoints", "tensorboard"}
    assert names(run.checkpoints.path) == {"resnet.pt"}
    assert names(tmp_path) == {"checkpoints", "config.toml", "provenance.json", "run-1", "run"}


def test_files_that_a_run_or_one_of_several_needs_are_not_written_over(tmp_path):
    run = infer_run(tmp_path)
    run.write("config.toml", HEADING)
    child = run.child(1)
    child.make()
    child.write("config.toml", HEADING)
    for path in (
        "summary.json",
        "run-1/draws.safetensors",
        "run-1/../config.toml",
        "checkpoints/x",
        "run-1/checkpoints/x",
    ):
        with pytest.raises(BadArgument, match="Name another"):
            run.refuse_overwriting(tmp_path / path)
    for path in ("posterior.nex", "mine.nex", "elsewhere/summary.json", "run-2/draws.safetensors"):
        run.refuse_overwriting(tmp_path / path)
