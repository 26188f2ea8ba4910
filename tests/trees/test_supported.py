"""A tree with supports in percent: what is written is what others read."""

import subprocess
from io import StringIO

import numpy as np
import pytest
from Bio import Phylo

import phloem
from phloem.errors import BadArgument
from phloem.trees.consensus import SummaryTree
from phloem.trees.writing import format_supported, write_supported

NAMES = ("A", "B c", "C'd", "D", "E")


@pytest.fixture
def tree() -> SummaryTree:
    """(A,B,((C,D),E)) with supports 97.3 % of {C, D} and 0 % of {C, D, E}."""
    topology = phloem.trees.parse_newick("(A,B,((C,D),E));", taxa="ABCDE").topologies
    nodes = topology.node_count
    nothing = np.full(nodes, np.nan)
    return SummaryTree(
        NAMES,
        phloem.trees.Tree(topology.parent[0], 5),
        np.array([1, 1, 1, 1, 1, 0.973, 0, np.nan]),
        np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, np.nan]),
        nothing,
        nothing,
    )


def test_supports_are_labels_in_percent(tree):
    assert format_supported(tree) == "(A:0.1,'B c':0.2,(('C''d':0.3,D:0.4)97.3:0.6,E:0.5)0:0.7);"


def test_newick_is_read_by_us_and_by_biopython(tree, tmp_path):
    write_supported(tree, tmp_path / "best.nwk")
    text = (tmp_path / "best.nwk").read_text()
    assert text == format_supported(tree) + "\n"
    sample = phloem.read_trees(tmp_path / "best.nwk", taxa=NAMES)
    np.testing.assert_array_equal(sample.topologies.parent[0], tree.tree.parent)
    np.testing.assert_array_equal(sample.branch_lengths[0], tree.length[:-1])
    found = Phylo.read(StringIO(text), "newick")
    assert sorted(clade.confidence for clade in found.get_nonterminals() if clade.confidence is not None) == [0, 97.3]


def test_nexus_has_comments_for_figtree(tree, tmp_path):
    write_supported(tree, tmp_path / "best.nex")
    text = (tmp_path / "best.nex").read_text()
    assert "tree best = [&U] (1:0.1,2:0.2,((3:0.3,4:0.4)[&support=97.3]:0.6,5:0.5)[&support=0]:0.7);" in text
    sample = phloem.read_trees(tmp_path / "best.nex", taxa=NAMES)
    np.testing.assert_array_equal(sample.branch_lengths[0], tree.length[:-1])
    [found] = Phylo.parse(tmp_path / "best.nex", "nexus")
    assert {clade.name.strip("'") for clade in found.get_terminals()} >= {"A", "D", "E"}


def test_ape_reads_both(tree, tmp_path, rscript_ape):
    for name, read in (("best.nwk", "read.tree"), ("best.nex", "read.nexus")):
        write_supported(tree, tmp_path / name)
        script = f"library(ape); t <- {read}('{tmp_path / name}'); cat(Ntip(t), sum(t$edge.length), t$node.label)"
        shown = subprocess.run([rscript_ape, "-e", script], capture_output=True, text=True, check=True).stdout
        assert shown.split()[:2] == ["5", "2.8"]
        if name == "best.nwk":
            assert {"97.3", "0"} <= set(shown.split()[2:])


def test_a_compressed_file_is_refused(tree, tmp_path):
    with pytest.raises(BadArgument, match=r"best.nwk.gz: trees are written as plain text"):
        write_supported(tree, tmp_path / "best.nwk.gz")
