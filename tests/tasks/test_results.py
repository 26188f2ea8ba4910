"""The summary of a run, number by number, from its draws and its model."""

import numpy as np
import pytest

import phloem
from phloem.inference.diagnostics import effective_sample_size, pareto_shape, smooth
from phloem.inference.draws import Draws
from phloem.tasks import results
from phloem.tasks.opening import Drawing, open_posterior
from phloem.trees.branch_lengths import shortest_interval


@pytest.fixture(scope="module")
def posterior(finished_run):
    return phloem.load_posterior(finished_run)


def test_the_data_the_model_and_the_support_are_counted(posterior):
    summary, alignment = posterior.summary, phloem.read_alignment("primates")
    assert summary["names"] == list(alignment.taxa)
    assert (summary["taxa"], summary["sites"]) == alignment.states.shape
    assert summary["patterns"] == len(np.unique(alignment.states, axis=1).T) < summary["sites"]
    assert (summary["model"], summary["branches"], summary["seed"]) == ("JC69", "split", 1)
    support = posterior.model.network.support
    assert summary["support"] == {
        "topologies": support.topology_count,
        "splits": len(support.splits),
        "parameters": support.parameter_count,
    }
    assert len(support.splits) != support.parameter_count


def test_a_training_that_took_all_its_steps_did_not_stop_early(posterior, unfinished_run):
    assert posterior.summary["steps"] == 4000
    assert posterior.summary["finished"] is True
    assert posterior.summary["stopped_early"] is False
    begun = open_posterior(unfinished_run, drawing=Drawing(30, 2)).summary
    assert (begun["steps"], begun["finished"], begun["stopped_early"]) == (1000, False, False)
    assert begun["evaluation"] == {"repeats": 2, "samples": 30}


def test_draws_are_measured_with_smoothed_weights_and_without(posterior):
    log_weights = posterior.draws.log_weights
    assert posterior.summary["draws"] == {
        "count": 1000,
        "effective_sample_size": effective_sample_size(smooth(log_weights)),
        "unsmoothed_effective_sample_size": effective_sample_size(log_weights),
        "pareto_shape": pareto_shape(log_weights),
    }
    assert effective_sample_size(smooth(log_weights)) != effective_sample_size(log_weights)


def test_tree_lengths_are_by_weight(posterior):
    trees = posterior.trees
    lengths = trees.branch_lengths.sum(axis=1)
    found = posterior.summary["tree_length"]
    assert found["mean"] == pytest.approx(trees.weights @ lengths)
    assert (found["lower"], found["upper"]) == pytest.approx(shortest_interval(lengths, trees.weights))
    assert found["lower"] < found["mean"] < found["upper"]
    assert found["mean"] != pytest.approx(lengths.mean(), rel=1e-4)


def test_topologies_are_counted_and_the_best_are_listed(posterior, monkeypatch):
    weights = np.sort(posterior.trees.topology_weights())[::-1]
    assert posterior.summary["distinct_topologies"] == len(weights)
    for found in posterior.summary["credible_sets"]:
        held = [weights[:size].sum() >= found["share"] for size in range(1, len(weights) + 1)]
        assert found["topologies"] == held.index(True) + 1
    assert [found["share"] for found in posterior.summary["credible_sets"]] == [0.5, 0.9, 0.95, 0.99]
    monkeypatch.setattr(results, "BEST", 2)
    described = results.describe_draws(posterior.draws, posterior.trust)
    assert described["distinct_topologies"] == len(weights) > 2
    best = described["best_topologies"]
    table = posterior.topologies
    assert [one["probability"] for one in best] == table.weights[:2].tolist()
    assert [one["newick"] for one in best] == phloem.trees.format_newick(table.topologies[:2], table.taxa)


def test_credible_sets_are_of_the_most_probable_topologies_wherever_they_were_drawn(posterior):
    parsed = phloem.trees.parse_newick(
        ["(a,b,(c,(d,e)));", "(a,(b,(d,e)),c);", "(a,b,((c,e),d));"], taxa=tuple("abcde")
    )
    group = np.repeat(np.arange(3, dtype=np.int32), [3, 32, 65])
    draws = Draws(parsed.taxa, parsed.topologies, group, np.ones((100, 7), np.float32), *np.zeros((3, 100)))
    found = results.describe_draws(draws, posterior.trust)["credible_sets"]
    assert [one["topologies"] for one in found] == [1, 2, 2, 3]


def test_ten_topologies_are_in_the_summary_at_most(posterior):
    topologies = phloem.trees.all_topologies(5)
    group = np.repeat(np.arange(15, dtype=np.int32), 2)
    draws = Draws(tuple("abcde"), topologies, group, np.ones((30, 7), np.float32), *np.zeros((3, 30)))
    found = results.describe_draws(draws, posterior.trust)
    assert found["distinct_topologies"] == 15
    assert len(found["best_topologies"]) == 10
