"""What a trained density is for: scores of trees, and trees drawn from it."""

import json
from pathlib import Path

import numpy as np
import pytest

import phloem
from phloem.errors import BadArgument, FileProblem
from phloem.random_streams import RandomStream
from phloem.tasks.density import MOST_TREES, sample_density_run, score_density
from phloem.trees.generation import random_topologies, topology_count
from phloem.trees.reading import read_trees
from phloem.trees.sample import TreeSample
from support.counting_runs import counted
from support.density_trees import as_json, fit, five_taxa, write_table
from support.messages import saying


@pytest.fixture(scope="module")
def fitted(tmp_path_factory) -> Path:
    """A finished fit, which no test may change."""
    out = tmp_path_factory.mktemp("fitted") / "density"
    fit(out)
    return out


def test_topologies_that_are_too_many_are_not_gone_through(tmp_path):
    """On 40 taxa there are 1e55 of them."""
    topologies = random_topologies(40, 5, stream=RandomStream(1, "trees"))
    sample = TreeSample(tuple(f"t{number:02}" for number in range(40)), topologies, np.ones(5), None)
    out = tmp_path / "run"
    assert topology_count(40) > 1e54
    density = fit(out, sample, samples=100, width=4, steps=2)
    assert not density.normalizer.is_exact
    assert density.normalizer.draws == 100
    assert np.isfinite(density.normalizer.error)
    trees = tmp_path / "trees.nwk"
    with pytest.raises(BadArgument, match=saying("--method exact … 40 taxa")):
        sample_density_run(out, trees, count=10, method="exact", seed=1)
    assert not trees.exists()
    drawn = sample_density_run(out, trees, count=10, method="auto", seed=1)
    assert drawn.draws.method == "importance"
    assert np.isfinite(score_density(out, [trees], smoothing=0.01).mean)


def test_scores_are_those_of_the_density_in_file_order(fitted, tmp_path):
    density = phloem.load_density(fitted)
    path = tmp_path / "trees.nwk"
    sample_density_run(fitted, path, count=200, method="exact", seed=1)
    trees = read_trees(path, taxa=density.taxa)
    scores = score_density(fitted, [path], smoothing=0.1)
    np.testing.assert_allclose(scores.log_probabilities, density.log_prob(trees.topologies), rtol=1e-6)
    assert scores.mean == pytest.approx(scores.log_probabilities.mean())
    assert scores.topologies == len(trees.distinct())
    assert scores.seen == pytest.approx(1)
    assert [row.estimate for row in scores.comparison] == ["energy", "frequencies", "SBN-SA", "SBN-EM"]
    assert scores.comparison[0].log_probability == pytest.approx(scores.mean)
    assert score_density(fitted, [path]).comparison == ()


def test_trees_outside_a_list_have_no_probability_and_no_number_in_json(tmp_path):
    seen = five_taxa()[:5]
    fit(tmp_path / "run", seen, noise="listed")
    scores = score_density(tmp_path / "run", [write_table(tmp_path / "all.tsv", five_taxa())], smoothing=0.1)
    assert np.isneginf(scores.log_probabilities[5:]).all()
    found = as_json(json.dumps(scores.as_json()))
    assert [tree["log_probability"] is None for tree in found["trees"]] == [False] * 5 + [True] * 10
    assert found["mean_log_probability"] is None
    assert found["comparison"][0]["divergence"] is None
    assert found["seen"] == pytest.approx(five_taxa().weights[:5].sum())


def test_a_directory_of_another_command_is_not_read(tmp_path):
    counted(tmp_path / "run")
    with pytest.raises(FileProblem, match=saying("`phloem count up` … `phloem density fit`")):
        phloem.load_density(tmp_path / "run")
    with pytest.raises(FileProblem, match="no phloem run"):
        phloem.load_density(tmp_path / "nowhere")


@pytest.mark.parametrize("method", ["exact", "importance", "mcmc"])
def test_the_same_seed_draws_the_same_trees_into_whatever_format(method, fitted, tmp_path):
    def drawn(name: str, seed: int) -> np.ndarray:
        done = sample_density_run(fitted, tmp_path / name, count=50, method=method, seed=seed)
        sample = read_trees(tmp_path / name, taxa=tuple("ABCDE"))
        assert len(sample) == 50
        assert done.topologies == len(sample.distinct())
        assert done.draws.method == method
        return sample.topologies.parent

    np.testing.assert_array_equal(drawn("one.nwk", 1), drawn("two.nex", 1))
    assert (drawn("one.nwk", 1) != drawn("two.nwk", 2)).any()


@pytest.mark.parametrize("count", [-1, 0, MOST_TREES + 1, 10**30])
def test_counts_are_within_reason(count, fitted, tmp_path):
    with pytest.raises(BadArgument, match=saying(f"--count {count:,} … 1 … 1,000,000")):
        sample_density_run(fitted, tmp_path / "trees.nwk", count=count, method="auto", seed=1)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["density.safetensors", "summary.json", "checkpoints/step-000000040.safetensors"])
def test_files_of_the_run_are_not_written_over(name, fitted):
    before = (fitted / name).read_bytes()
    with pytest.raises(BadArgument, match="Name another"):
        sample_density_run(fitted, fitted / name, count=1, method="auto", seed=1)
    assert (fitted / name).read_bytes() == before
