"""Trees of the browser and the cloud are rooted as the consensus is."""

import numpy as np

from phloem.trees.rooting import root_at_outgroup, root_at_split, root_split
from support.made_up_report import made_up_contents


def test_trees_are_rooted_as_the_consensus_is_or_as_nearly_as_they_can():
    contents = made_up_contents(9)
    assert root_split(contents.consensus) is None
    for topology in contents.topologies.topologies:
        assert np.array_equal(root_at_split(topology, None).parent, topology.parent[0])
    outgroup = contents.consensus.taxa[4]
    split = root_split(root_at_outgroup(contents.consensus, [outgroup]))
    for topology in contents.topologies.topologies:
        rooted = root_at_split(topology, split)
        assert rooted.parent[4] == len(rooted.parent) - 1
