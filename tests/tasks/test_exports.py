"""What a posterior gives to others: summary trees, traces, the report, the same each time."""

import json
import shutil
from pathlib import Path

import dendropy
import numpy as np
import pandas
import pytest

import phloem
from phloem.errors import BadArgument
from phloem.inference.draws import Draws
from phloem.inference.summary import summarize_draws
from phloem.inference.trust import judge
from phloem.report.html import render_report
from phloem.tasks.exports import about_sample, about_summary_trees, make_exports, named_taxa, write_trace
from phloem.tasks.opening import Drawing, open_posterior
from phloem.tasks.posterior import Posterior, TreeDisplay, report_contents, rooted, sample_posterior, summary_trees
from phloem.tasks.run_files import EXPORTS, infer_run
from phloem.trees.consensus import extended_majority_rule, majority_rule, maximum_clade_credibility
from reference.ape import read_with_ape
from support.made_up_summary import made_up_summary
from support.messages import assert_says


@pytest.fixture(scope="module")
def posterior(finished_runs):
    return phloem.load_posterior(finished_runs)


def test_the_consensus_is_dendropys_of_all_weighted_draws(posterior, tmp_path):
    phloem.trees.write_nexus(posterior.sample(len(posterior.draws), weighted=True), tmp_path / "all.nex")
    trees = dendropy.TreeList.get(
        path=tmp_path / "all.nex", schema="nexus", store_tree_weights=True, preserve_underscores=True
    )
    expected = trees.consensus(min_freq=0.5, use_tree_weights=True)
    (tmp_path / "ours.nwk").write_text(phloem.trees.format_tree(posterior.consensus().tree, posterior.taxa))
    ours = dendropy.Tree.get(
        path=tmp_path / "ours.nwk", schema="newick", taxon_namespace=trees.taxon_namespace, preserve_underscores=True
    )
    for tree in (expected, ours):
        tree.is_rooted = False
        tree.encode_bipartitions()
    assert dendropy.calculate.treecompare.symmetric_difference(expected, ours) == 0


def test_supports_and_lengths_are_those_of_the_tables(posterior):
    known = {m.tobytes(): f for m, f in zip(posterior.clades.members, posterior.clades.frequencies, strict=True)}
    for tree in summary_trees(posterior).values():
        interior = np.arange(len(posterior.taxa), len(tree.tree.parent) - 1)
        supports = sorted(tree.support[interior].tolist())
        assert all(min(abs(share - support) for share in known.values()) < 1e-9 for support in supports)
    total = posterior.consensus(0.5).length[:-1].sum()
    tree_length = posterior.summary.found.tree_length
    assert tree_length.lower < total < tree_length.upper


def test_a_higher_threshold_leaves_fewer_clades(posterior):
    sizes = [len(posterior.consensus(threshold).tree.parent) for threshold in (0.5, 0.95)]
    assert sizes[0] >= sizes[1]
    sure = (posterior.clades.frequencies > 0.95).sum()
    assert sizes[1] == len(posterior.taxa) + sure + 1


def test_roots_are_where_they_are_asked_for(posterior):
    assert not posterior.consensus().is_rooted
    assert posterior.consensus(midpoint=True).is_rooted
    at_lemur = posterior.consensus(outgroup=["Lemur_catta"])
    assert (at_lemur.tree.parent[:-1] == len(at_lemur.tree.parent) - 1).sum() == 2
    with pytest.raises(BadArgument, match="one root"):
        rooted(posterior.consensus(), TreeDisplay(outgroup=["Pan"], midpoint=True))


