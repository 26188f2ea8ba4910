"""Topology probabilities with credible sets, and clade frequencies of two samples against each other."""

from dataclasses import replace

import numpy as np
import pytest

from phloem.errors import BadArgument, TaxonMismatch
from phloem.plot import clades, topologies
from phloem.plot.lengths import clade_name
from phloem.random_streams import RandomStream
from phloem.trees.generation import random_topologies
from phloem.trees.reading import parse_newick
from phloem.trees.sample import TreeSample
from phloem.trees.splits import split_frequencies
from support.every_figure import TAXA, sample, texts


def stairs(figure) -> list[list[float]]:
    return [part.get_data().values.round(9).tolist() for part in figure.axes[0].patches]


def test_steps_are_the_probabilities_and_their_sums():
    assert stairs(topologies(sample())) == [[0.6, 0.2, 0.1, 0.1], [0.6, 0.8, 0.9, 1.0]]


def test_credible_sets_are_marked_with_their_sizes():
    figure = topologies(sample(), shares=(0.5, 0.6, 0.8, 0.81, 0.95))
    assert texts(figure) == ["50 %: 1", "60 %: 1", "80 %: 2", "81 %: 3", "95 %: 4"]
    heights = [line.get_ydata()[0] for line in figure.axes[0].lines]
    np.testing.assert_allclose(heights, [0.6, 0.6, 0.8, 0.9, 1])


def test_equal_topologies_are_one_and_weights_need_not_sum_to_one():
    twice = sample()[[0, 0, 1, 1, 2, 2, 3, 3, 4, 4]]
    assert stairs(topologies(replace(twice, weights=7 * twice.weights))) == stairs(topologies(sample()))


def test_the_marks_agree_with_a_count_by_hand_on_many_topologies():
    random = np.random.default_rng(3)
    trees = random_topologies(20, 400, stream=RandomStream(3, "trees"))
    weights = random.pareto(1, 400)
    figure = topologies(TreeSample(tuple(map(str, range(20))), trees, weights, None))
    shares = sorted(weights / weights.sum(), reverse=True)
    for text, share in zip(texts(figure), (0.5, 0.9, 0.95, 0.99), strict=True):
        count = next(count for count in range(1, 401) if sum(shares[:count]) >= share)
        assert text == f"{100 * share:g} %: {count:,}"
    assert figure.axes[0].get_xscale() == "log"


def test_a_single_topology_is_drawn():
    assert stairs(topologies(sample()[:1])) == [[1.0], [1.0]]


def test_bad_input_is_one_line():
    with pytest.raises(BadArgument, match=r"^topology plot: credible shares must be above 0 and below 1.$"):
        topologies(sample(), shares=(0.5, 1.0))
    with pytest.raises(BadArgument, match="all weights are zero"):
        topologies(replace(sample(), weights=np.zeros(5)))


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


def test_bad_samples_are_one_line():
    frequencies = split_frequencies(sample())
    with pytest.raises(BadArgument, match=r"^clade plot: -1 labels. Give 0 or more.$"):
        clades(frequencies, frequencies, labelled=-1)
    with pytest.raises(TaxonMismatch, match=r"^clade plot: lacks 'Tarsier'"):
        clades(frequencies, split_frequencies(parse_newick("(A,B,(C,D));")))


def test_a_clade_is_named_by_its_smaller_side():
    assert clade_name(TAXA, np.array([0, 0, 0, 1, 1, 0], bool)) == "Human, Chimp"
    assert clade_name(TAXA, np.array([0, 0, 1, 1, 1, 1], bool)) == "Tarsier, Lemur"
    assert clade_name(TAXA, np.array([0, 0, 0, 1, 1, 1], bool)) == "Human, Chimp + 1"
