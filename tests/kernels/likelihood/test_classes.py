"""Classes of equal columns and plans, against numpy's distinct columns and a search over all roots."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phloem.data.patterns import SitePatterns
from phloem.kernels.likelihood.classes import SIZE_POWER
from phloem.random_streams import RandomStream
from phloem.target import pruning
from phloem.target.pruning import ColumnClasses
from phloem.trees.generation import random_topologies
from phloem.trees.topology import TopologyBatch


def random_patterns(taxa: int, count: int, seed: int, codes: tuple[int, ...] = (1, 2, 4, 8, 15)) -> SitePatterns:
    """Columns that agree in many rows, as those of an alignment do."""
    random = np.random.default_rng(seed)
    common = random.choice(codes, count)
    states = np.where(random.random((taxa, count)) < 0.7, common, random.choice(codes, (taxa, count))).astype(np.uint8)
    return SitePatterns(tuple(f"t{taxon}" for taxon in range(taxa)), states, np.ones(count), np.arange(count))


def leaves_below(plans, tree: int, taxa: int) -> list[frozenset[int]]:
    """The leaves of every node of a plan."""
    found = [frozenset([leaf]) for leaf in range(taxa)]
    for left, right in plans.children[tree]:
        found.append(found[left] | found[right])
    return found


def splits(topologies: TopologyBatch, tree: int) -> list[frozenset[int]]:
    """One side of every branch, by its number."""
    below: list[frozenset[int]] = [frozenset([leaf]) for leaf in range(topologies.taxon_count)]
    for node in range(topologies.taxon_count, topologies.root):
        _, left, right = topologies.neighbors[tree, node]
        below.append(below[left] | below[right])
    return below


@given(st.integers(3, 70), st.integers(0, 2**32))
def test_a_plan_has_every_branch_of_the_tree_and_its_clades(taxa, seed):
    topologies = random_topologies(taxa, 2, stream=RandomStream(seed, "x"))
    classes = ColumnClasses(random_patterns(taxa, 5, seed))
    ((_, plans, _),) = classes.plan(topologies.neighbors, 1)
    everything = frozenset(range(taxa))
    for tree in range(2):
        found, expected = leaves_below(plans, tree, taxa), splits(topologies, tree)
        assert sorted(plans.branches[tree]) == list(range(2 * taxa - 3))
        for node, branch in enumerate(plans.branches[tree]):
            assert found[node] in (expected[branch], everything - expected[branch])
        assert frozenset.union(*(found[child] for child in plans.root_children[tree])) == everything
        assert sum(len(found[child]) for child in plans.root_children[tree]) == taxa


@given(st.integers(4, 30), st.integers(0, 2**32))
def test_the_root_is_where_the_clades_are_smallest(taxa, seed):
    topologies = random_topologies(taxa, 1, stream=RandomStream(seed, "x"))
    ((_, plans, _),) = ColumnClasses(random_patterns(taxa, 5, seed)).plan(topologies.neighbors, 1)
    sides = splits(topologies, 0)[taxa:]
    around = {node: topologies.neighbors[0, node].tolist() for node in range(taxa, topologies.node_count)}

    def cost(root: int) -> float:
        """The sum over interior branches of the size of the side away from the root."""
        reached, stack = [], [(other, root) for other in around[root]]
        while stack:
            node, origin = stack.pop()
            if node >= taxa:
                lower, upper = (node, origin) if topologies.parent[0, node] == origin else (origin, node)
                size = len(splits(topologies, 0)[lower])
                reached.append(size if node == lower else taxa - size)
                assert upper == topologies.parent[0, lower]
                stack += [(other, node) for other in around[node] if other != origin]
        return sum(size**SIZE_POWER for size in reached)

    found = [len(clade) for clade in leaves_below(plans, 0, taxa)[taxa:]]
    assert len(found) == len(sides)
    assert sum(size**SIZE_POWER for size in found) == pytest.approx(min(map(cost, around)))


@given(st.integers(4, 20), st.integers(1, 80), st.integers(0, 2**32))
def test_classes_are_the_distinct_columns_of_a_clade(taxa, count, seed):
    patterns = random_patterns(taxa, count, seed)
    topologies = random_topologies(taxa, 3, stream=RandomStream(seed, "x"))
    ((_, plans, classes),) = ColumnClasses(patterns).plan(topologies.neighbors, 1)
    for tree in range(3):
        for node, clade in enumerate(leaves_below(plans, tree, taxa)):
            number = plans.clades[tree, node]
            own = classes.classes[number]
            columns, expected = np.unique(patterns.states[sorted(clade)], axis=1, return_inverse=True)
            assert classes.counts[number, 0] == columns.shape[1] == len(set(own.tolist()))
            assert len(set(zip(own.tolist(), expected.ravel().tolist(), strict=True))) == columns.shape[1]
        for place, (left, right) in enumerate(plans.children[tree]):
            whole = classes.classes[plans.clades[tree, taxa + place]]
            start = classes.starts[plans.subsplits[tree, place], 0]
            pairs = classes.pairs[start + whole.astype(int)]
            np.testing.assert_array_equal(pairs[:, 0], classes.classes[plans.clades[tree, left]])
            np.testing.assert_array_equal(pairs[:, 1], classes.classes[plans.clades[tree, right]])


def test_many_classes_are_found_by_hashing():
    patterns = random_patterns(40, 3000, 1, codes=tuple(range(1, 16)))
    topologies = random_topologies(40, 1, stream=RandomStream(1, "x"))
    ((_, plans, classes),) = ColumnClasses(patterns).plan(topologies.neighbors, 1)
    bounds = np.arange(len(classes.counts[0]) + 1) * 3000 // len(classes.counts[0])
    assert len(bounds) == 3
    for node, clade in enumerate(leaves_below(plans, 0, 40)):
        for block, (start, end) in enumerate(pairwise(bounds)):
            distinct = np.unique(patterns.states[sorted(clade), start:end], axis=1).shape[1]
            if node >= 40:
                assert classes.counts[plans.clades[0, node], block] == distinct
    assert classes.counts.max() > 1000


def test_classes_are_the_same_in_whatever_order_trees_are_met(monkeypatch):
    patterns = random_patterns(12, 60, 1)
    topologies = random_topologies(12, 40, stream=RandomStream(1, "x"))
    whole = ColumnClasses(patterns)
    ((_, plans, classes),) = whole.plan(topologies.neighbors, 2)
    expected = [classes.classes[plans.clades[tree]].tobytes() for tree in range(40)]
    monkeypatch.setattr(pruning, "MOST_BYTES", 60_000)
    small = ColumnClasses(patterns)
    parts = 0
    for some, plans, classes in small.plan(topologies.neighbors, 1):
        parts += 1
        for place, tree in enumerate(range(some.start, some.stop)):
            assert classes.classes[plans.clades[place]].tobytes() == expected[tree]
        assert small.bytes_used() <= 60_000
    assert parts > 3
    assert whole.bytes_used() > 60_000
