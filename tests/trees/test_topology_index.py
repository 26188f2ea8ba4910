"""Topologies by number, against a dictionary."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phloem.errors import BadArgument
from phloem.random_streams import RandomStream
from phloem.trees.generation import all_topologies, nni_neighbors, random_topologies
from phloem.trees.topology import TopologyBatch, TopologyIndex


@given(st.integers(3, 30), st.integers(1, 40), st.integers(0, 2**32))
def test_places_are_those_of_a_dictionary(taxa, count, seed):
    listed, _ = random_topologies(taxa, count, stream=RandomStream(seed, "listed")).distinct()
    asked = TopologyBatch.concatenate([random_topologies(taxa, 20, stream=RandomStream(seed, "asked")), listed[::-1]])
    if taxa > 3:
        asked = TopologyBatch.concatenate([asked, nni_neighbors(listed[:2])])
    places = {row.tobytes(): place for place, row in enumerate(listed.parent)}
    expected = [places.get(row.tobytes(), -1) for row in asked.parent]
    np.testing.assert_array_equal(TopologyIndex(listed).find(asked), expected)


def test_all_topologies_are_found_where_they_are():
    topologies = all_topologies(7)
    order = np.random.default_rng(1).permutation(len(topologies))
    np.testing.assert_array_equal(TopologyIndex(topologies).find(topologies[order]), order)
    np.testing.assert_array_equal(TopologyIndex(topologies[order]).find(topologies), np.argsort(order))


def test_what_is_not_listed_is_not_found_wherever_it_would_stand():
    topologies = all_topologies(6)
    for place in range(105):
        listed = np.delete(np.arange(105), place)
        found = TopologyIndex(topologies[listed]).find(topologies)
        assert found[place] == -1
        np.testing.assert_array_equal(np.delete(found, place), np.arange(104))


def test_nothing_asked_for_is_nothing_found():
    topologies = all_topologies(5)
    assert TopologyIndex(topologies).find(topologies[:0]).shape == (0,)
    assert (TopologyIndex(topologies[:0]).find(topologies) == -1).all()


def test_other_numbers_of_taxa_are_refused():
    with pytest.raises(BadArgument, match="topologies on 6 taxa in a list of some on 5"):
        TopologyIndex(all_topologies(5)).find(all_topologies(6))
