"""Tables of topologies and clades."""

import numpy as np

import phloem
from phloem.pipeline import tables
from phloem.pipeline.tables import format_clades, format_topologies, read_topologies

TREES = ["(a,b,(c,(d,e)));", "(a,(b,(d,e)),c);", "(a,b,((c,e),d));"]


def sample(*weights: float) -> phloem.TreeSample:
    parsed = phloem.parse_newick(TREES, taxa=tuple("abcde"))
    return phloem.TreeSample(parsed.taxa, parsed.topologies, np.array(weights), None)


def test_the_last_cumulative_probability_says_what_is_not_listed(monkeypatch, tmp_path):
    monkeypatch.setattr(tables, "MOST_TOPOLOGIES", 2)
    path = tmp_path / "topologies.csv"
    path.write_text(format_topologies(sample(0.5, 0.25, 0.25)))
    assert path.read_text().splitlines()[1:] == [f'1,0.5,0.5,"{TREES[0]}"', f'2,0.25,0.75,"{TREES[1]}"']
    assert read_topologies(path, tuple("abcde")).weights.tolist() == [0.5, 0.25]


def test_clades_are_the_sides_without_the_first_taxon():
    rows = format_clades(phloem.split_frequencies(sample(0.5, 0.3, 0.2))).splitlines()[1:]
    assert rows == ["0.8,2,...**", "0.7,3,..***", "0.3,3,.*.**", "0.2,2,..*.*"]
