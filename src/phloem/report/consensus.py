"""The consensus as a picture: pixels down and percent across, so that it fits any width."""

import math
from typing import NamedTuple

import numpy as np

from phloem.arrays import FloatArray
from phloem.report.charts import nice_step
from phloem.report.wording import brief, count, interval, length, percent, short_name, support_number, text_width
from phloem.trees.consensus import SummaryTree
from phloem.trees.layout import lay_out

ROWS = ((40, 22), (120, 18), (math.inf, 15))  # most taxa, pixels per row
SUPPORT_CLASSES = ((0.95, "strong"), (0.8, "fair"), (0.5, "weak"), (0.0, "poor"))
# Least width in pixels, without names, at which a support with this class is shown; the style sheet has them too.
ROOMS = {f"from-{width}": width for width in (110, 200, 300, 400, 550, 750)}
MANY_WIDTH = 300  # least width for a tree of many taxa, which may be deep
# Of a support in the drawing, in pixels:
DIGIT_WIDTH = 6.2
HEIGHT = 10.0
GAP = 4.0  # to the end of its branch
OVERHANG = 0.4  # share of its width by which it may start before its branch


class Branch(NamedTuple):
    """A horizontal line, its support and its tooltip."""

    node: int
    parent: int
    start: str
    end: str
    y: str
    look: str  # a class of the style sheet
    number: str  # the support, or nothing
    room: str  # class of the least width that has room for the number; empty if none has
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
    label_room: str  # ems for the names at the right
    row_height: int
    least_width: int  # pixels without the names; narrower windows scroll
    branches: list[Branch]
    joints: list[Joint]
    tips: list[Tip]
    scale: ScaleBar | None


def draw_consensus(consensus: SummaryTree, *, with_lengths: bool) -> TreePicture:
    """A phylogram, or a cladogram with all leaves at the right."""
    tree, leaf_count = consensus.tree, consensus.tree.leaf_count
    layout = lay_out(tree.parent, leaf_count, consensus.length if with_lengths else None)
    x, row_height = _scaled(layout.x), row_height_of(leaf_count)
    numbers = {node: support_number(float(consensus.support[node])) for node in range(leaf_count, len(tree.parent) - 1)}
    rooms = _rooms(consensus, numbers, x, layout.y, row_height)
    names = _names_below(consensus)
    branches = [
        Branch(
            node,
            above,
            _across(x[above]),
            _across(x[node]),
            _down(layout.y[node], row_height),
            "tip" if node < leaf_count else _support_class(float(consensus.support[node])),
            numbers.get(node, ""),
            rooms.get(node, ""),
            _words(consensus, node, names[node]),
        )
        for node, above in sorted(
            enumerate(tree.parent[:-1].tolist()), key=lambda item: (layout.y[item[0]], x[item[0]])
        )
    ]
    joints = [
        Joint(_across(x[node]), _down(layout.first[node], row_height), _down(layout.last[node], row_height))
        for node in range(leaf_count, len(tree.parent))
    ]
    tips = [
        Tip(_across(x[leaf]), _down(layout.y[leaf], row_height), short_name(consensus.taxa[leaf]), consensus.taxa[leaf])
        for leaf in np.argsort(layout.y[:leaf_count]).tolist()
    ]
    return TreePicture(
        height=leaf_count * row_height,
        label_room=f"{max(text_width(tip.label) for tip in tips):.2f}",
        row_height=row_height,
        least_width=min(ROOMS.values()) if leaf_count <= ROWS[0][0] else MANY_WIDTH,
        branches=branches,
        joints=joints,
        tips=tips,
        scale=_scale_bar(float(layout.x.max())) if with_lengths else None,
    )


def row_height_of(taxa: int) -> int:
    """Pixels per row: fewer for many taxa, but always enough for a name."""
    return next(height for most, height in ROWS if taxa <= most)


def _scaled(x: FloatArray) -> FloatArray:
    """Shares of the largest; all 0 if no length is known."""
    largest = float(x.max())
    return x / largest if largest > 0 else x * 0


def _across(share: float) -> str:
    """`12.5%`."""
    return f"{100 * share:.2f}".rstrip("0").rstrip(".") + "%"


def _down(row: float, row_height: int) -> str:
    """Pixels from the top to the middle of a row."""
    return f"{(row + 0.5) * row_height:.1f}".removesuffix(".0")


def _support_class(support: float) -> str:
    """The style sheet's name for a support."""
    if not math.isfinite(support):
        return "unknown"
    return next(name for least, name in SUPPORT_CLASSES if support >= least)


def _scale_bar(largest: float) -> ScaleBar | None:
    if not largest > 0:
        return None
    round_length = nice_step(largest / 5)
    return ScaleBar(_across(round_length / largest), f"{round_length:g}")


def _names_below(consensus: SummaryTree) -> list[list[str]]:
    """The taxa at or below each node: O(n) names per node, which is fast for any tree that people look at."""
    names: list[list[str]] = [[name] for name in consensus.taxa]
    names += [[] for _ in consensus.tree.parent[consensus.tree.leaf_count :]]
    for node, above in enumerate(consensus.tree.parent[:-1].tolist()):  # children are numbered below parents
        names[above] += names[node]
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


def _rooms(
    consensus: SummaryTree, numbers: dict[int, str], x: FloatArray, row: FloatArray, row_height: int
) -> dict[int, str]:
    """The class of the narrowest drawing that has room for each number; numbers without any are left out."""
    # The best supported tell the least: where there is no room for all, the doubtful ones come first.
    by_doubt = dict(sorted(numbers.items(), key=lambda item: (consensus.support[item[0]], item[0])))
    start = x[np.maximum(consensus.tree.parent, 0)]
    rooms: dict[int, str] = {}
    for room, width in ROOMS.items():
        # What fits into a narrow drawing must fit into a wider one too: those numbers come first.
        texts = {node: numbers[node] for node in rooms} | by_doubt
        fitting = room_for_numbers(texts, start, x, row, width=width, row_height=row_height)
        rooms |= {node: room for node in texts if node in fitting and node not in rooms}
    return rooms


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
    """The nodes whose number fits into a drawing of this width: at the end of the node's branch, above it.

    start, end: of the branches, from 0 to 1. A number may stick out by a part of its width. Numbers are placed in
    order, so the first ones in `texts` win. Each is compared with those of neighbouring rows only.
    """
    placed: dict[int, list[_Box]] = {}
    fitting = set()
    for node, text in texts.items():
        right, bottom = end[node] * width - GAP, row[node] * row_height - 1
        box = _Box(right - DIGIT_WIDTH * len(text), bottom - HEIGHT, right, bottom)
        fits = box.left > start[node] * width - OVERHANG * (box.right - box.left)
        band = int(row[node])
        around = [other for near in (band - 1, band, band + 1) for other in placed.get(near, ())]
        if fits and not any(box.meets(other) for other in around):
            placed.setdefault(band, []).append(box)
            fitting.add(node)
    return fitting
