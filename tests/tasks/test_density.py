"""Fits of densities: in a directory that they can go on in, and what becomes of one that is stopped or damaged."""

import json
import shutil
import signal
from pathlib import Path

import numpy as np
import pytest

import phloem
from phloem.config.density import DENSITY
from phloem.energy.training import DensityReport
from phloem.errors import BadArgument, ConfigError, FileProblem, TrainingFailed
from phloem.random_streams import RandomStream
from phloem.runs.checkpoints import parse_interval
from phloem.runs.directory import RunDirectory
from phloem.runs.driver import Interrupted, RunOptions, RunRequest
from phloem.runs.events import News, Notice
from phloem.runs.history import read_history
from phloem.tasks.density import DensityRequest, divergence, fit_density_run
from phloem.trees.generation import all_topologies, random_topologies
from phloem.trees.sample import TreeSample
from support.density_trees import SHORT, as_json, assert_same_fit, contents, fit, five_taxa, write_table
from support.messages import assert_says, saying


@pytest.fixture(scope="module")
def fitted(tmp_path_factory) -> Path:
    """A finished fit, which no test may change."""
    out = tmp_path_factory.mktemp("fitted") / "density"
    fit(out)
    return out


@pytest.fixture
def copied(fitted, tmp_path) -> Path:
    """The same, to be changed."""
    return shutil.copytree(fitted, tmp_path / "copy")


def resume(out: Path, **options):
    return phloem.fit_density((), out=out, resume=True, progress=False, **options)


def test_a_fit_writes_its_density_settings_history_and_summary(fitted):
    density = phloem.load_density(fitted)
    assert density.taxa == tuple("ABCDE")
    np.testing.assert_array_equal(density.observed.weights, five_taxa().normalized().distinct().weights)
    assert np.exp(density.log_prob(all_topologies(5))).sum() == pytest.approx(1)
    path = fitted / "config.toml"
    assert DENSITY.read(path.read_text(), str(path)) == density.config
    assert {name: getattr(density.config, name) for name in SHORT} == SHORT
    reports = read_history(fitted / "history.csv", DensityReport)
    assert [report.step for report in reports] == list(range(1, 41))
    summary = as_json((fitted / "summary.json").read_text())
    assert summary["divergence"] == pytest.approx(divergence(density))
    assert summary["divergence"] == pytest.approx(reports[-1].divergence)
    assert summary["loss"] == reports[-1].loss
    assert summary["normalizer"]["topologies"] == 15
    provenance = json.loads((fitted / "provenance.json").read_text())
    assert provenance["kind"] == "density fit"
    assert provenance["trees"] == ["a tree sample"]


