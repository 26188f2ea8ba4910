"""A posterior in words."""

import numpy as np

from phloem.report.text import describe_posterior, supports_of
from phloem.trees.reading import parse_newick
from phloem.trees.sample import TreeSample
from phloem.trees.splits import split_frequencies

TREES = ["(a,b,(c,(d,e)));", "(a,(b,(d,e)),c);", "(a,b,((c,e),d));"]
SUMMARY = {name: {"mean": -10.0, "std": None} for name in ("log_marginal_likelihood", "elbo", "lower_bound")}


def sample(*weights: float) -> TreeSample:
    parsed = parse_newick(TREES[: len(weights)], taxa=tuple("abcde"))
    return TreeSample(parsed.taxa, parsed.topologies, np.array(weights), None)


def best_lines(found: TreeSample, distinct: int) -> list[str]:
    summary = SUMMARY | {"evaluation": {"repeats": 1, "samples": 5}, "distinct_topologies": distinct}
    lines = list(describe_posterior(summary, found, split_frequencies(found)))
    first = next(place for place, line in enumerate(lines) if "drawn" in line)
    return lines[first : lines.index("", first)]


def test_improbable_topologies_are_counted_and_not_listed():
    assert best_lines(sample(0.7, 0.29996, 0.00004), 1200) == [
        "best topologies (1,200 were drawn)",
        f"  1  0.7000  {TREES[0]}",
        f"  2  0.3000  {TREES[1]}",
        "     0.0000  1,198 others",
    ]
    assert best_lines(sample(0.6, 0.3), 4)[-1] == "     0.1000  2 others"


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
    estimates = [{"mean": -7108.41, "std": 0.1}] * 12
    agreement = {
        "log_marginal_likelihoods": estimates,
        "marginal_likelihood_difference": 0.0,
        "marginal_likelihood_error": 0.3,
        "largest_split_difference": 0.5,
    }
    summary = SUMMARY | {"evaluation": {"repeats": 100, "samples": 1000}, "distinct_topologies": 2}
    summary |= {"runs": 12, "agreement": agreement}
    for width in (40, 60, 80):
        lines = list(describe_posterior(summary, found, split_frequencies(found), width=width))
        assert max(map(len, lines)) <= width
        assert " ".join(lines).count("-7108.41") == 12
