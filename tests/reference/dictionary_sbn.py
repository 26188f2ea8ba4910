"""A subsplit Bayesian network of dictionaries and frozensets: trees rooted one way after the other, nothing shared."""

import math
from collections.abc import Iterable, Iterator
from itertools import combinations
from typing import TypeAlias

from reference.nested import Nested, leaves

Clade: TypeAlias = frozenset[int]
Subsplit: TypeAlias = frozenset[Clade]
# The sister and the clade that is divided; for root splits no sister and all taxa. In closed tables no clade has one.
Parent: TypeAlias = tuple[Clade, Clade]
Counts: TypeAlias = dict[Parent, dict[Subsplit, float]]


def rootings(tree: Nested) -> Iterator[tuple[Nested, Nested]]:
    """Every rooting of an unrooted tree (a tuple of three subtrees) as a pair of subtrees."""
    assert isinstance(tree, tuple)
    one, two, three = tree
    for inside, others in ((one, (two, three)), (two, (one, three)), (three, (one, two))):
        yield from _roots_at_or_below(inside, others)


def _roots_at_or_below(inside: Nested, outside: Nested) -> Iterator[tuple[Nested, Nested]]:
    yield inside, outside
    if isinstance(inside, tuple):
        left, right = inside
        yield from _roots_at_or_below(left, (right, outside))
        yield from _roots_at_or_below(right, (left, outside))


def uses(rooted: tuple[Nested, Nested]) -> Iterator[tuple[Parent, Subsplit]]:
    """The root split of a rooted tree and all its subsplits given clade and sister."""
    left, right = rooted
    yield (frozenset(), leaves(rooted)), frozenset([leaves(left), leaves(right)])
    yield from _below(left, right)
    yield from _below(right, left)


def _below(subtree: Nested, sister: Nested) -> Iterator[tuple[Parent, Subsplit]]:
    if isinstance(subtree, tuple):
        left, right = subtree
        yield (leaves(sister), leaves(subtree)), frozenset([leaves(left), leaves(right)])
        yield from _below(left, right)
        yield from _below(right, left)


def collect(trees: Iterable[Nested]) -> dict[Parent, set[Subsplit]]:
    """Every table of the support: the subsplits of each clade beside each sister."""
    tables: dict[Parent, set[Subsplit]] = {}
    for tree in trees:
        for rooted in rootings(tree):
            for parent, subsplit in uses(rooted):
                tables.setdefault(parent, set()).add(subsplit)
    return tables


def uses_without_sisters(rooted: tuple[Nested, Nested]) -> Iterator[tuple[Parent, Subsplit]]:
    """The same in closed tables."""
    for (_, clade), subsplit in uses(rooted):
        yield (frozenset(), clade), subsplit


def subsplits_of(splits: Iterable[Subsplit]) -> set[Subsplit]:
    """All pairs of sides whose union is a side too."""
    sides = {side for split in splits for side in split}
    return {frozenset(pair) for pair in combinations(sides, 2) if not pair[0] & pair[1] and pair[0] | pair[1] in sides}


def close(splits: set[Subsplit]) -> dict[Parent, set[Subsplit]]:
    """Every table of the closure of some splits; those with a side that cannot be divided are removed one by one."""
    while True:
        tables: dict[Parent, set[Subsplit]] = {(frozenset(), frozenset.union(*next(iter(splits)))): splits}
        for subsplit in subsplits_of(splits):
            tables.setdefault((frozenset(), frozenset.union(*subsplit)), set()).add(subsplit)
        possible = {split for split in splits if all(len(side) == 1 or (frozenset(), side) in tables for side in split)}
        if possible == splits:
            return tables
        splits = possible


def rooted_probability(rooted: tuple[Nested, Nested], tables: Counts, *, closed: bool = False) -> float:
    """The product of the tables' probabilities; 0 where a table or an entry is missing."""
    used = uses_without_sisters(rooted) if closed else uses(rooted)
    return math.prod(tables.get(parent, {}).get(subsplit, 0.0) for parent, subsplit in used)


def probability(tree: Nested, tables: Counts, *, closed: bool = False) -> float:
    """The sum over all rootings."""
    return sum(rooted_probability(rooted, tables, closed=closed) for rooted in rootings(tree))


def em_step(
    trees: list[Nested],
    weights: list[float],
    tables: Counts | None,
    smoothing: float,
    support: Counts,
    *,
    closed: bool = False,
) -> Counts:
    """One step of expectation-maximisation; without tables every rooting counts the same (simple averaging)."""
    counts = {parent: dict.fromkeys(table, smoothing) for parent, table in support.items()}
    for tree, weight in zip(trees, weights, strict=True):
        rooted_trees = list(rootings(tree))
        shares = [1 / len(rooted_trees)] * len(rooted_trees)
        if tables is not None:
            shares = [
                rooted_probability(rooted, tables, closed=closed) / probability(tree, tables, closed=closed)
                for rooted in rooted_trees
            ]
        for rooted, share in zip(rooted_trees, shares, strict=True):
            for parent, subsplit in uses_without_sisters(rooted) if closed else uses(rooted):
                counts[parent][subsplit] += weight / sum(weights) * share
    return {
        parent: {subsplit: count / (sum(table.values()) or 1) for subsplit, count in table.items()}
        for parent, table in counts.items()
    }
