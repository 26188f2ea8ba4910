"""Constraints on topologies: splits that every tree must have, how many trees have them, and trees made to have them.

A binary tree has a split if and only if all of its own splits are compatible with it: they are as many as can be
compatible, so that there is no room for another. Hence what is made of splits and subsplits of trees that satisfy
constraints, a subsplit network's support, satisfies them too.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from phloem.arrays import BoolArray, FloatArray, IntArray, WordArray
from phloem.errors import BadArgument, counted, listed, quoted
from phloem.random_streams import RandomStream
from phloem.trees.generation import topology_count
from phloem.trees.splits import without_first
from phloem.trees.topology import TopologyBatch, clade_hashes, taxon_keys

SHOWN = 5  # names of constraints, and of the taxa of one


@dataclass(frozen=True, eq=False)
class TopologyConstraints:
    """Different splits that fit into one tree, each with two or more taxa on both sides, under different names."""

    taxa: tuple[str, ...]
    names: tuple[str, ...]
    members: BoolArray  # (constraints, n)  the side without taxon 0

    @classmethod
    def of(cls, taxa: Sequence[str], clades: Iterable[tuple[str, Sequence[str]]]) -> "TopologyConstraints":
        """From names and taxa of clades, whichever side of the split they are. An error says which one is wrong."""
        place = {name: number for number, name in enumerate(taxa)}
        names: list[str] = []
        rows: list[BoolArray] = []
        for name, chosen in clades:
            if name in names:
                raise BadArgument(
                    f"constraint {quoted(name)}: is there twice. Give every constraint a name of its own."
                )
            if unknown := [taxon for taxon in chosen if taxon not in place]:
                raise BadArgument(
                    f"constraint {quoted(name)}: {listed(unknown)} not in the alignment. Use its names, in quotes "
                    "where they have blanks or brackets."
                )
            row = np.isin(np.arange(len(taxa)), [place[taxon] for taxon in chosen])
            if twice := sorted({taxon for taxon in chosen if list(chosen).count(taxon) > 1}):
                raise BadArgument(f"constraint {quoted(name)}: {listed(twice)} there twice. Name every taxon once.")
            if not 2 <= row.sum() <= len(taxa) - 2:
                there = "all taxa" if row.all() else counted(int(row.sum()), "taxon", "taxa")
                there = "all taxa but one" if row.sum() == len(taxa) - 1 else there
                raise BadArgument(
                    f"constraint {quoted(name)}: has {there}, which every tree keeps together: it says nothing. "
                    "Name two taxa or more, and leave out two or more."
                )
            names.append(name)
            rows.append(row)
        if not rows:
            raise BadArgument("constraints: there are none. Name the taxa of one clade or more.")
        members = without_first(np.stack(rows))
        _check_together(names, members)
        return cls(tuple(taxa), tuple(names), members)

    def __len__(self) -> int:
        return len(self.names)

    def equal(self, other: "TopologyConstraints | None") -> bool:
        """Whether these are the same splits, under whatever names."""
        if other is None or self.taxa != other.taxa:
            return False
        return {row.tobytes() for row in self.members} == {row.tobytes() for row in other.members}

    @cached_property
    def degrees(self) -> tuple[int, ...]:
        """Of the interior nodes of the tree that has these splits and no others."""
        degrees = [1] * len(self) + [0]  # a constraint's own branch; the last node is the one beside taxon 0
        for above in self._above():
            degrees[above] += 1
        return tuple(degrees)

    @cached_property
    def log_count(self) -> float:
        """Logarithm of the number of topologies that satisfy all: at a node of degree d there are (2d-5)!!."""
        return math.fsum(math.log(topology_count(degree)) for degree in self.degrees)

    @cached_property
    def log_share(self) -> float:
        """Logarithm of their share of all topologies: the probability of the constraints without data."""
        return self.log_count - math.log(topology_count(len(self.taxa)))

    @cached_property
    def _keys(self) -> WordArray:
        """The first words of the clades' hashes."""
        keys = taxon_keys(len(self.taxa))[:, 0]
        return np.array([np.bitwise_xor.reduce(keys[row]) for row in self.members], np.uint64)

    def flags(self, topologies: TopologyBatch) -> BoolArray:
        """Whether the branch above each node is a constraint, (batch, nodes)."""
        hashes = clade_hashes(topologies)[:, :, 0]
        found = np.zeros(hashes.shape, np.bool_)
        inner = slice(len(self.taxa), -1)
        found[:, inner] = np.isin(hashes[:, inner], self._keys)
        return found

    def hold(self, topologies: TopologyBatch) -> BoolArray:
        """Whether topologies satisfy all constraints, (batch,)."""
        satisfied: BoolArray = self.flags(topologies).sum(axis=1) == len(self)
        return satisfied

    def log_weight(self, topologies: TopologyBatch) -> FloatArray:
        """What makes a prior that is uniform on all topologies one on those that satisfy the constraints, (batch,)."""
        return np.where(self.hold(topologies), -self.log_share, -np.inf)

    def fit(self, splits: BoolArray) -> BoolArray:
        """Which splits, (splits, n), some tree has together with all constraints."""
        sides = without_first(splits)
        fits = np.ones(len(sides), np.bool_)
        for row in self.members:
            fits &= _fit_together(sides, row)
        return fits

    def imposed_on(self, topologies: TopologyBatch, *, stream: RandomStream) -> TopologyBatch:
        """The same topologies where they satisfy the constraints, and otherwise near ones that do.

        For each split that is missing, its two sides are taken out of the tree, each with a random taxon of the other
        to say where that one was, and put together there.
        """
        kept = self.hold(topologies)
        if kept.all():
            return topologies
        random = stream.generator()
        parents = topologies.parent.copy()
        for tree in np.flatnonzero(~kept).tolist():
            own = topologies[tree]
            for row, key in zip(self.members, self._keys, strict=True):
                if key not in clade_hashes(own)[0, len(self.taxa) : -1, 0]:
                    inside = int(random.choice(np.flatnonzero(row)))
                    outside = int(random.choice(np.flatnonzero(~row)))
                    own = TopologyBatch.from_trusted(_joined(own.neighbors[0], row, inside, outside)[None])
            parents[tree] = own.parent[0]
        return TopologyBatch.from_canonical(parents)

    def newick(self, names: Sequence[str]) -> str:
        """The tree that has these splits and no others, with these names of the taxa."""
        texts: list[list[str]] = [[] for _ in range(len(self) + 1)]
        above = self._above()
        for taxon, name in enumerate(names):
            texts[above[taxon]].append(name)
        for constraint in np.argsort(self.members.sum(axis=1), kind="stable").tolist():  # from small to large
            texts[above[len(names) + constraint]].append(f"({','.join(texts[constraint])})")
        return f"({','.join(texts[-1])});"

    def clade(self, constraint: int) -> list[str]:
        """The taxa of the smaller side of a constraint; of equal ones that without taxon 0."""
        row = self.members[constraint]
        side = row if 2 * row.sum() <= len(row) else ~row
        return [self.taxa[taxon] for taxon in np.flatnonzero(side)]

    def as_json(self, source: str) -> dict[str, Any]:
        """For the records: the file, the clades, and the probability that they have without data."""
        clades = {name: self.clade(number) for number, name in enumerate(self.names)}
        return {"source": source, "log_prior_probability": self.log_share, "clades": clades}

    def in_words(self) -> str:
        """`apes (4 taxa), monkeys (5 taxa)`, the first few."""
        shown = [
            f"{name} ({counted(len(self.clade(number)), 'taxon', 'taxa')})" for number, name in enumerate(self.names)
        ]
        rest = len(shown) - SHOWN
        return ", ".join(shown[:SHOWN]) + (f" and {rest} more" if rest > 0 else "")

    def _above(self) -> list[int]:
        """The smallest constraint around each taxon, then each constraint; `len(self)` where there is none."""
        inner = np.concatenate([np.eye(len(self.taxa), dtype=np.bool_), self.members])
        sizes, found = self.members.sum(axis=1), []
        for row in inner:
            around = (self.members & row).sum(axis=1) == row.sum()
            around &= sizes > row.sum()
            found.append(int(np.where(around, sizes, len(self.taxa) + 1).argmin()) if around.any() else len(self))
        return found


