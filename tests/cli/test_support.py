"""`phloem support` and `phloem sbn`: what users type, see, and get wrong."""

import json
from pathlib import Path

import numpy as np
import pytest

from phloem.cli.main import run
from phloem.variational.sbn import read_network, read_support
from support.command_line import complaint
from support.messages import assert_says

FIVE = "((a,b),c,(d,e));\n" * 6 + "((a,c),b,(d,e));\n" * 3 + "((b,c),a,(d,e));\n"


def printed_json(capsys):
    return json.loads(capsys.readouterr().out)


def test_support_of_the_bundled_trees(capsys):
    assert run(["support", "primates"]) == 0
    out = capsys.readouterr().out
    assert "21 trees on 12 taxa in 1 file" in out
    for name, value in (("topologies", "7"), ("splits", "26"), ("tables", "119"), ("parameters", "108")):
        assert any(line.split() == [name, value] for line in out.splitlines()), name


def test_json_has_what_the_table_has(capsys):
    assert run(["support", "primates", "--covers", "primates", "--json"]) == 0
    found = printed_json(capsys)
    assert {key: found[key] for key in ("topologies", "splits", "tables", "parameters")} == {
        "topologies": 7,
        "splits": 26,
        "tables": 119,
        "parameters": 108,
    }
    assert 0.95 < found["coverage"] <= 1
    assert run(["support", "primates", "--json"]) == 0
    assert printed_json(capsys)["coverage"] is None


def test_every_option_changes_something(capsys):
    Path("one.nwk").write_text(FIVE)
    Path("two.nwk").write_text("((a,d),c,(b,e));\n" * 2)

    def topologies(*options):
        assert run(["support", "one.nwk", *options, "--json"]) == 0
        return printed_json(capsys)["topologies"]

    assert topologies() == 2  # 6 + 3 of 10; the last crosses 0.95
    assert topologies("--credible", "1") == 3
    assert topologies("--credible", "0.6") == 1
    assert topologies("two.nwk") == 3
    assert topologies("two.nwk", "--minimum-count", "3") == 2
    assert topologies("--burnin", "9") == 1
    assert topologies("--out", "support.npz") == 2
    assert read_support("support.npz").topology_count == 2


def test_coverage_is_the_share_of_weight_that_can_be_generated(capsys):
    Path("one.nwk").write_text(FIVE)
    Path("reference.nwk").write_text("((a,b),c,(d,e));\n((a,b),c,(d,e));\n((a,d),c,(b,e));\n((e,d),b,(c,a));\n")
    assert run(["support", "one.nwk", "--covers", "reference.nwk", "--json"]) == 0
    assert printed_json(capsys)["coverage"] == pytest.approx(0.75)
    Path("other.nwk").write_text("((a,d),c,(b,e));\n")
    assert run(["support", "one.nwk", "--covers", "reference.nwk", "--covers", "other.nwk", "--json"]) == 0
    assert printed_json(capsys)["coverage"] == pytest.approx(0.375)


def test_a_closed_support_covers_trees_of_seen_clades(capsys):
    Path("one.nwk").write_text("(a,c,(e,(f,(b,d))));\n(a,b,(c,(e,(d,f))));\n(a,d,(b,(e,(c,f))));\n")
    Path("reference.nwk").write_text("(a,c,(e,(f,(b,d))));\n(a,(b,d),(e,(c,f)));\n")
    found = {}
    for closure in ("none", "clades"):
        options = ["--closure", closure, "--credible", "1", "--out", f"{closure}.npz"]
        assert run(["support", "one.nwk", "--covers", "reference.nwk", *options, "--json"]) == 0
        found[closure] = printed_json(capsys)
        assert found[closure]["splits_left_out"] == 0
    assert found["none"]["topologies"] == found["clades"]["topologies"] == 3
    assert found["none"]["splits"] == found["clades"]["splits"]
    assert found["none"]["coverage"] == pytest.approx(0.5)
    assert found["clades"]["coverage"] == pytest.approx(1)
    assert read_support("clades.npz").closed
    assert not read_support("none.npz").closed


def test_splits_that_are_left_out_are_told(capsys, monkeypatch):
    Path("one.nwk").write_text(FIVE)
    options = ["--credible", "1", "--closure", "clades"]
    assert run(["support", "one.nwk", *options]) == 0
    assert "left out" not in capsys.readouterr().out
    monkeypatch.setattr("phloem.variational.sbn.MOST_CLOSED_ENTRIES", 16)
    assert run(["support", "one.nwk", *options]) == 0
    assert any(line.split() == ["splits", "left", "out", "2"] for line in capsys.readouterr().out.splitlines())
    assert run(["sbn", "fit", "one.nwk", "--out", "fitted.npz", "--closure", "clades"]) == 0
    assert "3 topologies on 5 taxa, 2 rare splits left out, 0 parameters" in capsys.readouterr().out


