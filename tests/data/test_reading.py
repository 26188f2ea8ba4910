"""Reading alignments: every format by its content, and bad files in one line."""

import gzip
import random

import numpy as np
import pytest
from Bio import AlignIO
from Bio.Align import MultipleSeqAlignment
from Bio.Seq import Seq
from Bio.SeqRecord import SeqRecord

from phloem.data.reading import load_alignment, parse_alignment, read_alignment
from phloem.errors import AlignmentError, FileProblem, InputWarning, PhloemError
from support.messages import assert_says, saying

NAMES = ("Homo", "Pan", "Gorilla_g")
ROWS = ("ACGTNACGTTACGAAC", "ACGTRACGT-ACGAAC", "ACGT?ACGTAACGATT")
FASTA = "".join(f">{name} a title\n{row[:7]}\n{row[7:].lower()}\n" for name, row in zip(NAMES, ROWS, strict=True))
RELAXED = "3 16\n" + "".join(f"{name}  {row}\n" for name, row in zip(NAMES, ROWS, strict=True))
STRICT = "  3   16\n" + "".join(f"{name:<10}{row[:8]} {row[8:]}\n" for name, row in zip(NAMES, ROWS, strict=True))
STRICT_TIGHT = "3 16\n" + "".join(f"{'ten_chars' + str(number)}{row}\n" for number, row in enumerate(ROWS))
SEQUENTIAL = "3 16\n" + "".join(f"{name}\n{row[:5]}\n{row[5:]}\n" for name, row in zip(NAMES, ROWS, strict=True))
INTERLEAVED = (
    "3 16\n"
    + "".join(f"{name:<12}{row[:6]}\n" for name, row in zip(NAMES, ROWS, strict=True))
    + "\n"
    + "".join(f"{row[6:12]}\n" for row in ROWS)
    + "\n"
    + "".join(f"  {row[12:14]} {row[14:]}\n" for row in ROWS)
)
NEXUS = """#NEXUS
[a comment; with 'odd' things]
begin taxa; dimensions ntax=3; taxlabels Homo Pan Gorilla_g; end;
Begin data;
  Dimensions ntax=3 nchar=16;
  Format datatype=%s interleave=no gap=- missing=? ;
  Matrix
  Homo      ACGTN ACGTTACGAAC [ends here]
  'Pan'     ACGTRACGT-ACGAAC
  Gorilla_g ACGT?ACGTA
            ACGATT
  ;
end;
begin mrbayes; set autoclose=yes; end;
"""
NEXUS_INTERLEAVED = """#nexus
begin characters;
dimensions nchar=16;
format datatype=RNA interleave missing=x gap=~ matchchar=.;
matrix
Homo      ACGUNA
Pan       ....R.
Gorilla_g ....x.

Homo      CGUUACGAAC
Pan       ...~......
Gorilla_g ...A....UU
;
end;
"""
STOCKHOLM = "# STOCKHOLM 1.0\n" + "".join(f"{name} {row}\n" for name, row in zip(NAMES, ROWS, strict=True)) + "//\n"
CLUSTAL = "CLUSTAL W (1.83) multiple sequence alignment\n\n\n" + "".join(
    f"{name:<16}{row}\n" for name, row in zip(NAMES, ROWS, strict=True)
)
GOOD = {
    "FASTA": FASTA,
    "relaxed PHYLIP": RELAXED,
    "strict PHYLIP": STRICT,
    "sequential PHYLIP": SEQUENTIAL,
    "interleaved PHYLIP": INTERLEAVED,
    "NEXUS dna": NEXUS % "dna",
    "NEXUS nucleotide": NEXUS % "nucleotide",
    "NEXUS interleaved": NEXUS_INTERLEAVED,
    "Stockholm": STOCKHOLM,
    "Clustal": CLUSTAL,
}
EXPECTED = parse_alignment(FASTA.encode()).alignment


