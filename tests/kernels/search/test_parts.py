"""Parts of an alignment with models of their own: trees, interchanges and regrafts against the likelihood engine."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phloem.config import ModelConfig
from phloem.data.partitions import SitePartition
from phloem.data.patterns import SitePatterns, compress
from phloem.kernels.search.branch import LANES
from phloem.search.surface import Blocks, SearchTree, Surface
from phloem.target.free_parameters import FreeParameters
from phloem.target.likelihood import TreeLikelihood
from phloem.target.partitioned import PartitionedModel
from phloem.target.posterior import TreePosterior
from phloem.target.substitution import build_model
from phloem.trees.topology import TopologyBatch
from support.search_cases import (
    MODELS,
    log_likelihood,
    pattern_log_likelihoods,
    placed,
    random_lengths,
    random_patterns,
    scalar,
)
from support.strategies import topology_batches

# Of log-likelihoods: what rounding in single precision does to a pattern, and to the tree.
OF_PATTERN, OF_TREE = 1e-5, 1e-6
TOLERANCE = 1e-4

names = st.lists(st.sampled_from(sorted(MODELS)), min_size=1, max_size=4)
trees = topology_batches(least=4, most=10, trees=1)
seeds = st.integers(0, 2**32)


def patterns_of(taxa: int, parts: int, seed: int) -> SitePatterns:
    """Parts of few and of many sites, in no order."""
    random = np.random.default_rng(seed)
    sizes = random.choice([1, 3, LANES, LANES + 1, 60], parts)
    part_of_site = random.permutation(np.repeat(np.arange(parts, dtype=np.int32), sizes))
    alignment = random_patterns(taxa, int(sizes.sum()), seed, "ACGTACGTRYN-").alignment
    labels = tuple(f"part {part}" for part in range(parts))
    return compress(alignment, SitePartition(labels, part_of_site, (None,) * parts))


def surface_of(topology: TopologyBatch, seed: int, models: list[str]) -> Surface:
    patterns = patterns_of(topology.taxon_count, len(models), seed)
    assert patterns.partition is not None
    return Surface(patterns, PartitionedModel(patterns.partition.names, tuple(MODELS[name] for name in models)))


@given(trees, seeds, names)
@settings(max_examples=40)
def test_a_placed_tree_has_the_likelihood_of_the_engine(topology, seed, models):
    surface, lengths = surface_of(topology, seed, models), random_lengths(topology, seed)
    tree = placed(surface, topology, lengths)
    expected = pattern_log_likelihoods(surface, topology, lengths)
    np.testing.assert_allclose(tree.sites[surface.blocks.places], expected, rtol=OF_PATTERN, atol=OF_PATTERN)
    assert tree.smooth(0, 1.0) == pytest.approx(log_likelihood(surface, topology, lengths), rel=OF_TREE)
    assert tree.smooth(3, 1e-3) == pytest.approx(log_likelihood(surface, *tree.current()), rel=OF_TREE)


@given(trees, seeds, names)
@settings(max_examples=15)
def test_interchanges_across_all_branches_have_the_likelihoods_of_the_engine(topology, seed, models):
    surface, lengths = surface_of(topology, seed, models), random_lengths(topology, seed)
    tree = placed(surface, topology, lengths)
    for least in (np.inf, -np.inf):
        scored = tree.score(tree.inner_branches, least=least, tolerance=TOLERANCE)
        for place, move in enumerate(scored.moves.tolist()):
            other = SearchTree(surface)
            other.place(topology, lengths)
            other.interchange(move, scored.lengths[place])
            expected = log_likelihood(surface, *other.current())
            assert scored.log_likelihoods[place] == pytest.approx(expected, rel=OF_TREE)


@given(trees, seeds, names)
@settings(max_examples=10)
def test_a_regraft_has_the_likelihood_of_the_engine_at_some_length(topology, seed, models):
    """Only the branch that carries the subtree is fitted, and what it is fitted to is no result."""
    surface, lengths = surface_of(topology, seed, models), random_lengths(topology, seed)
    tree = placed(surface, topology, lengths)
    node = int(np.random.default_rng(seed).choice(tree.movable))
    for place, value in zip(*tree.score_regrafts(node, tolerance=TOLERANCE), strict=True):
        after = SearchTree(surface)
        after.place(topology, lengths)
        after.regraft(node, int(place))
        parent, children, own = after.copy_state()
        found = []
        for length in np.geomspace(1e-8, 100.0, 200):
            own[node] = length
            after.restore((parent, children, own))
            found.append(log_likelihood(surface, *after.current()))
        peaks = [
            max(found[max(k - 1, 0) : k + 2])
            for k in range(len(found))
            if found[k] == max(found[max(k - 1, 0) : k + 2])
        ]
        assert min(abs(value - peak) for peak in peaks) < 0.1


@given(trees, seeds, st.lists(st.sampled_from(["JC", "JC+I", "HKY+G4", "GTR+I+G4"]), min_size=2, max_size=3))
@settings(max_examples=25)
def test_every_chain_may_have_models_of_its_own(topology, seed, models):
    patterns = patterns_of(topology.taxon_count, len(models), seed)
    assert patterns.partition is not None
    configs = [ModelConfig(name) for name in models]
    fixed = tuple(build_model(config, own) for config, own in zip(configs, patterns.parts, strict=True))
    parameters = FreeParameters.of(configs, fixed, sizes=patterns.partition.sizes)
    assert parameters is not None
    model = PartitionedModel(patterns.partition.names, fixed)
    target = TreePosterior(TreeLikelihood(patterns, model, threads=1, states_differ=True), parameters=parameters)
    theta = np.random.default_rng(seed).normal(0, 0.7, (3, target.dimension))
    tables, lengths = parameters.at(theta).rates.tables, random_lengths(topology, seed)
    tree = SearchTree(Surface(patterns, model, states_differ=True))
    for number in range(3):
        tree.take_rates(tables, number)
        tree.place(topology, lengths)
        own = theta[number : number + 1]
        expected = target.log_likelihood(topology, scalar(lengths[None]), scalar(own)).item()
        assert tree.smooth(0, 1.0) == pytest.approx(expected, rel=OF_TREE)


def test_parts_fill_whole_blocks():
    blocks = Blocks.of(np.array([0, 1, 1 + LANES, 2 + 2 * LANES]))
    assert blocks.bounds.tolist() == [0, 1, 2, 4]
    filled = blocks.fill(np.arange(2.0 + 2 * LANES), -1.0)
    assert filled.shape == (4, LANES)
    assert filled[0].tolist() == [0.0, *[-1.0] * (LANES - 1)]
    assert filled[1].tolist() == list(range(1, 1 + LANES))
    assert filled[2:].ravel().tolist() == [*range(1 + LANES, 2 + 2 * LANES), *[-1.0] * (LANES - 1)]