def test_a_fit_without_a_directory_leaves_nothing(fitted, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    density = fit(None)
    assert not list(tmp_path.iterdir())
    np.testing.assert_array_equal(
        density.log_prob(all_topologies(5)), phloem.load_density(fitted).log_prob(all_topologies(5))
    )


def test_files_and_samples_of_the_same_trees_give_the_same_density(fitted, tmp_path):
    fit(tmp_path / "from-file", write_table(tmp_path / "trees.tsv", five_taxa()))
    assert_same_fit(fitted, tmp_path / "from-file")
    source = json.loads((tmp_path / "from-file" / "provenance.json").read_text())["trees"][0]["source"]
    assert source == str(tmp_path / "trees.tsv")


def test_several_files_count_the_same(tmp_path):
    one, two = five_taxa(1), five_taxa(2)
    files = [write_table(tmp_path / "one.tsv", one), write_table(tmp_path / "two.tsv", two)]
    (tmp_path / "two.tsv").write_text((tmp_path / "two.tsv").read_text() * 3)
    density = fit(tmp_path / "density", files)
    np.testing.assert_allclose(density.observed.weights, (one.weights + two.weights) / 2)


def stop_at(share: float, how: int = signal.SIGINT):
    """A display that asks the fit to stop."""

    def show(event: News | Notice) -> None:
        if isinstance(event, News) and event.share >= share:
            signal.raise_signal(how)

    return show


def request_for(out: Path, **options) -> DensityRequest:
    return DensityRequest(five_taxa(), RunRequest(out, **options), settings=[SHORT])


def ignore(_event: News | Notice) -> None:
    """A display that shows nothing."""


def notices_in(events: list[News | Notice]) -> list[str]:
    return [event.text for event in events if isinstance(event, Notice)]


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_fit_that_is_stopped_goes_on_to_the_same_files(how, fitted, tmp_path):
    with pytest.raises(Interrupted, match=r"step 20\b.*resume=True") as stop:
        fit_density_run(request_for(tmp_path / "run"), stop_at(0.5, how))
    assert stop.value.step == 20
    assert not (tmp_path / "run" / "summary.json").exists()
    resume(tmp_path / "run")
    assert_same_fit(fitted, tmp_path / "run")


def test_a_fit_that_goes_on_from_an_older_checkpoint_gives_the_same_files(fitted, tmp_path):
    out = tmp_path / "run"
    with pytest.raises(Interrupted):
        fit_density_run(request_for(out, options=RunOptions(interval=parse_interval("7steps"))), stop_at(0.5))
    newest = sorted((out / "checkpoints").iterdir())[-1]
    newest.write_bytes(newest.read_bytes()[:-1])
    heard = []
    fit_density_run(request_for(out, resume=True), heard.append)
    (line,) = notices_in(heard)
    assert_says(line, f"{newest}: … damaged … checksum")
    assert_same_fit(fitted, out)


def test_a_density_that_is_not_finished_is_that_of_its_last_checkpoint_and_says_so(tmp_path):
    with pytest.raises(Interrupted):
        fit_density_run(request_for(tmp_path / "run"), stop_at(0.5))
    with pytest.warns(UserWarning, match=saying(f"{tmp_path / 'run'}: … not finished … step 20 of 40")):
        density = phloem.load_density(tmp_path / "run")
    assert np.exp(density.log_prob(all_topologies(5))).sum() == pytest.approx(1)


def test_a_fit_that_is_stopped_while_it_normalises_keeps_all_steps(fitted, tmp_path):
    def stop(event: News | Notice) -> None:
        if isinstance(event, News) and event.phase == "normalising":
            signal.raise_signal(signal.SIGINT)

    request = DensityRequest(five_taxa(), RunRequest(tmp_path / "run"), settings=[SHORT | {"noise": "sbn"}])
    with pytest.raises(Interrupted) as stopped:
        fit_density_run(request, stop)
    assert stopped.value.step == 40
    resume(tmp_path / "run")
    assert_same_fit(fitted, tmp_path / "run")


def test_a_fit_that_is_stopped_before_it_began_leaves_nothing(tmp_path, monkeypatch):
    def interrupt(*_arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("phloem.tasks.density.choose_noise", interrupt)
    with pytest.raises(Interrupted) as stop:
        fit_density_run(request_for(tmp_path / "run"), ignore)
    assert stop.value.step is None
    assert not list(tmp_path.iterdir())


def test_a_run_stays_until_the_one_that_replaces_it_can_begin(copied, monkeypatch):
    def interrupt(*_arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("phloem.tasks.density.choose_noise", interrupt)
    before = contents(copied)
    with pytest.raises(Interrupted) as stop:
        fit_density_run(request_for(copied, force=True), ignore)
    assert stop.value.step is None
    assert contents(copied) == before


def test_a_request_to_stop_waits_until_there_is_something_to_go_on_from(tmp_path, fitted, monkeypatch):
    def write_and_ask(*arguments, **options):
        signal.raise_signal(signal.SIGINT)
        record(*arguments, **options)

    record = RunDirectory.record
    with monkeypatch.context() as patch:
        patch.setattr(RunDirectory, "record", write_and_ask)
        with pytest.raises(Interrupted) as stop:
            fit_density_run(request_for(tmp_path / "run"), ignore)
    assert stop.value.step == 0
    resume(tmp_path / "run")
    assert_same_fit(fitted, tmp_path / "run")


def test_a_fit_that_cannot_begin_on_a_full_disk_leaves_nothing(tmp_path, monkeypatch):
    def full(_folder, _checkpoint):
        raise FileProblem("no space")

    monkeypatch.setattr("phloem.runs.checkpoints.CheckpointFolder.add", full)
    with pytest.raises(FileProblem, match="no space"):
        fit(tmp_path / "run")
    assert not list(tmp_path.iterdir())


DAMAGES = {
    "nothing": lambda run: None,
    "no summary": lambda run: (run / "summary.json").unlink(),
    "half a summary": lambda run: (run / "summary.json").write_text('{"taxa": 5'),
    "another summary": lambda run: (run / "summary.json").write_text('{"taxa": 5}'),
    "a list for a summary": lambda run: (run / "summary.json").write_text("[]"),
    "no history": lambda run: (run / "history.csv").unlink(),
    "another history": lambda run: (run / "history.csv").write_text("x,y\n"),
    "a short history": lambda run: cut_lines(run / "history.csv"),
    "no settings": lambda run: (run / "config.toml").unlink(),
    "no provenance": lambda run: (run / "provenance.json").unlink(),
    "no density": lambda run: (run / "density.safetensors").unlink(),
    "a damaged density": lambda run: change_byte(run / "density.safetensors"),
    "an empty density": lambda run: (run / "density.safetensors").write_bytes(b""),
    "a damaged checkpoint": lambda run: change_byte(newest_checkpoint(run)),
    "no checkpoints": lambda run: shutil.rmtree(run / "checkpoints"),
    "damaged checkpoint and density": lambda run: (
        change_byte(newest_checkpoint(run)),
        change_byte(run / "density.safetensors"),
    ),
}


def newest_checkpoint(run: Path) -> Path:
    return max((run / "checkpoints").iterdir())


def change_byte(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-9] ^= 1
    path.write_bytes(content)


def cut_lines(path: Path) -> None:
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-2]))


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_what_is_missing_or_damaged_is_made_again(damage, fitted, copied):
    damage(copied)
    density = resume(copied)
    assert_same_fit(fitted, copied)
    assert (copied / "provenance.json").exists()
    np.testing.assert_array_equal(
        density.log_prob(all_topologies(5)), phloem.load_density(fitted).log_prob(all_topologies(5))
    )