def test_a_directory_stands_for_its_tree_files(capsys):
    Path("trees").mkdir()
    Path("trees/a.nwk").write_text(FIVE)
    Path("trees/b.ufboot").write_text(FIVE)
    Path("trees/notes.txt").write_text("not trees")
    assert run(["support", "trees", "--json"]) == 0
    assert printed_json(capsys)["replicates"] == 2
    Path("empty").mkdir()
    assert run(["support", "empty"]) == 2
    assert_says(complaint(capsys), "empty: … no tree files")


def test_case_does_not_matter_in_names_of_tree_files(capsys):
    Path("trees").mkdir()
    Path("trees/A.NWK").write_text(FIVE)
    assert run(["support", "trees", "--json"]) == 0
    assert printed_json(capsys)["replicates"] == 1


def test_the_burnin_is_that_of_the_reference_where_there_is_one(capsys):
    Path("one.nwk").write_text(FIVE)
    Path("reference.nwk").write_text("((a,d),c,(b,e));\n((a,b),c,(d,e));\n")
    assert run(["support", "one.nwk", "--covers", "reference.nwk", "--burnin", "1", "--json"]) == 0
    found = printed_json(capsys)
    assert found["coverage"] == pytest.approx(1)
    assert (found["trees"], found["reference_trees"]) == (FIVE.count(";"), 1)
    assert run(["support", "one.nwk", "--covers", "reference.nwk", "--burnin", "0.5"]) == 0
    assert f"{FIVE.count(';')} trees on 5 taxa in 1 file\n1 tree to cover\n" in capsys.readouterr().out
    assert run(["support", "one.nwk", "--burnin", "1", "--json"]) == 0
    assert printed_json(capsys)["trees"] == FIVE.count(";") - 1


def test_trees_with_weights_have_no_burnin(capsys):
    Path("one.nwk").write_text("[&W 0.6] ((a,b),c,(d,e));\n[&W 0.4] ((a,c),b,(d,e));\n[&W 0.1] ((a,d),b,(c,e));\n")
    assert run(["support", "one.nwk", "--json"]) == 0
    capsys.readouterr()
    assert run(["support", "one.nwk", "--burnin", "1"]) == 2
    assert_says(complaint(capsys), "one.nwk: … weights … --burnin")


def test_the_reference_is_not_written_over(capsys):
    Path("one.nwk").write_text(FIVE)
    Path("reference.nwk").write_text("((a,d),c,(b,e));\n((a,b),c,(d,e));\n")
    assert run(["support", "one.nwk", "--covers", "reference.nwk", "--json"]) == 0
    assert printed_json(capsys)["coverage"] == pytest.approx(0.5)
    assert run(["support", "one.nwk", "--covers", "reference.nwk", "--out", "reference.nwk"]) == 2
    assert_says(complaint(capsys), "reference.nwk: … input")


def test_files_may_list_their_taxa_in_other_orders(capsys):
    Path("one.nex").write_text("#NEXUS\nbegin trees;\ntranslate 1 a, 2 b, 3 c, 4 d;\ntree x = (1,2,(3,4));\nend;\n")
    Path("two.nex").write_text("#NEXUS\nbegin trees;\ntranslate 1 d, 2 c, 3 b, 4 a;\ntree x = (1,2,(3,4));\nend;\n")
    assert run(["support", "one.nex", "two.nex", "--json"]) == 0
    assert printed_json(capsys)["topologies"] == 1


def test_trees_of_weight_zero_are_scored_and_weigh_nothing(capsys, monkeypatch):
    monkeypatch.setattr("phloem.tasks.sbn.CHUNK", 2)
    Path("one.nwk").write_text(FIVE)
    assert run(["sbn", "fit", "one.nwk", "--out", "fitted.npz", "--smoothing", "0"]) == 0
    Path("more.nwk").write_text("[&W 6]((a,b),c,(d,e));\n[&W 4]((a,c),b,(d,e));\n[&W 0]((a,d),c,(b,e));\n")
    capsys.readouterr()
    assert run(["sbn", "score", "fitted.npz", "more.nwk", "--json"]) == 0
    scores = printed_json(capsys)
    assert len(scores["trees"]) == 3
    assert scores["trees"][2]["log_probability"] is None
    assert scores["coverage"] == 1
    assert scores["divergence"] == pytest.approx(0.6 * np.log(0.6 / 0.6) + 0.4 * np.log(0.4 / 0.3), abs=1e-3)


def test_a_place_that_cannot_be_written_is_known_before_the_work(capsys, monkeypatch):
    monkeypatch.setattr("phloem.tasks.sbn.read_samples", lambda *_, **__: pytest.fail("work was done"))
    monkeypatch.setattr("phloem.tasks.support.read_samples", lambda *_, **__: pytest.fail("work was done"))
    Path("one.nwk").write_text(FIVE)
    for command in (["sbn", "fit"], ["support"]):
        assert run([*command, "one.nwk", "--out", "nowhere/x.npz"]) == 2
        assert_says(complaint(capsys), "nowhere/x.npz: … directory")
        assert run([*command, "one.nwk", "--out", "x" * 300]) == 2
        assert "File name too long" in complaint(capsys)
        Path("loop").unlink(missing_ok=True)
        Path("loop").symlink_to("loop")
        assert run([*command, "one.nwk", "--out", "loop"]) == 2
        assert "loop: " in complaint(capsys)


