"""Gaps of a run: which trees of the reference are looked at, which are left out, and what is written."""

import csv
import json

import numpy as np
import pytest

import phloem
from phloem.data.reading import find_trees
from phloem.errors import BadArgument, FileProblem, TaxonMismatch
from phloem.tasks.gap import COLUMNS, measure_gaps
from phloem.trees.generation import nni_neighbors
from phloem.trees.reading import read_trees
from phloem.trees.sample import pool
from phloem.trees.writing import format_newick

QUICK = {"model": {"name": "JC"}, "training": {"steps": 60}, "evaluation": {"repeats": 2, "samples": 50}}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A short run for each kind of table, and one of learnable features."""
    folder = tmp_path_factory.mktemp("gap")
    for branches in ("split", "psp", "edge"):
        phloem.infer("primates", "primates", out=folder / branches, runs=1, progress=False, branches=branches, **QUICK)
    return folder


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    """The most frequent primate tree twelve times, a rearrangement six times and another twice."""
    sample = read_trees(find_trees("primates"))
    best = sample.distinct()
    tree = best.topologies[int(best.weights.argmax())]
    around = nni_neighbors(tree)
    known = phloem.variational.SplitModel(phloem.variational.collect_support([sample], credible=0.95)).knows(around)
    outside = int(np.flatnonzero(~known)[0])
    lines = [format_newick(one, sample.taxa)[0] for one in (tree, around[outside], best.topologies[1])]
    path = tmp_path_factory.mktemp("reference") / "reference.nwk"
    path.write_text("\n".join([lines[0]] * 12 + [lines[1]] * 6 + [lines[2]] * 2) + "\n")
    return path


def test_trees_outside_the_tables_are_listed_and_left_out(runs, reference):
    for branches in ("split", "psp"):
        table = measure_gaps(runs / branches, [reference], credible=1, samples=20)
        assert table.trees.weights.tolist() == [0.6, 0.3, 0.1]
        assert table.known.tolist() == [0, 2]
        assert table.unknown.tolist() == [1]
        assert len(table.gaps) == 2
        [outside] = table.as_json()["outside"]
        assert (outside["rank"], outside["probability"]) == (2, pytest.approx(0.3))
        gaps = table.gaps.gap
        assert table.average.gap == pytest.approx(gaps.mean())
        assert table.weighted_average.gap == pytest.approx((0.6 * gaps[0] + 0.1 * gaps[1]) / 0.7)


def test_learnable_features_know_every_tree(runs, reference):
    table = measure_gaps(runs / "edge", [reference], credible=1, samples=20)
    assert table.known.tolist() == [0, 1, 2]
    assert table.as_json()["outside"] == []
    assert table.model_probabilities[1] == 0  # the support does not generate it
    assert (table.gaps.gap > 0).all()


@pytest.mark.parametrize(("credible", "count"), [(0.5, 1), (0.6, 1), (0.61, 2), (0.95, 3), (1.0, 3)])
def test_the_credible_set_is_the_fewest_trees_that_hold_the_share(runs, reference, credible, count):
    assert len(measure_gaps(runs / "edge", [reference], credible=credible, samples=4).trees) == count


def test_the_credible_set_of_ds1_has_the_known_size(real_data):
    from phloem.tasks.gap import _credible_set

    files = sorted((real_data / "mrbayes" / "DS1").glob("*.trprobs.gz"))
    taxa = read_trees(files[0]).taxa
    assert len(_credible_set(pool([read_trees(path, taxa=taxa) for path in files]), 0.95)) == 42


def test_the_files_have_what_the_record_has(runs, reference, tmp_path):
    out, plot = tmp_path / "gaps.csv", tmp_path / "gaps.svg"
    table = measure_gaps(runs / "split", [reference], credible=1, samples=20, out=out, plot=plot)
    with out.open() as stream:
        rows = list(csv.DictReader(stream))
    assert tuple(rows[0]) == (*COLUMNS, "newick")
    assert [row["rank"] for row in rows] == ["1", "2", "3"]
    assert [row["gap"] == "" for row in rows] == [False, True, False]
    found = table.as_json()
    assert float(rows[2]["gap"]) == found["trees"][1]["gap"] == table.gaps.gap[1]
    assert rows[1]["newick"] == found["outside"][0]["newick"]
    assert "average" in plot.read_text()
    assert json.loads(json.dumps(found)) == found
    assert (found["finished"], found["samples"], found["topologies"]) == (True, 20, 3)


def test_of_several_runs_the_best_is_looked_at(reference, finished_runs, other_way_round):
    names = set()
    for path in (finished_runs, other_way_round):
        table = measure_gaps(path, [reference], credible=0.5, samples=20)
        best = max(table.posterior.runs, key=lambda run: run.log_marginal_likelihood.mean)
        assert table.as_json()["run"] == str(best.directory)
        alone = measure_gaps(best.directory, [reference], credible=0.5, samples=20)
        np.testing.assert_array_equal(table.gaps.gap, alone.gaps.gap)
        names.add(best.directory.name)
    assert names == {"run-1", "run-2"}


@pytest.mark.slow
def test_what_cannot_be_is_one_line(runs, reference, tmp_path):
    other = tmp_path / "other.nwk"
    other.write_text("((a,b),c,(d,e));\n")
    with pytest.raises(TaxonMismatch, match=r"other\.nwk"):
        measure_gaps(runs / "split", [other])
    with pytest.raises(FileProblem, match="no phloem run"):
        measure_gaps(tmp_path, [reference])
    with pytest.raises(BadArgument, match="input"):
        measure_gaps(runs / "split", [reference], out=reference)
    with pytest.raises(BadArgument, match="different files"):
        measure_gaps(runs / "split", [reference], out=tmp_path / "a.svg", plot=tmp_path / "x" / ".." / "a.svg")
    with pytest.raises(BadArgument, match="file of the run"):
        measure_gaps(runs / "split", [reference], out=runs / "split" / "summary.json")
    for tolerance in (0, -1, 1.5, float("inf"), float("nan")):
        with pytest.raises(BadArgument, match="tolerance"):
            measure_gaps(runs / "split", [reference], samples=20, tolerance=tolerance)
    with pytest.raises(BadArgument, match="figures"):
        measure_gaps(runs / "split", [reference], plot=tmp_path / "gaps.gif")
    with pytest.raises(BadArgument, match="credible"):
        measure_gaps(runs / "split", [reference], credible=0)
    unknown = tmp_path / "unknown.nwk"
    unknown.write_text(reference.read_text().splitlines()[12])
    with pytest.raises(BadArgument, match="credible tree"):
        measure_gaps(runs / "split", [unknown])
    assert [path.name for path in tmp_path.iterdir() if "gaps" in path.name] == []
