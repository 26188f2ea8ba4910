"""Parsimony scores in the plainest ways: Fitch's sets by recursion, and the best states of all interior nodes."""

from itertools import product

import numpy as np

from reference.nested import Nested


def score(tree: Nested, states: np.ndarray, weights: np.ndarray) -> int:
    """Of an unrooted nested tree: states (taxa, patterns) as bits, weights (patterns,)."""
    assert isinstance(tree, tuple)
    rooted = (tree[0], tuple(tree[1:]))
    return sum(
        int(weight) * _fitch(rooted, [as_set(code) for code in column])[1]
        for column, weight in zip(states.T, weights, strict=True)
    )


def as_set(code: int) -> frozenset[int]:
    """The states whose bits a code has."""
    return frozenset(state for state in range(4) if int(code) >> state & 1)


def _fitch(tree: Nested, tips: list[frozenset[int]]) -> tuple[frozenset[int], int]:
    """A rooted binary subtree's set, and the changes in it."""
    if isinstance(tree, int):
        return tips[tree], 0
    (left, left_changes), (right, right_changes) = (_fitch(child, tips) for child in tree)
    if left & right:
        return left & right, left_changes + right_changes
    return left | right, left_changes + right_changes + 1


def least_changes(parent: np.ndarray, column: np.ndarray) -> int:
    """Of one pattern on a parent array, by trying all states of all interior nodes."""
    taxa, nodes = len(column), len(parent)
    return min(_changes(parent, column, states) for states in product(range(4), repeat=nodes - taxa))


def _changes(parent: np.ndarray, column: np.ndarray, states: tuple[int, ...]) -> int:
    changes = 0
    for node, above in enumerate(parent):
        if above >= 0:
            own = as_set(column[node]) if node < len(column) else {states[node - len(column)]}
            changes += states[above - len(column)] not in own
    return changes
