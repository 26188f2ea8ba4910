"""What a run is made from, its summary number by number, and its tables of topologies and clades."""

import csv
import io
import json

import numpy as np
import pytest
import torch

import phloem
from phloem.config import InferConfig
from phloem.errors import FileProblem
from phloem.inference import summary as summary_module
from phloem.inference.agreement import marginal_likelihood
from phloem.inference.diagnostics import effective_sample_size, pareto_shape, smooth
from phloem.inference.draws import Draws, TopologyEstimates
from phloem.inference.summary import DrawQuality, summarize_draws
from phloem.tasks import run_files
from phloem.tasks.opening import Drawing, open_posterior
from phloem.tasks.run_files import build_model, format_clades, format_topologies, read_clades, read_topologies
from phloem.threads import single_threaded_products
from phloem.trees.branch_lengths import shortest_interval
from support.small_posteriors import example

TREES = ["(a,b,(c,(d,e)));", "(a,(b,(d,e)),c);", "(a,b,((c,e),d));"]
DRAWN_TWICE = (
    np.repeat(np.arange(3, dtype=np.int32), 2),
    np.ones((6, 7), np.float32),
    np.array([-1.0, -2.0, -3.0, -1.5, -np.inf, -np.inf]),
    *np.zeros((2, 6)),
)
SUPPORT = example("split")[0].network.support


def weights(**settings) -> torch.Tensor:
    model = build_model(SUPPORT, InferConfig(**{"width": 7} | settings), None)
    return torch.cat([parameter.detach().flatten() for parameter in model.branches.parameters()])


def test_first_weights_depend_on_the_seed_alone():
    first = weights(seed=1)
    torch.manual_seed(99)
    assert torch.equal(weights(seed=1), first)
    assert not torch.equal(weights(seed=2), first)


def test_depth_and_width_are_those_of_the_settings():
    assert len(weights(depth=3)) > len(weights(depth=2))
    assert len(weights(width=9)) > len(weights(width=7))


def test_torchs_own_random_numbers_and_threads_stay_the_users():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    weights()
    assert torch.equal(torch.rand(3), expected)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with single_threaded_products():
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


@pytest.fixture(scope="module")
def posterior(finished_run):
    return phloem.load_posterior(finished_run)


def test_the_data_the_model_and_the_support_are_counted(posterior):
    summary, alignment = posterior.summary.as_json(), phloem.read_alignment("primates")
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
    assert posterior.summary.steps == 4000
    assert posterior.summary.finished is True
    assert posterior.summary.stopped_early is False
    begun = open_posterior(unfinished_run, drawing=Drawing(30, 2)).summary
    assert (begun.steps, begun.finished, begun.stopped_early) == (1000, False, False)
    assert (begun.repeats, begun.samples) == (2, 30)


def test_draws_are_measured_with_smoothed_weights_and_without(posterior):
    log_weights = posterior.draws.log_weights
    assert posterior.summary.draws == DrawQuality(
        count=1000,
        effective_sample_size=effective_sample_size(smooth(log_weights)),
        unsmoothed_effective_sample_size=effective_sample_size(log_weights),
        pareto_shape=pareto_shape(log_weights),
    )
    assert effective_sample_size(smooth(log_weights)) != effective_sample_size(log_weights)


def test_tree_lengths_are_by_weight(posterior):
    trees = posterior.trees
    lengths = trees.branch_lengths.sum(axis=1)
    found = posterior.summary.found.tree_length
    assert found.mean == pytest.approx(trees.weights @ lengths)
    assert (found.lower, found.upper) == pytest.approx(shortest_interval(lengths, trees.weights))
    assert found.lower < found.mean < found.upper
    assert found.mean != pytest.approx(lengths.mean(), rel=1e-4)


def test_topologies_are_counted_and_the_best_are_listed(posterior, monkeypatch):
    weights = np.sort(posterior.trees.topology_weights())[::-1]
    assert posterior.summary.found.distinct_topologies == len(weights)
    for found in posterior.summary.found.credible_sets:
        held = [weights[:size].sum() >= found.share for size in range(1, len(weights) + 1)]
        assert found.topologies == held.index(True) + 1
    assert [found.share for found in posterior.summary.found.credible_sets] == [0.5, 0.9, 0.95, 0.99]
    monkeypatch.setattr(summary_module, "BEST", 2)
    described = summarize_draws(posterior.draws, posterior.trust)
    assert described.distinct_topologies == len(weights) > 2
    best = described.best_topologies
    table = posterior.topologies
    assert [one.probability for one in best] == table.weights[:2].tolist()
    assert [one.newick for one in best] == phloem.trees.format_newick(table.topologies[:2], table.taxa)


