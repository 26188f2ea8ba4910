"""Which supports can be written on a tree's branches without one running into another."""

from typing import NamedTuple

from phloem.kernels.arrays import FloatArray

SIGN_WIDTH = 6.2  # pixels of a digit
HEIGHT = 10.0
GAP = 4.0
OVERHANG = 0.4  # of its width that a number may begin before its branch


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
