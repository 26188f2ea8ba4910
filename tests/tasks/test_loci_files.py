"""The directory of many loci: names, records, tables."""

import csv
import json
from dataclasses import replace
from pathlib import Path

import pytest

from phloem.errors import BadArgument, FileProblem
from phloem.tasks.loci_files import COLUMNS, LociDirectory, Locus, Record, find_loci, hash_of_file, locus_name
from support.messages import saying

DONE = Record(
    "b10",
    "b10.fasta",
    "ab",
    "done",
    seconds=1.5,
    taxa=4,
    sites=10,
    log_marginal_likelihood=-3.25,
    error=0.5,
    verdict="good",
    consensus="(a,b,c);",
    credible="(a,b,(c,d));",
)


@pytest.fixture
def loci(tmp_path) -> LociDirectory:
    made = LociDirectory(tmp_path / "loci")
    made.make()
    return made


def rows(loci: LociDirectory) -> list[dict[str, str]]:
    with (loci.path / "loci.csv").open() as stream:
        return list(csv.DictReader(stream))


@pytest.mark.parametrize(
    ("path", "name"),
    [("data/gene1.fasta.gz", "gene1"), ("a.b.nex", "a.b"), ("plain", "plain"), (".fasta", ".fasta")],
)
def test_a_locus_is_named_after_its_file(path, name):
    assert locus_name(Path(path)) == name


def test_files_and_directories_of_them(tmp_path):
    folder = tmp_path / "genes"
    folder.mkdir()
    for name in ("g10.fasta", "g2.nex.gz", "notes.txt", "g3.PHY"):
        (folder / name).touch()
    other = tmp_path / "x.txt"
    other.touch()
    assert [locus.name for locus in find_loci([other, folder, folder / "g10.fasta"])] == ["x", "g2", "g3", "g10"]


@pytest.mark.parametrize("second", ["b/gene.fasta", "a/gene.nex", "a/GENE.fasta"])
def test_two_files_of_the_same_name_are_refused(tmp_path, second):
    for path in (tmp_path / "a" / "gene.fasta", tmp_path / second):
        path.parent.mkdir(exist_ok=True)
        path.touch()
    with pytest.raises(BadArgument, match=saying("gene.fasta and … two alignments of the same name … Rename one")):
        find_loci([tmp_path / "a" / "gene.fasta", tmp_path / second])


def test_no_alignments(tmp_path):
    (tmp_path / "notes.txt").touch()
    with pytest.raises(BadArgument, match="no files that end like alignments"):
        find_loci([tmp_path])
    with pytest.raises(BadArgument, match="no alignments"):
        find_loci([])
    with pytest.raises(FileProblem, match="no such file"):
        find_loci([tmp_path / "none.fasta"])


def test_records_are_kept_as_they_are(loci):
    loci.keep(DONE)
    assert loci.record("b10") == DONE
    assert loci.records() == {"b10": DONE}
    loci.forget("b10")
    loci.forget("b10")
    assert loci.record("b10") is None


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"locus": "b10"}', json.dumps(DONE.as_json() | {"status": "new"})])
def test_a_damaged_record_is_none(loci, text):
    loci.keep(DONE)
    (loci.path / "records" / "b10.json").write_text(text)
    assert loci.record("b10") is None
    assert loci.records() == {}


def test_tables_have_every_locus_and_trees_those_that_are_done(loci):
    failed = Record("b2", "b2.fasta", "", "failed", message="it is bad, and long")
    for record in (DONE, failed, replace(DONE, locus="a", consensus="(x,y,z);")):
        loci.keep(record)
    loci.write_tables([Locus("b10", Path("b10.fasta")), Locus("c", Path("c.fasta"))])
    found = rows(loci)
    assert tuple(found[0]) == COLUMNS
    assert [(row["locus"], row["status"]) for row in found] == [
        ("a", "done"),
        ("b2", "failed"),
        ("b10", "done"),
        ("c", "waiting"),
    ]
    assert found[1]["message"] == "it is bad, and long"
    assert (found[2]["log_marginal_likelihood"], found[2]["error"], found[2]["seconds"]) == ("-3.25", "0.5", "1.5")
    assert (loci.path / "consensus.tre").read_text() == "(x,y,z);\n(a,b,c);\n"
    assert (loci.path / "credible.tre").read_text() == "(a,b,(c,d));\n" * 2


def test_done_is_what_has_a_run_trees_and_the_same_alignment(loci, tmp_path):
    alignment = tmp_path / "b10.fasta"
    alignment.write_text(">a\nA\n")
    sha256 = hash_of_file(alignment)
    loci.keep(replace(DONE, sha256=sha256))
    assert not loci.is_done("b10", sha256)
    loci.run("b10").mkdir()
    (loci.run("b10") / "summary.json").touch()
    assert not loci.is_done("b10", sha256)
    loci.trees("b10").touch()
    assert loci.is_done("b10", sha256)
    assert not loci.is_done("b10", "another")
    assert not loci.is_done("other", sha256)
    loci.keep(replace(DONE, sha256=sha256, status="stopped"))
    assert not loci.is_done("b10", sha256)


def test_a_directory_of_something_else_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(FileProblem, match=r"holds thesis.tex and no loci"):
        LociDirectory(tmp_path).make()
    with pytest.raises(FileProblem, match="not a directory"):
        LociDirectory(tmp_path / "thesis.tex").make()
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]