def test_credible_sets_are_of_the_most_probable_topologies_wherever_they_were_drawn(posterior):
    parsed = phloem.trees.parse_newick(
        ["(a,b,(c,(d,e)));", "(a,(b,(d,e)),c);", "(a,b,((c,e),d));"], taxa=tuple("abcde")
    )
    group = np.repeat(np.arange(3, dtype=np.int32), [3, 32, 65])
    draws = Draws(parsed.taxa, parsed.topologies, group, np.ones((100, 7), np.float32), *np.zeros((3, 100)))
    found = summarize_draws(draws, posterior.trust).credible_sets
    assert [one.topologies for one in found] == [1, 2, 2, 3]


def test_ten_topologies_are_in_the_summary_at_most(posterior):
    topologies = phloem.trees.all_topologies(5)
    group = np.repeat(np.arange(15, dtype=np.int32), 2)
    draws = Draws(tuple("abcde"), topologies, group, np.ones((30, 7), np.float32), *np.zeros((3, 30)))
    found = summarize_draws(draws, posterior.trust)
    assert found.distinct_topologies == 15
    assert len(found.best_topologies) == 10


def estimates(*weights: float) -> TopologyEstimates:
    """The trees with errors and evidence."""
    return TopologyEstimates(sample(*weights), *np.outer((0.125, -9.5, 0.75), np.ones(len(weights))))


def sample(*weights: float) -> phloem.trees.TreeSample:
    parsed = phloem.trees.parse_newick(TREES, taxa=tuple("abcde"))
    return phloem.trees.TreeSample(parsed.taxa, parsed.topologies, np.array(weights), None)


def test_the_last_cumulative_probability_says_what_is_not_listed(monkeypatch, tmp_path):
    monkeypatch.setattr(run_files, "MOST_TOPOLOGIES", 2)
    path = tmp_path / "topologies.csv"
    path.write_text(format_topologies(estimates(0.5, 0.25, 0.25)))
    assert path.read_text().splitlines() == [
        "rank,probability,error,cumulative,log_evidence,log_evidence_error,newick",
        f'1,0.5,0.125,0.5,-9.5,0.75,"{TREES[0]}"',
        f'2,0.25,0.125,0.75,-9.5,0.75,"{TREES[1]}"',
    ]
    assert read_topologies(path, tuple("abcde")).weights.tolist() == [0.5, 0.25]


def test_clades_are_the_sides_without_the_first_taxon_and_single_taxa_come_last(tmp_path):
    trees = sample(0.5, 0.3, 0.2)
    lengths = np.full((3, 7), 0.25)
    with_lengths = phloem.trees.TreeSample(trees.taxa, trees.topologies, trees.weights, lengths)
    text = format_clades(phloem.trees.split_lengths(phloem.trees.GroupedTrees.from_sample(with_lengths)))
    header, *rows = [line.split(",") for line in text.splitlines()]
    lengths = ["mean_length", "deviation", "median", "lower", "upper"]
    assert header == ["probability", "error", "taxa", "members", *lengths]
    weights, has = np.array([0.5, 0.3, 0.2]), np.array([[1, 1, 0], [1, 0, 1], [0, 1, 0], [0, 0, 1]])
    errors = [np.sqrt((weights**2 * (row - row @ weights) ** 2).sum()) for row in has]
    assert [float(row[1]) for row in rows] == pytest.approx([*errors, *np.zeros(5)])
    clades = [[float(row[0]), row[2], row[3]] for row in rows]
    assert clades[:4] == [[0.8, "2", "...**"], [0.7, "3", "..***"], [0.3, "3", ".*.**"], [0.2, "2", "..*.*"]]
    assert clades[4:] == [[1.0, "1", "." * taxon + "*" + "." * (4 - taxon)] for taxon in range(5)]
    assert {tuple(row[4:]) for row in rows} == {("0.25", "0.0", "0.25", "0.25", "0.25")}
    path = tmp_path / "clades.csv"
    path.write_text(text)
    again = read_clades(path, trees.taxa)
    expected = phloem.trees.split_frequencies(trees)
    np.testing.assert_array_equal(again.members, expected.members)
    np.testing.assert_allclose(again.frequencies, expected.frequencies)


