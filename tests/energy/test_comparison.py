"""A density beside other estimates, each against plain dictionaries."""

import math

import numpy as np
import pytest

from phloem.energy.comparison import PSEUDO_COUNT, compare, seen_share
from phloem.energy.density import TreeDensity
from phloem.errors import BadArgument
from phloem.random_streams import RandomStream
from phloem.trees.generation import all_topologies, random_topologies
from phloem.variational.fitting import fit_network
from reference.dictionary_sbn import Counts, collect, em_step, probability
from reference.nested import Nested, from_parent
from support.small_densities import density_of, sample_of, target, training_of


def example(taxa: int = 6) -> TreeDensity:
    """Fitted to a few of all topologies."""
    full = target(taxa, concentration=0.5)
    sample = full[[3, 10, 11, 40, 41, 77]]
    training = training_of(sample, noise="sbn")
    for _ in range(10):
        training.step()
    return density_of(training, sample)


def nested(topologies) -> list[Nested]:
    return [from_parent(parent, topologies.taxon_count) for parent in topologies.parent.tolist()]


def tables_of(sample, iterations: int) -> Counts:
    """SBN-SA, or with iterations SBN-EM, by dictionaries."""
    trees, weights = nested(sample.topologies), sample.weights.tolist()
    support = {parent: dict.fromkeys(subsplits, 0.0) for parent, subsplits in collect(trees).items()}
    tables = em_step(trees, weights, None, PSEUDO_COUNT, support)
    for _ in range(iterations):
        tables = em_step(trees, weights, tables, PSEUDO_COUNT, support)
    return tables


def test_every_row_is_a_plain_computation():
    density = example()
    held_out = sample_of(all_topologies(6)[[10, 3, 50, 10, 41, 60]], [1, 2, 3, 4, 5, 0])
    shares = {10: 5 / 15, 3: 2 / 15, 50: 3 / 15, 41: 5 / 15}
    trees = nested(all_topologies(6))
    known = dict(zip(nested(density.observed.topologies), density.observed.weights.tolist(), strict=True))
    averaged = tables_of(density.observed, 0)
    em = tables_of(density.observed, len(fit_network(density.observed, smoothing=PSEUDO_COUNT).iterations) - 1)
    log_prob = density.log_prob(all_topologies(6))
    plain = {
        "frequencies": lambda tree: known.get(trees[tree], 0.0),
        "SBN-SA": lambda tree: probability(trees[tree], averaged),
        "SBN-EM": lambda tree: probability(trees[tree], em),
    }
    expected = {"energy": sum(share * log_prob[tree] for tree, share in shares.items())}
    for name, estimate in plain.items():
        expected[name] = sum(share * math.log(0.9 * estimate(tree) + 0.1 / 105) for tree, share in shares.items())
    found = {row.estimate: row for row in compare(density, held_out, 0.1)}
    assert set(found) == set(expected)
    own = sum(share * math.log(share) for share in shares.values())
    for name, row in found.items():
        assert row.log_probability == pytest.approx(expected[name], abs=1e-5), name
        assert row.divergence == pytest.approx(own - expected[name], abs=1e-5), name
        assert row.divergence >= 0


def test_the_density_comes_first():
    assert compare(example(), target(6), 0.01)[0].estimate == "energy"


def test_no_tree_is_impossible():
    density = example()
    for seed in range(5):
        held_out = sample_of(random_topologies(6, 20, stream=RandomStream(seed, "held out")), np.ones(20))
        for row in compare(density, held_out, 1e-4):
            assert math.isfinite(row.log_probability)
            assert row.log_probability < 0
            assert math.isfinite(row.divergence)


def test_estimates_of_their_own_sample_are_best_by_its_frequencies():
    density = example()
    rows = {row.estimate: row.log_probability for row in compare(density, density.observed, 1e-6)}
    assert rows["frequencies"] == max(rows.values())
    assert rows["SBN-EM"] >= rows["SBN-SA"]


@pytest.mark.parametrize("smoothing", [0, 1, -1, math.nan])
def test_smoothing_is_a_share(smoothing):
    with pytest.raises(BadArgument, match=r"--smoothing .*: give .* between 0 and 1"):
        compare(example(), target(6), smoothing)


def test_the_seen_share_is_the_weight_on_topologies_of_the_sample():
    topologies = all_topologies(6)
    sample = sample_of(topologies[[1, 2, 3]], [1, 1, 0])
    trees = sample_of(topologies[[2, 5, 3, 1, 2]], [0.1, 0.2, 0.3, 0.15, 0.25])
    assert seen_share(sample, trees) == pytest.approx(0.1 + 0.15 + 0.25)
    assert seen_share(sample, trees[[1]]) == 0
    heavy = sample_of(trees.topologies, 4 * trees.weights)
    assert seen_share(sample, heavy) == pytest.approx(0.5)
