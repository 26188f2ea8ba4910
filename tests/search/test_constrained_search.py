"""Searches and bootstraps under constraints: the best of all trees that satisfy them, and bootstrap trees alike."""

import json
from pathlib import Path

import numpy as np
import pytest

from phloem.config import BootstrapConfig
from phloem.config.search import SearchConfig
from phloem.data.patterns import compress
from phloem.data.reading import read_alignment
from phloem.errors import FileProblem
from phloem.search.bootstrap import bootstrap_files, bootstrap_samples
from phloem.search.embedded import search_trees
from phloem.search.iqtree import IQTREE
from phloem.target.estimation import optimize_branch_lengths
from phloem.target.likelihood import TreeLikelihood
from phloem.trees.constraints import TopologyConstraints
from phloem.trees.generation import all_topologies
from support.search_cases import MODELS, evolved

FEW = BootstrapConfig(count=30, replicates=1, method="embedded", threads=1)


def constrained(taxa: tuple[str, ...], *clades: tuple[int, ...]) -> TopologyConstraints:
    return TopologyConstraints.of(taxa, [(str(clade), [taxa[taxon] for taxon in clade]) for clade in clades])


@pytest.mark.parametrize(("words", "seed"), [("JC", 1), ("JC", 2), ("HKY", 3)])
@pytest.mark.parametrize("clades", [((2, 5),), ((1, 4), (3, 6)), ((2, 3, 6), (2, 6))])
def test_it_finds_the_best_of_all_topologies_that_satisfy_constraints(words, seed, clades):
    alignment, _ = evolved(7, 80, seed, MODELS[words])
    constraints = constrained(alignment.taxa, *clades)
    found = search_trees(alignment, SearchConfig(count=50, threads=1, model=words, seed=seed), constraints=constraints)
    assert constraints.hold(found.topology).all()
    assert constraints.hold(found.bootstrap.topologies).all()
    likelihood = TreeLikelihood(compress(alignment), found.model, threads=1)
    topologies = all_topologies(7)
    topologies = topologies[np.flatnonzero(constraints.hold(topologies))]
    reached = optimize_branch_lengths(likelihood, topologies, tolerance=1e-5)
    assert found.log_likelihood > reached.log_likelihoods.max() - 0.01


def test_a_tree_without_freedom_is_found():
    alignment, _ = evolved(6, 80, 1)
    constraints = constrained(alignment.taxa, (1, 4), (1, 4, 2), (3, 5))
    found = search_trees(alignment, SearchConfig(count=5, threads=1), constraints=constraints)
    assert constraints.hold(found.bootstrap.topologies).all()
    assert len(found.bootstrap.distinct()) == 1


@pytest.mark.skipif(not IQTREE.is_installed, reason="needs IQ-TREE")
@pytest.mark.slow
def test_bootstrap_trees_of_iqtree_satisfy_constraints_that_the_data_contradict():
    alignment = read_alignment("primates")
    constraints = constrained(alignment.taxa, (0, 5), (3, 8, 10), (3, 10))
    config = BootstrapConfig(count=1000, replicates=1, method="iqtree", threads=1)
    (found,) = bootstrap_samples(alignment, config, constraints=constraints)
    assert len(found) == 1000
    assert constraints.hold(found.topologies).all()


def test_replicates_of_other_constraints_are_in_the_way(tmp_path):
    alignment, _ = evolved(6, 60, 1)
    one, two = constrained(alignment.taxa, (1, 4), (2, 3)), constrained(alignment.taxa, (1, 4))
    out = tmp_path / "bootstrap"
    files = bootstrap_files(alignment, out, FEW, constraints=one)
    assert files.found == 0
    backwards = constrained(alignment.taxa, (0, 1, 4, 5), (0, 2, 3, 5))  # the same splits
    assert bootstrap_files(alignment, out, FEW, constraints=backwards).found == 1
    for other in (two, None):
        with pytest.raises(FileProblem, match=r"holds replicates under other constraints\. Choose another --out"):
            bootstrap_files(alignment, out, FEW, constraints=other)
    free = tmp_path / "free"
    bootstrap_files(alignment, free, FEW)
    assert "constraints" not in json.loads(Path(free / "bootstrap.json").read_text())
    with pytest.raises(FileProblem, match="under other constraints"):
        bootstrap_files(alignment, free, FEW, constraints=two)
