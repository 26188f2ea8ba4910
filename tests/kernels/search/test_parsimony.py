"""Parsimony scores against other ways to count changes; additions and moves against trying every branch."""

from io import StringIO

import numpy as np
import pytest
from Bio import Phylo
from Bio.Align import MultipleSeqAlignment
from Bio.Phylo.TreeConstruction import ParsimonyScorer
from Bio.Seq import Seq
from Bio.SeqRecord import SeqRecord
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from phloem.kernels.search.parsimony import LANES, parsimony_scores, regraft_subtrees, stepwise_addition
from phloem.random_streams import RandomStream
from phloem.trees.generation import all_topologies, random_topologies
from phloem.trees.topology import TopologyBatch
from reference import nested, plain_parsimony
from reference.plain_moves import from_splits, subtree_moves
from support.strategies import topology_batches

seeds = st.integers(0, 2**32)


def random_states(random, taxa, patterns, ambiguous):
    """Columns that follow a hidden order of the taxa, so that they have something to say, with some noise."""
    position = random.permutation(taxa)
    borders = random.integers(0, taxa + 1, (2, patterns))
    letters = random.integers(0, 4, (2, patterns))
    inside = (position[:, None] >= borders.min(0)) & (position[:, None] < borders.max(0))
    state = np.where(inside, letters[0], letters[1])
    state = np.where(random.random(state.shape) < 0.1, random.integers(0, 4, state.shape), state)
    codes = (1 << state).astype(np.uint8)
    if ambiguous:
        blurred = random.random(codes.shape) < 0.25
        codes[blurred] |= random.integers(0, 16, codes.shape, dtype=np.uint8)[blurred]
    return codes


def random_weights(random, patterns):
    return random.integers(1, 9, patterns)


def as_nested(topologies):
    return [nested.from_parent(parent.tolist(), topologies.taxon_count) for parent in topologies.parent]


@given(seeds, st.integers(3, 20), st.integers(0, 2 * LANES + 3), st.booleans())
@settings(max_examples=30)
def test_scores_are_those_of_fitchs_sets_by_recursion(seed, taxa, patterns, ambiguous):
    random = np.random.default_rng(seed)
    topologies = random_topologies(taxa, 2, stream=RandomStream(seed, "test"))
    states, weights = random_states(random, taxa, patterns, ambiguous), random_weights(random, patterns)
    expected = [plain_parsimony.score(tree, states, weights) for tree in as_nested(topologies)]
    assert parsimony_scores(topologies.neighbors, states, weights).tolist() == expected


@given(seeds, st.integers(3, 6))
@settings(max_examples=20)
def test_scores_are_the_least_over_all_states_of_interior_nodes_whatever_is_ambiguous(seed, taxa):
    random = np.random.default_rng(seed)
    topologies = random_topologies(taxa, 1, stream=RandomStream(seed, "test"))
    states = random.integers(1, 16, (taxa, 5), dtype=np.uint8)
    expected = [plain_parsimony.least_changes(topologies.parent[0], column) for column in states.T]
    scores = [
        parsimony_scores(topologies.neighbors, states, row).item() for row in np.eye(states.shape[1], dtype=np.int64)
    ]
    assert scores == expected


@pytest.mark.parametrize(("taxa", "sites"), [(4, 30), (11, 100), (27, 150)])
def test_scores_are_biopythons(taxa, sites):
    random = np.random.default_rng(taxa)
    states = random_states(random, taxa, sites, ambiguous=False)
    names = [f"taxon{taxon:02}" for taxon in range(taxa)]
    letters = np.array(list("-AC-G---T"))[states]
    alignment = MultipleSeqAlignment(
        [SeqRecord(Seq("".join(row)), id=name) for name, row in zip(names, letters, strict=True)]
    )
    topologies = random_topologies(taxa, 5, stream=RandomStream(1, "test"))
    scores = parsimony_scores(topologies.neighbors, states, np.ones(sites, np.int64))
    for tree, score in zip(as_nested(topologies), scores, strict=True):
        rooted = Phylo.read(StringIO(nested.to_newick((tree[0], tree[1:]), names)), "newick", rooted=True)
        assert ParsimonyScorer().get_score(rooted, alignment) == score


