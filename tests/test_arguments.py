"""Public functions and records say in one line that they were given the wrong kind of thing."""

from pathlib import Path

import numpy as np
import pytest
import torch

import phloem
from phloem import data, models, trees
from phloem.errors import BadArgument, PhloemError
from support.messages import saying

SAMPLE = trees.parse_newick(["(A:1,B:1,(C:1,D:1):1);", "(A:1,C:1,(B:1,D:1):1);"])
BATCH = SAMPLE.topologies
SPLITS = trees.split_frequencies(SAMPLE)
GROUPED = trees.GroupedTrees.from_sample(SAMPLE)
LENGTHS = trees.split_lengths(GROUPED)
TREE = trees.majority_rule(SPLITS)
SUMMARY = trees.summary_tree(TREE, LENGTHS)
ALIGNMENT = data.Alignment.from_sequences("ABCD", ["ACGT", "ACGA", "ACCA", "TCCA"])
PATTERNS = data.compress(ALIGNMENT)
STREAM = phloem.RandomStream(1, "test")
# Calls that are right; in each, every argument is replaced by things of other kinds.
CALLS = [
    (data.Alignment, [ALIGNMENT.taxa, ALIGNMENT.states]),
    (data.compress, [ALIGNMENT]),
    (data.find_trees, ["primates"]),
    (data.read_alignment, ["primates"]),
    (trees.majority_rule, [SPLITS, 0.5]),
    (trees.extended_majority_rule, [SPLITS]),
    (trees.maximum_clade_credibility, [SAMPLE, SPLITS]),
    (trees.summary_tree, [TREE, LENGTHS]),
    (trees.SummaryTree, [SUMMARY.taxa, SUMMARY.tree, *[SUMMARY.length] * 4]),
    (trees.split_frequencies, [SAMPLE]),
    (trees.split_lengths, [GROUPED, 0.9]),
    (trees.robinson_foulds, [BATCH, BATCH]),
    (trees.credible_topologies, [SAMPLE, 0.5]),
    (trees.pool, [[SAMPLE, SAMPLE]]),
    (trees.all_topologies, [5]),
    (trees.nni_neighbors, [BATCH]),
    (trees.read_trees, [data.find_trees("primates")]),
    (trees.read_any_trees, [data.find_trees("primates")]),
    (trees.parse_newick, [["(A,B,C);"]]),
    (trees.root_at_midpoint, [SUMMARY]),
    (trees.root_at_outgroup, [SUMMARY, ["A"]]),
    (trees.Tree, [TREE.parent, TREE.leaf_count]),
    (trees.TopologyBatch, [BATCH.parent, BATCH.neighbors]),
    (trees.TreeSample, [SAMPLE.taxa, BATCH, SAMPLE.weights, SAMPLE.branch_lengths]),
    (trees.GroupedTrees.from_sample, [SAMPLE]),
    (trees.WeightedTrees, [SAMPLE.taxa, (TREE,), np.ones(1)]),
    (models.SiteRates, [0.5, 4, "mean", 0.1]),
    (models.SubstitutionModel, ["JC", torch.ones(6).double(), torch.full((4,), 0.25).double(), models.SiteRates()]),
    (models.k80, [2.0]),
    (models.f81, [[0.25] * 4]),
    (models.gtr, [[1.0] * 6, [0.25] * 4]),
]
OTHERS = [None, 3, -2.5, True, "none", [], [1], ["A"], object(), b"x", {}, np.ones(3), torch.ones(2), Path("none")]
OTHERS += [SAMPLE, BATCH, SPLITS, TREE, ALIGNMENT, PATTERNS]


@pytest.mark.parametrize(("call", "arguments"), CALLS, ids=lambda value: getattr(value, "__qualname__", ""))
def test_every_other_kind_of_thing_is_taken_or_refused_in_one_line(call, arguments):
    call(*arguments)
    refused = 0
    for place in range(len(arguments)):
        for other in OTHERS:
            given = [*arguments[:place], other, *arguments[place + 1 :]]
            try:
                call(*given)
            except PhloemError as problem:
                refused += 1
                assert len(str(problem).splitlines()) == 1  # noqa: PT017
    assert refused > len(OTHERS) / 3


@pytest.mark.parametrize(
    ("call", "facts"),
    [
        (lambda: trees.majority_rule(SAMPLE), "majority_rule … splits is a TreeSample … split_frequencies"),
        (lambda: trees.pool(SAMPLE), "pool … samples is a TreeSample … a list of TreeSample"),
        (lambda: trees.pool([SAMPLE, BATCH]), "pool … a list of TreeSample"),
        (lambda: data.compress(SAMPLE), "compress … alignment is a TreeSample … an Alignment"),
        (lambda: trees.read_trees(None), "read_trees … path is missing … a path"),
        (lambda: trees.all_topologies(True), "taxon_count is a bool … a whole number"),
        (lambda: models.SiteRates("0.5"), "is a str … numbers"),
        (lambda: models.SiteRates([0.5, 1]), "shape … one number"),
        (lambda: models.jc69(0.5), "site_rates is a float … a SiteRates"),
    ],
)
def test_the_line_says_what_is_needed(call, facts):
    with pytest.raises(BadArgument, match=saying(facts)):
        call()


def test_numbers_of_every_library_are_numbers():
    assert (
        models.SiteRates(0.5).rates().tolist()
        == models.SiteRates(torch.tensor(0.5, dtype=torch.float64)).rates().tolist()
    )
    assert len(trees.all_topologies(np.int64(5))) == 15
    assert len(trees.credible_topologies(SAMPLE, np.float32(1))) == 2
    assert models.f81(np.full(4, 0.25)).frequencies.tolist() == [0.25] * 4
    shape = torch.tensor(0.5, dtype=torch.float64, requires_grad=True)
    assert models.SiteRates(shape).shape is shape
