"""Several runs at the same time, and what they say together."""

import json
import math
import shutil
from pathlib import Path

import numpy as np
import pytest

import phloem
from phloem.config import InferConfig, to_toml
from phloem.display.events import News, Notice
from phloem.errors import FileProblem, ProgramProblem
from phloem.inference.draws import Draws, write_draws
from phloem.inference.trust import judge
from phloem.runs.history import Report
from phloem.tasks import several as several_runs
from phloem.tasks.opening import combine_runs
from phloem.tasks.posterior import Posterior, load_posterior
from phloem.tasks.results import describe_draws, write_tables
from phloem.tasks.run_directory import RunDirectory
from phloem.tasks.several import INTERRUPTED, complete_runs, decode_event, encode_event
from phloem.tasks.training import RunOptions
from support.messages import saying

SETTINGS = {"branches": "split", "training": {"steps": 40}, "evaluation": {"repeats": 3, "samples": 100}}
TREES = ["(a,b,(c,(d,e)));", "(a,(b,(d,e)),c);", "(a,b,((c,e),d));"]


@pytest.fixture(scope="module")
def together(tmp_path_factory) -> tuple[Posterior, list]:
    told = []
    out = tmp_path_factory.mktemp("runs") / "all"
    return phloem.infer(
        "primates", "primates", runs=3, seed=5, threads=2, out=out, progress=told.append, **SETTINGS
    ), told


def test_each_is_the_ordinary_run_with_its_seed(together, tmp_path):
    posterior, _ = together
    assert [run.config.seed for run in posterior.runs] == [5, 6, 7]
    origins = [json.loads((run.directory / "provenance.json").read_text()) for run in posterior.runs]
    assert [origin["seed"] for origin in origins] == [5, 6, 7]
    alone = phloem.infer("primates", "primates", runs=1, seed=6, out=tmp_path / "alone", progress=False, **SETTINGS)
    for name in ("config.toml", "summary.json", "parameters.safetensors", "topologies.csv"):
        assert (posterior.runs[1].directory / name).read_bytes() == (alone.directory / name).read_bytes()


def test_every_run_tells_its_news(together):
    _, told = together
    for number in (1, 2, 3):
        news = [event for event in told if isinstance(event, News) and event.run == number]
        assert [event.report.step for event in news if event.report] == list(range(1, 41))
        assert news[-1].phase == "done"


def test_the_model_and_the_history_are_those_of_the_best_run(together):
    posterior, _ = together
    means = [run.log_marginal_likelihood.mean for run in posterior.runs]
    best = posterior.runs[int(np.argmax(means))]
    assert posterior.best_run is best
    assert posterior.summary["best_run"] == int(np.argmax(means)) + 1
    assert posterior.elbo == best.elbo
    assert posterior.history == best.history
    assert posterior.model.network.logits.equal(best.model.network.logits)
    assert min(means) < posterior.log_marginal_likelihood.mean < max(means)


def test_runs_that_are_finished_are_not_run_again(together, monkeypatch):
    posterior, _ = together
    monkeypatch.setattr(several_runs, "_Worker", None)
    told = []
    again = phloem.infer(None, out=posterior.directory, resume=True, progress=told.append)
    assert again.summary == posterior.summary
    (notice,) = (event for event in told if isinstance(event, Notice) and "step 40, 40, 40 of 40" in event.text)
    assert not notice.urgent
    assert [event for event in told if isinstance(event, News)] == [News(run, "done", 1.0) for run in (1, 2, 3)]


def test_a_run_that_was_lost_is_made_again_and_the_others_stay(together, tmp_path):
    posterior, _ = together
    copy = posterior.save(tmp_path / "copy")
    shutil.rmtree(tmp_path / "copy" / "run-1")
    told = []
    again = phloem.infer(None, out=tmp_path / "copy", resume=True, progress=told.append)
    (notice,) = (event for event in told if isinstance(event, Notice) and "step 0, 40, 40 of 40" in event.text)
    assert not notice.urgent
    assert again.summary == copy.summary


