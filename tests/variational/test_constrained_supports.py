"""Supports from trees that satisfy constraints generate no others: every topology is asked for, one by one."""

import numpy as np
import pytest

from phloem.random_streams import RandomStream
from phloem.trees.constraints import TopologyConstraints
from phloem.trees.generation import all_topologies
from phloem.trees.sample import TreeSample
from phloem.variational.sbn import SubsplitNetwork, closed_support, support_of

TAXA = tuple("abcdefg")
CASES = [["cd"], ["ab"], ["bc", "efg"], ["bcd", "bc"], ["cdef", "cd", "ef"]]


def satisfying(clades: list[str], seed: int, count: int) -> tuple[TopologyConstraints, TreeSample]:
    constraints, topologies = TopologyConstraints.of(TAXA, [(one, tuple(one)) for one in clades]), all_topologies(7)
    held = np.flatnonzero(constraints.hold(topologies))
    chosen = np.sort(np.random.default_rng(seed).choice(held, min(count, len(held)), replace=False))
    return constraints, TreeSample(TAXA, topologies[chosen], np.ones(len(chosen)), None)


@pytest.mark.parametrize("closed", [False, True])
@pytest.mark.parametrize("clades", CASES)
@pytest.mark.parametrize("seed", range(3))
def test_recombination_makes_no_tree_that_violates_a_constraint(clades, seed, closed):
    constraints, sample = satisfying(clades, seed, 12)
    support = closed_support(sample) if closed else support_of(TAXA, sample.topologies)
    topologies = all_topologies(7)
    generated = support.generates(topologies)
    holds = constraints.hold(topologies)
    assert not generated[~holds].any()
    assert generated.sum() >= len(sample)
    network = SubsplitNetwork(support)
    drawn = network.sample(200, stream=RandomStream(seed, "draws"))
    assert constraints.hold(drawn).all()
    np.testing.assert_allclose(network.log_prob(topologies[np.flatnonzero(holds)]).detach().exp().sum(), 1)


def test_something_is_recombined():
    constraints, sample = satisfying(["bc"], 0, 12)
    assert support_of(TAXA, sample.topologies).generates(all_topologies(7)).sum() > len(sample)
    assert constraints.hold(sample.topologies).all()


def test_parts_of_groups_of_identical_taxa_fit_with_the_constraints():
    constraints, sample = satisfying(["cd"], 0, 12)
    topologies, group = all_topologies(7), np.array([1, 2, 4, 5])
    holds = constraints.hold(topologies)
    free = closed_support(sample, identical=[group])
    assert free.generates(topologies)[~holds].any()  # b and c, c and e
    kept = closed_support(sample, identical=[group], constraints=constraints)
    assert not kept.generates(topologies)[~holds].any()
    assert kept.generates(topologies).sum() > closed_support(sample).generates(topologies).sum()
