"""The support: the same tables as dictionaries of frozensets, for any number of taxa and in any order."""

import numpy as np
import pytest
from hypothesis import given

from phloem.errors import BadArgument, TaxonMismatch
from phloem.random_streams import RandomStream
from phloem.trees.generation import all_topologies, nni_neighbors, random_topologies
from phloem.trees.reading import parse_newick, read_trees
from phloem.trees.sample import TreeSample, pool
from phloem.trees.splits import split_bits, unpack_bits
from phloem.trees.topology import TopologyBatch
from phloem.variational.sbn import SubsplitNetwork, collect_support, support_of
from reference.dictionary_sbn import collect, rootings, uses
from reference.nested import from_parent
from support.sbn_tables import as_dictionary
from support.strategies import related_topologies


def names(count: int) -> tuple[str, ...]:
    return tuple(f"taxon {number}" for number in range(count))


def nested(topologies: TopologyBatch) -> list:
    return [from_parent(parent, topologies.taxon_count) for parent in topologies.parent]


@given(related_topologies(most=10))
def test_tables_are_those_of_the_dictionary_oracle(topologies):
    support = support_of(names(topologies.taxon_count), topologies)
    tables = as_dictionary(support, np.zeros(support.entry_count))
    assert {parent: set(table) for parent, table in tables.items()} == collect(nested(topologies))


@given(related_topologies(most=10))
def test_the_layout_is_what_the_docstring_says(topologies):
    support = support_of(names(topologies.taxon_count), topologies)
    sizes = np.diff(support.starts)
    assert support.topology_count == len(topologies)
    assert sizes[0] == len(support.splits)
    assert support.starts[-1] == support.entry_count == len(support.children)
    if len(topologies) == 1:
        assert support.parameter_count == 0
    else:
        assert (sizes[: support.free_tables] > 1).all()
        assert (sizes[support.free_tables :] == 1).all()
        assert support.parameter_count == sizes[sizes > 1].sum()
    members = unpack_bits(support.clades, len(support.taxa))
    assert (members[: len(support.taxa)] == np.eye(len(support.taxa))).all()
    assert (members[support.splits[:, 0]] != members[support.splits[:, 1]]).all()


@given(related_topologies(most=10))
def test_every_entry_leads_to_the_tables_of_its_halves(topologies):
    support = support_of(names(topologies.taxon_count), topologies)
    for entry in range(support.entry_count):
        part = support.splits if entry < len(support.splits) else support.subsplits
        halves = part[support.divisions[entry]]
        for side in (0, 1):
            child = support.children[entry, side]
            if halves[side] < len(support.taxa):
                assert child == -1 - halves[side]
                continue
            first = support.starts[child]
            assert child > 0
            assert support.sisters[first] == halves[1 - side]
            divided = support.clades[support.subsplits[support.divisions[first]]]
            assert (divided[0] | divided[1] == support.clades[halves[side]]).all()


@given(related_topologies(most=9))
def test_a_located_tree_has_the_splits_and_primary_subsplits_of_its_branches(topologies):
    taxa = topologies.taxon_count
    support = support_of(names(taxa), topologies)
    indices = support.indices(topologies)
    members = unpack_bits(support.clades, taxa)
    np.testing.assert_array_equal(members[support.splits[indices.splits, 0]], unpack_bits(split_bits(topologies), taxa))
    everything = frozenset(range(taxa))
    for tree, form in enumerate(nested(topologies)):
        # In the rooting on a branch, each side's subsplit has the other side for a sister.
        expected = {}
        for rooted in rootings(form):
            for (sister, clade), subsplit in uses(rooted):
                if sister and sister | clade == everything:
                    expected[clade] = subsplit
        for branch in range(topologies.branch_count):
            below = frozenset(members[support.splits[indices.splits[tree, branch], 0]].nonzero()[0].tolist())
            for side, clade in enumerate((below, everything - below)):
                number = indices.subsplits[tree, branch, side]
                if len(clade) == 1:
                    assert number == -1
                else:
                    halves = members[support.subsplits[number]]
                    found = frozenset(frozenset(half.nonzero()[0].tolist()) for half in halves)
                    assert found == expected[clade]


def test_what_a_tree_lacks_is_marked():
    topologies = all_topologies(6)
    support = support_of(names(6), topologies[:1])
    indices = support.indices(topologies)
    lacking = (indices.splits < 0).any(axis=1)
    assert lacking.sum() == 104
    assert (indices.entries[lacking] < 0).any(axis=(1, 2, 3)).all()
    assert (indices.entries[0] >= 0).any()


def test_a_support_does_not_depend_on_how_many_trees_are_looked_at_a_time(monkeypatch):
    topologies = nni_neighbors(random_topologies(40, 4, stream=RandomStream(3, "trees")))
    whole = support_of(names(40), topologies)
    monkeypatch.setattr("phloem.variational.sbn.CHUNK_PAIRS", 1)
    single = support_of(names(40), topologies)
    for part in ("clades", "splits", "subsplits", "sisters", "divisions", "starts", "children"):
        np.testing.assert_array_equal(getattr(whole, part), getattr(single, part))


