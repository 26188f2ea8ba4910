"""A posterior in words."""

import numpy as np

from phloem.inference.agreement import ReferenceComparison
from phloem.inference.trust import judge
from phloem.report.text import describe_counts, describe_estimates, describe_posterior, describe_reference, supports_of
from phloem.trees.generation import all_topologies
from phloem.trees.reading import parse_newick
from phloem.trees.sample import TreeSample
from phloem.trees.splits import SplitDeviation, split_frequencies

TREES = ["(a,b,(c,(d,e)));", "(a,(b,(d,e)),c);", "(a,b,((c,e),d));"]
TRUST = judge(np.random.default_rng(1).normal(size=5000), None, steps_done=5, steps=5, finished=True)
SUMMARY = {name: {"mean": -10.0, "std": None} for name in ("log_marginal_likelihood", "elbo", "lower_bound")} | {
    "finished": True,
    "steps": 4000,
    "trust": TRUST._asdict() | {"findings": [finding._asdict() for finding in TRUST.findings]},
    "credible_sets": [{"share": 0.5, "topologies": 1}, {"share": 0.95, "topologies": 1042}],
}


def sample(*weights: float) -> TreeSample:
    parsed = parse_newick(TREES[: len(weights)], taxa=tuple("abcde"))
    return TreeSample(parsed.taxa, parsed.topologies, np.array(weights), None)


def best_lines(found: TreeSample, distinct: int) -> list[str]:
    summary = SUMMARY | {"evaluation": {"repeats": 1, "samples": 5}, "distinct_topologies": distinct}
    lines = list(describe_posterior(summary, found, split_frequencies(found)))
    first = next(place for place, line in enumerate(lines) if "drawn" in line)
    return lines[first : next(place for place, line in enumerate(lines) if "credible sets" in line)]


def test_improbable_topologies_are_counted_and_not_listed():
    assert best_lines(sample(0.7, 0.29996, 0.00004), 1200) == [
        "best topologies (1,200 were drawn)",
        f"  1  0.7000  {TREES[0]}",
        f"  2  0.3000  {TREES[1]}",
        "     0.0000  1,198 others",
    ]
    assert best_lines(sample(0.6, 0.3), 4)[-1] == "     0.1000  2 others"


def test_five_topologies_are_listed_at_most_and_one_at_least():
    topologies = all_topologies(5)
    many = TreeSample(tuple("abcde"), topologies, np.array([0.3] + [0.05] * 14), None)
    lines = best_lines(many, 15)
    assert [line.split()[0] for line in lines[1:-1]] == ["1", "2", "3", "4", "5"]
    assert lines[-1] == "     0.5000  10 others"
    assert best_lines(sample(0.00004, 0.00003), 40_000)[1:] == [
        f"  1  0.0000  {TREES[0]}",
        "     1.0000  39,999 others",
    ]
    assert best_lines(sample(0.6, 0.3), 3)[-1] == "     0.1000  1 other"


def test_a_topology_that_fits_is_shown_whole():
    taxa = ("Alligator", "Bison", "Camel", "Dolphin", "Elephant")
    found = TreeSample(taxa, sample(0.7, 0.3).topologies, np.array([0.7, 0.3]), None)
    summary = SUMMARY | {"evaluation": {"repeats": 1, "samples": 5}, "distinct_topologies": 2}
    whole = "  1  0.7000  (Alligator,Bison,(Camel,(Dolphin,Elephant)));"
    for width, line in ((len(whole), whole), (len(whole) - 1, whole[:-2] + "…")):
        assert line in list(describe_posterior(summary, found, split_frequencies(found), width=width))


def test_estimates_stand_below_each_other_with_their_deviations():
    estimates = {
        "log_marginal_likelihood": {"mean": -7108.42, "std": 0.178},
        "elbo": {"mean": -10.5, "std": 12.0},
        "lower_bound": {"mean": -7109.0004, "std": None},
    }
    assert list(describe_estimates(estimates | {"evaluation": {"repeats": 1000, "samples": 50}}, 80)) == [
        "log marginal likelihood    -7108.420 ± 0.178",
        "ELBO                         -10.500 ± 12.000",
        "multi-sample bound         -7109.000",
        "(means and standard deviations of 1,000 estimates from 50 trees each)",
    ]


def test_every_distance_to_a_reference_has_its_line():
    found = ReferenceComparison(1500, 0.000123, 0.0, 0.31, 0.22, SplitDeviation(0.01, 0.02, 0.03), (42, 1043))
    assert list(describe_reference(found)) == [
        "against the reference (1,500 topologies)",
        "  its probability outside the support       0.000123",
        "  KL divergence from it to Q(τ)             0.0000",
        "  total variation to Q(τ)                   0.3100",
        "  total variation to the weighted draws     0.2200",
        "  split frequencies, largest difference     0.0300",
        "  their standard deviation, largest         0.0200",
        "  their standard deviation, average         0.0100",
        "  topologies in 95 % credible sets          42 (reference), 1,043 (weighted draws)",
    ]
    assert "Q(τ)             infinite" in list(describe_reference(found._replace(divergence=None)))[2]


def test_counts_are_of_all_topologies_and_of_those_in_credible_sets():
    [line] = describe_counts(SUMMARY | {"distinct_topologies": 3210}, 200)
    expected = "3,210 topologies drawn; topologies in the credible sets: 50 %: 1, 95 %: 1,042"
    assert line.replace("\N{NO-BREAK SPACE}", " ") == expected


def test_a_single_topology_has_no_others():
    title, only = best_lines(sample(1.0), 1)
    assert title.startswith("the only topology")
    assert only == f"  1  1.0000  {TREES[0]}"


def test_supports_are_those_of_each_interior_branch_and_0_where_a_split_was_not_seen():
    seen = split_frequencies(sample(0.7, 0.3))
    drawn = {tree: supports_of(parse_newick([tree], taxa=tuple("abcde")).topologies, seen).tolist() for tree in TREES}
    assert drawn[TREES[0]] == [1.0, 0.7]  # d e, and c d e around them
    assert drawn[TREES[2]] == [0.0, 0.7]


def test_no_line_is_wider_than_it_may_be():
    found = sample(0.7, 0.3)
    summary = SUMMARY | {"evaluation": {"repeats": 100, "samples": 1000}, "distinct_topologies": 2, "finished": False}
    for width in (40, 60, 80):
        lines = list(describe_posterior(summary, found, split_frequencies(found), width=width))
        assert max(map(len, lines)) <= width


def test_the_verdict_stands_with_what_it_rests_on_and_what_to_do():
    found = sample(0.7, 0.3)
    summary = SUMMARY | {"evaluation": {"repeats": 100, "samples": 1000}, "distinct_topologies": 2}
    text = "\n".join(describe_posterior(summary, found, split_frequencies(found)))
    assert "can it be trusted? good" in text
    for finding in TRUST.findings:
        assert f"  {finding.name}: {finding.value}, good" in text
    assert "Nothing to worry about" in text
    assert "topologies in the credible sets: 50\N{NO-BREAK SPACE}%: 1, 95\N{NO-BREAK SPACE}%: 1,042" in text
    assert "not finished" not in text
    worse = summary | {"trust": summary["trust"] | {"level": "do not trust"}, "finished": False}
    lines = list(describe_posterior(worse, found, split_frequencies(found)))
    assert lines[0] == "not finished: this is the posterior after 4,000 steps"
    assert "can it be trusted? DO NOT TRUST" in lines
