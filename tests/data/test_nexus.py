"""Alignments in NEXUS files: names in quotes, sets of states, what is ignored, and time that grows with the file."""

import dendropy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phloem.data.reading import parse_alignment
from phloem.errors import AlignmentError
from support.messages import assert_says, saying
from support.nexus_files import data_block, odd_names

ROWS = ["ACGTAC", "ACGTTC", "AC-TAC", "NCGTAC", "ACRTAC", "TCGTAC"]


def parsed(text: str):
    return parse_alignment(text.encode(), source="dna.nex")


def with_format(matrix: str, form: str = "", before: str = "", after: str = "") -> str:
    return f"#NEXUS {before} begin data; format datatype=dna {form}; matrix\n{matrix}\n; end; {after}"


def test_sets_of_states():
    text = with_format("A A{AC}T\nB (CT)AT\nC A{A G}T")
    assert parsed(text).alignment.states.tolist() == [[1, 3, 8], [10, 1, 8], [1, 5, 8]]
    text = with_format("A A{A~}T\nB (CT)AT\nC A{A,G}T", "gap=~")
    assert parsed(text).alignment.states[0].tolist() == [1, 15, 8]


@pytest.mark.parametrize("interleaved", [False, True])
def test_punctuation_in_a_quoted_name_is_part_of_the_name(interleaved):
    names = ["Gorilla gorilla (west)", "Mus (Coelomys) mayori", "a; b", "it's {AC} [new]", "'", "end;"]
    alignment, notes = parsed(data_block(names, ROWS, interleaved=interleaved))
    assert list(alignment.taxa) == names
    assert alignment.site_count == 6
    assert notes == ()


def test_a_name_without_quotes_ends_at_a_blank_and_nowhere_else():
    matrix = "Homo(west) A{AC}T\nO'Brien A(AC)T\nx{AC}y=1 ACT"
    alignment = parsed(with_format(matrix)).alignment
    assert alignment.taxa == ("Homo(west)", "O'Brien", "x{AC}y=1")
    assert alignment.states[:2, 1].tolist() == [3, 3]


@given(names=odd_names(), interleaved=st.booleans())
def test_any_names_come_back(names, interleaved):
    rows = ROWS[: len(names)]
    text = data_block(names, rows, interleaved=interleaved)
    assert list(parsed(text).alignment.taxa) == names
    if any(len(name) == 1 for name in names):  # DendroPy takes a quoted semicolon for the end of the matrix
        return
    judge = dendropy.DnaCharacterMatrix.get(data=text, schema="nexus", preserve_underscores=True)
    assert [taxon.label for taxon in judge] == names


def test_comments_nest_and_those_in_quotes_are_letters():
    text = with_format("A [x [y; ' ] {] ACT\n'B [b]' AC[1]T\nC AC{A[no]C}")
    alignment = parsed(text).alignment
    assert alignment.taxa == ("A", "B [b]", "C")
    assert alignment.states[2].tolist() == [1, 2, 3]


IGNORED = """begin sets; title x; charset 'gene; 1' = 1-3; charset b = 4-6; CHARSET c = 1-2; partition p = 2: 1, b; end;
begin assumptions; exset * x = 4; end; begin mrbayes; lset nst=6; prset x=y; mcmc; end;
begin trees; tree a = (A,B,C); tree b = (A,(B,C)); end;"""


def test_every_command_that_is_not_used_is_named_in_one_line():
    notes = parsed(with_format("A ACT\nB ACT\nC ACT", before="begin taxa; taxlabels A B C; end;", after=IGNORED)).notes
    assert notes == (
        "dna.nex: ignored: 3 charset, partition (SETS block); exset (ASSUMPTIONS block); "
        "lset, prset, mcmc (MRBAYES block); 2 tree (TREES block). exset would leave out data: all of it is used.",
    )


def test_commands_of_the_data_block_and_a_second_one_are_named():
    text = "#NEXUS begin data; format datatype=dna; options x=y; eliminate 1; matrix\nA AC\nB AC\nC AC\n; end;"
    assert_says(
        parsed(text + text[6:]).notes[0], "2 options, 2 eliminate … matrix … DATA block … eliminate would leave out"
    )


def test_thousands_of_commands_make_a_short_line_without_control_characters():
    many = "".join(f"word{number}{chr(27)}]31m x; again;" for number in range(2000))
    note = parsed(with_format("A ACT\nB ACT\nC ACT", after=f"begin {'x' * 500}; {many} end;")).notes[0]
    assert len(note) < 600
    assert note.isprintable()
    assert_says(note, "2,000 again … and 1,993 more")


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        (with_format("A ACT\nB ACT\nC ACT").replace("; matrix", "; dimensions nchar=²; matrix"), "nchar='²'"),
        (
            with_format("A ACT\nB ACT\nC ACT").replace("; matrix", f"; dimensions nchar={'1' * 5000}; matrix"),
            "nchar='1",
        ),
        (with_format("A ACT\nB ACT\nC ACT").replace("; matrix", "; dimensions ntax=x; matrix"), "ntax=x"),
        (with_format("'A ACT\nB ACT\nC ACT"), "dna.nex, line 2 … quote"),
        (with_format("A ACT\nB [ ACT\nC ACT"), "dna.nex, line 3 … comment"),
        (with_format("A ACT\nB A{AX!}T\nC ACT"), "'B' … '{AX!}'"),
        (with_format("A ACT\nB A{T\nC ACT"), "'B'"),
        (with_format("A ACT\nB ACT\nC ACT").rpartition("\n;")[0], "MATRIX … cut off"),
        (with_format("A ACT\nB ACT\nC ACT", "transpose"), "transpose"),
        (with_format("ACT\nACT\nACT", "nolabels"), "nolabels"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(text, facts):
    with pytest.raises(AlignmentError, match=saying(facts)) as caught:
        parsed(text)
    assert len(str(caught.value)) < 250


def test_a_file_whose_last_statement_has_no_semicolon_is_read_if_the_matrix_is_whole():
    assert parsed(with_format("A ACT\nB ACT\nC ACT").rstrip("; ")).notes == ()