def test_every_clade_has_its_own_lengths():
    trees = sample(0.5, 0.3, 0.2)
    several = np.repeat(np.arange(3), 4)
    lengths = np.random.default_rng(1).gamma(2.0, 0.1, (12, 7))
    with_lengths = phloem.trees.TreeSample(trees.taxa, trees.topologies[several], trees.weights[several], lengths)
    splits = phloem.trees.split_lengths(phloem.trees.GroupedTrees.from_sample(with_lengths))
    table = list(csv.DictReader(io.StringIO(format_clades(splits))))
    by_members = {row["members"]: row for row in table}
    assert len(by_members) == len(table) == len(splits.members) == 9
    for place, members in enumerate(splits.members):
        row = by_members["".join("*" if member else "." for member in members)]
        assert float(row["probability"]) == splits.frequency[place]
        for name in ("error", "deviation", "median", "lower", "upper"):
            assert float(row[name]) == getattr(splits, name)[place]
        assert float(row["mean_length"]) == splits.mean[place]


def test_rows_that_are_no_trees_or_no_numbers_are_refused_in_a_line(tmp_path):
    path = tmp_path / "topologies.csv"
    whole = format_topologies(estimates(0.5, 0.25, 0.25))
    for old, new in (("(a,b,(c,(d,e)));", "(a,b,(c,(d,x)));"), ("((c,e),d)", "((c,e)"), ("1,0.5,", "1,half,")):
        assert old in whole
        path.write_text(whole.replace(old, new))
        with pytest.raises(FileProblem, match=r"topologies\.csv: .*damaged"):
            read_topologies(path, tuple("abcde"))


def test_tables_of_earlier_versions_are_read(tmp_path):
    topologies, clades = tmp_path / "topologies.csv", tmp_path / "clades.csv"
    topologies.write_text(f'rank,probability,cumulative,newick\n1,0.5,0.5,"{TREES[0]}"\n2,0.25,0.75,"{TREES[1]}"\n')
    assert read_topologies(topologies, tuple("abcde")).weights.tolist() == [0.5, 0.25]
    header = "probability,taxa,members,mean_length,deviation,median,lower,upper"
    clades.write_text(f"{header}\n0.75,2,...**,1,0,1,1,1\n1.0,1,*....,1,0,1,1,1\n")
    found = read_clades(clades, tuple("abcde"))
    assert found.frequencies.tolist() == [0.75]
    assert found.members.tolist() == [[False, False, False, True, True]]
    for path, needed in ((topologies, "newick"), (clades, "members")):
        path.write_text(path.read_text().replace(needed, "other", 1))
        with pytest.raises(FileProblem, match=f"{path.name}: .*damaged"):
            (read_topologies if path is topologies else read_clades)(path, tuple("abcde"))


@pytest.mark.parametrize("which", ["finished_run", "finished_runs"])
def test_the_best_topologies_have_their_errors_and_their_evidence(which, request):
    posterior = phloem.load_posterior(request.getfixturevalue(which))
    found, best = posterior.topology_estimates, posterior.summary.found.best_topologies
    for number, one in enumerate(best):
        assert one.probability == found.trees.weights[number]
        assert (one.error, one.log_evidence, one.log_evidence_error) == (
            found.error[number],
            found.log_evidence[number],
            found.log_evidence_error[number],
        )
    table = list(csv.DictReader(io.StringIO((posterior.directory / "topologies.csv").read_text())))
    for name in ("error", "log_evidence", "log_evidence_error"):
        np.testing.assert_array_equal([float(row[name]) for row in table], getattr(found, name))
    clades = list(csv.DictReader(io.StringIO((posterior.directory / "clades.csv").read_text())))
    errors = posterior.branch_lengths.error[len(posterior.taxa) :]
    assert [float(row["error"]) for row in clades[: len(errors)]] == errors.tolist()
    assert (errors > 0).any()
    assert np.logaddexp.reduce(found.log_evidence) == pytest.approx(marginal_likelihood(posterior.draws).value)


def test_a_topology_without_weight_has_no_evidence_in_the_summary(posterior):
    draws = Draws(tuple("abcde"), sample(1, 1, 1).topologies, *DRAWN_TWICE)
    best = summarize_draws(draws, posterior.trust).best_topologies
    assert [one.log_evidence is None for one in best] == [False, False, True]
    assert best[2].probability == 0
    json.dumps(best, allow_nan=False)
