"""Bad tree files: one line that says file, tree, position and what to do; never a traceback."""

import gzip
import re

import pytest

from phloem.errors import FileProblem, PhloemError, TaxonMismatch, TreeFormatError
from phloem.trees.reading import read_any_trees, read_trees

NEXUS = "#NEXUS\nbegin trees;\n"

BAD_FILES = {
    "empty": ("", "holds no trees"),
    "only blanks and comments": (" \n [nothing] \n", "holds no trees"),
    "truncated": ("(A,B,(C,D));\n(A,B,(C", "tree 2, line 2, column 1: .* no ';'"),
    "no semicolon": ("(A,B,(C,D))", "tree 1, line 1, column 1: .* no ';'"),
    "bracket not closed": ("(A,B,(C,D);", "tree 1, line 1, column 11: .* bracket open"),
    "bracket closed twice": ("(A,B,(C,D)));", "tree 1, line 1, column 12: .* closes nothing"),
    "starts with a closing bracket": (")A,B(;", "tree 1, line 1, column 1: a leaf has no name"),
    "brackets in the middle": ("(A,B(C,D));", r"tree 1, line 1, column 5: '\(' cannot stand here"),
    "duplicate taxon": ("(A,B,(C,A));", "tree 1, line 1, column 9: taxon 'A' is in this tree twice"),
    "duplicate taxon later": ("(A,B,(C,D));(A,B,(C,C));", "tree 2, line 1, column 21: taxon 'C' is in this tree twice"),
    "other taxon": ("(A,B,(C,D));\n(A,B,(C,E));", "tree 2, line 2, column 9: taxon 'E' is not in tree 1"),
    "missing taxon": ("(A,B,(C,D));\n(A,B,C);", "tree 2, line 2, column 8: lacks 'D'"),
    "one more taxon": ("(A,B,(C,D));\n(A,B,(C,(D,E)));", "tree 2, line 2, column 12: taxon 'E'"),
    "leaf without a name": ("(A,,(C,D));", "tree 1, line 1, column 4: a leaf has no name"),
    "empty quotes": ("('',B,(C,D));", "tree 1, line 1, column 2: a leaf has no name"),
    "empty brackets": ("(A,B,());", "tree 1, line 1, column 7: a leaf has no name"),
    "two taxa": ("(A,B);", "tree 1, line 1, column 1: this tree has 2 taxa. At least 3"),
    "one taxon": ("A;", "At least 3"),
    "nothing before the semicolon": ("(A,B,(C,D));;", "tree 2, line 1, column 13: there is no tree"),
    "single child": ("(A,B,((C),D));", "tree 1, line 1, column 9: .* single child"),
    "200,000 nested brackets": ("(" * 200_000 + "A,B,C" + ")" * 200_000 + ";", "column 200007: .* single child"),
    "200,000 open brackets": ("(" * 200_000, "no ';'"),
    "200,000 open brackets with an end": ("(" * 200_000 + ";", "bracket open"),
    "name with a blank": ("(Homo sapiens,B,C);", "tree 1, line 1, column 7: 'sapiens' cannot stand here"),
    "quote not closed": ("('A,B,(C,D));", "tree 1, line 1, column 2: this quoted name has no closing quote"),
    "comment not closed": ("(A,B[,(C,D));", r"tree 1, line 1, column 5: this comment has no closing"),
    "comment closed twice": ("(A,B],(C,D));", "']' cannot stand here"),
    "length without a number": ("(A:,B,(C,D));", "tree 1, line 1, column 4: a finite branch length"),
    "length of letters": ("(A:x,B,(C,D));", "tree 1, line 1, column 4: a finite branch length"),
    "length nan": ("(A:nan,B,(C,D));", "a finite branch length"),
    "length too large": ("(A:1e999,B,(C,D));", "a finite branch length"),
    "two lengths": ("(A:1:2,B,(C,D));", "column 5: ':' cannot stand here"),
    "length in the wrong notation": ("(A:1;5,B,(C,D));", "tree 1, line 1, column 5"),
    "text after the tree": ("(A,B,(C,D)) and more;", "'more' cannot stand here"),
    "prose": ("These are my trees.", "expected a tree in Newick format, found 'These'"),
    "FASTA": (">A\nACGT\n>B\nACGA\n", "expected a tree in Newick format, found '>A'"),
    "binary junk": (bytes(range(256)) * 4, "tree 1, line 1, column 1: this is not a text file"),
    "junk without NUL": (bytes(range(1, 256)) * 4, r"tree 5, line 5, column 50: expected a tree"),
    "name not in UTF-8": (b"(A,B,(C,\xff\xfe));", "column 9: this name is not UTF-8"),
    "other name not in UTF-8": (b"(A,B,(C,D));(A,B,(C,\xff\xfe));", "column 21: this name is not UTF-8"),
    "negative weight": ("[&W -1](A,B,(C,D));", "tree 1, line 1, column 1: the weight"),
    "weight of letters": ("[&W x](A,B,(C,D));", "tree 1, line 1, column 1: the weight"),
    "division by zero": ("[&W 1/0](A,B,(C,D));", "tree 1, line 1, column 1: the weight"),
    "NEXUS without trees": ("#NEXUS\nbegin data; end;", "has no trees"),
    "NEXUS and nothing else": ("#NEXUS", "has no trees"),
    "NEXUS cut off": (
        NEXUS + "tree a = (A,B,(C,D));\ntree b = (A,B",
        "tree 2, line 4, column 1: this statement has no ';' at its end",
    ),
    "NEXUS without equals": (
        NEXUS + "tree a (A,B,(C,D)); end;",
        "tree 1, line 3, column 19: this statement has no '='",
    ),
    "NEXUS negative weight": (NEXUS + "tree a [&W -1] = (A,B,C); end;", "tree 1, line 3, column 8: the weight must"),
    "NEXUS without a tree": (NEXUS + "tree a = ; end;", "tree 1, line 3, column 10: there is no tree"),
    "NEXUS unknown label": (
        NEXUS + "translate 1 A, 2 B, 3 C;\ntree a = (1,2,4); end;",
        "tree 1, line 4, column 15: taxon '4' is neither in the translate table",
    ),
    "NEXUS unknown label later": (
        NEXUS + "translate 1 A, 2 B, 3 C;\ntree a = (1,2,3); tree b = (1,2,D); end;",
        "tree 2, line 4, column 33: taxon 'D' is neither",
    ),
    "NEXUS unknown taxon in a translate table": (
        "#NEXUS begin taxa; taxlabels A B C; end; begin trees; translate 1 A, 2 B, 3 X; tree a = (1,2,3); end;",
        "line 1, column 55: translate table: taxon 'X' is not in the TAXA block",
    ),
    "NEXUS duplicate label": (NEXUS + "translate 1 A, 1 B, 3 C; tree a = (1,2,3); end;", "'1' is listed twice"),
    "NEXUS duplicate name": (NEXUS + "translate 1 A, 2 A, 3 C; tree a = (1,2,3); end;", "'A' is listed twice"),
    "NEXUS duplicate taxon": (
        "#NEXUS begin taxa; taxlabels A B A; end; begin trees; tree a = (A,B,C);",
        "'A' is listed twice",
    ),
    "NEXUS second list of taxa": (
        "#NEXUS begin taxa; taxlabels A B C; end; begin trees; tree a = (A,B,C); end;\nbegin taxa; taxlabels X Y Z;",
        "line 2, column 13: this list of taxa differs from an earlier one",
    ),
    "NEXUS list of taxa after a translate table": (
        NEXUS + "translate 1 A, 2 B, 3 C; tree a = (1,2,3); end; begin taxa; taxlabels X Y Z; end;",
        "translate table: taxon 'A' is not in the TAXA block",
    ),
    "NEXUS half a translation": (
        NEXUS + "translate 1 A, 2, 3 C; tree a = (1,2,3); end;",
        "'2' is not a label and a name",
    ),
    "NEXUS conflicting tables": (
        f"{NEXUS} translate 1 A, 2 B, 3 C; tree a = (1,2,3); end; begin trees; translate 1 B, 2 A, 3 C; end;",
        "'1' stands for 'A' in one translate table and for 'B' in another",
    ),
    "NEXUS empty name": (NEXUS + "translate 1 '', 2 B, 3 C; tree a = (1,2,3); end;", "'1' stands for an empty name"),
    "a few long names and then many empty trees": (
        "(" + ",".join(f"taxon_{number}" for number in range(2000)) + ");" + ";" * 400_000,
        "tree 2, line 1, column .*: there is no tree",
    ),
    "NEXUS table not in UTF-8": (NEXUS.encode() + b"translate 1 A, 2 \xff, 3 C; tree a = (1,2,3); end;", "not UTF-8"),
}


