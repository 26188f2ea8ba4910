"""When a run is saved, and what happens if it cannot be."""

import pytest

from phloem.energy.training import DensityReport
from phloem.errors import BadArgument, DiskFull, FileProblem
from phloem.inference.training import Report
from phloem.runs import checkpoints as saving
from phloem.runs.checkpoints import CheckpointInterval, Saver, parse_interval
from phloem.runs.history import HistoryFile, read_history
from phloem.tasks.run_files import infer_run
from support.begun_trainings import begun, checkpoint_of
from support.clocks import Clock
from support.counting_runs import Counting, CountReport, checkpoint_at, count_folder, newest_count
from support.messages import assert_says

NEVER = CheckpointInterval(1e9, None)


@pytest.fixture
def clock(monkeypatch):
    clock = Clock(1000.0)
    monkeypatch.setattr(saving, "time", clock)
    return clock


def saver_in(folder, interval=NEVER, steps_done=0):
    training, history = begun("split")
    for _ in range(steps_done):
        training.step()
    notices = []
    checkpoints = infer_run(folder).checkpoints
    saver = Saver(checkpoints, checkpoint_of(training, history), training, interval, notices.append)
    return saver, training, notices


def break_disk(monkeypatch):
    def fail(*_arguments, **_options):
        raise DiskFull("x: cannot be written (No space left on device).")

    monkeypatch.setattr("phloem.runs.checkpoints.write_sealed", fail)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("90", (90, None)),
        ("90s", (90, None)),
        ("1.5m", (90, None)),
        ("2 min", (120, None)),
        ("1h", (3600, None)),
        ("0", (0, None)),
        ("1000steps", (None, 1000)),
        ("1 step", (None, 1)),
    ],
)
def test_an_interval_is_time_or_steps(text, expected):
    assert parse_interval(text) == expected


@pytest.mark.parametrize("text", ["", "often", "-5", "5d", "0steps", "1.5steps", "inf", "5 s s", "9" * 400 + "steps"])
def test_other_intervals_are_refused(text):
    with pytest.raises(BadArgument, match="--checkpoint-every"):
        parse_interval(text)


def test_a_run_is_saved_when_its_time_has_come(tmp_path, clock):
    saver, training, _ = saver_in(tmp_path, CheckpointInterval(60, None))
    for seconds, saved in ((0, 0), (59, 0), (1, 3), (59, 3), (1, 5)):
        clock.now += seconds
        training.step()
        saver.after_step()
        assert saver.saved_step == saved
        assert (saver._folder.newest_step() or 0) == saved


def test_a_run_is_saved_every_so_many_steps(tmp_path):
    saver, training, _ = saver_in(tmp_path, CheckpointInterval(None, 3))
    seen = []
    for _ in range(7):
        training.step()
        saver.after_step()
        seen.append(saver.saved_step)
    assert seen == [0, 0, 3, 3, 3, 6, 6]


def test_a_resumed_run_counts_from_the_step_that_it_goes_on_from(tmp_path):
    saver, training, _ = saver_in(tmp_path, CheckpointInterval(None, 3), steps_done=4)
    seen = []
    for _ in range(4):
        training.step()
        saver.after_step()
        seen.append(saver.saved_step)
    assert seen == [4, 4, 7, 7]


def test_a_disk_that_is_full_is_told_of_and_tried_again_after_a_while(tmp_path, clock, monkeypatch):
    saver, training, notices = saver_in(tmp_path, CheckpointInterval(None, 1))
    with monkeypatch.context() as broken:
        break_disk(broken)
        for _ in range(5):
            training.step()
            saver.after_step()
        (notice,) = notices
        assert_says(notice, "x: … No space left on device … checkpoint … step 0")
        clock.now += 10
        saver.after_step()
        assert len(notices) == 1
    saver.after_step()
    assert saver.saved_step == 0
    clock.now += 10
    saver.after_step()
    assert saver.saved_step == 5
    training.step()
    saver.after_step()
    assert saver.saved_step == 6
    (again,) = notices[1:]
    assert "step 5" in again
    break_disk(monkeypatch)
    training.step()
    saver.after_step()
    assert_says(notices[2], "checkpoint … step 6")


def test_at_the_end_of_training_a_full_disk_is_waited_for_but_not_for_ever(tmp_path, clock, monkeypatch):
    saver, training, notices = saver_in(tmp_path)
    training.step()
    with monkeypatch.context() as broken:
        break_disk(broken)
        with pytest.raises(FileProblem, match="No space left"):
            saver.save_patiently()
    (notice,) = notices
    assert_says(notice, "x: … No space left on device … checkpoint … step 0 … waiting")
    assert 590 <= clock.now - 1000 <= 600
    saver.save_patiently()
    assert saver.saved_step == 1


def test_at_the_end_nothing_but_space_is_waited_for(tmp_path, clock):
    saver, training, notices = saver_in(tmp_path)
    (tmp_path / "checkpoints" / "step-000000001.safetensors").mkdir(parents=True)
    training.step()
    with pytest.raises(FileProblem, match="directory"):
        saver.save_patiently()
    assert clock.now == 1000
    assert len(notices) == 1


