"""Tables of topologies and clades."""

import csv
import io

import numpy as np
import pytest

import phloem
from phloem.errors import FileProblem
from phloem.tasks import results as tables
from phloem.tasks.run_files import format_clades, format_topologies, read_clades, read_topologies

TREES = ["(a,b,(c,(d,e)));", "(a,(b,(d,e)),c);", "(a,b,((c,e),d));"]


def sample(*weights: float) -> phloem.trees.TreeSample:
    parsed = phloem.trees.parse_newick(TREES, taxa=tuple("abcde"))
    return phloem.trees.TreeSample(parsed.taxa, parsed.topologies, np.array(weights), None)


def test_the_last_cumulative_probability_says_what_is_not_listed(monkeypatch, tmp_path):
    monkeypatch.setattr(tables, "MOST_TOPOLOGIES", 2)
    path = tmp_path / "topologies.csv"
    path.write_text(format_topologies(sample(0.5, 0.25, 0.25)))
    assert path.read_text().splitlines()[1:] == [f'1,0.5,0.5,"{TREES[0]}"', f'2,0.25,0.75,"{TREES[1]}"']
    assert read_topologies(path, tuple("abcde")).weights.tolist() == [0.5, 0.25]


def test_clades_are_the_sides_without_the_first_taxon_and_single_taxa_come_last(tmp_path):
    trees = sample(0.5, 0.3, 0.2)
    lengths = np.full((3, 7), 0.25)
    with_lengths = phloem.trees.TreeSample(trees.taxa, trees.topologies, trees.weights, lengths)
    text = format_clades(phloem.trees.split_lengths(phloem.trees.GroupedTrees.from_sample(with_lengths)))
    header, *rows = [line.split(",") for line in text.splitlines()]
    assert header == ["probability", "taxa", "members", "mean_length", "deviation", "median", "lower", "upper"]
    clades = [[float(row[0]), row[1], row[2]] for row in rows]
    assert clades[:4] == [[0.8, "2", "...**"], [0.7, "3", "..***"], [0.3, "3", ".*.**"], [0.2, "2", "..*.*"]]
    assert clades[4:] == [[1.0, "1", "." * taxon + "*" + "." * (4 - taxon)] for taxon in range(5)]
    assert {tuple(row[3:]) for row in rows} == {("0.25", "0.0", "0.25", "0.25", "0.25")}
    path = tmp_path / "clades.csv"
    path.write_text(text)
    again = read_clades(path, trees.taxa)
    expected = phloem.trees.split_frequencies(trees)
    np.testing.assert_array_equal(again.members, expected.members)
    np.testing.assert_allclose(again.frequencies, expected.frequencies)


def test_every_clade_has_its_own_lengths():
    trees = sample(0.5, 0.3, 0.2)
    several = np.repeat(np.arange(3), 4)
    lengths = np.random.default_rng(1).gamma(2.0, 0.1, (12, 7))
    with_lengths = phloem.trees.TreeSample(trees.taxa, trees.topologies[several], trees.weights[several], lengths)
    splits = phloem.trees.split_lengths(phloem.trees.GroupedTrees.from_sample(with_lengths))
    table = list(csv.DictReader(io.StringIO(format_clades(splits))))
    by_members = {row["members"]: row for row in table}
    assert len(by_members) == len(table) == len(splits.members) == 9
    for place, members in enumerate(splits.members):
        row = by_members["".join("*" if member else "." for member in members)]
        assert float(row["probability"]) == splits.frequency[place]
        for name in ("deviation", "median", "lower", "upper"):
            assert float(row[name]) == getattr(splits, name)[place]
        assert float(row["mean_length"]) == splits.mean[place]


def test_rows_that_are_no_trees_or_no_numbers_are_refused_in_a_line(tmp_path):
    path = tmp_path / "topologies.csv"
    whole = format_topologies(sample(0.5, 0.25, 0.25))
    for old, new in (("(a,b,(c,(d,e)));", "(a,b,(c,(d,x)));"), ("((c,e),d)", "((c,e)"), ("1,0.5,", "1,half,")):
        assert old in whole
        path.write_text(whole.replace(old, new))
        with pytest.raises(FileProblem, match=r"topologies\.csv: .*damaged"):
            read_topologies(path, tuple("abcde"))
