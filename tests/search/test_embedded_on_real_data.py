"""The search on real sequences, beside IQ-TREE, its bootstrap trees, and a posterior by MrBayes."""

import re
import subprocess

import numpy as np
import pytest

from phloem.config.search import SearchConfig
from phloem.data.reading import find_alignment, read_alignment
from phloem.search.embedded import search_trees
from phloem.trees.reading import read_trees
from phloem.trees.sample import TreeSample, pool
from phloem.trees.splits import split_frequencies
from phloem.variational.sbn import collect_support

# The best tree of DS1 under Jukes–Cantor by IQ-TREE 2.0.7, `iqtree2 -s DS1.fasta -m JC -seed 1`: -6884.6006.
DS1_LOG_LIKELIHOOD = -6884.601


def iqtree_best(iqtree: str, folder, words: str) -> float:
    """The log-likelihood of the best tree of the primates that IQ-TREE finds."""
    command = [iqtree, "-s", str(find_alignment("primates")), "-m", words, "-pre", "out", "-nt", "1", "-seed", "1"]
    subprocess.run([*command, "-quiet", "-keep-ident"], cwd=folder, check=True, capture_output=True)
    found = re.search(r"Log-likelihood of the tree: (\S+)", (folder / "out.iqtree").read_text())
    assert found is not None
    return float(found.group(1))


@pytest.mark.parametrize("words", ["JC", "HKY", "GTR+G4"])
def test_the_best_tree_of_the_primates_is_as_good_as_iqtrees(iqtree, tmp_path, words):
    # With +F frequencies are counted, as ours are.
    theirs = iqtree_best(
        iqtree, tmp_path, words if words == "JC" else words.replace("GTR", "GTR+F").replace("Y", "Y+F")
    )
    ours = search_trees(read_alignment("primates"), SearchConfig(count=100, model=words, threads=1))
    assert ours.log_likelihood >= theirs - 0.05


def test_the_best_tree_of_ds1_is_as_good_as_iqtrees(real_data):
    alignment = read_alignment(real_data / "alignments" / "DS1.fasta")
    found = search_trees(alignment, SearchConfig(count=100, threads=1))
    assert found.log_likelihood >= DS1_LOG_LIKELIHOOD - 0.05


def supports_of(sample: TreeSample) -> dict[bytes, float]:
    frequencies = split_frequencies(sample)
    return {row.tobytes(): share for row, share in zip(frequencies.members, frequencies.frequencies, strict=True)}


@pytest.fixture(scope="module")
def ds1_replicates(real_data) -> list[TreeSample]:
    """Three searches of DS1 with a thousand bootstrap trees each."""
    alignment = read_alignment(real_data / "alignments" / "DS1.fasta")
    return [search_trees(alignment, SearchConfig(seed=seed)).bootstrap for seed in (1, 2, 3)]


@pytest.mark.slow
def test_split_supports_of_ds1_are_those_of_the_ultrafast_bootstrap(real_data, ds1_replicates):
    theirs = read_trees(real_data / "ufboot" / "DS1" / "rep_1.ufboot.gz", taxa=ds1_replicates[0].taxa)
    for sample in ds1_replicates:
        tables = supports_of(sample), supports_of(theirs)
        splits = sorted(tables[0].keys() | tables[1].keys())
        values = [[table.get(split, 0.0) for split in splits] for table in tables]
        assert np.corrcoef(values)[0, 1] >= 0.97


@pytest.mark.slow
def test_the_support_of_three_replicates_covers_the_posterior_of_ds1(real_data, ds1_replicates):
    support = collect_support(ds1_replicates, credible=1.0)
    files = sorted((real_data / "mrbayes" / "DS1").glob("*.trprobs.gz"))
    reference = pool([read_trees(path, taxa=support.taxa) for path in files]).distinct()
    covered = reference.weights[support.generates(reference.topologies)].sum()
    assert covered >= 0.99
