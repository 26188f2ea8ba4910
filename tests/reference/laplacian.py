"""Dirichlet-energy minimisers by a dense linear solve of the Laplacian system."""

import numpy as np


def dense_features(parent: np.ndarray, tips: np.ndarray) -> np.ndarray:
    """Node features (nodes, channels): interior rows solve  L_ii x_i = -L_it x_t."""
    nodes, leaf_count = len(parent), len(tips)
    laplacian = np.zeros((nodes, nodes))
    for node, above in enumerate(parent):
        if above >= 0:
            laplacian[node, node] += 1
            laplacian[above, above] += 1
            laplacian[node, above] -= 1
            laplacian[above, node] -= 1
    inner = np.linalg.solve(laplacian[leaf_count:, leaf_count:], -laplacian[leaf_count:, :leaf_count] @ tips)
    return np.vstack([tips, inner])