def test_a_directory_that_is_gone_is_not_made_again(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    saver, training, _ = saver_in(folder, CheckpointInterval(None, 1))
    training.step()
    folder.rmdir()
    with pytest.raises(FileProblem, match="gone"):
        saver.after_step()
    assert not folder.exists()


def test_a_lost_folder_of_checkpoints_is_made_again(tmp_path):
    saver, training, _ = saver_in(tmp_path)
    training.step()
    saver.save()
    (tmp_path / "checkpoints" / "step-000000001.safetensors").unlink()
    (tmp_path / "checkpoints").rmdir()
    saver.save()
    assert saver._folder.newest_step() == 1


def stop_after(steps: int, saver: Saver, training: Counting) -> None:
    """Take steps, and be told to stop."""

    def train():
        for _ in range(steps):
            training.step()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), saver.saving_the_end():
        train()


def test_a_run_of_any_kind_is_saved_where_it_ends_or_is_stopped(tmp_path):
    training, folder = Counting(), count_folder(tmp_path / "checkpoints")
    saver = Saver(folder, checkpoint_at(0), training, NEVER, pytest.fail)
    stop_after(2, saver, training)
    assert newest_count(folder) == (2, "sheep")
    with saver.saving_the_end():
        training.step()
    assert newest_count(folder) == (3, "sheep")
    assert saver.saved_step == 3
    folder.clear()
    with saver.saving_the_end():  # with nothing new
        pass
    assert newest_count(folder) is None


def test_the_first_step_of_a_session_is_not_saved_as_it_may_have_been_left_half_way(tmp_path):
    training, folder = Counting(done=4), count_folder(tmp_path / "checkpoints")
    saver = Saver(folder, checkpoint_at(0), training, NEVER, pytest.fail)
    stop_after(1, saver, training)
    assert newest_count(folder) is None


def test_a_run_that_is_stopped_on_a_full_disk_says_what_is_lost(tmp_path, monkeypatch):
    break_disk(monkeypatch)
    training, notices = Counting(), []
    saver = Saver(count_folder(tmp_path / "checkpoints"), checkpoint_at(0), training, NEVER, notices.append)
    stop_after(9, saver, training)
    (notice,) = notices
    assert_says(notice, "x: … No space left on device … checkpoint … step 0 … lost")


REPORTS = [Report(step, step / 7, 0.5, -1.0 / step, float("nan"), 3, 0) for step in (1, 2, 3)]


def test_a_history_file_grows_by_rows_and_loses_those_after_a_checkpoint(tmp_path):
    path = tmp_path / "history.csv"
    file = HistoryFile(path, Report)
    for count in (1, 2, 3):
        file.write(REPORTS[:count])
        assert [report.step for report in read_history(path, Report)] == [1, 2, 3][:count]
    whole = path.read_bytes()
    HistoryFile(path, Report).write(REPORTS[:2])
    assert [report.step for report in read_history(path, Report)] == [1, 2]
    HistoryFile(path, Report).rewrite(REPORTS)
    assert path.read_bytes() == whole
    again = read_history(path, Report)[2]
    assert again[2:4] == REPORTS[2][2:4]
    assert again.seconds == pytest.approx(REPORTS[2].seconds, abs=1e-3)


def test_a_row_that_could_not_be_written_is_written_with_the_next(tmp_path):
    path = tmp_path / "history.csv"
    file = HistoryFile(path, Report)
    file.write(REPORTS[:1])
    path.unlink()
    path.mkdir()
    with pytest.raises(FileProblem, match=r"history\.csv: "):
        file.write(REPORTS[:2])
    path.rmdir()
    for count in (2, 3):
        file.write(REPORTS[:count])
        assert [report.step for report in read_history(path, Report)] == [1, 2, 3][:count]


@pytest.mark.parametrize("row_type", [CountReport, DensityReport])
def test_a_history_may_have_other_columns(tmp_path, row_type):
    path = tmp_path / "history.csv"
    numbers = [0.1, float("inf"), -1e300, 2 / 3, 1e-5][: len(row_type._fields) - 2]
    reports = [row_type(step, 0.25, *numbers) for step in (1, 2)]
    file = HistoryFile(path, row_type)
    for count in (0, 1, 2):
        file.write(reports[:count])
        assert read_history(path, row_type) == reports[:count]
    assert path.read_text().splitlines()[0] == ",".join(row_type._fields)
    with pytest.raises(FileProblem, match="not a history"):
        read_history(path, Report)


def test_a_history_that_cannot_be_written_now_is_written_later(tmp_path):
    file = HistoryFile(tmp_path / "later" / "history.csv", CountReport)
    reports = [CountReport(1, 0.0, 1.0)]
    file.write_if_possible(reports)
    file.path.parent.mkdir()
    file.write_if_possible(reports)
    assert read_history(file.path, CountReport) == reports


@pytest.mark.parametrize("content", ["", "step\n1\n", "{header}\n1,2\n", "{header}\n1,x,1,1,1,1,1\n"])
def test_a_file_that_is_no_history_is_a_line(tmp_path, content):
    (tmp_path / "h.csv").write_text(content.format(header=",".join(Report._fields)))
    with pytest.raises(FileProblem, match=r"h\.csv: .*(not a history|damaged)"):
        read_history(tmp_path / "h.csv", Report)
