"""Checkpoints: whole or known not to be, and all that training depends on is in them."""

import json
import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given
from hypothesis import strategies as st

from phloem.config import EvaluationConfig, InferConfig
from phloem.errors import BadArgument, FileProblem
from phloem.inference.training import Report, Reporter, Training, train
from phloem.runs.checkpoints import CheckpointFolder
from phloem.runs.checkpoints import read_checkpoint as read
from phloem.runs.checkpoints import write_checkpoint as write
from phloem.runs.driver import take_steps
from phloem.runs.history import History
from phloem.storage.arrays import OtherFormat, write_sealed
from phloem.tasks.run_files import INFER_RUNS, InferCheckpoint, RunInputs
from phloem.variational.sbn import support_arrays
from support.begun_trainings import begun, checkpoint_of
from support.messages import assert_says, saying
from support.sealed_files import seal_by_hand

pytestmark = pytest.mark.slow  # models are trained

EVALUATION = EvaluationConfig(reports=4, report_samples=3)


def write_checkpoint(checkpoint: InferCheckpoint, path: Path) -> None:
    write(INFER_RUNS, checkpoint, path)


def read_checkpoint(path: Path) -> InferCheckpoint:
    return read(INFER_RUNS, path)


def checkpoint_folder(path: Path) -> CheckpointFolder[InferConfig, RunInputs]:
    return CheckpointFolder(path, INFER_RUNS)


def stop_after(training: Training, history: History[Report], step: int) -> None:
    """Train until a step is done, as if Ctrl-C came then."""
    for _ in take_steps(training, Reporter(training, EVALUATION), history):
        if training.steps_done == step:
            return


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A checkpoint's file in the middle of a training."""
    training, history = begun()
    stop_after(training, history, 23)
    path = tmp_path_factory.mktemp("checkpoint") / "step-000000023.safetensors"
    write_checkpoint(checkpoint_of(training, history), path)
    return path


@pytest.mark.parametrize("branches", ["split", "edge", "ggnn"])
@pytest.mark.parametrize("stop", [1, 10, 23, 40])
def test_a_training_goes_on_from_its_file_bit_for_bit(branches, stop, tmp_path):
    whole, whole_history = begun(branches)
    train(whole, EVALUATION, history=whole_history)
    part, history = begun(branches)
    stop_after(part, history, stop)
    write_checkpoint(checkpoint_of(part, history), tmp_path / "file")

    found = read_checkpoint(tmp_path / "file")
    assert found.step == stop
    again, _ = begun(branches)
    again.restore(found.training)
    train(again, EVALUATION, history=found.history)
    state, expected = again.state(), whole.state()
    assert state.keys() == expected.keys()
    for name in state:
        assert state[name].tobytes() == expected[name].tobytes(), name
    rows = [report._replace(seconds=0) for report in found.history.reports]
    assert rows == [report._replace(seconds=0) for report in whole_history.reports]
    assert len(rows) == 4


def test_seconds_are_those_of_all_sessions(tmp_path):
    training, history = begun()
    stop_after(training, history, 23)
    history.seconds = 1000.0
    write_checkpoint(checkpoint_of(training, history), tmp_path / "file")
    found = read_checkpoint(tmp_path / "file")
    train(training, EVALUATION, history=found.history)
    assert all(report.seconds > 1000 for report in found.history.reports[2:])
    assert found.history.seconds > 1000


def test_every_part_comes_back_exactly(written):
    training, history = begun()
    stop_after(training, history, 23)
    found = read_checkpoint(written)
    assert (found.inputs.source, found.config) == ("dna.fasta", InferConfig(seed=5))
    assert found.history.reports[0][2:] == history.reports[0][2:]
    assert found.history.recent == history.recent
    assert len(history.recent) == 3
    patterns = training.target.likelihood.patterns
    assert found.inputs.patterns.taxa == patterns.taxa
    for name in ("states", "counts", "pattern_of_site"):
        np.testing.assert_array_equal(getattr(found.inputs.patterns, name), getattr(patterns, name))
    for name, array in support_arrays(training.model.network.support).items():
        np.testing.assert_array_equal(support_arrays(found.inputs.support)[name], array)


@given(place=st.floats(0, 1, exclude_max=True), change=st.integers(1, 255))
def test_no_byte_can_change_unnoticed(written, place, change):
    content = bytearray(written.read_bytes())
    content[int(place * len(content))] ^= change
    damaged = written.with_name("damaged")
    damaged.write_bytes(content)
    with pytest.raises(FileProblem, match="damaged"):
        read_checkpoint(damaged)


