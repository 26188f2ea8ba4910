"""Trees as nested tuples of leaf numbers: every question answered by recursion, in the plainest way."""

from collections.abc import Iterator, Sequence
from typing import TypeAlias

import numpy as np

Nested: TypeAlias = "int | tuple[Nested, ...]"


def leaves(tree: Nested) -> frozenset[int]:
    """The leaves at or below a subtree."""
    if isinstance(tree, int):
        return frozenset([tree])
    return frozenset().union(*map(leaves, tree))


def clades(tree: Nested) -> Iterator[frozenset[int]]:
    """The leaf sets of the subtree itself and of all below it."""
    yield leaves(tree)
    if not isinstance(tree, int):
        for child in tree:
            yield from clades(child)


def nontrivial_splits(tree: Nested) -> frozenset[frozenset[int]]:
    """The sides without leaf 0 of all branches that do not end in a leaf: the unrooted topology itself."""
    everything = leaves(tree)
    sides = {clade if 0 not in clade else everything - clade for clade in clades(tree)}
    return frozenset(side for side in sides if 1 < len(side) < len(everything) - 1)


def all_unrooted(leaf_count: int) -> list[Nested]:
    """All unrooted binary topologies, as (0, 1, 2) grown by putting leaf 3, 4, … on every branch."""
    trees: list[Nested] = [(0, 1, 2)]
    for leaf in range(3, leaf_count):
        trees = [bigger for tree in trees for bigger in with_leaf(tree, leaf)]
    return trees


def with_leaf(tree: Nested, leaf: int) -> Iterator[Nested]:
    """The trees with one leaf more, on each branch of an unrooted tree."""
    assert isinstance(tree, tuple)
    for place, child in enumerate(tree):
        for grown in _with_leaf_below(child, leaf):
            yield (*tree[:place], grown, *tree[place + 1 :])


def _with_leaf_below(tree: Nested, leaf: int) -> Iterator[Nested]:
    """The leaf on the branch above the subtree, or on any below."""
    yield (tree, leaf)
    if isinstance(tree, tuple):
        for place, child in enumerate(tree):
            for grown in _with_leaf_below(child, leaf):
                yield (*tree[:place], grown, *tree[place + 1 :])


def restricted(tree: Nested, kept: frozenset[int]) -> Nested:
    """The unrooted tree of three or more of the leaves: nodes that lose a neighbour are taken out."""
    rest = _without_others(tree, kept)
    assert isinstance(rest, tuple)
    if len(rest) > 2:
        return rest
    larger, other = rest if isinstance(rest[0], tuple) else rest[::-1]
    assert isinstance(larger, tuple)
    return (*larger, other)


def _without_others(tree: Nested, kept: frozenset[int]) -> "Nested | None":
    if isinstance(tree, int):
        return tree if tree in kept else None
    parts = tuple(part for child in tree if (part := _without_others(child, kept)) is not None)
    return parts if len(parts) > 1 else parts[0] if parts else None


def from_parent(parent: Sequence[int], leaf_count: int) -> Nested:
    """The nested form of a parent array with the root last."""

    def below(node: int) -> Nested:
        if node < leaf_count:
            return node
        return tuple(below(child) for child in range(len(parent)) if parent[child] == node)

    return below(len(parent) - 1)


def to_parent(tree: Nested, leaf_count: int) -> np.ndarray:
    """A parent array: leaves first, interior nodes as a postorder walk meets them, the root last."""
    parent: dict[int, int] = {}
    following = leaf_count

    def number(subtree: Nested) -> int:
        nonlocal following
        if isinstance(subtree, int):
            return subtree
        children = [number(child) for child in subtree]
        node = following
        following += 1
        parent.update(dict.fromkeys(children, node))
        return node

    parent[number(tree)] = -1
    return np.array([parent[node] for node in range(len(parent))], np.int32)


def to_newick(tree: Nested, names: Sequence[str]) -> str:
    """Newick text with the names as they are."""

    def text(subtree: Nested) -> str:
        return names[subtree] if isinstance(subtree, int) else "(" + ",".join(map(text, subtree)) + ")"

    return text(tree) + ";"
