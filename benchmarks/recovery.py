"""How long does it take to get topologies back from features?"""

from phloem import RandomStream
from phloem.features import dirichlet_features, recover_topologies
from phloem.trees import TopologyBatch, all_topologies, random_topologies
from timing import Row, best_times, show


def row(what: str, trees: TopologyBatch, rounds: int) -> Row:
    features = dirichlet_features(trees)
    seconds = best_times({"ours": lambda: recover_topologies(features, trees.taxon_count)}, rounds)["ours"]
    return Row(what, seconds, note=f"{1e6 * seconds / len(trees):,.0f} µs a tree")


if __name__ == "__main__":
    rows = [row("all 10,395 trees of 8 taxa", all_topologies(8), 3)]
    for taxa in (100, 1_000, 4_000):
        trees = random_topologies(taxa, 1, stream=RandomStream(1, "benchmark"))
        rows.append(row(f"1 tree of {taxa:,} taxa", trees, 20 if taxa < 4_000 else 3))
    show("Recovery", rows)