def test_more_runs_than_the_settings_have_are_refused(together, tmp_path):
    posterior, _ = together
    posterior.save(tmp_path / "copy")
    config = tmp_path / "copy" / "config.toml"
    config.write_text(config.read_text().replace("runs = 3", "runs = 2"))
    with pytest.raises(FileProblem, match=saying("runs … 3 … 2")):
        phloem.infer(None, out=tmp_path / "copy", resume=True, progress=False)


def made_up(folder: Path, log_marginal: float, shares: list[float], error: float | None = 0.1) -> None:
    """A finished run on five taxa: 100 draws of the same weight, of three topologies with these shares."""
    parsed = phloem.parse_newick(TREES, taxa=tuple("abcde"))
    group = np.repeat(np.arange(3, dtype=np.int32), [round(100 * share) for share in shares])
    zeros = np.zeros(100)
    lengths = np.full((100, 7), 0.1, np.float32)
    draws = Draws(parsed.taxa, parsed.topologies, group, lengths, zeros + log_marginal, zeros, zeros)
    trust = judge(draws.log_weights, None, steps_done=1, steps=1, finished=True)
    folder.mkdir(parents=True)
    run = RunDirectory(folder)
    run.write("config.toml", to_toml(InferConfig(runs=1)))
    write_draws(draws, folder / "draws.safetensors")
    write_tables(run, draws.weighted())
    estimate = {"mean": log_marginal, "std": error}
    shared = {"names": list("abcde"), "taxa": 5, "sites": 3, "patterns": 2, "model": "JC69", "branches": "edge"}
    bounds = dict.fromkeys(("elbo", "lower_bound", "log_marginal_likelihood"), estimate)
    done = {"support": {}, "finished": True, "steps": 1, "evaluation": {"repeats": 1, "samples": 1}}
    run.write_json("summary.json", shared | done | bounds | describe_draws(draws, trust))


def combined(tmp_path, *runs) -> Posterior:
    for number, run in enumerate(runs, 1):
        made_up(tmp_path / f"run-{number}", *run)
    directory = RunDirectory(tmp_path)
    directory.write("config.toml", to_toml(InferConfig(runs=len(runs))))
    combine_runs(directory, InferConfig(runs=len(runs)))
    return load_posterior(tmp_path)


def test_runs_count_by_their_marginal_likelihoods(tmp_path):
    found = combined(tmp_path, (-10.0, [0.7, 0.3, 0.0]), (-10.0 - math.log(3), [0.1, 0.5, 0.4]))
    np.testing.assert_allclose(found.summary["agreement"]["shares"], [0.75, 0.25])
    assert phloem.format_newick(found.topologies.topologies, found.taxa) == TREES
    np.testing.assert_allclose(found.topologies.weights, [0.55, 0.35, 0.1])
    np.testing.assert_allclose(found.trees.topology_sample().weights, [0.55, 0.35, 0.1])
    assert found.log_marginal_likelihood.mean == pytest.approx(-10 + math.log((1 + 1 / 3) / 2))
    assert found.log_marginal_likelihood.std == pytest.approx(0.1 * math.hypot(0.75, 0.25))
    expected = phloem.split_frequencies(found.topologies)
    by_split = {members.tobytes(): share for members, share in zip(expected.members, expected.frequencies, strict=True)}
    for members, share in zip(found.clades.members, found.clades.frequencies, strict=True):
        assert share == pytest.approx(by_split[members.tobytes()])


def test_the_best_run_is_the_one_that_the_bounds_are_of(tmp_path):
    """The mean of logarithms, over repeats, may order runs that are close in another way than all draws do."""
    for number, log_marginal in enumerate((-10.0, -10.1), 1):
        made_up(tmp_path / f"run-{number}", log_marginal, [0.7, 0.3, 0.0])
    path = tmp_path / "run-1" / "summary.json"
    changed = {name: {"mean": -10.2, "std": 0.1} for name in ("elbo", "log_marginal_likelihood")}
    path.write_text(json.dumps(json.loads(path.read_text()) | changed))
    directory = RunDirectory(tmp_path)
    directory.write("config.toml", to_toml(InferConfig(runs=2)))
    combine_runs(directory, InferConfig(runs=2))
    found = load_posterior(tmp_path)
    assert found.summary["best_run"] == 1
    assert found.best_run is found.runs[0]
    assert found.elbo == found.best_run.elbo


