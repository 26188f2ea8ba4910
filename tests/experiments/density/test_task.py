"""The experiment with densities: a target, what is fitted to it, and what is found."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from phloem.energy.density import enumerate_density
from phloem.energy.nce import best_loss
from phloem.errors import BadArgument, ConfigError, FileProblem
from phloem.experiments.density.task import ExperimentRequest, run_experiment
from phloem.runs.checkpoints import CheckpointInterval
from phloem.runs.driver import Interrupted
from phloem.tasks.density import load_density
from phloem.tasks.support import read_samples
from phloem.trees.generation import all_topologies
from phloem.trees.topology import TopologyIndex
from support.density_trees import as_json, assert_same_fit, contents, five_taxa, write_table

SMALL = {"taxa": 5, "steps": 60, "convolutions": ("mlp", "gcn"), "repeats": 2}


def experiment(out: Path, show=lambda *_: None, **options):
    return run_experiment(
        ExperimentRequest(out, **options), show, interval=CheckpointInterval(), notice=lambda _text: None
    )


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    """Two variants on five taxa, twice; no test may change it."""
    out = tmp_path_factory.mktemp("experiment") / "out"
    experiment(out, **SMALL)
    return out


@pytest.fixture
def copied(finished, tmp_path) -> Path:
    return shutil.copytree(finished, tmp_path / "copy")


def test_it_makes_a_figure_a_page_and_numbers(finished):
    assert (finished / "density.pdf").read_bytes().startswith(b"%PDF")
    assert (finished / "density.html").read_text().startswith("<!")
    found = as_json((finished / "results.json").read_text())
    assert [(one["convolution"], one["seed"]) for one in found["repeats"]] == [
        ("mlp", 1),
        ("mlp", 2),
        ("gcn", 1),
        ("gcn", 2),
    ]
    assert [(row["convolution"], row["repeats"], row["steps"]) for row in found["table"]] == [
        ("mlp", 2, 60),
        ("gcn", 2, 60),
    ]
    assert found["taxa"] == 5
    assert found["topologies"] == 15


def test_the_numbers_are_those_of_the_fits(finished):
    found = json.loads((finished / "results.json").read_text())
    [target] = read_samples([finished / "target.tsv"])
    probabilities = np.zeros(15)
    probabilities[TopologyIndex(all_topologies(5)).find(target.topologies)] = target.weights / target.weights.sum()
    assert found["target_topologies"] == (probabilities > 0).sum() == len(target)
    assert found["best_loss"] == pytest.approx(best_loss(probabilities, np.full(15, 1 / 15)))
    seen = probabilities > 0
    for one in found["repeats"]:
        density = load_density(finished / f"{one['convolution']}-{one['seed']}")
        assert (density.config.convolution, density.config.seed) == (one["convolution"], one["seed"])
        assert (density.config.noise, density.config.rate, density.config.decay) == ("uniform", 0.001, "stairs")
        log_model = enumerate_density(density.unnormalized, density.noise) - density.normalizer.log_value
        apart = probabilities[seen] @ (np.log(probabilities[seen]) - log_model[seen])
        assert one["divergences"][-1] == pytest.approx(apart)
        assert one["steps"][-1] == 60
        assert min(one["losses"]) > found["best_loss"]


def test_the_target_of_a_seed_is_always_the_same(finished, tmp_path):
    quick = SMALL | {"steps": 1, "convolutions": ("mlp",), "repeats": 1}
    experiment(tmp_path / "same", **quick, seed=1)
    assert (tmp_path / "same" / "target.tsv").read_bytes() == (finished / "target.tsv").read_bytes()
    experiment(tmp_path / "other", **quick, seed=2)
    assert (tmp_path / "other" / "target.tsv").read_bytes() != (finished / "target.tsv").read_bytes()
    experiment(tmp_path / "spread", **quick, concentration=100)
    [spread] = read_samples([tmp_path / "spread" / "target.tsv"])
    assert len(spread) == 15
    np.testing.assert_allclose(spread.weights, 1 / 15, atol=0.05)


def test_an_experiment_that_is_finished_stays_as_it_is(copied):
    before = contents(copied)
    experiment(copied, **SMALL, resume=True)
    after = contents(copied)
    assert before.keys() == after.keys()
    assert {path.name for path in before if before[path] != after[path]} <= {
        "provenance.json",
        "SHA256SUMS",
        "density.pdf",
    }


def test_more_of_it_keeps_what_is_fitted(copied, finished):
    found = experiment(copied, steps=60, convolutions=("gcn", "edge"), repeats=1, resume=True)
    fits = [(one.convolution, one.seed) for one in found.repeats]
    assert fits == [("mlp", 1), ("mlp", 2), ("gcn", 1), ("gcn", 2), ("edge", 1)]
    for name in ("mlp-1", "mlp-2", "gcn-1", "gcn-2"):
        assert_same_fit(finished / name, copied / name)


def test_an_experiment_that_is_stopped_goes_on_to_the_same_fits(finished, tmp_path):
    notes = []

    def stop(share: float, note: str = "") -> None:
        notes.append(note)
        if share > 0.6:
            raise KeyboardInterrupt

    out = tmp_path / "out"
    with pytest.raises(Interrupted):
        experiment(out, stop, **SMALL)
    assert sorted(path.name for path in out.iterdir()) == ["gcn-1", "mlp-1", "mlp-2", "target.tsv"]
    assert any(note.startswith("mlp-2 (3 of 4)") for note in notes)
    experiment(out, **SMALL, resume=True)
    for name in ("mlp-1", "mlp-2", "gcn-1", "gcn-2"):
        assert_same_fit(finished / name, out / name)


def test_a_fit_that_is_damaged_is_made_again(copied, finished):
    (copied / "mlp-1" / "history.csv").write_text("")
    (copied / "density.pdf").unlink()
    shutil.rmtree(copied / "gcn-2")
    experiment(copied, **SMALL, resume=True)
    for name in ("mlp-1", "gcn-2"):
        assert_same_fit(finished / name, copied / name)
    assert (copied / "density.pdf").exists()


def test_other_fits_in_the_directory_are_none_of_its_own(copied, finished):
    shutil.copytree(copied / "mlp-1", copied / "mine")
    assert len(experiment(copied, **SMALL, resume=True).repeats) == 4


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"taxa": 6}, "another target"),
        ({"seed": 2}, "another target"),
        ({"concentration": 0.5}, "another target"),
        ({"taxa": None, "target": Path("five.tsv")}, "another target"),
        ({"steps": 61}, "mlp-1: was started with 60 steps, not 61"),
        ({"resume": False}, "holds an experiment. Resume it"),
    ],
    ids=str,
)
def test_an_experiment_goes_on_with_its_own_target_and_steps_alone(options, words, copied, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_table(tmp_path / "five.tsv", five_taxa())
    before = contents(copied)
    with pytest.raises(FileProblem, match=words):
        experiment(copied, **(SMALL | {"resume": True} | options))
    assert contents(copied) == before


def test_a_target_can_be_given(tmp_path):
    path = write_table(tmp_path / "five.tsv", five_taxa())
    options = SMALL | {"taxa": None, "target": path, "steps": 5, "convolutions": ("mlp",), "repeats": 1}
    found = experiment(tmp_path / "out", **options)
    np.testing.assert_allclose(np.sort(found.target), np.sort(five_taxa().weights))
    experiment(tmp_path / "out", **options, resume=True)
    experiment(tmp_path / "out", **(options | {"target": None}), resume=True)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"taxa": 3}, BadArgument, "--taxa 3"),
        ({"taxa": 9}, BadArgument, "Give 4 to 8"),
        ({"repeats": 0}, BadArgument, "--repeats 0"),
        ({"steps": 0}, ConfigError, "--steps 0"),
        ({"concentration": 0.0}, BadArgument, "--concentration 0"),
        ({"concentration": float("nan")}, BadArgument, "--concentration nan"),
        ({"concentration": 1e300}, BadArgument, r"--concentration 1e\+300"),
        ({"concentration": 1e-9}, BadArgument, "Draw with a higher --concentration"),
        ({"convolutions": ()}, BadArgument, "--convolutions"),
        ({"convolutions": ("mlp", "mlp")}, BadArgument, "give each once"),
        ({"convolutions": ("gin-text",)}, ConfigError, "choose one of mlp, gcn, gin, sage, ggnn, edge"),
        ({"target": Path("five.tsv")}, BadArgument, "--target and --taxa"),
        ({"taxa": None, "target": Path("one.nwk")}, BadArgument, "one topology has all the probability"),
        ({"taxa": None, "target": Path("nine.nwk")}, BadArgument, "9 taxa. Give at most 8"),
        ({"taxa": None, "target": Path("none.nwk")}, FileProblem, "no such file"),
    ],
    ids=str,
)
def test_what_makes_no_sense_is_as_jsond_and_leaves_nothing(options, error, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_table(tmp_path / "five.tsv", five_taxa())
    (tmp_path / "one.nwk").write_text("(A,B,(C,(D,E)));\n" * 3)
    (tmp_path / "nine.nwk").write_text("(A,B,(C,(D,(E,(F,(G,(H,I)))))));\n" * 3)
    with pytest.raises(error, match=words):
        experiment(tmp_path / "deep" / "out", **(SMALL | options))
    assert not (tmp_path / "deep").exists()


def test_a_directory_with_other_files_is_left_alone(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    for resume in (False, True):
        with pytest.raises(FileProblem, match=r"is not empty \(it holds notes.txt\) and is not an experiment"):
            experiment(tmp_path, **SMALL, resume=resume)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
    with pytest.raises(FileProblem, match="Not a directory"):
        experiment(tmp_path / "notes.txt", **SMALL)