@pytest.mark.parametrize("taxa", [64, 65, 300])
def test_supports_of_many_taxa_have_the_counts_of_one_tree_and_its_neighbours(taxa):
    tree = random_topologies(taxa, 1, stream=RandomStream(taxa, "trees"))
    topologies = TopologyBatch.concatenate([tree, nni_neighbors(tree)])
    support = support_of(names(taxa), topologies)
    assert len(support.splits) == (2 * taxa - 3) + 2 * (taxa - 3)  # each neighbour brings one new split
    assert support.generates(topologies).all()
    assert not support.generates(random_topologies(taxa, 5, stream=RandomStream(1, "others"))).any()


@pytest.mark.parametrize("at_a_time", [1, 10**6])
def test_two_clades_with_the_same_hash_are_found_out(at_a_time, monkeypatch):
    monkeypatch.setattr("phloem.variational.sbn.CHUNK_PAIRS", at_a_time)
    taxa = tuple("abcdefg")
    keys = np.array([64, 32, 1, 2, 4, 1 ^ 2 ^ 4, 16], np.uint64)[:, None].repeat(2, axis=1)  # c and f like d and e
    one, other = parse_newick(["(a,c,(f,(b,(g,(d,e)))));", "(a,d,(e,(b,(g,(c,f)))));"], taxa=taxa).topologies
    support_of(taxa, one, keys)
    support_of(taxa, other, keys)
    with pytest.raises(BadArgument, match="same hash"):
        support_of(taxa, TopologyBatch.concatenate([one, other]), keys)


@given(related_topologies(most=10))
def test_tables_and_entries_keep_the_order_of_first_appearance(topologies):
    support = support_of(names(topologies.taxon_count), topologies)
    indices = support.indices(topologies)
    assert indices.splits.reshape(-1)[np.sort(np.unique(indices.splits, return_index=True)[1])].tolist() == list(
        range(len(support.splits))
    )
    used = indices.entries.reshape(-1)
    used = used[used >= 0]
    first = {int(entry): place for place, entry in reversed(list(enumerate(used)))}
    for start, end in zip(support.starts[1:-1], support.starts[2:], strict=True):
        places = [first[entry] for entry in range(start, end)]
        assert places == sorted(places)
    free = [first[int(start)] for start in support.starts[1 : support.free_tables]]
    fixed = [first[int(start)] for start in support.starts[max(1, support.free_tables) : -1]]
    assert free == sorted(free)
    assert fixed == sorted(fixed)


def test_a_supports_arrays_cannot_be_written():
    support = support_of(names(6), all_topologies(6)[:3])
    with pytest.raises(ValueError, match="read-only"):
        support.splits[0, 0] = 3


def test_samples_are_cut_one_by_one_and_then_joined():
    topologies = all_topologies(5)

    def sample(counts: dict[int, float]) -> TreeSample:
        return TreeSample(names(5), topologies[list(counts)], np.array(list(counts.values()), float), None)

    first, second = sample({0: 90, 1: 6, 2: 4}), sample({3: 60, 1: 36, 4: 4})
    assert collect_support([first]).topology_count == 3
    assert collect_support([first], credible=0.95).topology_count == 1
    assert collect_support([first, second], credible=0.95).topology_count == 2  # 0; 3
    assert collect_support([first, second], credible=0.96).topology_count == 3  # 0, 1; 3, 1
    assert collect_support([first, second], minimum_count=42).topology_count == 3  # 1 has 6 + 36
    with pytest.raises(BadArgument, match=r"no topology has a count of 91.* the largest is 90"):
        collect_support([first, second], minimum_count=91)


def test_samples_may_number_their_taxa_in_other_orders():
    one = parse_newick(["((a,b),c,(d,e));"])
    other = parse_newick(["((a,b),c,(d,e));"], taxa=("e", "c", "a", "d", "b"))
    assert collect_support([one, other]).topology_count == 1
    with pytest.raises(TaxonMismatch):
        collect_support([one, parse_newick(["((a,b),c,(d,f));"])])


def test_three_taxa_are_too_few_and_no_sample_is_none():
    with pytest.raises(BadArgument, match="at least 4"):
        collect_support([parse_newick("(a,b,c);")])
    with pytest.raises(BadArgument, match="no tree samples"):
        collect_support([])
    with pytest.raises(BadArgument, match="trees on 6 taxa for a support on 5"):
        support_of(names(5), all_topologies(5)).indices(all_topologies(6))


def test_the_support_of_ten_bootstrap_replicates_of_ds1(real_data):
    replicates = [read_trees(path) for path in sorted((real_data / "ufboot" / "DS1").glob("*.gz"))]
    support = collect_support(replicates, credible=0.95)
    assert support.topology_count == pytest.approx(4300, abs=20)
    assert support.parameter_count == pytest.approx(8940, abs=30)
    runs = [read_trees(path, taxa=support.taxa) for path in sorted((real_data / "mrbayes" / "DS1").glob("*.gz"))]
    posterior = pool(runs).distinct()
    assert posterior.weights[support.generates(posterior.topologies)].sum() >= 0.999
    network = SubsplitNetwork(support)
    finite = np.isfinite(network.log_prob(posterior.topologies).detach().numpy())
    np.testing.assert_array_equal(finite, support.generates(posterior.topologies))
