"""A tree file's text, cut into trees: what the Newick and the NEXUS scanner both produce."""

from dataclasses import dataclass, replace

import numpy as np

from phloem.errors import TreeFormatError
from phloem.kernels import statements
from phloem.kernels.arrays import ByteArray, FloatArray, LongArray
from phloem.kernels.newick import OPEN, OPEN_COMMENT, QUOTE, SEMICOLON
from phloem.trees.problems import found_at, problem


@dataclass(frozen=True, slots=True, eq=False)
class TreeText:
    """The trees of one file as byte ranges of its content, in file order."""

    source: str
    buffer: ByteArray
    starts: LongArray  # (trees,)  where each tree's Newick text begins
    ends: LongArray  # (trees,)  where its semicolon is
    weights: FloatArray  # (trees,)
    first_tree: int  # number of the first tree in the file: more than 0 after a burn-in
    node_bound: int  # no tree has more nodes than this
    names: dict[str, str] | None  # what a leaf's label stands for; None: labels are the names
    order: tuple[str, ...] | None  # the file's own order of taxa, where it states one

    def without_first(self, count: int) -> "TreeText":
        """Without the first `count` trees."""
        return replace(
            self,
            starts=self.starts[count:],
            ends=self.ends[count:],
            weights=self.weights[count:],
            first_tree=self.first_tree + count,
        )


def scan_statements(source: str, buffer: ByteArray, start: int, *, titled: bool = False) -> LongArray:
    """Spans (statements, 3) of start, semicolon and most nodes; an error where the text breaks off.

    `titled`: not every statement is a tree, and those that are begin with `tree name =`.
    """
    spans = np.empty((np.count_nonzero(buffer == SEMICOLON), 3), np.int64)
    count, stopped = statements.statement_spans(buffer, start, spans)
    if stopped < len(buffer):
        trees = int(statements.is_tree_statement(buffer, spans[:count]).sum()) if titled else count
        raise _unfinished(source, buffer, trees, stopped, titled)
    return spans[:count]


def _unfinished(source: str, buffer: ByteArray, tree: int, position: int, titled: bool) -> TreeFormatError:
    if buffer[position] == OPEN_COMMENT:
        what = "this comment has no closing ']'"
    elif buffer[position] == QUOTE:
        what = "this quoted name has no closing quote"
    elif titled or buffer[position] == OPEN:
        what = "this statement has no ';' at its end. The file may have been cut off"
    else:
        what = f"expected a tree in Newick format, found {found_at(buffer, position)}"
    return problem(source, buffer, tree, position, what)


def locate_trees(
    source: str,
    buffer: ByteArray,
    spans: LongArray,
    *,
    titled: bool = False,
    names: dict[str, str] | None = None,
    order: tuple[str, ...] | None = None,
) -> TreeText:
    """Find each statement's tree and weight, which is 1 where it is not given; `titled`: after `tree name =`."""
    starts = np.empty(len(spans), np.int64)
    weights = np.empty(len(spans))
    bad, position, is_weight = statements.locate_trees(buffer, spans, titled, starts, weights)
    if bad < len(spans):
        what = (
            "the weight must be a finite number that is not negative"
            if is_weight
            else "this statement has no '='. Write `tree name = (…);`"
        )
        raise problem(source, buffer, bad, position, what)
    weights[np.isnan(weights)] = 1.0
    node_bound = int(spans[:, 2].max()) if len(spans) else 0
    return TreeText(source, buffer, starts, spans[:, 1].copy(), weights, 0, node_bound, names, order)