@pytest.mark.parametrize("case", BAD_FILES)
@pytest.mark.parametrize("read", [read_trees, read_any_trees])
def test_bad_file(tmp_path, case, read):
    content, message = BAD_FILES[case]
    path = tmp_path / "trees.txt"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises((TreeFormatError, TaxonMismatch), match=message) as caught:
        read(path)
    text = str(caught.value)
    assert text.startswith(str(path))
    assert text.endswith(".")
    assert len(text.splitlines()) == 1
    assert len(text) < len(str(path)) + 250


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(FileProblem, match="no such file"):
        read_trees(tmp_path / "nothing.nwk")
    with pytest.raises(FileProblem, match="is a directory"):
        read_trees(tmp_path)
    with pytest.raises(FileProblem, match="cannot be read"):
        read_trees("a\0b")


@pytest.mark.parametrize(
    "damage", [lambda packed: packed[:-8], lambda packed: packed[:40], lambda packed: packed[:12] + b"x" * 30]
)
def test_a_damaged_gzip_file(tmp_path, damage):
    path = tmp_path / "trees.nwk.gz"
    path.write_bytes(damage(gzip.compress(b"(A,B,(C,D));\n" * 100)))
    with pytest.raises(FileProblem, match="not a whole gzip file"):
        read_trees(path)


def test_an_odd_name_is_shown_in_one_short_line(tmp_path):
    path = tmp_path / "trees.nwk"
    name = "'line\nbreak " + "x" * 5000 + "'"
    path.write_text(f"(A,B,({name},{name}));")
    with pytest.raises(PhloemError) as caught:
        read_trees(path)
    assert re.search(r"taxon 'line\\nbreak x+…' is in this tree twice", str(caught.value))
    assert len(str(caught.value)) < len(str(path)) + 200
