"""How long do raw features take, and does the time grow linearly? How much faster than a dense solve?"""

import numpy as np

from phloem import RandomStream
from phloem.arrays import FloatArray
from phloem.features import dirichlet_features, random_tips, tree_features
from phloem.trees import TopologyBatch, Tree, random_topologies
from timing import Row, best_times, show

CHANNELS = 64


def dense_solve(topologies: TopologyBatch) -> FloatArray:
    """The plain way: one linear system a tree, solved by LAPACK in a batch."""
    batch, nodes = topologies.parent.shape
    taxa = topologies.taxon_count
    laplacian = np.zeros((batch, nodes, nodes))
    tree, node = np.nonzero(topologies.parent >= 0)
    above = topologies.parent[tree, node]
    laplacian[tree, node, above] = laplacian[tree, above, node] = -1
    np.einsum("bii->bi", laplacian)[:] = -laplacian.sum(axis=2)
    return np.linalg.solve(laplacian[:, taxa:, taxa:], -laplacian[:, taxa:, :taxa])


def batch_rows() -> list[Row]:
    trees = random_topologies(27, 10, stream=RandomStream(1, "benchmark"))
    seconds = best_times({"ours": lambda: dirichlet_features(trees), "dense": lambda: dense_solve(trees)}, 2000)
    ratio = seconds["dense"] / seconds["ours"]
    return [
        Row(
            "10 trees of 27 taxa, one-hot tips", seconds["ours"], 0.05e-3, f"{ratio:.0f} times as fast as a dense solve"
        ),
        Row("the same by a dense solve", seconds["dense"]),
    ]


def big_tree_rows() -> list[Row]:
    rows = []
    goals = {1_000: 0.2e-3, 10_000: 2.5e-3, 100_000: None, 1_000_000: 5.0}
    for taxa, goal in goals.items():
        topology = random_topologies(taxa, 1, stream=RandomStream(1, "benchmark"))
        tree, tips = Tree(topology.parent[0], taxa), random_tips(taxa, CHANNELS, stream=RandomStream(1, "tips"))
        rounds = 3 if taxa > 10_000 else 100
        seconds = best_times({"ours": lambda tree=tree, tips=tips: tree_features(tree, tips)}, rounds)["ours"]
        note = f"{1e9 * seconds / taxa / CHANNELS:.2f} ns a taxon and channel"
        rows.append(Row(f"1 tree of {taxa:,} taxa, {CHANNELS} channels", seconds, goal, note))
    return rows


if __name__ == "__main__":
    show("Raw features", [*batch_rows(), *big_tree_rows()])
