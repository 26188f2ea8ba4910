"""A tree in lines of text."""

import math
import unicodedata
from collections.abc import Sequence

from phloem.errors import BadArgument
from phloem.kernels.arrays import FloatArray
from phloem.trees.topology import TopologyBatch

LEAST_WIDTH = 40
NARROWEST, WIDEST = 4, 8  # columns a level: a corner and `100` need four


def draw_tree(
    topology: TopologyBatch, taxa: Sequence[str], supports: FloatArray | Sequence[float], *, width: int = 80
) -> list[str]:
    """The tree, hung at taxon 0's neighbour, a line a taxon, with the interior branches' supports in percent.

    supports: between 0 and 1, of the branches n to 2n-4. A clade that lies too deep for the width is drawn below on
    its own: `→ [1]` stands for the tree under the line `[1]`. Names that are too long end in `…`.
    """
    leaf_count = topology.taxon_count
    if len(topology) != 1 or len(taxa) != leaf_count or len(supports) != leaf_count - 3:
        raise BadArgument(
            f"tree drawing: {len(topology)} trees on {leaf_count} taxa with {len(taxa)} names and {len(supports)} "
            "supports, where one tree on n taxa, n names and n-3 supports are needed."
        )
    if width < LEAST_WIDTH:
        raise BadArgument(f"tree drawing: {width} columns are too few. Use {LEAST_WIDTH} or more.")
    children, heights = _children_and_heights(topology)
    longest = max(_cells(name) for name in taxa)
    # Names may always have a third of the width, and more where the tree leaves it; numbers of clades need a little.
    names_width = min(longest, max(width // 3, width - NARROWEST * heights[-1] - 1))
    room = width - max(names_width, len(_reference(leaf_count))) - 1
    level_width = max(NARROWEST, min(WIDEST, room // heights[-1]))
    levels = min(heights[-1], room // level_width)
    names = [_shortened(name, names_width) for name in taxa]
    percents = [_percent(support) for support in supports]
    return _Drawing(children, heights, names, percents, levels, level_width).lines()


class _Drawing:
    """Lines in the making. Level k of a tree stands in column k * level_width, and the names after the last one."""

    def __init__(
        self,
        children: list[list[int]],
        heights: list[int],
        names: list[str],
        percents: list[str],
        levels: int,
        level_width: int,
    ) -> None:
        self._children = children
        self._heights = heights
        self._names = names
        self._percents = percents
        self._levels = levels
        self._level_width = level_width
        self._roots = [len(heights) - 1]  # of the trees to draw: the whole one, and the clades that are put off

    def lines(self) -> list[str]:
        """The tree, then what was put off, each below its number."""
        lines: list[str] = []
        for number, root in enumerate(self._roots):  # which grows meanwhile
            lines += ["", f"[{number}]"] if number else []
            lines += self._draw(root)
        return lines

    def _draw(self, root: int) -> list[str]:
        lines = []
        # A node, its level, its line up to itself, and what stands before the lines of its second and third child.
        pending = [(root, 0, "", "")]
        while pending:
            node, level, line, below = pending.pop()
            if node < len(self._names):
                lines.append(self._tip(line, self._names[node]))
            elif level and self._is_put_off(node, level):
                lines.append(self._tip(line, _reference(len(self._roots))))
                self._roots.append(node)
            else:
                children = self._children[node - len(self._names)]
                for place in reversed(range(len(children))):
                    last = place == len(children) - 1
                    start = below + ("└" if last else "├") if place else line + "┬"
                    trunk = below + (" " if last else "│") + " " * (self._level_width - 1)
                    pending.append((children[place], level + 1, start + self._branch(children[place]), trunk))
        return lines

    def _is_put_off(self, node: int, level: int) -> bool:
        """Whether a clade is drawn on its own: as a whole as soon as that is possible, so that no crumbs are left."""
        height = self._heights[node]
        return level + height > self._levels and (height <= self._levels or level == self._levels)

    def _branch(self, node: int) -> str:
        leaf_count = len(self._names)
        percent = "" if node < leaf_count else self._percents[node - leaf_count]
        return f"{percent:─^{self._level_width - 1}}"

    def _tip(self, line: str, text: str) -> str:
        return f"{line.ljust(self._levels * self._level_width, '─')} {text}"


def _children_and_heights(topology: TopologyBatch) -> tuple[list[list[int]], list[int]]:
    """The children of every interior node, low ones first, and how many levels of them each node begins.

    Leaves begin none. Taxon 0 counts as the root's first child. With low clades first the drawing falls to the right.
    """
    neighbors: list[list[int]] = topology.neighbors[0, topology.taxon_count :].tolist()
    children: list[list[int]] = []
    heights = [0] * topology.taxon_count
    for below in [*(around[1:] for around in neighbors[:-1]), neighbors[-1]]:  # children are numbered below parents
        children.append(sorted(below, key=heights.__getitem__))
        heights.append(1 + max(heights[child] for child in below))
    return children, heights


def _reference(number: int) -> str:
    """What stands for a clade that is drawn on its own."""
    return f"→ [{number}]"


def _percent(support: float) -> str:
    return f"{100 * support:.0f}" if math.isfinite(support) else "?"


def _shortened(name: str, width: int) -> str:
    """A printable name that takes at most `width` columns."""
    name = "".join(sign if sign.isprintable() else " " for sign in name)
    if _cells(name) <= width:
        return name
    while _cells(name) > width - 1:
        name = name[:-1]
    return name + "…"


def _cells(text: str) -> int:
    """Columns on a terminal: two for wide signs, none for those that combine with the one before."""
    return sum(0 if unicodedata.combining(sign) else 1 + (unicodedata.east_asian_width(sign) in "WF") for sign in text)