@pytest.mark.parametrize("form", GOOD)
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_every_format_gives_the_same_alignment(tmp_path, form, packed, line_end):
    content = GOOD[form].replace("\n", line_end).encode()
    path = tmp_path / "any.name"
    path.write_bytes(gzip.compress(content) if packed else content)
    alignment = load_alignment(path).alignment
    assert alignment.taxa == NAMES
    np.testing.assert_array_equal(alignment.states, EXPECTED.states)


def test_strict_phylip_names_may_touch_the_sequence():
    alignment = parse_alignment(STRICT_TIGHT.encode()).alignment
    assert alignment.taxa == ("ten_chars0", "ten_chars1", "ten_chars2")
    np.testing.assert_array_equal(alignment.states, EXPECTED.states)


@pytest.mark.parametrize(
    "form", ["fasta", "phylip", "phylip-relaxed", "phylip-sequential", "nexus", "stockholm", "clustal"]
)
def test_what_biopython_writes_is_read(tmp_path, form):
    records = [
        SeqRecord(Seq(row * 12), id=name, annotations={"molecule_type": "DNA"})
        for name, row in zip(NAMES, ROWS, strict=True)
    ]
    AlignIO.write(MultipleSeqAlignment(records), tmp_path / "x", form)
    alignment = load_alignment(tmp_path / "x").alignment
    assert alignment.taxa == NAMES
    np.testing.assert_array_equal(alignment.states, np.tile(EXPECTED.states, 12))


def test_the_bundled_primates():
    alignment = read_alignment("primates")
    assert alignment.states.shape == (12, 898)
    assert alignment.taxa[:3] == ("Tarsius_syrichta", "Lemur_catta", "Homo_sapiens")


