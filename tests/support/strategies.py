"""Random trees for property tests."""

import numpy as np
from hypothesis import strategies as st

from phloem.random_streams import RandomStream
from phloem.trees.generation import nni_neighbors, random_topologies
from phloem.trees.topology import TopologyBatch
from reference.nested import Nested


@st.composite
def topology_batches(draw: st.DrawFn, least: int = 3, most: int = 40, trees: int = 4) -> TopologyBatch:
    """A few uniform random binary topologies."""
    taxa = draw(st.integers(least, most))
    count = draw(st.integers(1, trees))
    return random_topologies(taxa, count, stream=RandomStream(draw(st.integers(0, 2**32)), "test trees"))


@st.composite
def nested_trees(draw: st.DrawFn, least: int = 3, most: int = 30, rooted: bool = False) -> Nested:
    """A tree of any degrees: subtrees are joined a few at a time until one is left, two at a `rooted` root."""
    leaf_count = draw(st.integers(least, most))
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    parts: list[Nested] = [int(leaf) for leaf in random.permutation(leaf_count)]
    widest = draw(st.sampled_from([2, 3, 5, leaf_count]))
    smallest_root = 2 if rooted else 3
    while len(parts) > max(smallest_root, widest):
        width = int(random.integers(2, widest + 1))
        random.shuffle(parts)
        parts = [tuple(parts[:width]), *parts[width:]]
    while len(parts) > smallest_root and random.random() < 0.5:
        parts = [tuple(parts[:2]), *parts[2:]]
    if rooted:
        parts = [parts[0], tuple(parts[1:])] if len(parts) > 2 else parts
    return tuple(parts)


@st.composite
def related_topologies(draw: st.DrawFn, least: int = 4, most: int = 8, trees: int = 5) -> TopologyBatch:
    """Distinct topologies a few interchanges apart, so that they share many clades, as bootstrap trees do."""
    batch = draw(topology_batches(least=least, most=most, trees=2))
    count = draw(st.integers(1, trees))
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    while len(batch) < count:
        neighbors = nni_neighbors(batch[int(random.integers(len(batch)))])
        batch = TopologyBatch.concatenate([batch, neighbors[int(random.integers(len(neighbors)))]])
    return batch[np.unique(batch.parent, axis=0, return_index=True)[1]]
