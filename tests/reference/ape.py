"""Trees as R's ape reads them: names of leaves, and every branch as the leaves below it and its length."""

import json
import os
import subprocess
from pathlib import Path
from typing import NamedTuple

SCRIPT = r"""
suppressMessages(library(ape))
options(warn = 2)
arguments <- commandArgs(trailingOnly = TRUE)
is_nexus <- arguments[1] == "nexus"
trees <- if (is_nexus) read.nexus(arguments[2], force.multi = TRUE) else read.tree(arguments[2], keep.multi = TRUE)
listed <- function(words) paste0("[", paste(words, collapse = ","), "]")
quoted <- function(words) listed(encodeString(words, quote = '"'))
numbers <- function(values) listed(ifelse(is.na(values), "null", format(values, digits = 17)))
cat("[")
for (place in seq_along(trees)) {
    tree <- trees[[place]]
    name <- if (is.null(names(trees))) "" else names(trees)[place]
    if (place > 1) cat(",")
    cat('{"name":', encodeString(name, quote = '"'), ',"tips":', quoted(tree$tip.label), sep = "")
    cat(',"above":', numbers(tree$edge[, 1] - 1), ',"below":', numbers(tree$edge[, 2] - 1), sep = "")
    cat(',"lengths":', if (is.null(tree$edge.length)) "null" else numbers(tree$edge.length), sep = "")
    cat(',"labels":', if (is.null(tree$node.label)) "null" else quoted(tree$node.label), "}", sep = "")
}
cat("]")
"""


class ApeTree(NamedTuple):
    """One tree; `lengths` and `labels` are by the set of leaves below."""

    name: str
    tips: list[str]
    lengths: dict[frozenset[str], float | None]
    labels: dict[frozenset[str], str]


def read_with_ape(rscript: str, path: Path, schema: str) -> list[ApeTree]:
    """All trees of a file, `newick` or `nexus`; a warning of ape is an error."""
    environment = {**os.environ, "LC_ALL": "C.UTF-8"}
    run = subprocess.run(
        [rscript, "-e", SCRIPT, schema, str(path)], capture_output=True, encoding="utf-8", env=environment
    )
    assert run.returncode == 0, run.stderr
    return [_as_sets(tree) for tree in json.loads(run.stdout)]


def _as_sets(tree: dict) -> ApeTree:
    children: dict[int, list[int]] = {}
    for above, below in zip(tree["above"], tree["below"], strict=True):
        children.setdefault(above, []).append(below)

    def leaves(node: int) -> frozenset[str]:
        if node < len(tree["tips"]):
            return frozenset([tree["tips"][node]])
        return frozenset().union(*map(leaves, children[node]))

    lengths = tree["lengths"] or [None] * len(tree["below"])
    first = len(tree["tips"])
    return ApeTree(
        tree["name"],
        tree["tips"],
        {leaves(below): length for below, length in zip(tree["below"], lengths, strict=True)},
        {leaves(first + place): label for place, label in enumerate(tree["labels"] or [])},
    )
