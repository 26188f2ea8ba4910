"""Comparing models: one set of bootstrap trees, a run of each model, and what is said of the result."""

import json
import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import phloem
from phloem.cli import compare as command
from phloem.config.infer import INFER
from phloem.display.events import Notice
from phloem.errors import ConfigError, FileProblem, TrainingFailed
from phloem.inference.agreement import Measured
from phloem.inference.trust import Trust
from phloem.runs.driver import Interrupted, RunRequest
from phloem.tasks import compare as task
from phloem.tasks.compare import (
    COMPARISON,
    SETTINGS,
    STRENGTHS,
    UNDECIDED,
    USUAL_MODELS,
    ComparedModel,
    CompareRequest,
    Comparison,
    Subject,
    compare_models,
    log_marginal_likelihood,
    parse_models,
    strength,
)
from phloem.tasks.run_files import infer_run
from support.messages import saying

SMALL = {
    "branches": "split",
    "training": {"steps": 5},
    "evaluation": {"samples": 20, "repeats": 2, "anneal": 0, "chains": 0},
    "support": {"method": "embedded", "replicates": 2, "count": 10, "explore": 0},
}
GOOD, BAD = Trust("good", (), ""), Trust("do not trust", (), "Train longer.")
RESULTS = ("summary.json", "parameters.safetensors", "draws.safetensors", "support.npz", "provenance.json")


def request(models: str = "", out: str = "models", **run: bool) -> CompareRequest:
    settings = [] if run.get("resume") else [SMALL]
    names = models.split(",") if models else ()
    return CompareRequest("primates", RunRequest(Path(out), **run), names, settings=settings)


def measured(name: str, value: float, error: float = 0.01, trust: Trust = GOOD) -> ComparedModel:
    return ComparedModel(name, Path("models") / name, 1, 60.0, Measured(value, error), trust)


def comparison(*models: ComparedModel) -> Comparison:
    return Comparison.of(Subject("dna.fasta", "0" * 64, Path("models")), models)


@pytest.fixture(autouse=True)
def in_empty_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> tuple[Path, Comparison]:
    """A comparison of two models, with bootstrap trees of its own."""
    out = tmp_path_factory.mktemp("compare") / "models"
    return out, compare_models(request("HKY,JC", out=str(out)))


def running(monkeypatch, problems: dict[str, BaseException]) -> list[str]:
    """Which models' runs are run from now on; those of some end in a problem."""
    seen: list[str] = []
    run = task.run_inference

    def run_or_raise(infer_request, progress):
        name = infer_request.run.directory.name
        seen.append(name)
        if name in problems:
            raise problems[name]
        return run(infer_request, progress)

    monkeypatch.setattr(task, "run_inference", run_or_raise)
    return seen


@pytest.mark.parametrize(
    ("twice_log_factor", "words"),
    [
        (0.0, "hardly worth a mention"),
        (2.0, "hardly worth a mention"),
        (2.001, "positive"),
        (6.0, "positive"),
        (6.001, "strong"),
        (10.0, "strong"),
        (10.001, "very strong"),
        (1e6, "very strong"),
    ],
)
def test_words_are_those_of_kass_and_raftery(twice_log_factor, words):
    assert strength(twice_log_factor / 2, error=0.0) == words


def test_less_than_twice_the_error_is_undecided():
    assert strength(3.99, error=2.0) == UNDECIDED
    assert strength(4.0, error=2.0) == "strong"


def test_the_best_is_first_and_what_failed_is_last():
    failed = ComparedModel("GTR", Path("models/GTR"), problem="no.")
    found = comparison(failed, measured("JC", -20.0), measured("HKY", -10.0), measured("HKY+G4", -12.0))
    assert [model.name for model in found.models] == ["HKY", "HKY+G4", "JC", "GTR"]
    assert [model.name for model in found.measured] == ["HKY", "HKY+G4", "JC"]
    assert [found.evidence(model) for model in found.models] == ["", "positive", "very strong", ""]
    assert found.against_best(found.models[0]) == (0.0, 0.0)
    assert found.against_best(found.models[1]) == pytest.approx((-2.0, 0.01 * math.sqrt(2)))
    weights = np.exp([0.0, -2.0, -10.0])
    assert [found.probability(model) for model in found.measured] == pytest.approx((weights / weights.sum()).tolist())
    assert found.probability(failed) is found.against_best(failed) is None


def test_models_are_known_by_what_they_are():
    assert [str(model) for model in parse_models([" jc69", "hky+g", "GTR+I+G"])] == ["JC", "HKY+G4", "GTR+I+G4"]
    assert len(parse_models(["HKY", "HKY+F"])) == 2  # frequencies are inferred, or counted
    for names, facts in [
        (["GTR+G", "HKY", "GTR+G4"], "--models … GTR+G … GTR+G4 … same"),
        (["K80", "K2P"], "--models … K80 … K2P … same"),
        (["HKY+FO", "HKY"], "--models … HKY+FO … HKY … same"),
        (["HKY"], "--models HKY … one model"),
        (["HKY", "WAG"], "--models 'WAG'"),
        (["HKY", ""], "--models ''"),
    ]:
        with pytest.raises(ConfigError, match=saying(facts)):
            parse_models(names)