def test_one_tree_is_a_support_without_parameters(capsys):
    Path("one.nwk").write_text("((a,b),c,(d,e));\n")
    assert run(["support", "one.nwk", "--json"]) == 0
    found = printed_json(capsys)
    assert (found["topologies"], found["parameters"], found["splits"]) == (1, 0, 7)


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("(a,b,c,d);\n", "polytomy"),
        ("(a,b,c);\n", "bad.nwk: … 3 taxa … 4"),
        ("((a,b),c,(d,a));\n", "'a'"),
        ("", "no tree"),
        ("[&W 0]((a,b),c,(d,e));\n", "bad.nwk: … weight zero"),
    ],
)
def test_bad_trees_are_one_line(capsys, text, facts):
    Path("bad.nwk").write_text(text)
    assert run(["support", "bad.nwk", "--out", "support.npz"]) == 2
    assert_says(complaint(capsys), facts)
    assert not Path("support.npz").exists()


def test_bad_requests_are_one_line(capsys):
    Path("one.nwk").write_text(FIVE)
    Path("six.nwk").write_text("((a,b),c,(d,(e,f)));\n")
    for arguments, facts in (
        (["support", "nowhere.nwk"], "nowhere.nwk: … no such file"),
        (["support", "one.nwk", "--covers", "six.nwk"], "'f'"),
        (["support", "one.nwk", "six.nwk"], "'f'"),
        (["support", "one.nwk", "--credible", "0"], "credible … 0 … 1"),
        (["support", "one.nwk", "--minimum-count", "99"], "minimum count"),
        (["support", "one.nwk", "--burnin", "many"], "--burnin many"),
        (["support", "one.nwk", "--out", "one.nwk"], "one.nwk: … input"),
        (["support", "one.nwk", "--out", "nowhere/support.npz"], "nowhere/support.npz: … directory"),
        (["sbn", "fit", "one.nwk", "--out", "one.nwk"], "one.nwk: … input"),
        (["sbn", "fit", "one.nwk", "--out", "x.npz", "--method", "guess"], "'em', 'average'"),
        (["sbn", "fit", "one.nwk", "--out", "x.npz", "--smoothing", "-1"], "--smoothing"),
        (["sbn", "score", "one.nwk", "one.nwk"], "one.nwk: … .npz"),
        (["sbn"], "Missing command"),
        (["sbn", "fit", "one.nwk", "--out", "x.npz", "--smoothing", "1e308"], "smoothing … 0 … 1"),
    ):
        assert run(arguments) == 2, arguments
        assert_says(complaint(capsys), facts)
    assert Path("one.nwk").read_text() == FIVE


def test_a_network_is_fitted_and_scores_trees(capsys):
    Path("one.nwk").write_text(FIVE)
    assert run(["sbn", "fit", "one.nwk", "--out", "fitted.npz", "--smoothing", "0"]) == 0
    out = capsys.readouterr().out
    assert "3 topologies on 5 taxa" in out
    assert ", 1 iteration of EM" in out
    Path("more.nwk").write_text("((a,b),c,(d,e));\n((a,c),b,(d,e));\n((a,d),c,(b,e));\n")
    assert run(["sbn", "score", "fitted.npz", "more.nwk", "--json"]) == 0
    scores = printed_json(capsys)
    logs = [tree["log_probability"] for tree in scores["trees"]]
    assert np.exp(logs[0]) == pytest.approx(0.6, abs=1e-4)
    assert np.exp(logs[1]) == pytest.approx(0.3, abs=1e-4)
    assert logs[2] is None
    assert scores["coverage"] == pytest.approx(2 / 3)
    assert scores["divergence"] is None
    assert run(["sbn", "score", "fitted.npz", "one.nwk"]) == 0
    out = capsys.readouterr().out
    assert len(out.splitlines()) == 13
    assert "3 topologies, coverage 1.000000, total probability 1.000000, divergence 0.000000" in out


def test_fit_options_change_the_network(capsys):
    Path("one.nwk").write_text(FIVE + "((a,d),c,(b,e));\n(a,d,(c,(b,e)));\n")
    tables = {}
    for name, options in {
        "em": [],
        "average": ["--method", "average"],
        "smooth": ["--smoothing", "0.1"],
        "late": ["--burnin", "0.5"],
        "closed": ["--closure", "clades"],
    }.items():
        assert run(["sbn", "fit", "one.nwk", "--out", f"{name}.npz", *options, "--json"]) == 0
        assert printed_json(capsys)["converged"]
        tables[name] = tuple(read_network(f"{name}.npz").tables().probabilities)
    assert len(set(tables.values())) == 5
    assert run(["sbn", "fit", "one.nwk", "--out", "again.npz"]) == 0
    assert Path("again.npz").read_bytes() == Path("em.npz").read_bytes()


def test_sbn_alone_shows_its_help(capsys):
    assert run(["sbn", "--help"]) == 0
    out = capsys.readouterr().out
    assert "fit" in out
    assert "score" in out
