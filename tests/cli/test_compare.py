"""`phloem compare`: what users type, see, get, and get wrong."""

import json
from pathlib import Path

import pytest

from phloem.cli.compare import default_directory
from phloem.cli.flags import COMPARE_FLAGS, INFER_FLAGS, MODEL_FLAGS
from phloem.cli.main import run
from phloem.errors import TrainingFailed
from phloem.runs.driver import Interrupted
from phloem.tasks import compare as task
from phloem.tasks.compare import COMPARISON
from support.command_line import complaint
from support.messages import assert_says

PRIMATES = ["compare", "primates", "--trees", "primates"]  # a bootstrap would take longer than the runs
SMALLEST = ["--steps", "5", "--branches", "split", "--samples", "20", "--repeats", "2"]
SMALLEST += ["--set", "evaluation.chains=0", "--set", "evaluation.anneal=0"]
TWO = ["--models", "JC,HKY", *SMALLEST]


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    """A comparison of two models."""
    out = tmp_path_factory.mktemp("compare") / "models"
    assert run([*PRIMATES, *TWO, "--out", str(out), "--quiet"]) == 0
    return out


def raising(monkeypatch, name: str, problem: BaseException) -> None:
    """The run of one model ends in a problem."""
    infer = task.run_inference

    def run_or_raise(request, progress):
        if request.run.directory.name == name:
            raise problem
        return infer(request, progress)

    monkeypatch.setattr(task, "run_inference", run_or_raise)


def test_the_table_has_the_best_model_first(finished, capsys):
    assert run([*PRIMATES, "--out", str(finished), "--resume"]) == 0
    captured = capsys.readouterr()
    lines = captured.out.splitlines()
    assert lines[0].split() == [*("model", "params", "log", "p(Y)", "log", "Bayes", "factor"), *lines[0].split()[7:]]
    assert [line.split()[0] for line in lines[1:] if " ± " in line] == ["HKY", "JC"]
    said = " ".join(captured.out.split())
    assert_says(said, "HKY is the best … against the next, JC, is very strong")
    assert_says(said, "HKY and JC: these numbers cannot be trusted … phloem report")
    assert max(len(line) for line in lines if " ± " in line) <= 120
    for text in ("phloem: model 1 of 2: HKY", "phloem: model 2 of 2: JC", "run directory", "step 5 of 5"):
        assert text in captured.err


def test_json_is_the_file(finished, capsys):
    assert run([*PRIMATES, "--out", str(finished), "--resume", "--json", "--quiet"]) == 0
    captured = capsys.readouterr()
    found = json.loads(captured.out)
    assert captured.err == ""
    assert found == json.loads((finished / COMPARISON).read_text())
    assert found["alignment"]["source"] == "primates"
    best, other = found["models"]
    assert (best["model"], best["parameters"], best["log_bayes_factor"]) == ("HKY", 4, 0.0)
    assert (other["model"], other["parameters"], other["evidence_for_the_best"]) == ("JC", 0, "very strong")
    assert other["log_bayes_factor"] == other["log_marginal_likelihood"] - best["log_marginal_likelihood"]
    assert best["probability"] + other["probability"] == pytest.approx(1)
    assert best["trust"]["level"] == "do not trust"
    assert best["run"] == str(finished / "HKY")
    assert best["seconds"] > 0
    assert best["problem"] is None


def test_other_commands_open_the_runs(finished, capsys):
    assert run(["evaluate", str(finished / "HKY")]) == 0
    assert "log marginal likelihood" in capsys.readouterr().out


@pytest.mark.slow
def test_a_model_that_fails_is_named_and_the_exit_code_is_1(monkeypatch, capsys):
    raising(monkeypatch, "HKY", TrainingFailed("training, step 3: no gradient."))
    assert run([*PRIMATES, *TWO]) == 1
    captured = capsys.readouterr()
    assert "phloem: HKY: training, step 3: no gradient." in captured.err
    assert_says(" ".join(captured.out.split()), "JC … HKY … failed … HKY failed: training, step 3: no gradient.")
    assert Path("primates-models/JC/report.html").exists()


@pytest.mark.slow
def test_a_comparison_that_is_stopped_says_how_to_go_on(monkeypatch, capsys):
    with monkeypatch.context() as patched:
        raising(patched, "HKY", Interrupted(Path("my models/HKY"), [3], begun=True))
        assert run([*PRIMATES, *TWO, "--out", "my models", "--quiet"]) == 130
    told = complaint(capsys)
    assert_says(told, "stopped in HKY, saved at step 3. Resume with: phloem compare primates --trees primates")
    assert told.endswith("--out 'my models' --resume")
    assert run([*PRIMATES, "--out", "my models", "--resume", "--quiet", "--json"]) == 0
    assert [row["model"] for row in json.loads(capsys.readouterr().out)["models"]] == ["HKY", "JC"]


@pytest.mark.parametrize(
    ("options", "facts"),
    [
        (["--models", "JC,WAG"], "--models 'WAG' … JC, K80"),
        (["--models", "HKY,GTR+G,GTR+G4"], "'GTR+G' and 'GTR+G4'"),
        (["--models", "HKY"], "--models HKY: one model"),
        (["--models", "JC,HKY", "--set", "model.kappa=2"], "model.kappa … --models"),
        (["--models", "JC,HKY", "--steps", "0"], "--steps 0"),
        (["--models", "JC,HKY", "--resume", "--force"], "--resume and --force"),
    ],
)
def test_mistakes_are_one_line_and_leave_nothing(options, facts, capsys):
    assert run([*PRIMATES, *options]) == 2
    assert_says(complaint(capsys), facts)
    assert not Path("primates-models").exists()


def test_a_flag_of_one_model_is_not_known(capsys):
    assert run([*PRIMATES, "--model", "JC"]) == 2
    assert_says(complaint(capsys), "--model")


def test_a_directory_with_something_else_is_left_alone(finished, capsys):
    Path("mine").mkdir()
    Path("mine/thesis.txt").write_text("mine")
    assert run([*PRIMATES, *TWO, "--out", "mine"]) == 2
    assert_says(complaint(capsys), "mine: … thesis.txt")
    assert run([*PRIMATES, *TWO, "--out", str(finished / "JC"), "--force"]) == 2
    assert_says(complaint(capsys), f"{finished / 'JC'}: … `phloem infer`")
    assert run([*PRIMATES, *TWO, "--out", str(finished)]) == 2
    assert_says(complaint(capsys), f"{finished}: … --resume")
    Path("file").touch()
    assert run([*PRIMATES, *TWO, "--out", "file"]) == 2
    assert_says(complaint(capsys), "file: is not a directory")


def test_a_comparison_with_trees_needs_them_again_for_runs_that_have_not_begun(finished, capsys):
    options = ["--models", "JC,HKY,K80", "--out", str(finished), "--resume"]
    assert run(["compare", "primates", *options]) == 2
    assert_says(complaint(capsys), f"{finished}: … --trees primates")


@pytest.mark.parametrize(
    ("alignment", "directory"), [("x/dna.v2.nex.gz", "dna.v2-models"), ("primates", "primates-models")]
)
def test_a_directory_is_named_after_the_alignment(alignment, directory):
    assert default_directory(alignment) == Path(directory)


def test_flags_are_those_of_infer_but_for_those_of_one_model():
    names, of_infer, of_models = ([flag.name for flag in f.flags] for f in (COMPARE_FLAGS, INFER_FLAGS, MODEL_FLAGS))
    assert names == [name for name in of_infer if name not in of_models]
    assert {"--steps", "--seed", "--branch-prior"} <= {*names}
