"""What the real IQ-TREE does with alignments, ordinary and odd ones."""

import time
from collections import Counter

import numpy as np
import pytest

from phloem.config import BootstrapConfig
from phloem.data.alignment import Alignment
from phloem.data.reading import find_trees, read_alignment
from phloem.errors import ProgramProblem
from phloem.search.bootstrap import bootstrap_files
from phloem.trees.reading import read_trees

ONE = BootstrapConfig(replicates=1)


@pytest.fixture(scope="module")
def primates() -> Alignment:
    return read_alignment("primates")


def test_trees_do_not_depend_on_threads_and_do_on_the_seed(iqtree, primates, tmp_path):
    one = bootstrap_files(primates, tmp_path / "one", BootstrapConfig(replicates=2, threads=1)).files
    two = bootstrap_files(primates, tmp_path / "two", BootstrapConfig(replicates=2, threads=2)).files
    other = bootstrap_files(primates, tmp_path / "other", BootstrapConfig(replicates=2, seed=2)).files
    contents = [[path.read_bytes() for path in files] for files in (one, two, other)]
    assert contents[0] == contents[1]
    assert len({*contents[0], *contents[2]}) == 4
    assert (tmp_path / "one" / "bootstrap.json").read_bytes() == (tmp_path / "two" / "bootstrap.json").read_bytes()


def test_trees_are_those_of_the_primates(iqtree, primates, tmp_path):
    [path] = bootstrap_files(primates, tmp_path / "out", BootstrapConfig(replicates=1, count=1500)).files
    sample = read_trees(path, taxa=primates.taxa)
    assert len(sample) == 1500
    found = sample.distinct()
    likely = read_trees(find_trees("primates"), taxa=primates.taxa)
    frequent = [trees.topologies.parent[trees.weights.argmax()] for trees in (found, likely)]
    np.testing.assert_array_equal(*frequent)


def test_runs_keep_odd_names(iqtree, tmp_path):
    names = ["a b'c(1)", "x:y", "[z]", "t0", "é,;"]
    odd = Alignment.from_sequences(names, ["ACGTACGTAA", "ACGTACGTAC", "ACGAACTTAC", "ACGAACTTCC", "ACTAACTTCC"])
    [path] = bootstrap_files(odd, tmp_path / "out", ONE).files
    assert read_trees(path, taxa=names).taxa == tuple(names)


@pytest.mark.parametrize(
    "rows",
    [
        ["ACGTACGTAA"] * 3 + ["ACGAACTTCC", "ACTAACTTCC"],
        ["ACGTACGTAA"] * 2 + ["ACGTACGTAC", "ACGTACTTAA"],
        ["ACGTACGTAA"] * 4,
    ],
    ids=["three of five", "two of four", "all four"],
)
def test_identical_sequences_are_leaves_like_all_others(iqtree, tmp_path, rows):
    taxa = [f"taxon{number}" for number in range(len(rows))]
    [path] = bootstrap_files(Alignment.from_sequences(taxa, rows), tmp_path / "out", ONE).files
    sample = read_trees(path, taxa=taxa)
    frequencies = Counter(map(bytes, sample.topologies.parent))
    # Nothing tells identical sequences apart, so their resolutions come up about equally often.
    assert frequencies.most_common(3)[2][1] > 200


def test_sequences_of_ambiguous_letters_are_nucleotides(iqtree, tmp_path):
    """Without being told, IQ-TREE takes these for proteins."""
    rows = ["RRYYSS", "MMKKWW", "BBDDHH", "VVNNAC", "ACGTAC"]
    assert len(bootstrap_files(Alignment.from_sequences("ABCDE", rows), tmp_path / "out", ONE).files) == 1


def test_an_error_is_told_in_its_own_words(iqtree, primates, tmp_path):
    with pytest.raises(ProgramProblem, match=r"^replicate 1: IQ-TREE ended with exit code 2 \(ERROR: .*NOSUCH"):
        bootstrap_files(primates, tmp_path / "out", BootstrapConfig(replicates=1, model="NOSUCH"))
    assert b"NOSUCH" in (tmp_path / "out" / "replicate_01.log").read_bytes()


def test_a_run_is_stopped_at_once(iqtree, primates, tmp_path):
    start = time.monotonic()
    with pytest.raises(ProgramProblem, match=r"took more than 0\.2 seconds and was killed"):
        bootstrap_files(primates, tmp_path / "out", BootstrapConfig(count=100_000, timeout=0.2))
    assert time.monotonic() - start < 10