def test_a_mode_that_one_run_lost_is_in_the_combined_posterior(tmp_path):
    """The second run knows one topology only, and its marginal likelihood is smaller by what it lacks."""
    found = combined(tmp_path, (-10.0, [0.6, 0.4, 0.0]), (-10.0 + math.log(0.6), [1.0, 0.0, 0.0]))
    assert found.topologies.weights[1] == pytest.approx(0.4 / 1.6)
    assert found.trust.level == "do not trust"


def test_topologies_and_clades_of_all_runs_are_in_the_order_of_their_probabilities(tmp_path):
    found = combined(tmp_path, (-11.0, [0.9, 0.1, 0.0]), (-10.0, [0.0, 0.2, 0.8]))
    assert phloem.format_newick(found.topologies.topologies, found.taxa) == [TREES[2], TREES[0], TREES[1]]
    assert (np.diff(found.topologies.weights) < 0).all()
    assert (np.diff(found.clades.frequencies) < 0).all()


def test_runs_are_compared_by_the_two_that_differ_most(tmp_path):
    found = combined(tmp_path, (-10.0, [1, 0, 0]), (-12.0, [1, 0, 0]), (-10.5, [1, 0, 0]))
    assert found.summary["seed"] == InferConfig().seed
    assert found.summary["agreement"]["marginal_likelihood_difference"]["value"] == pytest.approx(2)


def test_runs_that_agree_and_runs_that_do_not(tmp_path):
    agreeing = combined(tmp_path / "a", (-10.0, [0.7, 0.3, 0.0]), (-10.1, [0.69, 0.31, 0.0]))
    assert agreeing.summary["agreement"]["largest_split_difference"] == pytest.approx(0.01)
    assert agreeing.summary["agreement"]["largest_split_deviation"] == pytest.approx(0.01 / math.sqrt(2))
    assert agreeing.summary["agreement"]["average_split_deviation"] == pytest.approx(0.02 / 3 / math.sqrt(2))
    assert agreeing.summary["draws"]["count"] == 200
    of_runs = [finding for finding in agreeing.trust.findings if "run" in finding.name or "split" in finding.name]
    assert [finding.level for finding in of_runs] == ["good", "good", "good"]
    assert "Marginal likelihoods of the runs: 0.10 ± 0.00 apart, good" in str(agreeing)
    lost = combined(tmp_path / "b", (-10.0, [0.7, 0.3, 0.0]), (-12.0, [0.7, 0.3, 0.0]))
    assert lost.trust.level == "do not trust"
    assert "DO NOT TRUST" in str(lost)
    other_clades = combined(tmp_path / "c", (-10.0, [0.7, 0.3, 0.0]), (-10.0, [0.3, 0.7, 0.0]))
    assert other_clades.trust.level == "do not trust"
    assert "more runs" in str(other_clades)
    unknown = combined(tmp_path / "d", (-10.0, [0.7, 0.3, 0.0], None), (-10.0, [0.7, 0.3, 0.0], None))
    assert unknown.log_marginal_likelihood.std is None


def test_a_run_that_fails_ends_the_others_and_is_told_of(tmp_path, monkeypatch):
    script = tmp_path / "fails.py"
    script.write_text('import sys\nprint(\'["error", "no luck. Try again."]\', flush=True)\nsys.exit(2)\n')
    with pytest.raises(ProgramProblem, match=r"run 1: no luck\. Try again\."):
        complete_with(script, tmp_path, monkeypatch)


