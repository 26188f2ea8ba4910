"""Which figures are made of a posterior, and of what."""

from types import SimpleNamespace

import numpy as np
import pytest

import phloem
from phloem import plot
from phloem.tasks import exports
from phloem.tasks.exports import write_figures, write_report
from phloem.tasks.opening import Drawing, open_posterior


@pytest.fixture
def drawn(monkeypatch) -> dict:
    """What each kind of figure was given; nothing is drawn."""
    given = {}

    def record(name):
        def draw(*parts, **options):
            given[name] = SimpleNamespace(parts=parts, **options)
            return name

        return draw

    names = ("tree", "cloud", "topologies", "branch_lengths", "tree_lengths", "parameters", "training", "weights")
    for name in (*names, "clades"):
        monkeypatch.setattr(plot, name, record(name))
    monkeypatch.setattr(plot, "save", lambda figure, path: path.write_text(figure))
    return given


def test_figures_are_of_the_posterior_and_of_the_tree_that_is_given(drawn, finished_runs, tmp_path):
    posterior = phloem.load_posterior(finished_runs)
    tree = posterior.consensus(0.9)
    paths = write_figures(posterior, tree, tmp_path, "svg")
    assert [path.read_text() for path in paths] == list(drawn)
    assert {path.suffix for path in paths} == {".svg"}
    assert drawn["tree"].parts == drawn["branch_lengths"].parts == (tree,)
    assert drawn["cloud"].like is tree
    assert len(drawn["cloud"].parts[0]) == 200
    assert len(drawn["topologies"].parts[0]) == posterior.summary.found.distinct_topologies
    assert len(drawn["training"].parts[0]) == 2
    np.testing.assert_array_equal(drawn["weights"].parts[0], posterior.draws.log_weights)
    assert drawn["weights"].effective_samples == posterior.summary.draws.effective_sample_size
    assert drawn["weights"].pareto_k == posterior.summary.draws.pareto_shape
    assert drawn["clades"].parts == tuple(run.clades for run in posterior.runs)
    assert drawn["clades"].names == ("run 1", "run 2")


def test_inferred_parameters_have_a_figure_and_fixed_models_have_none(drawn, inferred_run, finished_run, tmp_path):
    posterior = phloem.load_posterior(inferred_run)
    paths = write_figures(posterior, posterior.consensus(), tmp_path, "svg")
    assert tmp_path / "parameters.svg" in paths
    assert drawn["parameters"].parts == (posterior.parameter_values, posterior.trees.weights)
    drawn.clear()
    fixed = phloem.load_posterior(finished_run)
    write_figures(fixed, fixed.consensus(), tmp_path, "svg")
    assert "parameters" not in drawn


def test_a_single_run_of_few_draws_has_no_clades_to_compare_and_a_small_cloud(drawn, unfinished_run, tmp_path):
    posterior = open_posterior(unfinished_run, drawing=Drawing(30, 2))
    write_figures(posterior, posterior.consensus(), tmp_path, "png")
    assert "clades" not in drawn
    assert len(drawn["cloud"].parts[0]) == 60


def test_the_tree_of_the_figures_is_that_of_the_report(finished_run, tmp_path, monkeypatch):
    given = []

    def remember(_posterior, consensus, _folder, _suffix):
        given.append(consensus)
        return []

    monkeypatch.setattr(exports, "write_figures", remember)
    write_report(finished_run, tmp_path, threshold=0.99, outgroup="Lemur_catta", figures="pdf")
    expected = phloem.load_posterior(finished_run).consensus(0.99, outgroup=["Lemur_catta"])
    np.testing.assert_array_equal(given[0].tree.parent, expected.tree.parent)
    assert given[0].is_rooted
