"""The consensus as a picture: what the template draws, pixels down and percent across, so that it fits any width."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from phloem.arrays import FloatArray
from phloem.report.charts import nice_step
from phloem.report.wording import brief, count, interval, length, percent, short_name, support_number, text_width
from phloem.trees import layout
from phloem.trees.consensus import SummaryTree
from phloem.trees.tree import Tree

SIGN_WIDTH = 6.2  # pixels of a digit
HEIGHT = 10.0
GAP = 4.0
OVERHANG = 0.4  # of its width that a number may begin before its branch


class TreeLayout(NamedTuple):
    """Places of all nodes; rows count from the top."""

    leaves: tuple[int, ...]  # from the top to the bottom
    row: FloatArray  # (nodes,)  of an interior node: midway between its first and its last child
    distance: FloatArray  # (nodes,)  from the root along the branches; a length that is not known counts as 0
    level: FloatArray  # (nodes,)  of a drawing without lengths: 0 at the root, 1 at every leaf


def lay_out(tree: Tree, lengths: FloatArray) -> TreeLayout:
    """Both drawings of a tree. Small clades stand above large ones, so that they fall to the right."""
    order = layout.ladder_order(tree.parent, tree.leaf_count)
    to_scale = layout.lay_out(tree.parent, tree.leaf_count, lengths, order)
    by_level = layout.lay_out(tree.parent, tree.leaf_count, None, order)
    return TreeLayout(tuple(order.tolist()), to_scale.y, to_scale.x, by_level.x)


def children_of(parent: Sequence[int]) -> list[list[int]]:
    """The children of every node, low numbers first."""
    children: list[list[int]] = [[] for _ in parent]
    for node, above in enumerate(parent):
        if above >= 0:
            children[above].append(node)
    return children


class _Box(NamedTuple):
    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: "_Box") -> bool:
        return (
            self.left < other.right and other.left < self.right and self.top < other.bottom and other.top < self.bottom
        )


def room_for_numbers(
    texts: dict[int, str], start: FloatArray, end: FloatArray, row: FloatArray, *, width: float, row_height: float
) -> set[int]:
    """The nodes whose number fits in a drawing of this width: at the end of the node's branch, above it.

    start, end: of the branches, from 0 to 1. A number may stand out by a part of its width. Numbers are placed in
    order, so those that come first in `texts` win. Rows keep numbers that are far from each other apart, so each is
    compared with those of the rows around it only.
    """
    placed: dict[int, list[_Box]] = {}
    fitting = set()
    for node, text in texts.items():
        right, bottom = end[node] * width - GAP, row[node] * row_height - 1
        box = _Box(right - SIGN_WIDTH * len(text), bottom - HEIGHT, right, bottom)
        fits = box.left > start[node] * width - OVERHANG * (box.right - box.left)
        band = int(row[node])
        around = [other for near in (band - 1, band, band + 1) for other in placed.get(near, ())]
        if fits and not any(box.meets(other) for other in around):
            placed.setdefault(band, []).append(box)
            fitting.add(node)
    return fitting


ROWS = ((40, 22), (120, 18), (math.inf, 15))  # up to so many taxa, pixels a row
# Pixels that a tree without its names must have for a number of each kind to be shown; the styles have them too.
ROOMS = {f"from-{width}": width for width in (110, 200, 300, 400, 550, 750)}
MANY_WIDTH = 300  # the least for a tree of many taxa, which may be deep
SUPPORT_CLASSES = ((0.95, "strong"), (0.8, "fair"), (0.5, "weak"), (0.0, "poor"))


class Branch(NamedTuple):
    """A horizontal line with what is known of it."""

    node: int
    parent: int
    start: str
    end: str
    y: str
    look: str  # a class of the style sheet
    number: str  # the support, or nothing
    room: str  # how wide the drawing must be to have room for the number; nothing if it has none
    words: str  # lines of a tooltip


class Joint(NamedTuple):
    """A vertical line from the first child of a node to the last."""

    x: str
    top: str
    bottom: str


class Tip(NamedTuple):
    """A name at its leaf."""

    x: str
    y: str
    label: str
    name: str


class ScaleBar(NamedTuple):
    """A line of a known length."""

    width: str
    label: str


class TreePicture(NamedTuple):
    """A tree from left to right."""

    height: int
    label_room: str  # ems of the names' type, at the right
    row_height: int
    least_width: int  # pixels without the names; below, one scrolls
    branches: list[Branch]
    joints: list[Joint]
    tips: list[Tip]
    scale: ScaleBar | None


def draw_consensus(consensus: SummaryTree, layout: TreeLayout, *, with_lengths: bool) -> TreePicture:
    """The tree with its lengths, or without any and with all leaves at the right."""
    x = scaled(layout.distance) if with_lengths else layout.level
    row_height = row_height_of(len(consensus.taxa))
    numbers = _numbers(consensus)
    # The best supported are the least news: where there is no room for all, the doubtful ones come first.
    by_doubt = dict(sorted(numbers.items(), key=lambda item: (consensus.support[item[0]], item[0])))
    start = x[np.maximum(consensus.tree.parent, 0)]
    rooms: dict[int, str] = {}
    for room, width in ROOMS.items():
        # What a narrow drawing has room for, a wider one has too: those numbers come first.
        texts = {node: numbers[node] for node in rooms} | by_doubt
        fitting = room_for_numbers(texts, start, x, layout.row, width=width, row_height=row_height)
        rooms |= {node: room for node in texts if node in fitting and node not in rooms}
    parent: list[int] = consensus.tree.parent.tolist()
    children = children_of(parent)
    leaf_names = _names_below(consensus, children)
    branches = [
        Branch(
            node,
            above,
            across(x[above]),
            across(x[node]),
            down(layout.row[node], row_height),
            "tip" if not children[node] else support_class(float(consensus.support[node])),
            numbers.get(node, ""),
            rooms.get(node, ""),
            _words(consensus, node, leaf_names[node]),
        )
        for node, above in sorted(enumerate(parent[:-1]), key=lambda item: (layout.row[item[0]], x[item[0]]))
    ]
    joints = [
        Joint(across(x[node]), down(rows[0], row_height), down(rows[-1], row_height))
        for node, below in enumerate(children)
        if below
        for rows in [sorted(layout.row[child] for child in below)]
    ]
    tips = [
        Tip(
            across(x[leaf]),
            down(layout.row[leaf], row_height),
            short_name(consensus.taxa[leaf]),
            consensus.taxa[leaf],
        )
        for leaf in layout.leaves
    ]
    return TreePicture(
        height=len(tips) * row_height,
        label_room=label_room([tip.label for tip in tips]),
        row_height=row_height,
        least_width=min(ROOMS.values()) if len(tips) <= ROWS[0][0] else MANY_WIDTH,
        branches=branches,
        joints=joints,
        tips=tips,
        scale=_scale_bar(float(layout.distance.max())) if with_lengths else None,
    )


def consensus_layout(consensus: SummaryTree) -> TreeLayout:
    """The places of the consensus, whose order of leaves all other drawings share."""
    return lay_out(consensus.tree, consensus.length)


def row_height_of(taxa: int) -> int:
    """Pixels a row: fewer for many taxa, never too few for a name."""
    return next(height for most, height in ROWS if taxa <= most)


def label_room(labels: list[str]) -> str:
    """Ems that the longest of some names needs."""
    return f"{max(map(text_width, labels)):.2f}"


def support_class(support: float) -> str:
    """What a support is called in the style sheet."""
    if not math.isfinite(support):
        return "unknown"
    return next(name for least, name in SUPPORT_CLASSES if support >= least)


def scaled(distance: FloatArray) -> FloatArray:
    """Distances as shares of the largest; all 0 if no length is known."""
    largest = float(distance.max())
    return distance / largest if largest > 0 else distance * 0


def across(share: float) -> str:
    """`12.5%`."""
    return f"{100 * share:.2f}".rstrip("0").rstrip(".") + "%"


def down(row: float, row_height: int) -> str:
    """Pixels from the top to the middle of a row."""
    return f"{(row + 0.5) * row_height:.1f}".removesuffix(".0")


def _numbers(consensus: SummaryTree) -> dict[int, str]:
    interior = range(consensus.tree.leaf_count, len(consensus.tree.parent) - 1)
    return {node: support_number(float(consensus.support[node])) for node in interior}


def _names_below(consensus: SummaryTree, children: list[list[int]]) -> list[list[str]]:
    """The taxa at or below each node; O(n) names a node, which is quick for what can be looked at."""
    names: list[list[str]] = [[name] for name in consensus.taxa]
    for below in children[consensus.tree.leaf_count :]:
        names.append([name for child in below for name in names[child]])
    return names


def _words(consensus: SummaryTree, node: int, names: list[str]) -> str:
    known = math.isfinite(consensus.length[node])
    around = interval(float(consensus.lower[node]), float(consensus.upper[node]))
    lines = [
        names[0] if len(names) == 1 else f"{count(len(names), 'taxon', 'taxa')}: {brief(names)}",
        f"Support {percent(float(consensus.support[node]))}" if len(names) > 1 else "",
        f"Mean length {length(float(consensus.length[node]))}" if known else "Length not known",
        f"95 % interval {around}" if known else "",
    ]
    return "\n".join(filter(None, lines))


def _scale_bar(largest: float) -> ScaleBar | None:
    if not largest > 0:
        return None
    step = nice_step(largest / 5)
    return ScaleBar(across(step / largest), f"{step:g}")