def test_a_run_that_dies_is_told_of(tmp_path, monkeypatch):
    script = tmp_path / "dies.py"
    script.write_text("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n")
    with pytest.raises(ProgramProblem, match=saying("run 1 … signal 9 … --resume")):
        complete_with(script, tmp_path, monkeypatch)
    script.write_text("raise ValueError('a bug')\n")
    with pytest.raises(ProgramProblem, match=saying("run 1 … ValueError: a bug … --resume")):
        complete_with(script, tmp_path, monkeypatch)


def test_a_run_that_somebody_else_stops_stops_all(tmp_path, monkeypatch):
    script = tmp_path / "stops.py"
    script.write_text(f"import sys\nsys.exit({INTERRUPTED})\n")
    with pytest.raises(KeyboardInterrupt):
        complete_with(script, tmp_path, monkeypatch)


def test_the_others_are_told_to_stop_when_one_fails(tmp_path, monkeypatch):
    monkeypatch.setattr(several_runs, "STOP_SECONDS", 5.0)
    script = tmp_path / "two.py"
    script.write_text("""
import json, pathlib, signal, sys, time
folder = pathlib.Path(__file__).parent
if json.loads(sys.argv[1])[1] == 1:
    while not (folder / "ready").exists():
        time.sleep(0.01)
    print('["error", "no luck."]')
    sys.exit(2)
def stop(*_arguments):
    (folder / "told").touch()
    sys.exit(130)
signal.signal(signal.SIGTERM, stop)
(folder / "ready").touch()
time.sleep(60)
""")
    with pytest.raises(ProgramProblem, match=r"run 1: no luck."):
        complete_with(script, tmp_path, monkeypatch, runs=2, threads=2)
    assert (tmp_path / "told").exists()


@pytest.mark.parametrize(("runs", "threads", "at_once", "each"), [(3, 2, 2, 1), (2, 5, 2, 2), (2, None, 1, 1)])
def test_cores_are_shared_among_the_runs(tmp_path, monkeypatch, runs, threads, at_once, each):
    script = tmp_path / "notes.py"
    script.write_text("""
import json, pathlib, sys, time
def note(what):
    with pathlib.Path(__file__).with_name("log").open("a") as log:
        log.write(f"{what} {json.loads(sys.argv[1])[2]}\\n")
note("begins")
time.sleep(0.3)
note("ends")
""")
    complete_with(script, tmp_path, monkeypatch, runs=runs, threads=threads)
    at_work, most = 0, 0
    for line in (tmp_path / "log").read_text().splitlines():
        what, own_threads = line.split()
        assert int(own_threads) == each
        at_work += 1 if what == "begins" else -1
        most = max(most, at_work)
    assert 1 <= most <= at_once


def complete_with(script: Path, folder: Path, monkeypatch, *, runs: int = 1, threads: int | None = 1) -> None:
    """Complete runs with a program of the test's in the worker's place."""
    begin = several_runs.subprocess.Popen

    class Popen(begin):
        def __init__(self, arguments, **options):
            super().__init__([arguments[0], str(script), arguments[-1]], **options)

    monkeypatch.setattr(several_runs.subprocess, "Popen", Popen)
    complete_runs([RunDirectory(folder / "none")] * runs, RunOptions(threads=threads), lambda _event: None)


def test_files_of_the_users_are_not_taken_for_packages(tmp_path, monkeypatch):
    (tmp_path / "numpy.py").write_text("raise ValueError('mine')\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ProgramProblem, match=saying("run 1 … AssertionError")):  # there is no checkpoint
        complete_runs([RunDirectory(tmp_path / "none")], RunOptions(threads=1), lambda _event: None)


def test_news_survive_the_way_between_processes():
    report = Report(3, 0.5, 1.0, float("nan"), -2.5, 4, 0)
    for event in (News(2, "training", 0.5, 3, report), News(1, "evaluation", 0.25), Notice("x: full")):
        again = decode_event(json.dumps(encode_event(event)))
        assert repr(again) == repr(event)
