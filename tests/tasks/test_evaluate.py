"""Evaluation of a run: bounds, diagnostics, and distances to a reference."""

import json
from dataclasses import replace

import numpy as np
import pytest

import phloem
from phloem.errors import BadArgument, PhloemError, TaxonMismatch
from phloem.inference.evaluation import multi_sample_bound
from phloem.tasks.evaluate import evaluate_run, read_reference
from phloem.tasks.opening import Drawing, open_posterior, taxa_of
from support.messages import saying


def test_a_run_is_evaluated_by_the_draws_that_it_has(finished_run):
    found = evaluate_run(finished_run, bounds=(1, 10, 200))
    own = phloem.load_posterior(finished_run)
    assert found.posterior.summary == own.summary
    assert found.bounds[1] == pytest.approx(own.elbo)
    assert found.bounds[10] == pytest.approx(own.lower_bound)
    assert found.bounds[200] == pytest.approx(own.log_marginal_likelihood)
    assert found.reference is None


def test_numbers_of_draws_or_a_seed_ask_for_new_ones(finished_run):
    own = phloem.load_posterior(finished_run).elbo
    assert evaluate_run(finished_run, samples=200, repeats=5).posterior.elbo == own
    assert evaluate_run(finished_run, samples=200, repeats=5, seed=7).posterior.elbo != own
    for asked, expected in (({"samples": 100}, (5, 100)), ({"repeats": 2}, (2, 200))):
        summary = evaluate_run(finished_run, **asked).posterior.summary
        assert (summary.repeats, summary.samples) == expected


def test_draws_are_annealed_on_request(finished_run):
    found = evaluate_run(finished_run, anneal=150, samples=100, seed=2, bounds=[10])
    summary = found.posterior.summary
    assert (summary.repeats, summary.samples, summary.draws.count) == (2, 100, 200)
    assert summary.annealed is not None
    assert summary.annealed.draws == 200
    plain = evaluate_run(finished_run, samples=100, seed=2).posterior
    assert found.posterior.elbo.mean > plain.elbo.mean + 0.1
    log_marginal, own = (posterior.log_marginal_likelihood.mean for posterior in (plain, found.posterior))
    assert own == pytest.approx(log_marginal, abs=0.2)
    text = " ".join(found.describe(80))
    assert "All 200 draws were annealed: moved from Q to the posterior at " in text
    assert found.as_json()["annealed"]["draws"] == 200
    assert plain.summary.as_json()["annealed"] is None
    with pytest.raises(BadArgument, match="--anneal and --repeats"):
        evaluate_run(finished_run, anneal=150, repeats=2)


def test_what_is_asked_for_is_what_is_drawn(finished_run, monkeypatch):
    asked = []

    def remember(path, **options):
        asked.append((options["drawing"], options["threads"]))
        return phloem.load_posterior(path)

    monkeypatch.setattr("phloem.tasks.evaluate.open_posterior", remember)
    evaluate_run(finished_run)
    evaluate_run(finished_run, seed=0)
    evaluate_run(finished_run, samples=3, repeats=4, seed=5, threads=2)
    assert asked == [
        (None, None),
        (Drawing(seed=0), None),
        (Drawing(3, 4, 5), 2),
    ]


@pytest.mark.parametrize(("kept", "rows"), [(450, (2, 200)), (150, (1, 150))])
def test_bounds_are_of_the_repeats_whose_draws_were_kept(kept, rows, finished_run, monkeypatch):
    whole = phloem.load_posterior(finished_run)
    columns = ("group", "branch_lengths", "log_joint", "log_q_topology", "log_q_branches", "theta")
    draws = replace(whole.draws, **{name: getattr(whole.draws, name)[:kept] for name in columns})
    monkeypatch.setattr("phloem.tasks.evaluate.open_posterior", lambda _path, **_options: replace(whole, kept=draws))
    expected = whole.draws.log_weights[: rows[0] * rows[1]].reshape(rows)
    found = evaluate_run(finished_run, bounds=(1, 7)).bounds
    assert found == {1: multi_sample_bound(expected, 1), 7: multi_sample_bound(expected, 7)}


def test_several_runs_are_one_posterior_and_the_bounds_are_the_best_runs(finished_runs, other_way_round):
    found, swapped = (evaluate_run(path, bounds=(10,)) for path in (finished_runs, other_way_round))
    assert {one.posterior.summary.best_run for one in (found, swapped)} == {1, 2}
    for one in (found, swapped):
        assert one.bounds[10] == pytest.approx(one.posterior.best_run.lower_bound)
    assert found.bounds == swapped.bounds
    assert len(found.as_json()["agreement"]["shares"]) == 2
    assert "Average standard deviation of split frequencies" in "\n".join(found.describe(80))


def test_a_sample_of_the_posterior_itself_is_near_it(finished_runs, tmp_path):
    posterior = phloem.load_posterior(finished_runs)
    phloem.trees.write_nexus(posterior.sample(1000), tmp_path / "own.t")
    found = evaluate_run(finished_runs, reference=[tmp_path / "own.t"]).reference
    assert found.outside_support == pytest.approx(0, abs=1e-9)
    assert found.weighted_total_variation < 0.05
    assert found.weighted_splits.largest_difference < 0.05
    assert 0 <= found.divergence < 5


