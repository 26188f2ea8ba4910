"""Trees hung up for drawing keep their branches."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phloem.report.topologies import Hanger, Hung, cut_branch
from phloem.trees.rooting import root_at_outgroup
from phloem.trees.splits import split_bits, unpack_bits
from support.made_up_report import made_up_contents
from support.strategies import topology_batches


def below(hung: Hung, leaf_count: int) -> list[frozenset[int]]:
    """The leaves below each node, by climbing from every leaf."""
    found: list[set[int]] = [set() for _ in hung.parent]
    for leaf in range(leaf_count):
        node = leaf
        while node >= 0:
            found[node].add(leaf)
            node = int(hung.parent[node])
    return [frozenset(one) for one in found]


@given(topology_batches(trees=1), st.data())
def test_a_cut_branch_leaves_every_branch_as_it_divides_the_taxa(batch, data):
    cut = data.draw(st.integers(0, batch.branch_count - 1))
    hung = cut_branch(batch.parent[0], cut)
    n = batch.taxon_count
    splits = [frozenset(np.flatnonzero(row).tolist()) for row in unpack_bits(split_bits(batch)[0], n)]
    everything = frozenset(range(n))
    clades = below(hung, n)
    assert clades[-1] == everything
    for node in range(len(hung.parent) - 1):
        assert clades[node] in (splits[hung.branch[node]], everything - splits[hung.branch[node]])
    # Every branch is there once; the one that is cut has two halves.
    lengths = np.bincount(hung.branch[:-1], hung.share[:-1], minlength=batch.branch_count)
    assert lengths == pytest.approx(np.ones(batch.branch_count))
    assert np.flatnonzero(hung.parent == len(hung.parent) - 1).size == 2


def test_trees_hang_as_the_consensus_does_or_as_nearly_as_they_can():
    contents = made_up_contents(9)
    unrooted = Hanger.like(contents.consensus)
    for topology in contents.topologies.topologies:
        assert np.array_equal(unrooted.hang(topology).parent, topology.parent[0])
    outgroup = contents.consensus.taxa[4]
    rooted = Hanger.like(root_at_outgroup(contents.consensus, [outgroup]))
    for topology in contents.topologies.topologies:
        hung = rooted.hang(topology)
        assert hung.parent[4] == len(hung.parent) - 1