def test_the_usual_models_are_those_that_help_names():
    defaults = command.compare.__annotations__["models"].__metadata__[0]
    assert defaults.show_default == ",".join(USUAL_MODELS)


def test_the_marginal_likelihood_is_that_of_all_draws_and_of_what_lies_outside(finished):
    posterior = phloem.load_posterior(finished[0] / "HKY")
    weights = posterior.draws.log_weights
    inside = log_marginal_likelihood(posterior)
    assert inside.value == pytest.approx(np.log(np.exp(weights - weights.max()).mean()) + weights.max())
    shares = np.exp(weights - weights.max())
    relative = shares.std() / shares.mean() / math.sqrt(len(shares))
    assert inside.error == pytest.approx(relative, rel=0.05)
    check = SimpleNamespace(added=10, outside=Measured(0.2, 0.04))
    both = log_marginal_likelihood(SimpleNamespace(draws=posterior.draws, summary=SimpleNamespace(check=check)))
    assert both.value == pytest.approx(inside.value - math.log(0.8))
    assert both.error == pytest.approx(math.hypot(inside.error, 0.05))


@pytest.mark.slow
def test_every_model_is_a_run_and_all_have_the_same_bootstrap_trees(finished):
    out, found = finished
    assert [model.name for model in found.models] == ["HKY", "JC"]
    assert [model.parameters for model in found.models] == [4, 0]
    assert {path.name for path in out.iterdir()} == {".lock", COMPARISON, SETTINGS, "bootstrap", "HKY", "JC"}
    assert len([*(out / "bootstrap").glob("*.nwk.gz")]) == 2
    for name in ("HKY", "JC"):
        posterior = phloem.load_posterior(out / name)
        assert (str(posterior.config.model), posterior.config.support.model) == (name, "HKY")
        assert not (out / name / "bootstrap").exists()
        assert (out / name / "report.html").exists()
    assert (out / "HKY" / "support.npz").read_bytes() == (out / "JC" / "support.npz").read_bytes()
    assert json.loads((out / COMPARISON).read_text()) == found.as_json()


@pytest.mark.slow
def test_the_run_of_a_model_is_that_of_infer(finished, tmp_path):
    out, found = finished
    config = infer_run(out / "HKY").read_config()
    alone = phloem.infer("primates", config=config, out=tmp_path / "alone", progress=False)
    assert log_marginal_likelihood(alone) == found.models[0].likelihood
    assert (tmp_path / "alone" / "summary.json").read_bytes() == (out / "HKY" / "summary.json").read_bytes()


@pytest.mark.slow
def test_finished_runs_stay_as_they_are_and_another_model_can_join(finished):
    out, found = finished
    before = {(name, file): (out / name / file).stat().st_mtime_ns for name in ("HKY", "JC") for file in RESULTS[:-1]}
    again = compare_models(request(out=str(out), resume=True))
    assert again == found  # the time too
    more = compare_models(request("HKY,JC,K80", out=str(out), resume=True))
    assert {model.name for model in more.measured} == {"HKY", "JC", "K80"}
    assert infer_run(out / "K80").read_config().support.model == "HKY"  # the trees are those that are there
    assert infer_run(out / "K80").read_config().training.steps == 5
    assert before == {(name, file): (out / name / file).stat().st_mtime_ns for name, file in before}


@pytest.mark.slow
def test_one_model_that_fails_leaves_the_others_their_runs(monkeypatch):
    notices: list[str] = []
    displays = task.Displays(model=lambda: task.nullcontext(lambda e: notices.append(e)))
    with monkeypatch.context() as patched:
        running(patched, {"HKY": TrainingFailed("training, step 7: no gradient.")})
        found = compare_models(request("HKY,JC,K80"), displays)
    assert [model.name for model in found.measured] == ["K80", "JC"]
    assert (found.models[-1].name, found.models[-1].problem) == ("HKY", "training, step 7: no gradient.")
    told = [event.text for event in notices if isinstance(event, Notice)]
    assert "HKY: training, step 7: no gradient." in told
    assert [text for text in told if text.startswith("model ")] == [
        "model 1 of 3: HKY",
        "model 2 of 3: JC",
        "model 3 of 3: K80",
    ]
    assert not [row for row in json.loads(Path("models", COMPARISON).read_text())["models"][:2] if row["problem"]]
    again = compare_models(request(resume=True))
    assert again.models[0].name == "HKY"
    assert not any(model.problem for model in again.models)


