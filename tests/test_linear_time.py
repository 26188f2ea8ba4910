"""Reading takes time in proportion to the size of a file, whatever is in it.

Each text repeats one piece so often that a reader whose time grows with the square of the size takes hours where ours
take a second or two. The limit lies far from both, so that no machine is too slow or too busy for it.
"""

import pytest

from phloem.config.infer import INFER
from phloem.data.reading import parse_alignment
from phloem.errors import PhloemError
from phloem.trees.reading import parse_newick, read_weighted_table
from support.limits import TookTooLong, processor_seconds

MANY = 300_000
SECONDS = 30.0
pytestmark = pytest.mark.slow
DATA = "#NEXUS begin data; format datatype=dna; matrix\n"
ROWS = "A ACGT\nB ACGT\nC ACGT\n"
SITES = 6 * MANY // 10
LINES = "ACGTAC\n" * (SITES // 6)
ALIGNMENTS = {
    "opening braces": f"{DATA}A {'{' * MANY}\n; end;",
    "opening brackets": f"{DATA}A {'(' * MANY}\n; end;",
    "names of brackets": f"{DATA}{'( ' * MANY}\n; end;",
    "lines of braces": DATA + "{ {\n" * MANY + "; end;",
    "format": f"#NEXUS begin data; {'format ' * MANY}; matrix\n{ROWS}; end;",
    "format statements": f"#NEXUS begin data; {'format x=( ; ' * MANY} matrix\n{ROWS}; end;",
    "format settings": f"#NEXUS begin data; format {'x=( ' * MANY}; matrix\n{ROWS}; end;",
    "format strings": "#NEXUS begin data; format " + 'x = " ' * MANY + f"; matrix\n{ROWS}; end;",
    "format blanks": f"#NEXUS begin data; format x{' ' * MANY}y; matrix\n{ROWS}; end;",
    "matrix": f"#NEXUS begin data; {'matrix ' * MANY}; end;",
    "begin": f"#NEXUS {'begin data; ' * MANY} end;",
    "beginnings": "#NEXUS " + "begin " * MANY,
    "commands": f"{DATA}{ROWS}; end; begin mrbayes; {'lset x; ' * MANY} end;",
    "quotes": f"{DATA}{ROWS} {chr(39) * MANY} ; end;",
    "quotes with blanks": f"{DATA}{ROWS} {' ' + chr(39)}{' x' * MANY}; end;",
    "comments": f"{DATA}{ROWS} {'[]' * MANY} ; end;",
    "nested comments": f"{DATA}{ROWS} {'[' * MANY}{']' * MANY} ; end;",
    "comments not closed": f"{DATA}{ROWS} {'[' * MANY} ; end;",
    "semicolons": "#NEXUS " + ";" * MANY,
    "blanks": "#NEXUS" + " " * MANY,
    "sequential NEXUS": f"#NEXUS begin data; dimensions nchar={SITES}; format datatype=dna; matrix\n"
    + "".join(f"{name}\n{LINES}" for name in "ABC")
    + "; end;",
    "interleaved NEXUS": "#NEXUS begin data; format datatype=dna interleave; matrix\n"
    + "A ACGT\nB ACGT\nC ACGT\n" * (MANY // 10)
    + "; end;",
    "FASTA": "".join(f">{name}\n{LINES}" for name in "ABC"),
    "FASTA titles": ">" * MANY + "\n" + ">x\n" * MANY,
    "sequential PHYLIP": f"3 {SITES}\n" + "".join(f"{name}\n{LINES}" for name in "ABC"),
    "PHYLIP that fits nothing": f"3 {SITES}\n" + "A\n" * MANY,
    "Stockholm": "# STOCKHOLM 1.0\n" + "A ACGT\n" * MANY + "//\n",
    "Clustal": "CLUSTAL\n" + "A ACGT 4\n" * MANY,
}


@pytest.mark.parametrize("case", ALIGNMENTS)
def test_alignments(case):
    assert_ends(lambda: parse_alignment(ALIGNMENTS[case].encode()))


NEXUS = "#NEXUS begin trees; "
LABELS = " ".join(f"t{number}" for number in range(MANY // 10))
TREES = {
    "brackets": "(" * MANY + ";",
    "brackets that close": "(" * MANY + "A,B" + ")" * MANY + ";",
    "commas": "(" + "," * MANY + ");",
    "comments": "(A,B,(C,D))" + "[x]" * MANY + ";",
    "nested comments": "(A,B,(C,D))" + "[" * MANY + "]" * MANY + ";",
    "comments not closed": "(A,B,(C,D))" + "[" * MANY + ";",
    "quotes": "(A,B,(C," + "'" * MANY + "));",
    "quotes not closed": "(A,B,(C," + ",'" * MANY + "));",
    "digits": "(A:" + "1" * MANY + ",B,(C,D));",
    "semicolons": ";" * MANY,
    "trees": "(A,B,(C,D));" * (MANY // 10),
    "blanks": "(A,B,(C,D)" + " " * MANY + ");",
    "a ladder": "(" * (MANY // 10) + "x" + "".join(f",t{number})" for number in range(MANY // 10)) + ";",
    "translate": NEXUS + "translate " + "1 A, " * MANY + "; tree a = (A,B,(C,D)); end;",
    "many translate tables": f"#NEXUS begin taxa; taxlabels {LABELS}; end; begin trees; "
    + "".join(f"translate {number} t{number}; " for number in range(MANY // 10))
    + "tree a = (1,2,3); end;",
    "many lists of taxa": f"#NEXUS {'taxlabels A B C D; ' * (MANY // 10)} begin trees; tree a = (A,B,C);",
    "blocks": "#NEXUS " + "begin trees; end; " * (MANY // 10),
    "titles": NEXUS + "tree " + "a " * MANY + "= (A,B,C); end;",
    "weights": NEXUS + "tree a " + "[&W 1] " * MANY + "= (A,B,C); end;",
}


@pytest.mark.parametrize("case", TREES)
def test_trees(case):
    assert_ends(lambda: parse_newick(TREES[case]))


def test_tables_of_weighted_trees(tmp_path):
    path = tmp_path / "trees.tsv"
    for text in ("1\t(A,B,(C,D));\n" * (MANY // 10), "1\t" * MANY, "1" * MANY + "\t(A,B,(C,D));"):
        path.write_text(text)
        assert_ends(lambda: read_weighted_table(path))


@pytest.mark.parametrize(
    "piece", ["[", "a.", "[a]\n", "{a=", '"', "'", "# x\n", "1", "seed = 1\n", "seed = [1, ", "[[a]]\n", "\\u0041"]
)
def test_settings(piece):
    count = MANY // 100  # Python's own reader of TOML is not ours to mend: what is asked of it is what a person writes
    assert_ends(lambda: INFER.from_toml(piece * count, "config.toml"))


def assert_ends(work) -> None:
    """The work ends within the limit, with a result or with a line for the user."""
    try:
        with processor_seconds(SECONDS):
            work()
    except PhloemError as problem:
        assert len(str(problem)) < 1000  # noqa: PT017
    except TookTooLong as problem:  # an exception of the reader may hide it
        pytest.fail(str(problem))


def test_the_limit_is_one():
    with pytest.raises(TookTooLong), processor_seconds(0.05):
        _compute_for_ever()


def _compute_for_ever() -> None:
    while True:  # in Python: a signal waits for the end of what is written in C
        pass