@given(st.floats(0, 1, exclude_max=True))
def test_no_part_can_be_missing_unnoticed(written, share):
    content = written.read_bytes()
    damaged = written.with_name("damaged")
    damaged.write_bytes(content[: int(share * len(content))])
    with pytest.raises(FileProblem, match="damaged"):
        read_checkpoint(damaged)


def test_a_pickle_is_not_loaded(tmp_path):
    class Trap:
        def __reduce__(self):
            return (pytest.fail, ("a pickle was loaded",))

    (tmp_path / "file").write_bytes(pickle.dumps(Trap()))
    with pytest.raises(FileProblem, match="damaged"):
        read_checkpoint(tmp_path / "file")


def test_a_whole_file_that_is_no_checkpoint_is_refused(tmp_path):
    write_sealed(tmp_path / "file", {"a": np.zeros(3)}, {}, kind="infer", layout="1")
    with pytest.raises(FileProblem, match=saying(f"{tmp_path / 'file'}: … damaged")):
        read_checkpoint(tmp_path / "file")


def test_another_format_is_refused_and_never_passed_over(tmp_path):
    folder = checkpoint_folder(tmp_path)
    training, history = begun()
    folder.add(checkpoint_of(training, history))
    training.step()
    CheckpointFolder(tmp_path, replace(INFER_RUNS, layout="77")).add(checkpoint_of(training, history))
    with pytest.raises(OtherFormat, match=saying("phloem 0 … format 77 … format 1")):
        folder.newest()


def test_files_from_before_there_were_other_kinds_of_runs_can_be_read(written, tmp_path):
    content = written.read_bytes()
    texts = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])["__metadata__"]
    assert texts.pop("kind") == "infer"
    seal_by_hand(tmp_path / "file", safetensors.numpy.load(content), texts)
    assert read_checkpoint(tmp_path / "file").step == 23


def test_the_two_newest_are_kept(tmp_path):
    folder = checkpoint_folder(tmp_path / "new")
    assert folder.newest() == (None, [])
    assert folder.newest_step() is None
    training, history = begun()
    for _ in range(4):
        training.step()
        folder.add(checkpoint_of(training, history))
    for name in ("notes.txt", "step-000000009.safetensors.old"):
        (folder.path / name).write_text("mine")
    assert sorted(path.name for path in folder.path.iterdir()) == [
        "notes.txt",
        "step-000000003.safetensors",
        "step-000000004.safetensors",
        "step-000000009.safetensors.old",
    ]
    assert folder.newest_step() == 4
    found, problems = folder.newest()
    assert found.step == 4
    assert problems == []


def two_checkpoints(folder: CheckpointFolder[InferConfig, RunInputs]):
    training, history = begun()
    for _ in range(2):
        training.step()
        folder.add(checkpoint_of(training, history))
    return folder.path / "step-000000001.safetensors", folder.path / "step-000000002.safetensors"


def test_a_damaged_newest_one_is_told_of_and_the_one_before_is_used(tmp_path):
    folder = checkpoint_folder(tmp_path)
    _, newest = two_checkpoints(folder)
    newest.write_bytes(newest.read_bytes()[:-1])
    found, problems = folder.newest()
    assert found.step == 1
    (problem,) = problems
    assert_says(problem, f"{newest}: … damaged … checksum")


def test_a_damaged_one_that_was_passed_over_does_not_take_the_place_of_a_good_one(tmp_path):
    folder = checkpoint_folder(tmp_path)
    _, newest = two_checkpoints(folder)
    newest.rename(tmp_path / "step-000000009.safetensors")
    training, history = begun()
    for _ in range(3):
        training.step()
    folder.add(checkpoint_of(training, history))
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "step-000000001.safetensors",
        "step-000000003.safetensors",
    ]


def test_files_whose_names_were_swapped_are_known_by_what_they_hold(tmp_path):
    folder = checkpoint_folder(tmp_path)
    old, new = two_checkpoints(folder)
    old.rename(tmp_path / "x")
    new.rename(old)
    (tmp_path / "x").rename(new)
    found, problems = folder.newest()
    assert found.step == 2
    assert problems == []


def test_a_missing_newest_one_leaves_the_one_before(tmp_path):
    folder = checkpoint_folder(tmp_path)
    _, newest = two_checkpoints(folder)
    newest.unlink()
    assert folder.newest()[0].step == 1


def test_a_state_of_another_model_is_refused():
    training, _ = begun("split")
    with pytest.raises(BadArgument, match="another model"):
        training.restore(begun("edge")[0].state())


def test_the_header_is_plain_json(written):
    content = written.read_bytes()
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    assert json.loads(header["__metadata__"]["taxa"]) == list("abcdef")
