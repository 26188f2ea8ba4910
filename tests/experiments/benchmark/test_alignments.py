"""DS1–DS8: found in several places, recognised by their sequences, copied in one form."""

import shutil

import numpy as np
import pytest

from phloem.data.alignment import Alignment
from phloem.data.reading import load_alignment
from phloem.errors import BadArgument, FileProblem
from phloem.experiments.benchmark import alignments
from phloem.experiments.benchmark.alignments import (
    DATA_SETS,
    PACKAGE_FOLDER,
    format_fasta,
    prepare_alignment,
    sequences_digest,
)
from support.small_benchmark import NAME, data_folder, known


@pytest.mark.parametrize("name", DATA_SETS)
def test_the_benchmark_data_are_recognised(real_data, name, tmp_path):
    found = load_alignment(prepare_alignment(DATA_SETS[name], tmp_path, real_data)).alignment
    assert found.states.shape == (DATA_SETS[name].taxa, DATA_SETS[name].sites)


@pytest.mark.skipif(not PACKAGE_FOLDER.exists(), reason="Debian's beast2-mcmc-examples is not installed")
@pytest.mark.parametrize("name", DATA_SETS)
def test_debians_package_has_the_same_sequences(name, tmp_path, monkeypatch):
    monkeypatch.delenv("PHLOEM_DATA", raising=False)
    path = prepare_alignment(DATA_SETS[name], tmp_path, None)
    found = load_alignment(path).alignment
    assert list(found.taxa) == sorted(found.taxa)
    assert sequences_digest(found) == DATA_SETS[name].digest


@pytest.mark.skipif(not PACKAGE_FOLDER.exists(), reason="Debian's beast2-mcmc-examples is not installed")
@pytest.mark.parametrize("name", DATA_SETS)
def test_the_copy_does_not_depend_on_the_source(real_data, name, tmp_path, monkeypatch):
    ours = prepare_alignment(DATA_SETS[name], tmp_path / "ours", real_data).read_text()
    monkeypatch.delenv("PHLOEM_DATA", raising=False)
    theirs = prepare_alignment(DATA_SETS[name], tmp_path / "theirs", None).read_text()
    if name == "DS6":  # where they call a taxon by another name
        theirs = theirs.replace(">Saccharomyces_cerevisiae_Z75578\n", ">Saccharomyces_cerevisiae\n")
    assert ours == theirs


def test_names_order_and_symbols_of_missing_data_do_not_matter(tmp_path):
    one = Alignment.from_sequences(["a", "b", "c", "d"], ["ACGT-", "ACGTN", "UUGTA", "ACRTA"], "one")
    two = Alignment.from_sequences(["w", "z", "y", "x"], ["ACRTA", "TTGTA", "ACGT?", "ACGTX"], "two")
    other = Alignment.from_sequences(["a", "b", "c", "d"], ["ACGT-", "ACGTN", "UUGTA", "ACGTA"], "other")
    assert sequences_digest(one) == sequences_digest(two) != sequences_digest(other)


def test_a_copy_has_the_same_states_by_name(tmp_path):
    original = Alignment.from_sequences(["d", "b", "c", "a"], ["ACRYKMSWBDHVN-"] * 3 + ["ACGTACGTACGTAC"], "one")
    (tmp_path / "copy.fasta").write_text(format_fasta(original))
    copied = load_alignment(tmp_path / "copy.fasta").alignment
    assert copied.taxa == ("a", "b", "c", "d")
    order = [original.taxa.index(name) for name in copied.taxa]
    np.testing.assert_array_equal(copied.states, original.states[order])


def test_the_copy_is_used_where_the_data_are_gone(tmp_path):
    data = data_folder(tmp_path / "data")
    [wanted] = known().values()
    path = prepare_alignment(wanted, tmp_path / "out", data)
    shutil.rmtree(data)
    assert prepare_alignment(wanted, tmp_path / "out", None) == path


@pytest.mark.parametrize("folder", ["", "alignments"])
def test_files_may_be_in_either_folder(folder, tmp_path):
    data_folder(tmp_path / folder)
    [wanted] = known().values()
    assert prepare_alignment(wanted, tmp_path / "out", tmp_path).exists()


def test_what_is_missing_is_said_with_ways_to_get_it(tmp_path, monkeypatch):
    monkeypatch.delenv("PHLOEM_DATA", raising=False)
    monkeypatch.setattr(alignments, "PACKAGE_FOLDER", tmp_path)
    with pytest.raises(FileProblem, match="install Debian's package beast2-mcmc-examples, which has it as testHKY336"):
        prepare_alignment(DATA_SETS["DS1"], tmp_path / "out", None)
    with pytest.raises(FileProblem, match=r"DS1.fasta \(27 taxa, 1,949 sites\) by --data or PHLOEM_DATA"):
        prepare_alignment(DATA_SETS["DS1"], tmp_path / "out", tmp_path)
    with pytest.raises(BadArgument, match="--data nowhere: no such directory"):
        prepare_alignment(DATA_SETS["DS1"], tmp_path / "out", alignments.Path("nowhere"))


def test_another_alignment_is_refused(tmp_path):
    data = data_folder(tmp_path / "data")
    text = (data / f"{NAME}.fasta").read_text()
    (data / f"{NAME}.fasta").write_text(text[:-2] + ("A" if text[-2] != "A" else "C") + "\n")
    [wanted] = known().values()
    with pytest.raises(FileProblem, match="is not P1 of the benchmark"):
        prepare_alignment(wanted, tmp_path / "out", data)
    assert not (tmp_path / "out").exists()
