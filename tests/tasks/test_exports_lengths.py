"""Tables of branch lengths, against sums over the trees one by one."""

import csv
import io
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import phloem
from phloem.config import InferConfig
from phloem.inference.draws import Draws
from phloem.tasks import exports
from phloem.tasks.exports import LENGTH_COLUMNS, format_lengths
from phloem.tasks.posterior import Posterior
from reference import slow_intervals

TREES = ["(a,b,(c,(d,e)));", "(a,(b,(d,e)),c);", "(a,b,((c,e),d));"]  # drawn in this order
COUNTS = [2, 21, 37]  # so the last is the most probable one, and the first is beyond 95 %


@pytest.fixture(scope="module")
def posterior() -> Posterior:
    parsed = phloem.trees.parse_newick(TREES, taxa=tuple("abcde"))
    random = np.random.default_rng(1)
    lengths = random.gamma(2.0, 0.1, (60, 7)).astype(np.float32)
    group = np.repeat(np.arange(3, dtype=np.int32), COUNTS)
    draws = Draws(parsed.taxa, parsed.topologies, group, lengths, random.normal(0, 0.3, 60), *np.zeros((2, 60)))
    return Posterior.from_draws(Path("none"), InferConfig(), None, draws)  # its summary is not read


def rows_of(text: str, topology: str) -> dict[str, list[float]]:
    """The numbers of a topology's rows by their members."""
    table = [row for row in csv.DictReader(io.StringIO(text)) if row["topology"] == topology]
    numbers = [name for name in LENGTH_COLUMNS if name not in ("topology", "members")]
    return {row["members"]: [float(row[name]) for name in numbers] for row in table}


def members_of(parent: np.ndarray, branch: int) -> str:
    """The taxa at the lower end of a branch, which never have the first one among them unless it is its own."""
    signs = ""
    for node in range(5):
        while node not in (branch, len(parent) - 1):
            node = int(parent[node])
        signs += "*" if node == branch else "."
    return signs


def expected_rows(posterior: Posterior, numbers: list[int]) -> dict[str, list[float]]:
    """Over the trees with these topologies: probability, mean, deviation, median, lower, upper."""
    trees = posterior.trees
    values: dict[str, list[tuple[float, float]]] = {}
    for number, weight, lengths in zip(trees.group, trees.weights, trees.branch_lengths, strict=True):
        if number in numbers:
            for branch, length in enumerate(lengths):
                members = members_of(trees.topologies.parent[number], branch)
                values.setdefault(members, []).append((float(length), float(weight)))
    found = {}
    for members, pairs in values.items():
        lengths, weights = (np.array(part) for part in zip(*pairs, strict=True))
        mean = weights @ lengths / weights.sum()
        deviation = np.sqrt(weights @ (lengths - mean) ** 2 / weights.sum())
        exact = [Fraction(weight) for weight in weights]
        middle = slow_intervals.median(lengths, exact)
        interval = slow_intervals.shortest_interval(lengths, exact, Fraction(95, 100))
        found[members] = [weights.sum(), mean, deviation, middle, *interval]
    return found


def test_lengths_over_all_trees_are_those_of_the_trees_with_the_branch(posterior):
    found, expected = (
        rows_of(format_lengths(posterior.trees, posterior.branch_lengths), "all"),
        expected_rows(posterior, [0, 1, 2]),
    )
    assert found.keys() == expected.keys()
    for members, row in found.items():
        assert row == pytest.approx(expected[members], rel=1e-9)


def test_lengths_on_topologies_are_those_of_the_credible_set_the_most_probable_first(posterior):
    text = format_lengths(posterior.trees, posterior.branch_lengths)
    shares = posterior.trees.topology_weights()
    assert shares[2] > shares[1] > shares[0]
    assert shares[2] < 0.95 < shares[2] + shares[1]
    for rank, number in (("1", 2), ("2", 1)):
        found, expected = rows_of(text, rank), expected_rows(posterior, [number])
        assert found.keys() == expected.keys()
        for members, row in found.items():
            assert row == pytest.approx(expected[members], rel=1e-9)
    assert not rows_of(text, "3")


def test_no_more_topologies_have_lengths_than_a_table_can_bear(posterior, monkeypatch):
    monkeypatch.setattr(exports, "MOST_TOPOLOGIES", 1)
    text = format_lengths(posterior.trees, posterior.branch_lengths)
    assert len(rows_of(text, "1")) == 7
    assert not rows_of(text, "2")