def test_exports_are_the_same_bytes_each_time_and_infer_makes_those_that_are_missing(posterior, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(posterior.directory, copy)
    make_exports(posterior).write(tmp_path)
    for name in EXPORTS:
        assert (tmp_path / name).read_bytes() == (copy / name).read_bytes()
    (copy / "consensus.nex").unlink()
    (copy / "report.html").write_text("stale")
    phloem.infer(None, out=copy, resume=True, progress=False)
    assert (copy / "consensus.nex").read_bytes() == (tmp_path / "consensus.nex").read_bytes()
    assert "<html" in (copy / "report.html").read_text()


def test_the_report_shows_the_majority_rule_tree_that_is_asked_for(posterior, tmp_path):
    display = TreeDisplay(threshold=0.99, outgroup=["Lemur_catta"])
    exports = make_exports(posterior, display)
    exports.write(tmp_path)
    returned = exports.trees["majority_rule"]
    trees = summary_trees(posterior, display)
    expected = trees["majority_rule"]
    assert len(expected.tree.parent) < len(trees["extended_majority_rule"].tree.parent)
    np.testing.assert_array_equal(returned.tree.parent, expected.tree.parent)
    assert (tmp_path / "report.html").read_text() == render_report(report_contents(posterior, expected, 0.99))


def test_a_finished_run_keeps_the_report_that_it_has(posterior, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(posterior.directory, copy)
    (copy / "report.html").write_text("mine, with another root")
    told = []
    phloem.infer(None, out=copy, resume=True, progress=lambda event: told.append(getattr(event, "text", "")))
    assert (copy / "report.html").read_text() == "mine, with another root"
    assert any("report.html" in text and "left as it is" in text for text in told)
    (copy / "report.html").unlink()
    phloem.infer(None, out=copy, resume=True, progress=False)
    assert (copy / "report.html").exists()


def test_the_report_has_what_the_posterior_has(posterior, tmp_path):
    contents = report_contents(posterior, posterior.consensus(), 0.5)
    assert contents.title == "primates"
    assert contents.runs == 2
    assert len(contents.histories) == 2
    assert contents.alignment.taxa == 12
    assert contents.model == "JC69"
    assert contents.evaluation == (posterior.elbo, posterior.lower_bound, posterior.log_marginal_likelihood)
    assert (contents.samples, contents.repeats, contents.particles) == (200, 5, 10)
    assert (contents.steps_done, contents.steps, contents.is_finished) == (4000, 4000, True)
    assert len(contents.topologies) == posterior.summary.found.distinct_topologies
    assert contents.trust == posterior.trust
    assert [found.share for found in contents.credible] == [0.5, 0.9, 0.95, 0.99]
    assert contents.provenance["seed"] == 1
    assert len(contents.cloud) == 200
    posterior.report(tmp_path / "mine.html", outgroup=["Lemur_catta"])
    assert "Lemur_catta" in (tmp_path / "mine.html").read_text()


def test_the_report_of_an_unfinished_run_says_how_far_it_is(unfinished_run):
    drawing = Drawing(50, 2)
    posterior = open_posterior(unfinished_run, drawing=drawing)
    contents = report_contents(posterior, posterior.consensus(), 0.5)
    assert (contents.steps_done, contents.steps, contents.is_finished) == (1000, 4000, False)
    assert (contents.samples, contents.repeats, contents.runs) == (50, 2, 1)
    assert [report.step for report in contents.histories[0]][-1] == 1000
    assert len(contents.cloud) == 100, "no more than there are draws"


def test_the_trace_of_the_run_is_of_its_trees(posterior):
    trace = pandas.read_csv(posterior.directory / "posterior.log", sep="\t", comment="#")
    trees = phloem.read_trees(posterior.directory / "posterior.nex")
    np.testing.assert_allclose(trace["TL"], trees.branch_lengths.sum(axis=1), rtol=1e-8)
    assert trace["topology"].mode()[0] == 1
    assert "weight" not in trace
    own = posterior.sample(1000)  # with the seed that everybody has who gives none
    np.testing.assert_array_equal(trees.topologies.parent, own.topologies.parent)
    np.testing.assert_array_equal(trees.branch_lengths, own.branch_lengths)
    np.testing.assert_array_equal(trees.weights, np.full(1000, trees.weights[0]))
    sample = sample_posterior(posterior, 1000)
    for name, values in (
        ("posterior", sample.log_likelihood + sample.log_prior),
        ("likelihood", sample.log_likelihood),
        ("prior", sample.log_prior),
        ("log_q", sample.log_q),
        ("topology", sample.topology),
    ):
        np.testing.assert_allclose(trace[name], values, rtol=1e-9)


def test_the_trace_has_a_column_for_each_inferred_parameter(inferred_run):
    posterior = phloem.load_posterior(inferred_run)
    trace = pandas.read_csv(inferred_run / "posterior.log", sep="\t", comment="#")
    names = ["kappa", "pi(A)", "pi(C)", "pi(G)", "pi(T)", "alpha"]
    assert list(trace.columns) == ["state", "posterior", "likelihood", "prior", "TL", *names, "log_q", "topology"]
    sample = sample_posterior(posterior, 1000)
    for name in names:
        np.testing.assert_allclose(trace[name], sample.parameters[name], rtol=1e-9)
        estimate = posterior.parameters[name]
        assert abs(trace[name].mean() - estimate.mean) < 5 * estimate.deviation / np.sqrt(sample.effective_size)
    np.testing.assert_allclose(trace[["pi(A)", "pi(C)", "pi(G)", "pi(T)"]].sum(axis=1), 1, rtol=1e-8)


def test_inferred_parameters_are_wherever_results_are_shown(inferred_run):
    posterior = phloem.load_posterior(inferred_run)
    words = "HKY+G4, of which kappa, frequencies and the shape are inferred"
    contents = report_contents(posterior, posterior.consensus(), 0.5)
    assert contents.model == posterior.summary.model == words
    assert list(contents.parameters) == list(posterior.parameters.values())
    assert contents.parameter_values == posterior.parameter_values
    content = json.loads((inferred_run / "summary.json").read_text())
    assert [one["name"] for one in content["parameters"]] == list(posterior.parameters)
    assert content["model"] == words
    assert '<section id="model"' in (inferred_run / "report.html").read_text()
    lines = posterior.describe()
    assert any(line.startswith("kappa ") for line in lines)
    assert max(map(len, lines)) <= 80


def test_each_summary_tree_is_the_one_of_its_name():
    """On random trees, where the three are three."""
    taxa = tuple("abcdefgh")
    topologies = phloem.trees.random_topologies(8, 6, stream=phloem.RandomStream(1, "three"))
    random = np.random.default_rng(1)
    group = np.arange(60, dtype=np.int32) % 6
    lengths = random.random((60, 13)).astype(np.float32)
    draws = Draws(taxa, topologies, group, lengths, random.normal(0, 0.3, 60), *np.zeros((2, 60)))
    best = draws.weighted().topology_sample()
    splits = phloem.trees.split_frequencies(best)
    made_up = Posterior.from_draws(Path("none"), phloem.config.InferConfig(), None, draws)  # its summary is not read
    expected = {
        "majority_rule": majority_rule(splits, 0.6),
        "extended_majority_rule": extended_majority_rule(splits),
        "maximum_clade_credibility": maximum_clade_credibility(best, splits),
    }
    assert len({tree.parent.tobytes() for tree in expected.values()}) == 3
    found = summary_trees(made_up, TreeDisplay(threshold=0.6))
    assert list(found) == list(expected)
    for name, tree in expected.items():
        np.testing.assert_array_equal(found[name].tree.parent, tree.parent)


def test_what_was_exported_of_an_unfinished_run_goes_with_the_first_summary(finished_run, tmp_path):
    """However the end of a run is cut short, an old report is never taken for its own."""
    copy = tmp_path / "copy"
    shutil.copytree(finished_run, copy)
    directory = infer_run(copy)
    assert directory.has_exports()
    directory.write_summary(json.loads((copy / "summary.json").read_text()))
    assert not any((copy / name).exists() for name in EXPORTS)
    phloem.infer(None, out=copy, resume=True, progress=False)
    assert directory.has_exports()


def made_up_posterior(spread: float, draws: int = 2000) -> Posterior:
    """Random trees with log weights that differ by this much."""
    taxa = tuple("abcdefgh")
    topologies = phloem.trees.random_topologies(8, 6, stream=phloem.RandomStream(1, "made up"))
    random = np.random.default_rng(1)
    group = np.arange(draws, dtype=np.int32) % 6
    lengths = random.random((draws, 13)).astype(np.float32)
    found = Draws(taxa, topologies, group, lengths, random.normal(0, spread, draws), *np.zeros((2, draws)))
    trust = judge(found.log_weights, None, steps_done=100, steps=100, finished=True, branches="edge")
    summary = made_up_summary(summarize_draws(found, trust), names=taxa)
    return Posterior.from_draws(Path("none"), phloem.config.InferConfig(), summary, found)


def test_trees_that_repeat_are_not_called_independent(tmp_path):
    """A few draws have all of the weight: what Tracer and others read says so, in counts."""
    posterior = made_up_posterior(spread=6.0)
    sample = sample_posterior(posterior)
    lengths, times = np.unique(sample.trees.branch_lengths, axis=0, return_counts=True)
    assert times.max() > 50, "else this tests nothing"
    about = about_sample(posterior, sample)
    text = "\n".join(about)
    assert "independent draws" not in text
    assert f"{len(lengths):,} of the 1,000 are distinct" in text
    assert f"{times.max():,} times" in text
    worth = f"{1000**2 / (times**2).sum():,.0f}"
    assert f"worth {worth} independent trees" in text
    assert_says(text.replace("\n", " "), f"Tracer … ESS near 1,000 … {worth} … Do not trust. Train longer")
    write_trace(sample, tmp_path / "posterior.log", about)
    trace = (tmp_path / "posterior.log").read_text().splitlines()
    assert trace[: len(about)] == [f"# {line}" for line in about]
    assert "do not trust" in " ".join(about_summary_trees(posterior)).lower()


def test_trees_of_which_none_comes_twice_are_independent_draws():
    posterior = made_up_posterior(spread=0.0)
    sample = sample_posterior(posterior, 500)
    about = " ".join(about_sample(posterior, sample))
    assert_says(about, "500 independent draws, no burn-in … 2,000 draws … Good.")
    assert "Tracer" not in about
    assert sample.effective_size == 500


def test_weights_are_said_to_be_none_for_tracer():
    posterior = made_up_posterior(spread=1.0)
    about = " ".join(about_sample(posterior, sample_posterior(posterior, 500, weighted=True)))
    assert_says(about, "each once … weight … independent trees … Tracer reads no weights")


def test_what_is_said_of_exported_trees_is_ascii_and_ends_no_comment():
    for spread in (0.0, 1.0, 6.0):
        posterior = made_up_posterior(spread)
        for weighted in (True, False):
            text = " ".join(about_sample(posterior, sample_posterior(posterior, weighted=weighted)))
            assert text.isascii()
            assert not {"[", "]", "\t", ";\n"} & set(text)


def test_every_program_sees_the_supports_of_the_summary_trees(posterior, tmp_path, rscript_ape):
    """ape in labels; DendroPy in both; FigTree and treeio in annotations (tests/trees/test_writing.py)."""
    exports = make_exports(posterior)
    exports.write(tmp_path)
    by_ape = read_with_ape(rscript_ape, tmp_path / "consensus-labels.nex", "nexus")
    by_dendropy = dendropy.TreeList.get(path=tmp_path / "consensus.nex", schema="nexus", preserve_underscores=True)
    assert [tree.name for tree in by_ape] == list(exports.trees)
    for labelled, annotated in zip(by_ape, by_dendropy, strict=True):
        supports = {
            frozenset(leaf.taxon.label for leaf in node.leaf_iter()): float(node.annotations.get_value("prob"))
            for node in annotated.postorder_internal_node_iter(exclude_seed_node=True)
        }
        found = {side: float(label) for side, label in labelled.labels.items() if label}
        assert found == pytest.approx(supports, abs=1e-6)
        assert len(found) == sum(len(side) > 1 for side in labelled.lengths)


def test_a_taxon_with_commas_can_be_an_outgroup():
    assert named_taxa("a, b", ["a", "b", "c"]) == ["a", "b"]
    assert named_taxa("a, b", ["a, b", "b", "c"]) == ["a, b"]
    assert named_taxa("", ["a"]) == []
    with pytest.raises(BadArgument, match="taxon"):
        named_taxa(",", ["a"])