@given(seeds, st.integers(4, 10), st.sampled_from([1, 5, LANES, LANES + 1]), st.booleans())
@settings(max_examples=30)
def test_every_taxon_goes_where_no_other_branch_is_better(seed, taxa, patterns, ambiguous):
    random = np.random.default_rng(seed)
    states, weights = random_states(random, taxa, patterns, ambiguous), random_weights(random, patterns)
    order = random.permutation(taxa).astype(np.int32)
    parents = stepwise_addition(states, weights, order[None], random.random((1, taxa - 3)))
    (tree,) = as_nested(TopologyBatch.from_parents(parents))
    for place in range(3, taxa):
        before = nested.restricted(tree, frozenset(order[:place].tolist()))
        after = nested.restricted(tree, frozenset(order[: place + 1].tolist()))
        possible = list(nested.with_leaf(before, int(order[place])))
        assert len(possible) == 2 * place - 3
        scores = [plain_parsimony.score(grown, states, weights) for grown in possible]
        assert plain_parsimony.score(after, states, weights) == min(scores)


@pytest.mark.parametrize("ambiguous", [False, True])
def test_in_a_larger_tree_no_other_branch_is_better_either(ambiguous):
    random = np.random.default_rng(9)
    taxa = 40
    states, weights = random_states(random, taxa, 150, ambiguous), random_weights(random, 150)
    order = np.arange(taxa, dtype=np.int32)
    parents = stepwise_addition(states, weights, order[None], random.random((1, taxa - 3)))
    (tree,) = as_nested(TopologyBatch.from_parents(parents))
    for place in range(3, taxa):
        before, after = (nested.restricted(tree, frozenset(range(count))) for count in (place, place + 1))
        possible = [nested.to_parent(grown, place + 1) for grown in (after, *nested.with_leaf(before, place))]
        neighbors = TopologyBatch.from_parents(np.stack(possible)).neighbors
        chosen, *others = parsimony_scores(neighbors, states[: place + 1], weights)
        assert chosen == min(others)


@given(seeds, st.integers(4, 8))
@settings(max_examples=20)
def test_every_branch_that_is_as_good_can_be_picked(seed, taxa):
    random = np.random.default_rng(seed)
    states, weights = random_states(random, taxa, 6, True), random_weights(random, 6)
    last = 2 * taxa - 5  # branches before the last taxon
    picks = np.tile(random.random(taxa - 3), (60 * last, 1))
    picks[:, -1] = np.arange(len(picks)) / len(picks)
    orders = np.tile(random.permutation(taxa).astype(np.int32), (len(picks), 1))
    topologies = TopologyBatch.from_parents(stepwise_addition(states, weights, orders, picks))
    final = int(orders[0, -1])
    before = nested.restricted(as_nested(topologies[0])[0], frozenset(orders[0, :-1].tolist()))
    possible = list(nested.with_leaf(before, final))
    scores = np.array([plain_parsimony.score(tree, states, weights) for tree in possible])
    best = {nested.nontrivial_splits(possible[place]) for place in np.flatnonzero(scores == scores.min())}
    reached = [nested.nontrivial_splits(tree) for tree in as_nested(topologies)]
    assert set(reached) == best
    # Picks are evenly spaced, and so every one of the m best has a share of 1/m, up to the ends of its interval.
    assert all(abs(reached.count(splits) - len(picks) / len(best)) <= 1 for splits in best)


def test_patterns_that_say_nothing_give_uniform_trees():
    count = 105 * 200
    random = np.random.default_rng(3)
    orders = np.argsort(random.random((count, 6)), axis=1).astype(np.int32)
    states, weights = np.full((6, 3), 15, np.uint8), np.ones(3, np.int64)
    topologies = TopologyBatch.from_parents(stepwise_addition(states, weights, orders, random.random((count, 3))))
    _, counts = np.unique(topologies.parent, axis=0, return_counts=True)
    assert len(counts) == 105
    assert stats.chisquare(counts).pvalue > 1e-3


def test_a_batch_is_its_trees_one_by_one_whatever_was_there_before():
    random = np.random.default_rng(5)
    states, weights = random_states(random, 15, 100, True), random_weights(random, 100)
    orders = np.argsort(random.random((8, 15)), axis=1).astype(np.int32)
    picks = random.random((8, 12))
    together = stepwise_addition(states, weights, orders, picks)
    for tree in range(8):
        own = slice(tree, tree + 1)
        np.testing.assert_array_equal(together[own], stepwise_addition(states, weights, orders[own], picks[own]))


def test_the_largest_pick_is_one_of_the_best():
    states, weights = np.full((30, 1), 15, np.uint8), np.ones(1, np.int64)
    picks = np.full((1, 27), np.nextafter(1.0, 0.0))
    TopologyBatch.from_parents(stepwise_addition(states, weights, np.arange(30, dtype=np.int32)[None], picks))