@pytest.mark.slow
def test_a_comparison_that_is_stopped_goes_on_where_it_was(monkeypatch):
    stop = Interrupted(Path("models/JC"), [3], begun=True)
    with monkeypatch.context() as patched:
        running(patched, {"JC": stop})
        with pytest.raises(Interrupted):
            compare_models(request("HKY,JC,K80"))
    rows = {row["model"]: row for row in json.loads(Path("models", COMPARISON).read_text())["models"]}
    assert [*rows] == ["HKY", "JC", "K80"]
    assert rows["HKY"]["seconds"] > 0
    assert [rows[name]["log_marginal_likelihood"] for name in ("JC", "K80")] == [None, None]
    before = Path("models/HKY/draws.safetensors").stat().st_mtime_ns
    bootstrap = Path("models/bootstrap/bootstrap.json").stat().st_mtime_ns
    seen = running(monkeypatch, {})
    found = compare_models(request(resume=True))
    assert seen == ["HKY", "JC", "K80"]  # each is asked, and the finished one only read
    assert len(found.measured) == 3
    assert Path("models/HKY/draws.safetensors").stat().st_mtime_ns == before
    assert Path("models/bootstrap/bootstrap.json").stat().st_mtime_ns == bootstrap
    assert [model.seconds for model in found.models if model.name == "HKY"] == [rows["HKY"]["seconds"]]


def test_settings_of_one_model_are_refused():
    with pytest.raises(ConfigError, match=saying("model.kappa … --models")):
        compare_models(replace_settings({"model": {"kappa": 2.0}}))


def replace_settings(layer: dict) -> CompareRequest:
    return request("JC,HKY")._replace(settings=[layer])


@pytest.mark.slow
def test_what_does_not_fit_a_comparison_is_said_before_any_run(finished, monkeypatch):
    out, _ = finished
    seen = running(monkeypatch, {})
    before = (out / COMPARISON).read_bytes()
    for asked, facts in [
        (request("HKY,JC", out=str(out)), f"{out} … --resume … --force"),
        (request(out=str(out), resume=True)._replace(settings=[{"seed": 2}]), f"{out} … seed is 1, not 2"),
        (request(out=str(out / "HKY")), f"{out / 'HKY'} … `phloem infer`"),
        (request(out=str(out), resume=True)._replace(source=write_alignment()), f"{out} … another alignment"),
        (request(out=str(out.parent), resume=True), f"{out.parent} … models … no comparison"),
    ]:
        with pytest.raises(FileProblem, match=saying(facts)):
            compare_models(asked)
    assert (out / COMPARISON).read_bytes() == before
    assert not seen


def write_alignment() -> str:
    rows = zip("ABCDEFG", ("AAAA", "AACA", "CACA", "CCAG", "CTAG", "CTTG", "GTTG"), strict=True)
    Path("dna.fasta").write_text("".join(f">{name}\n{row}\n" for name, row in rows))
    return "dna.fasta"


@pytest.mark.slow
def test_force_replaces_all_runs():
    compare_models(request("JC,K80"))
    stale = Path("models/JC/draws.safetensors").stat().st_mtime_ns
    found = compare_models(request("JC,F81", force=True)._replace(settings=[{**SMALL, "seed": 2}]))
    assert {model.name for model in found.measured} == {"JC", "F81"}
    assert Path("models/JC/draws.safetensors").stat().st_mtime_ns != stale
    assert not infer_run(Path("models/K80")).holds_run()
    assert INFER.differences(infer_run(Path("models/JC")).read_config(), infer_run(Path("models/F81")).read_config())


def test_sentences_say_no_more_than_the_numbers_do():
    clear = command.conclusions(comparison(measured("JC", -20.0), measured("HKY", -10.0)))
    assert clear == ["HKY is the best of these models; the evidence for it against the next, JC, is very strong."]
    close = command.conclusions(comparison(measured("JC", -10.01), measured("HKY", -10.0), measured("GTR", -30.0)))
    assert "HKY and JC are too close to call" in close[0]
    bad = command.conclusions(comparison(measured("JC", -20.0), measured("HKY", -10.0, trust=BAD)))
    assert bad[0].startswith("As far as the numbers go, which is not far enough to be sure: HKY is the best")
    assert bad[1] == "HKY: these numbers cannot be trusted. Train longer."
    failed = replace(measured("JC", 0.0), likelihood=None, trust=None, problem="no gradient.")
    alone = command.conclusions(comparison(failed, measured("HKY", -10.0)))
    assert "nothing to compare" in alone[0]
    assert alone[1] == "JC failed: no gradient."
    assert command.conclusions(comparison(failed)) == ["JC failed: no gradient."]


def test_limits_of_words_rise():
    limits = [limit for limit, _ in STRENGTHS]
    assert limits == sorted(limits)
    assert limits[-1] == math.inf


def test_a_comparison_that_is_stopped_in_the_bootstrap_knows_its_settings(monkeypatch):
    def stop(_self, _threads, *, progress):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(task.SupportSource, "make_bootstrap", stop)
        with pytest.raises(KeyboardInterrupt):
            compare_models(request("JC,K80"))
    with pytest.raises(FileProblem, match=saying("models … seed is 1, not 2")):
        compare_models(request(resume=True)._replace(settings=[{"seed": 2}]))
    found = compare_models(request(resume=True))
    assert {model.name for model in found.measured} == {"JC", "K80"}
    assert infer_run(Path("models/JC")).read_config().training.steps == 5