def test_networks_are_mixed_by_the_shares_of_their_runs(other_way_round, tmp_path):
    posterior = open_posterior(other_way_round)
    sample = posterior.sample(100)
    phloem.trees.write_nexus(sample, tmp_path / "own.t")
    found = evaluate_run(other_way_round, reference=[tmp_path / "own.t"]).reference
    shares = posterior.summary.agreement.shares
    assert abs(shares[0] - shares[1]) > 0.001
    topologies = sample.distinct().normalized()
    p = topologies.weights
    each = [run.model.network.log_prob(topologies.topologies).detach().exp().numpy() for run in posterior.runs]
    q = shares[0] * each[0] + shares[1] * each[1]
    assert found.divergence == pytest.approx(p @ np.log(p / q), rel=1e-6)


def test_burnin_drops_the_first_trees_of_the_reference(finished_run, tmp_path):
    posterior = phloem.load_posterior(finished_run)
    own = posterior.sample(200)
    stray = phloem.trees.random_topologies(12, 200, stream=phloem.RandomStream(1, "stray"))
    both = phloem.trees.TreeSample(
        own.taxa, phloem.trees.TopologyBatch.concatenate([stray, own.topologies]), np.ones(400), None
    )
    phloem.trees.write_newick(both, tmp_path / "both.nwk")
    with_stray = evaluate_run(finished_run, reference=[tmp_path / "both.nwk"]).reference
    without = evaluate_run(finished_run, reference=[tmp_path / "both.nwk"], burnin=0.5).reference
    assert with_stray.outside_support > 0.4
    assert without.outside_support == pytest.approx(0, abs=1e-9)


def test_everything_is_in_the_json_and_in_the_words(finished_run, tmp_path):
    posterior = phloem.load_posterior(finished_run)
    phloem.trees.write_nexus(posterior.topologies[:1], tmp_path / "best.t")
    found = evaluate_run(finished_run, reference=[tmp_path / "best.t"], bounds=(5, 200))
    parsed = json.loads(json.dumps(found.as_json()))
    assert parsed["bounds"][0]["particles"] == 5
    ours = next(one.topologies for one in posterior.summary.found.credible_sets if one.share == 0.95)
    assert parsed["reference"]["credible_sets"] == {"reference": 1, "weighted": ours}
    assert ours > 1
    assert parsed["draws"]["count"] == 1000
    text = "\n".join(found.describe(80))
    for part in (
        "bound of 5 ",
        "bound of 200 ",
        "Pareto k̂",
        "KL divergence",
        " in 1,000 draws, ",
        "95 % credible sets",
    ):
        assert part in text
    assert all(len(line) <= 80 for line in found.describe(80))


def test_an_unfinished_run_is_evaluated_and_says_so(unfinished_run):
    assert evaluate_run(unfinished_run).describe(80)[0] == "not finished: evaluated after 1,000 steps"


@pytest.mark.parametrize(
    "text",
    [
        "(a,b,(c,d));\n",
        '(a:1,b:1,(c:1,d:1)[&prob=1.00e+00,prob(percent)="100"]:1);\n(a:1,b:1,(c:1,d:1)[&prob=1]:1);\n',
        "[&R] ((a,b)[&posterior=1.0],(c,d));\n(a,b,(c,d));\n",
        "(a,b,(c,d)97);\n(a,b,(c,d)97);\n",
        "(a:1,b:1,(c:1,d:1)0.97:1);\n(a,b,(c,d));\n",
    ],
)
def test_a_summary_tree_is_not_a_posterior(text, tmp_path):
    (tmp_path / "con.tre").write_text(text)
    with pytest.raises(BadArgument, match=saying("con.tre: … consensus … sample … .trprobs")):
        read_reference([tmp_path / "con.tre"], taxa="abcd")


@pytest.mark.parametrize(
    ("name", "text", "trees"),
    [
        ("sure.trprobs", "#NEXUS\nbegin trees;\ntree x [p = 1.000, P = 1.000] = [&W 1.000000] (a,b,(c,d));\nend;\n", 1),
        ("sure.tsv", "1.0\t(a,b,(c,d));\n", 1),
        ("beast.trees", "(a[&rate=1.0]:1,b:1,(c:1,d:1)[&rate=2.0]:1);\n" * 3, 3),
        ("few.t", "(a:1,b:1,(c:1,d:1):1);\n(a:1,c:1,(b:1,d:1):1);\n", 2),
    ],
)
def test_a_small_sample_is_one(name, text, trees, tmp_path):
    (tmp_path / name).write_text(text)
    assert [len(sample) for sample in read_reference([tmp_path / name], taxa="abcd")] == [trees]


def test_our_own_summary_trees_are_no_posterior_and_our_own_samples_are_one(finished_run):
    taxa = taxa_of(finished_run)
    for name in ("consensus.nex", "consensus-labels.nex"):
        with pytest.raises(PhloemError, match=r"consensus|polytomy"):
            read_reference([finished_run / name], taxa=taxa)
    assert len(read_reference([finished_run / "posterior.nex"], taxa=taxa, burnin=0.5)[0]) == 500


def test_a_burnin_without_a_reference_is_refused(finished_run):
    with pytest.raises(BadArgument, match="--reference"):
        evaluate_run(finished_run, burnin=0.25)


def test_what_is_wrong_is_said_before_anything_is_drawn(finished_run, tmp_path):
    def drawn(_share):
        pytest.fail("something was drawn")

    other = tmp_path / "other.nwk"
    other.write_text("(a,b,(c,d));\n")
    with pytest.raises(TaxonMismatch, match=r"other.nwk.*'Tarsius_syrichta'"):
        evaluate_run(finished_run, repeats=2, reference=[other], progress=drawn)
    with pytest.raises(BadArgument, match="--bounds"):
        evaluate_run(finished_run, repeats=2, bounds=(0,), progress=drawn)
