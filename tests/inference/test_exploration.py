"""Chains from bootstrap trees: where they start, what they say of a posterior, and that they are the same again."""

import numpy as np
import pytest

from phloem.config import InferConfig, ModelConfig
from phloem.data.alignment import Alignment
from phloem.data.patterns import compress
from phloem.inference.exploration import ROUNDS, explore
from phloem.random_streams import RandomStream
from phloem.target.posterior import TreePosterior
from phloem.tasks.run_files import build_target
from phloem.trees.generation import random_topologies
from phloem.trees.sample import TreeSample
from phloem.trees.topology import TopologyBatch

TAXA = tuple(f"t{number}" for number in range(9))


def target_of(sites: int, *, same: bool, taxa: tuple[str, ...] = TAXA) -> TreePosterior:
    """Of random letters, or of an alignment in which every taxon has a few sites like all before it."""
    random = np.random.default_rng(1)
    letters = random.integers(0, 4, (len(taxa), sites))
    if same:
        for taxon in range(1, len(taxa)):
            kept = random.random(sites) < 0.9
            letters[taxon, kept] = letters[taxon - 1, kept]
    sequences = ["".join("ACGT"[letter] for letter in row) for row in letters]
    return build_target(compress(Alignment.from_sequences(taxa, sequences)), InferConfig(model=ModelConfig("JC")))


def sample_of(topologies: TopologyBatch) -> TreeSample:
    taxa = TAXA[: topologies.taxon_count]
    return TreeSample(taxa, topologies, np.ones(len(topologies)), None)


def random_samples(count: int, trees: int = 5) -> list[TreeSample]:
    return [sample_of(random_topologies(len(TAXA), trees, stream=RandomStream(n, "trees"))) for n in range(count)]


@pytest.mark.parametrize(("sites", "same", "is_wide"), [(10, False, True), (2000, True, False)])
def test_data_that_say_little_have_a_wide_posterior(sites, same, is_wide):
    told = []
    found = explore(
        target_of(sites, same=same),
        random_samples(3),
        chains=20,
        stream=RandomStream(1, "explore"),
        progress=told.append,
    )
    assert found.is_wide == is_wide
    assert (found.chains, found.rounds) == (20, ROUNDS * (1 + is_wide))
    assert len(found.trees.topologies.distinct()[0]) == len(found.trees)
    assert found.trees.weights.sum() == pytest.approx(1)
    assert told == sorted(told)
    assert told[-1] == 1
    if not is_wide:
        assert found.trees.weights.max() > 0.5


def test_the_same_stream_gives_the_same_trees_on_any_number_of_threads():
    target = target_of(30, same=True)
    one, two, other = (
        explore(target, random_samples(3), chains=12, stream=RandomStream(seed, "explore"), threads=threads).trees
        for seed, threads in ((1, 1), (1, 2), (2, 1))
    )
    np.testing.assert_array_equal(one.topologies.parent, two.topologies.parent)
    np.testing.assert_array_equal(one.weights, two.weights)
    assert len(one) != len(other) or (one.topologies.parent != other.topologies.parent).any()


def test_every_sample_has_its_share_of_the_starts(monkeypatch):
    seen = []

    def stop(_target, _taxa, starts, _rounds, **_options):
        seen.append(starts)
        raise KeyboardInterrupt

    monkeypatch.setattr("phloem.inference.exploration.run_chains", stop)
    trees = random_topologies(len(TAXA), 4, stream=RandomStream(3, "trees"))
    samples = [
        TreeSample(TAXA, trees[:2], np.array([3.0, 1.0]), None),
        TreeSample(TAXA, trees[2:3], np.ones(1), None),
        TreeSample(TAXA, trees[3:], np.ones(1), None),
    ]
    for chains, expected in ((12, [3, 1, 4, 4]), (6, [1.5, 0.5, 2, 2]), (2, [0.75, 0.25, 1, 0])):
        with pytest.raises(KeyboardInterrupt):
            explore(target_of(30, same=True), samples, chains=chains, stream=RandomStream(1, "explore"))
        starts = seen.pop()
        counts = [int((starts.topologies.parent == parent).all(axis=1).sum()) for parent in trees.parent]
        np.testing.assert_array_less(np.abs(np.array(counts) - expected), 1)
        assert sum(counts) == chains
        assert starts.distinct == sum(map(bool, counts))
        assert starts.branch_lengths.shape == (chains, trees.branch_count)