def _check_together(names: Sequence[str], members: BoolArray) -> None:
    """Raise unless the splits differ and fit into one tree."""
    for later in range(1, len(names)):
        same = np.flatnonzero((members[:later] == members[later]).all(axis=1))
        if len(same):
            raise BadArgument(
                f"constraints {quoted(names[same[0]])} and {quoted(names[later])}: are the same split. Leave one out."
            )
        against = np.flatnonzero(~_fit_together(members[:later], members[later]))
        if len(against):
            raise BadArgument(
                f"constraints {quoted(names[against[0]])} and {quoted(names[later])}: contradict each other: no tree "
                "has both, as they share taxa and each has some that the other lacks. Leave one out."
            )


def _fit_together(sides: BoolArray, row: BoolArray) -> BoolArray:
    """Which sides without taxon 0 are nested with another one, or share nothing with it, (splits,)."""
    shared, own, others = (sides & row).any(axis=1), (sides & ~row).any(axis=1), (~sides & row).any(axis=1)
    return np.asarray(~(shared & own & others))


def _joined(neighbors: IntArray, row: BoolArray, inside: int, outside: int) -> IntArray:
    """Parents of a tree in which the taxa of a row are a clade, beside where the taxon `inside` of it was.

    outside: the taxon on whose side the clade's root is.
    """
    around, taxa = neighbors.tolist(), len(row)
    parent = np.full(len(neighbors), -1, np.int32)
    fresh = iter(range(taxa, len(neighbors)))

    def restricted(start: int, tops: dict[int, int]) -> int:
        """Join what stands for some leaves as the tree does, seen from another leaf; the node on top."""
        order, came = [start], {start: -1}
        for node in order:  # which grows meanwhile
            for other in around[node]:
                if other >= 0 and other != came[node]:
                    came[other] = node
                    order.append(other)
        found: dict[int, list[int]] = {node: [] for node in order}
        for node in reversed(order[1:]):
            below = [tops[node]] if node in tops else found[node]
            if len(below) == 2:
                joint = next(fresh)
                parent[below] = joint
                below = [joint]
            found[came[node]] += below
        return found[start][0]

    clade = restricted(outside, {int(taxon): int(taxon) for taxon in np.flatnonzero(row)})
    others = {int(taxon): int(taxon) for taxon in np.flatnonzero(~row) if taxon}
    parent[0] = restricted(0, {**others, inside: clade})
    return parent