def test_without_checkpoints_and_density_the_trees_are_needed(copied, fitted):
    shutil.rmtree(copied / "checkpoints")
    (copied / "density.safetensors").unlink()
    with pytest.raises(BadArgument, match=saying(f"{copied}: … checkpoint … trees")):
        resume(copied)
    with pytest.raises(FileProblem, match="checkpoint"):
        phloem.load_density(copied)
    phloem.fit_density(five_taxa(), out=copied, resume=True, progress=False)  # with the settings that are there
    assert_same_fit(fitted, copied)


def test_checkpoints_that_are_all_damaged_say_so(copied):
    (copied / "density.safetensors").unlink()
    for path in (copied / "checkpoints").iterdir():
        change_byte(path)
    with pytest.raises(BadArgument, match="--force"):
        resume(copied)
    with pytest.raises(FileProblem, match="damaged"):
        phloem.load_density(copied)


def test_a_finished_fit_is_left_as_it_is(copied):
    before = contents(copied)
    resume(copied)
    phloem.fit_density(five_taxa(), out=copied, resume=True, progress=False, **SHORT)
    after = contents(copied)
    changed = {path.name for path in before if before[path] != after[path]}
    assert before.keys() == after.keys()
    assert changed == {"provenance.json", "SHA256SUMS"}
    assert len(json.loads((copied / "provenance.json").read_text())["sessions"]) == 3


@pytest.mark.parametrize(
    ("options", "facts"),
    [
        ({"steps": 41}, "settings … steps … 40 … 41"),
        ({"convolution": "gcn"}, "settings … convolution … mlp … gcn"),
        ({"preset": "paper"}, "settings … clipping … 3.0 … inf"),
        ({"trees": five_taxa(2)}, "other trees"),
        ({"resume": False}, "--resume … --force"),
        ({"force": True}, "--resume … --force"),
    ],
    ids=str,
)
def test_a_run_goes_on_with_its_own_trees_and_settings_alone(options, facts, copied):
    before = contents(copied)
    with pytest.raises((FileProblem, BadArgument), match=saying(facts)):
        fit(copied, **({"resume": True} | options))
    assert contents(copied) == before


def test_force_replaces_a_run_and_nothing_else(copied, tmp_path):
    (copied / "notes.txt").write_text("mine")
    fit(copied, force=True, seed=2)
    fit(tmp_path / "other", seed=2)
    assert_same_fit(tmp_path / "other", copied)
    assert (copied / "notes.txt").read_text() == "mine"
    assert len(json.loads((copied / "provenance.json").read_text())["sessions"]) == 1


ONE = TreeSample(tuple("ABCDE"), all_topologies(5)[:2], np.array([1.0, 0.0]), None)


@pytest.mark.parametrize(
    ("trees", "options", "error", "facts"),
    [
        (ONE[:1], {}, BadArgument, "same topology"),
        (ONE, {}, BadArgument, "same topology"),
        (None, {"steps": 0}, ConfigError, "--steps 0"),
        (None, {"steps": "many"}, ConfigError, "steps … 'many'"),
        (None, {"rate": "fast"}, ConfigError, "rate … 'fast'"),
        (None, {"colour": "red"}, ConfigError, "'colour' … convolution, "),
        (None, {"preset": "best"}, ConfigError, "--preset 'best'"),
        (None, {"checkpoint_every": "often"}, BadArgument, "--checkpoint-every often"),
        ("nowhere.nwk", {}, FileProblem, "nowhere.nwk"),
    ],
    ids=str,
)
def test_what_makes_no_sense_is_as_jsond_and_leaves_nothing(trees, options, error, facts, tmp_path):
    with pytest.raises(error, match=saying(facts)):
        fit(tmp_path / "run", trees, **options)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("taxa", [5, 11])
def test_a_model_without_numbers_is_an_error(taxa, tmp_path):
    trees = TreeSample(
        tuple("ABCDEFGHIJK"[:taxa]), random_topologies(taxa, 9, stream=RandomStream(1, "trees")), np.ones(9), None
    )
    with pytest.raises(TrainingFailed, match="learning rate"):
        fit(tmp_path / "run", trees, rate=1e20)


def test_a_step_without_a_loss_has_none_in_the_summary(tmp_path):
    fit(tmp_path / "run", rate=1e6, width=100, steps=60)
    assert as_json((tmp_path / "run" / "summary.json").read_text())["loss"] is None


def test_uniform_noise_on_many_taxa_is_advised_against(tmp_path):
    trees = random_topologies(13, 5, stream=RandomStream(1, "trees"))
    sample = TreeSample(tuple("ABCDEFGHIJKLM"), trees, np.ones(5), None)
    heard = []
    settings = SHORT | {"noise": "uniform", "samples": 10}
    fit_density_run(DensityRequest(sample, RunRequest(tmp_path / "run"), settings=[settings]), heard.append)
    (line,) = notices_in(heard)
    assert_says(line, "13 taxa … --noise sbn")
