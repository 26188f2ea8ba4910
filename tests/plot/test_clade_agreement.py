"""Clade frequencies of two samples against each other."""

import numpy as np
import pytest

from phloem.errors import BadArgument, TaxonMismatch
from phloem.plot import clades
from phloem.plot.lengths import clade_name
from phloem.random_streams import RandomStream
from phloem.trees.generation import random_topologies
from phloem.trees.reading import parse_newick
from phloem.trees.sample import TreeSample
from phloem.trees.splits import split_frequencies
from support.every_figure import TAXA, sample, texts


def dots(figure) -> set[tuple[float, float]]:
    _, everything, _ = figure.axes[0].lines
    return {(round(x, 9), round(y, 9)) for x, y in zip(*everything.get_data(), strict=True)}


def test_a_clade_that_one_sample_lacks_has_frequency_zero_there():
    """The second sample has the first two topologies, with shares 3/4 and 1/4."""
    figure = clades(split_frequencies(sample()), split_frequencies(sample()[:3]))
    assert dots(figure) == {(0.9, 1), (1, 1), (0.7, 0.75), (0.2, 0.25), (0.1, 0)}


def test_the_order_of_the_taxa_does_not_matter():
    random = np.random.default_rng(1)
    taxa = tuple("ABCDEFGH")
    one, other = (
        TreeSample(taxa, random_topologies(8, 50, stream=RandomStream(seed, "trees")), random.uniform(size=50), None)
        for seed in (1, 2)
    )
    expected = dots(clades(split_frequencies(one), split_frequencies(other)))
    shuffled = other.with_taxa(tuple("HCAEBDGF"))
    assert dots(clades(split_frequencies(one), split_frequencies(shuffled))) == expected


def test_the_largest_differences_are_numbered_and_named_below():
    figure = clades(split_frequencies(sample()), split_frequencies(sample()[:3]), labelled=2)
    first, second, key, note = texts(figure)
    assert (first, second) == ("1", "2")
    assert [line[:3] for line in key.splitlines()] == ["1  ", "2  "]
    assert note == "6 clades\nlargest difference 0.100"


def test_samples_that_agree_have_nothing_to_label():
    frequencies = split_frequencies(sample())
    assert texts(clades(frequencies, frequencies)) == ["6 clades\nlargest difference 0.000"]


def test_axes_have_the_samples_names():
    figure = clades(split_frequencies(sample()), split_frequencies(sample()), names=("phloem", "MrBayes"))
    assert figure.axes[0].get_xlabel() == "Clade frequency, phloem"
    assert figure.axes[0].get_ylabel() == "Clade frequency, MrBayes"


def test_trees_without_clades_are_drawn():
    frequencies = split_frequencies(parse_newick("(A,B,C);"))
    assert texts(clades(frequencies, frequencies)) == ["0 clades\nlargest difference 0.000"]


def test_bad_input_is_one_line():
    frequencies = split_frequencies(sample())
    with pytest.raises(BadArgument, match=r"^clade plot: -1 labels. Give 0 or more.$"):
        clades(frequencies, frequencies, labelled=-1)
    with pytest.raises(TaxonMismatch, match=r"^clade plot: lacks 'Tarsier'"):
        clades(frequencies, split_frequencies(parse_newick("(A,B,(C,D));")))


def test_a_clade_is_named_by_its_smaller_side():
    assert clade_name(TAXA, np.array([0, 0, 0, 1, 1, 0], bool)) == "Human, Chimp"
    assert clade_name(TAXA, np.array([0, 0, 1, 1, 1, 1], bool)) == "Tarsier, Lemur"
    assert clade_name(TAXA, np.array([0, 0, 0, 1, 1, 1], bool)) == "Human, Chimp + 1"
