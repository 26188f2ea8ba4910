"""Chains under constraints have the posterior of the trees that satisfy them, and never leave those."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from phloem.data.alignment import Alignment
from phloem.errors import BadArgument
from phloem.inference.chains import ChainStarts, run_chains
from phloem.random_streams import RandomStream
from phloem.trees.constraints import TopologyConstraints
from phloem.trees.generation import all_topologies
from phloem.trees.topology import TopologyBatch, TopologyIndex
from support.small_posteriors import no_parameters
from support.weighted_priors import GAMMA_DIRICHLET, RATE, UNIFORM, known_posterior, target_of

STREAM = RandomStream(5, "constrained chains")
CHAINS = 3000
TAXA = "abcdefgh"


def constrained(taxa: int, *clades: str) -> TopologyConstraints:
    return TopologyConstraints.of(tuple(TAXA[:taxa]), [(clade, tuple(clade)) for clade in clades])


@pytest.mark.parametrize(
    ("taxa", "clades"),
    [
        (5, ["bc"]),
        (6, ["cd"]),
        (6, ["ab"]),
        (6, ["bc", "bcd"]),
        (6, ["bc", "ef"]),
        (7, ["efg"]),
        (7, ["bcd", "bc"]),
        (7, ["cdef", "cd"]),
        (7, ["cdefg", "fg", "cd"]),
        (8, ["bcde", "bc"]),
    ],
)
def test_without_data_all_topologies_that_satisfy_constraints_are_alike(taxa, clades):
    constraints = constrained(taxa, *clades)
    alignment = Alignment.from_sequences(TAXA[:taxa], ["NN"] * taxa)
    target = replace(target_of(alignment, "JC"), constraints=constraints)
    allowed = all_topologies(taxa)
    allowed = allowed[np.flatnonzero(constraints.hold(allowed))]
    starts = ChainStarts(
        TopologyBatch.concatenate([allowed[-1]] * CHAINS),
        np.full((CHAINS, 2 * taxa - 3), 0.1),
        1,
        no_parameters(CHAINS),
        no_parameters(0),
    )
    trees = run_chains(target, tuple(TAXA[:taxa]), starts, 40, stream=STREAM)
    assert constraints.hold(trees.topologies).all()
    last = trees.by_chain[:, -1]
    found = np.bincount(TopologyIndex(allowed).find(trees.topologies[last]), minlength=len(allowed))
    assert stats.chisquare(found).pvalue > 1e-3
    for branch in range(2 * taxa - 3):
        assert stats.kstest(trees.branch_lengths[last, branch], stats.expon(scale=1 / RATE).cdf).pvalue > 1e-4


@pytest.mark.parametrize("model", ["JC", "GTR+I+G", GAMMA_DIRICHLET, UNIFORM])
@pytest.mark.parametrize("clades", [["bc"], ["de"], ["bc", "def"], ["cd", "bcd"]])
def test_a_round_leaves_the_posterior_of_satisfying_trees_as_it_is(model, clades):
    posterior, constraints = known_posterior(model, 6, 6), constrained(6, *clades)
    holds = constraints.hold(posterior.topologies)
    weights = np.where(holds[posterior.number], posterior.weights, 0)
    weights /= weights.sum()
    worth = 1 / (weights**2).sum()
    chosen = np.random.default_rng(9).choice(len(weights), CHAINS, p=weights)
    starts = ChainStarts(
        posterior.topologies[posterior.number[chosen]],
        posterior.lengths[chosen],
        CHAINS,
        no_parameters(CHAINS),
        no_parameters(0),
    )
    target = replace(posterior.target, constraints=constraints)
    trees = run_chains(target, tuple(TAXA[:6]), starts, 3, stream=STREAM)
    last = trees.by_chain[:, -1]
    assert constraints.hold(trees.topologies).all()
    assert (trees.topologies.parent[last] != starts.topologies.parent).any(axis=1).mean() > 0.2
    number = posterior.index.find(trees.topologies[last])
    expected = CHAINS * np.bincount(posterior.number, weights, minlength=len(holds))[holds]
    surplus = (np.bincount(number, minlength=len(holds))[holds] - expected) ** 2 / expected / (1 + CHAINS / worth)
    assert stats.chi2.sf(surplus.sum(), holds.sum() - 1) > 1e-3
    mean = weights @ posterior.lengths
    error = np.sqrt(weights @ (posterior.lengths - mean) ** 2 * (1 / CHAINS + 1 / worth))
    assert (np.abs(trees.branch_lengths[last].mean(axis=0) - mean) < 4 * error).all()


def test_starts_must_satisfy_the_constraints():
    posterior, constraints = known_posterior("JC", 5, 6), constrained(5, "bc")
    wrong = posterior.topologies[np.flatnonzero(~constraints.hold(posterior.topologies))[:2]]
    starts = ChainStarts(wrong, np.full((2, 7), 0.1), 2, no_parameters(2), no_parameters(0))
    with pytest.raises(BadArgument, match="some starts do not satisfy the constraints"):
        run_chains(replace(posterior.target, constraints=constraints), tuple("abcde"), starts, 1, stream=STREAM)