def test_columns_along_a_tree_lead_to_that_tree():
    for tree in all_topologies(6)[:20]:
        splits = nested.nontrivial_splits(as_nested(tree)[0])
        states = np.array([[2 if taxon in split else 1 for split in splits] for taxon in range(6)], np.uint8)
        orders = np.argsort(np.random.default_rng(1).random((10, 6)), axis=1).astype(np.int32)
        parents = stepwise_addition(states, np.ones(3, np.int64), orders, np.full((10, 3), 0.5))
        assert (TopologyBatch.from_parents(parents).parent == tree.parent).all()


def random_data(random, taxa, patterns):
    """Columns with a side of the taxa marked, some of them blurred."""
    codes = np.where(random.random((taxa, patterns)) < random.uniform(0.2, 0.5, patterns), 1, 2)
    codes[random.random(codes.shape) < 0.1] = 15
    return codes.astype(np.uint8), random.integers(1, 5, patterns)


def scores_of(topologies, states, weights):
    return parsimony_scores(topologies.neighbors, states, weights)


def moved(topology, states, weights, rounds=50):
    return TopologyBatch.from_parents(regraft_subtrees(states, weights, topology.parent[0], rounds)[None])


def as_topology(splits, taxa):
    trivial = [frozenset([leaf]) for leaf in range(1, taxa)] + [frozenset(range(1, taxa))]
    return from_splits(dict.fromkeys([*splits, *trivial], 0.1))[0]


@given(topology_batches(least=4, most=9, trees=1), seeds, st.integers(1, 80))
@settings(max_examples=20)
def test_no_move_of_a_subtree_without_taxon_0_is_left_that_improves(topology, seed, patterns):
    taxa = topology.taxon_count
    states, weights = random_data(np.random.default_rng(seed), taxa, patterns)
    found = moved(topology, states, weights)
    (score,) = scores_of(found, states, weights)
    others = {tree for clade, trees in subtree_moves(found).items() if 0 not in clade for tree in trees}
    batch = TopologyBatch.concatenate([as_topology(splits, taxa) for splits in others])
    assert scores_of(batch, states, weights).min() >= score


@given(topology_batches(least=4, most=40, trees=1), seeds, st.integers(1, 150), st.integers(0, 3))
@settings(max_examples=40)
def test_the_score_never_rises_and_more_rounds_never_hurt(topology, seed, patterns, rounds):
    states, weights = random_data(np.random.default_rng(seed), topology.taxon_count, patterns)
    (before,) = scores_of(topology, states, weights)
    (some,) = scores_of(moved(topology, states, weights, rounds), states, weights)
    (more,) = scores_of(moved(topology, states, weights, rounds + 1), states, weights)
    assert more <= some <= before
    if rounds == 0:
        assert some == before


@pytest.mark.parametrize("start", range(3))
def test_four_taxa_find_the_best_of_three_trees(start):
    states = np.array([[1, 1, 1], [1, 2, 2], [2, 1, 1], [2, 2, 2]], np.uint8)
    found = moved(all_topologies(4)[start], states, np.ones(3, np.int64))
    (score,) = scores_of(found, states, np.ones(3, np.int64))
    assert score == scores_of(all_topologies(4), states, np.ones(3, np.int64)).min() == 4


@given(topology_batches(least=3, most=30, trees=1))
@settings(max_examples=20)
def test_where_nothing_is_better_the_tree_stays(topology):
    states = np.full((topology.taxon_count, 3), 15, np.uint8)
    assert moved(topology, states, np.ones(3, np.int64)).equal(topology).all()


@given(topology_batches(least=4, most=10, trees=1), seeds)
@settings(max_examples=20)
def test_columns_along_a_tree_lead_back_to_it_from_one_move_away(topology, seed):
    """Every split of the tree is a column, so each move away from it costs at least one change."""
    taxa = topology.taxon_count
    random = np.random.default_rng(seed)
    moves = {clade: sorted(trees, key=str) for clade, trees in subtree_moves(topology).items() if trees}
    clade = sorted((clade for clade in moves if 0 not in clade), key=sorted)[0]
    away = as_topology(moves[clade][int(random.integers(len(moves[clade])))], taxa)
    splits = sorted(as_splits(topology), key=sorted)
    states = np.array([[2 if taxon in split else 1 for split in splits] for taxon in range(taxa)], np.uint8)
    weights = np.ones(len(splits), np.int64)
    nested_score = plain_parsimony.score(nested_of(topology), states, weights)
    assert nested_score == len(splits)
    (score,) = scores_of(moved(away, states, weights), states, weights)
    assert score == nested_score


def nested_of(topology):
    return nested.from_parent(topology.parent[0].tolist(), topology.taxon_count)


def as_splits(topology):
    return nested.nontrivial_splits(nested_of(topology))
