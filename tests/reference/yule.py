"""The probability of every unrooted topology under a Yule process, by all orders in which lineages can merge."""

from collections import defaultdict

from reference import nested


def topology_probabilities(taxa: int) -> dict[frozenset, float]:
    """By the topology's nontrivial splits."""
    found: dict[frozenset, float] = defaultdict(float)

    def merge(lineages: list, probability: float) -> None:
        if len(lineages) == 3:  # where the last two merge is the root, which an unrooted tree does not show
            found[nested.nontrivial_splits(tuple(lineages))] += probability
            return
        pairs = [(i, j) for i in range(len(lineages)) for j in range(i)]
        for i, j in pairs:
            others = [lineage for place, lineage in enumerate(lineages) if place not in (i, j)]
            merge([*others, (lineages[i], lineages[j])], probability / len(pairs))

    merge(list(range(taxa)), 1.0)
    return dict(found)