BAD = {
    "empty": ("", "empty"),
    "blank": (" \n\n", "empty"),
    "prose": ("These are my sequences.", "alignment format"),
    "a tree": ("(A,B,(C,D));", "alignment format"),
    "binary": (b"\x89PNG\r\n\x1a\n\xff\xfe", "text"),
    "unequal lengths": (">A\nACG\n>B\nAC\n>C\nACG\n", "'B' … 2 sites … 'A' … 3"),
    "duplicate names": (">A\nACG\n>B\nACG\n>A\nACG\n", "several … 'A'"),
    "empty name": (">A\nACG\n>\nACG\n>C\nACG\n", "sequence 2 … name"),
    "no sites": (">A\n>B\n>C\n", "no sites"),
    "two sequences": (">A\nACG\n>B\nACG\n", "2 sequences … 3"),
    "protein": (">A\nMEL\n>B\nMFL\n>C\nMEQ\n", "protein"),
    "illegal symbol": (">A\nACG\n>B\nA#G\n>C\nACG\n", "'B' … column 2 … '#'"),
    "PHYLIP with too few lines": (
        "4 10\nA ACGTACGTAC\nB ACGTACGTAC\n",
        "PHYLIP header … 4 sequences",
    ),
    "PHYLIP with too few sites": ("3 12\nA ACGT\nB ACGT\nC ACGT\n", "PHYLIP header"),
    "PHYLIP with nothing": ("3 12", "PHYLIP header"),
    "NEXUS without data": ("#NEXUS begin trees; end;", "DATA … CHARACTERS"),
    "NEXUS protein": (NEXUS % "protein", "datatype=protein"),
    "NEXUS standard": (NEXUS % "standard", "datatype=standard"),
    "NEXUS mixed": (
        NEXUS % "mixed(DNA:1-8,Standard:9-16)",
        "datatype=mixed(dna:1-8,standard:9-16)",
    ),
    "NEXUS without a matrix": ("#NEXUS begin data; format datatype=dna; end;", "MATRIX"),
    "NEXUS wrong ntax": (
        (NEXUS % "dna").replace("Dimensions ntax=3", "Dimensions ntax=4"),
        "ntax=4 … 3",
    ),
    "NEXUS wrong nchar": (NEXUS_INTERLEAVED.replace("nchar=16", "nchar=17"), "nchar=17 … 16"),
    "Stockholm cut off": ("# STOCKHOLM 1.0\nA ACGT\nB AC\n", "Stockholm"),
    "Clustal of two lengths": (CLUSTAL + "\nHomo  ACGT\nPan AC\n", "'Pan' … 18 sites"),
    "Clustal with a line of prose": (CLUSTAL + "\nthis is no piece\n", "'this is no piece'"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_alignments_are_refused_in_one_line(tmp_path, case):
    content, facts = BAD[case]
    path = tmp_path / "alignment"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(AlignmentError, match=saying(facts)) as caught:
        read_alignment(path)
    assert str(caught.value).startswith(str(path))
    assert len(str(caught.value).splitlines()) == 1


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(FileProblem, match=r"none: .*no such file"):
        read_alignment(tmp_path / "none")
    with pytest.raises(FileProblem, match="directory"):
        read_alignment(tmp_path)


TITLED = ">Homo sapiens\tX1\nACG\n>Pan  troglodytes\nACG\n>Lemur\nACG\n"


def test_a_fasta_name_is_the_first_word_and_what_was_cut_is_said():
    alignment, notes = parse_alignment(TITLED.encode(), source="dna.fasta")
    assert alignment.taxa == ("Homo", "Pan", "Lemur")
    assert len(notes) == 1
    assert_says(notes[0], "dna.fasta … 'Homo sapiens X1' is 'Homo' and 1 more … --long-names")
    assert parse_alignment(b">A\nACG\n>B\nACG\n>C\nACG\n").notes == ()


def test_long_names_are_whole_titles():
    alignment, notes = parse_alignment(TITLED.encode(), long_names=True)
    assert alignment.taxa == ("Homo sapiens X1", "Pan troglodytes", "Lemur")
    assert notes == ()


def test_names_that_are_equal_only_up_to_the_first_blank():
    text = TITLED.replace("Pan ", "Homo ")
    with pytest.raises(AlignmentError, match=saying("first blank … 'Homo' … --long-names")):
        parse_alignment(text.encode())
    assert parse_alignment(text.encode(), long_names=True).alignment.taxa[:2] == ("Homo sapiens X1", "Homo troglodytes")
    with pytest.raises(AlignmentError, match=r"^alignment: several sequences are called 'Homo'"):
        parse_alignment(b">Homo\nACG\n>Homo\nACG\n>Lemur\nACG\n")


def test_a_second_alignment_in_a_stockholm_file_is_said_to_be_ignored():
    assert_says(parse_alignment((STOCKHOLM * 2).encode(), source="x").notes[0], "x … ignored … first alignment")


def test_in_python_what_was_not_used_is_a_warning(tmp_path):
    (tmp_path / "dna.fasta").write_text(TITLED)
    with pytest.warns(InputWarning, match="'Homo sapiens X1' is 'Homo'") as caught:
        read_alignment(tmp_path / "dna.fasta")
    assert caught[0].filename == __file__
    read_alignment(tmp_path / "dna.fasta", long_names=True)  # a warning here is an error


def test_mutated_files_are_read_or_refused():
    draw = random.Random(1)
    seeds = [text.encode() for text in GOOD.values()]
    read = 0
    for index in range(6000):
        text = seeds[index % len(seeds)]
        for _ in range(draw.choice([1, 2, 5])):
            at, to = sorted(draw.randrange(len(text) + 1) for _ in range(2))
            change = draw.randrange(5)
            if change == 0:
                text = text[:at] + text[min(to, at + 6) :]
            elif change == 1:
                text = text[:at] + bytes([draw.randrange(256)]) + text[at:]
            elif change == 2:
                text = text[:to] + text[at:to] + text[to:]
            elif change == 3:
                text = text[:to]
            else:
                text = (
                    text[:at]
                    + draw.choice([b"\n", b";", b"'", b"[", b"]", b">", b"=", b"{", b"-5 ", b"//", b"\0"])
                    + text[at:]
                )
        try:
            parse_alignment(text)
            read += 1
        except PhloemError as problem:
            assert len(str(problem).splitlines()) == 1, text  # noqa: PT017
    assert 300 < read < 5700
