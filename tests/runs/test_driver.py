"""One engine for everything that trains: a task of three small classes is stopped, resumed, and recorded."""

import signal

import pytest

from phloem.errors import BadArgument, FileProblem, TrainingFailed
from phloem.runs.directory import SavedRuns
from phloem.runs.driver import Interrupted, RunRequest, report_steps, take_steps
from phloem.runs.events import News
from phloem.runs.history import History, read_history
from support.counting_runs import CountConfig, Counting, CountReport, CountReporter, count_directory, count_up

TEN = CountConfig(steps=10, reports=3)


def test_a_third_task_has_its_results_history_checkpoints_and_settings(tmp_path):
    assert count_up(RunRequest(tmp_path / "run"), TEN) == 55
    run = count_directory(tmp_path / "run")
    assert run.has_results()
    assert run.read_config() == TEN
    assert [(row.step, row.total) for row in read_history(run.path / "history.csv", CountReport)] == [
        (3, 6.0),
        (6, 21.0),
        (10, 55.0),
    ]
    assert run.checkpoints.newest_step() == 10


@pytest.mark.parametrize("stop", [2, 3, 7, 9])
def test_a_task_that_is_stopped_resumes_to_the_same_files(tmp_path, monkeypatch, stop):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    count_up(RunRequest(whole), TEN)
    step = Counting.step

    def interrupted(training):
        found = step(training)
        if found.step == stop:
            signal.raise_signal(signal.SIGINT)  # which waits for the end of the step
        return found

    with monkeypatch.context() as stopping:
        stopping.setattr(Counting, "step", interrupted)
        with pytest.raises(Interrupted) as stopped:
            count_up(RunRequest(parts), TEN)
    assert stopped.value.begun
    assert stopped.value.directory == parts
    assert stopped.value.step == count_directory(parts).checkpoints.newest_step() == stop
    assert count_up(RunRequest(parts, resume=True)) == 55
    for name in ("config.toml", "history.csv", "total.txt", "summary.json"):
        assert (parts / name).read_bytes() == (whole / name).read_bytes(), name


def test_progress_is_news_with_the_reports(tmp_path):
    events = []
    count_up(RunRequest(tmp_path / "run"), TEN, progress=events.append)
    assert {type(event) for event in events} == {News}
    assert [event.report.total for event in events if event.report] == [6.0, 21.0, 55.0]
    assert events[0] == News(1, "training", 0.0, 0)


def test_a_run_that_has_not_begun_leaves_the_old_one_alone(tmp_path):
    count_up(RunRequest(tmp_path / "run"), TEN)
    before = (tmp_path / "run" / "summary.json").read_bytes()
    with pytest.raises(FileProblem, match="--resume"):
        count_up(RunRequest(tmp_path / "run"), TEN)
    assert (tmp_path / "run" / "summary.json").read_bytes() == before
    assert count_up(RunRequest(tmp_path / "run", force=True), CountConfig(steps=2)) == 3


def test_other_settings_are_refused_by_name(tmp_path):
    count_up(RunRequest(tmp_path / "run"), TEN)
    with pytest.raises(FileProblem, match="steps is 10, not 12"):
        count_up(RunRequest(tmp_path / "run", resume=True), CountConfig(steps=12, reports=3))


def test_settings_that_are_lost_are_in_the_checkpoint(tmp_path):
    count_up(RunRequest(tmp_path / "run"), TEN)
    (tmp_path / "run" / "config.toml").unlink()
    assert SavedRuns.find(count_directory(tmp_path / "run"), pytest.fail).config == TEN


def test_reports_come_after_even_parts_of_the_steps():
    assert report_steps(10, 3) == {3, 6, 10}
    assert report_steps(2, 100) == {1, 2}


def test_steps_are_taken_one_by_one_and_reports_come_in_between():
    training, history = Counting(4), History(CountReport)
    seen = list(take_steps(training, CountReporter(training, 2), history))
    assert seen == [None, None, CountReport(2, 0.0, 3.0), None, None, CountReport(4, 0.0, 10.0)]
    assert history.recent == []
    assert history.reports == [report for report in seen if report]


def test_a_report_that_a_stop_prevented_comes_first_when_training_resumes():
    training, history = Counting(4, done=2), History(CountReport)
    assert next(take_steps(training, CountReporter(training, 2), history)) == CountReport(2, 0.0, 3.0)


def test_no_step_comes_after_the_last():
    training = Counting(3, done=3)
    with pytest.raises(BadArgument, match="all of 3 steps"):
        training.step()


def test_too_many_steps_that_move_nothing_are_a_failure():
    training = Counting(1000)
    for number in range(1, 100):
        training._count(number, False)
    with pytest.raises(TrainingFailed, match=r"step 100: .* no finite sum .* Count again"):
        training._count(100, False)


def test_the_state_of_another_model_is_refused():
    with pytest.raises(BadArgument, match="another model"):
        Counting().restore({"total": Counting().total})
