"""Likelihoods by summing over all states of all interior nodes, with transition probabilities by scipy's expm."""

from itertools import product

import numpy as np
from scipy.linalg import expm

PAIRS = [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]


def rate_matrix(exchangeabilities: np.ndarray, frequencies: np.ndarray) -> np.ndarray:
    matrix = np.zeros((4, 4))
    for (one, other), rate in zip(PAIRS, exchangeabilities, strict=True):
        matrix[one, other] = rate * frequencies[other]
        matrix[other, one] = rate * frequencies[one]
    np.fill_diagonal(matrix, -matrix.sum(axis=1))
    return matrix / -(frequencies * np.diag(matrix)).sum()


def site_likelihood(
    parent: np.ndarray,
    lengths: np.ndarray,
    tips: np.ndarray,
    matrix: np.ndarray,
    frequencies: np.ndarray,
    rates: np.ndarray,
    weights: np.ndarray,
    invariant: float = 0.0,
) -> float:
    """One site: tips (taxa, 4) are the possible states; rates and weights of the categories."""
    taxa, nodes = len(tips), len(parent)
    total = 0.0
    for rate, weight in zip(rates, weights, strict=True):
        transitions = [expm(matrix * rate * length) for length in lengths]
        for states in product(range(4), repeat=nodes - taxa):
            probability = frequencies[states[-1]]
            for node in range(nodes - 1):
                row = transitions[node][states[parent[node] - taxa]]
                probability *= row @ tips[node] if node < taxa else row[states[node - taxa]]
            total += weight * probability
    return total + invariant * float((frequencies * tips.all(axis=0)).sum())
