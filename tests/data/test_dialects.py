"""NEXUS alignments as other programs write them: each is read, or ends in one line that says what is not supported."""

import numpy as np
import pytest

from phloem.data.alignment import Alignment
from phloem.data.mrbayes_block import read_mrbayes_block
from phloem.data.partitions import parse_partition
from phloem.data.reading import parse_alignment
from phloem.errors import AlignmentError
from support.messages import saying

ROWS = {
    "Homo sapiens": "ACGTACGTACAA",
    "Pan": "ACGTTCGTNCAC",
    "Gorilla_2": "AC-TACGAACAT",
    "Pongo": "ACTTACRTACAG",
}
EXPECTED = Alignment.from_sequences([*ROWS], [*ROWS.values()])

MESQUITE = """#NEXUS
[written Thu Nov 19 10:00:00 UTC 2026 by Mesquite  version 3.81 (build 955) at host/10.0.0.1]

BEGIN TAXA;
	TITLE Untitled_Block_of_Taxa;
	DIMENSIONS NTAX=4;
	TAXLABELS
		'Homo sapiens' Pan Gorilla_2 Pongo
	;
	BLOCKID WM18c2f0a0f1d;
END;

BEGIN CHARACTERS;
	TITLE  Character_Matrix;
	LINK TAXA = Untitled_Block_of_Taxa;
	DIMENSIONS  NCHAR=12;
	FORMAT DATATYPE = DNA GAP = - MISSING = ?;
	CHARSTATELABELS
		1 site_one,  2 'site; two' ;
	MATRIX
	'Homo sapiens'  ACGTACGTACAA
	Pan             ACGTTCGTNCAC
	Gorilla_2       AC-TACGAACAT
	Pongo           ACTTAC{AG}TACAG

;
	BLOCKID WM18c2f0a0f1e;
END;

BEGIN ASSUMPTIONS;
	TYPESET * UNTITLED  =  unord:  1 -  12;
	EXSET * UNTITLED  =  ;
END;

BEGIN SETS;
	CHARSET first (CHARACTERS = Character_Matrix)  =  1 -  6;
	CHARSET second (CHARACTERS = Character_Matrix)  =  7 -  12;
	CHARPARTITION * Genes (CHARACTERS = Character_Matrix)  =  first :  1 -  6, second :  7 -  12;
END;

Begin MESQUITE;
		MESQUITESCRIPTVERSION 2;
		TITLE AUTO;
		tell ProjectCoordinator;
		timeSaved 1700000000000;
		getEmployee #mesquite.minimal.ManageTaxa.ManageTaxa;
		tell It;
			setID 0 123456789;
		endTell;
		endTell;
end;
"""
PAUP = """#NEXUS
[!Data from PAUP* 4.0a]
Begin data;
	Dimensions ntax=4 nchar=12;
	Format datatype=nucleotide interleave missing=? gap=- matchchar=.;
	Options gapmode=missing;
	Matrix
[                 1         ]
'Homo sapiens'    ACGTAC
Pan               ....T.
Gorilla_2         ..-...
Pongo             ..T...

'Homo sapiens'    GTACAA
Pan               ..N..C
Gorilla_2         .A...T
Pongo             R....G
	;
End;
begin paup;
	set criterion=likelihood;
	outgroup Pongo;
	lset nst=2 tratio=estimate;
	bootstrap nreps=100;
end;
"""
SEAVIEW = """#NEXUS
[saved by seaview on Thu Nov 19 10:00:00 2026]
BEGIN DATA;
  DIMENSIONS NTAX=4 NCHAR=12;
  FORMAT DATATYPE=DNA
  GAP=-
  ;
MATRIX
[1]   'Homo sapiens'
ACGTACGTACAA
[2]   Pan
ACGTTCGTNCAC
[3]   Gorilla_2
AC-TACGAACAT
[4]   Pongo
ACTTACRTACAG
;
END;
"""
GENEIOUS = """#NEXUS

BEGIN DATA;
	DIMENSIONS  NTAX=4 NCHAR=12;
	FORMAT DATATYPE=DNA  MISSING=N GAP=- INTERLEAVE=YES;
	MATRIX
	'Homo sapiens'  ACGT ACG
	Pan             ACGT TCG
	Gorilla_2       AC-T ACG
	Pongo           ACTT ACR

	'Homo sapiens'  TACAA
	Pan             TNCAC
	Gorilla_2       AACAT
	Pongo           TACAG
	;
END;
"""
ALIVIEW = """#NEXUS

begin data;
 dimensions ntax=4 nchar=12;
 format datatype=dna missing=? gap=-;
 matrix
'Homo sapiens' ACGTACGTACAA
Pan ACGTTCGTNCAC
Gorilla_2 AC-TACGAACAT
Pongo ACTTACRTACAG;
end;

begin assumptions;
 charset N1 = 1-12\\3;
 charset N2 = 2-12\\3;
 charset N3 = 3-12\\3;
end;
"""
LOWER_CASE = """#nexus
begin taxa; dimensions ntax=4; taxlabels 'Homo sapiens' Pan Gorilla_2 Pongo; end;
begin characters; dimensions ntax=4 nchar=12; format datatype=rna symbols="acgu" missing=? gap=- interleave=no;
matrix 'Homo sapiens' acguacguacaa
Pan acguucguncac
Gorilla_2 ac-uacgaacau
Pongo acuuacruacag
; endblock;
begin trees; tree t = ('Homo sapiens',Pan,(Gorilla_2,Pongo)); end;
"""
COMMENTS = """#NEXUS
[ a comment with 'quotes, a ; and [another] ]
Begin [of the] Data;
Dimensions [taxa] ntax=4 nchar=12;
Format datatype=DNA [default] gap=- missing=?;
Matrix
'Homo sapiens' [AB123] ACGT[4]ACGTACAA [12]
Pan [it's] ACGTTCGTNCAC
Gorilla_2 AC-TACG[7]AACAT
Pongo ACTTACRTACAG
;
End [data];
"""
EQUATE = """#NEXUS
begin data;
dimensions ntax=4 nchar=12;
format datatype=dna gap=- missing=? equate="a=A r=R Y={CT} S=(GC) z=A";
matrix
'Homo sapiens' ACGTACGTACAA
Pan ACGTTCGTNCAC
Gorilla_2 AC-TACGAACAT
Pongo ACTTACRTACAG
; end;
"""
BEAUTI = """#NEXUS
Begin data;
	Dimensions ntax=4 nchar=12;
	Format datatype=nucleotide gap=- missing=?;
	Matrix
		'Homo sapiens'
			ACGTACGTACAA
		Pan	ACGTTC GTNCAC
		Gorilla_2	AC-TACGAACAT
		Pongo	ACTTAC
			RTACAG
	;
End;
"""
WINDOWS = ALIVIEW.replace("\n", "\r\n")
READ = {
    "Mesquite": MESQUITE,
    "PAUP*": PAUP,
    "SeaView": SEAVIEW,
    "Geneious": GENEIOUS,
    "AliView": ALIVIEW,
    "lower case": LOWER_CASE,
    "comments": COMMENTS,
    "BEAUti": BEAUTI,
    "Windows": WINDOWS,
    "byte order mark": "\ufeff" + ALIVIEW,
    "equate of cases": EQUATE,
}


@pytest.mark.parametrize("program", READ)
def test_files_of_other_programs_are_read(program):
    alignment, notes = parse_alignment(READ[program].encode(), source="dna.nex")
    assert alignment.taxa == EXPECTED.taxa
    np.testing.assert_array_equal(alignment.states, EXPECTED.states)
    assert len(notes) <= 1
    assert read_mrbayes_block("dna.nex", READ[program], alignment.taxa, alignment.site_count) is None


def test_their_partitions_are_read():
    assert parse_partition("x", MESQUITE, 12).names == ("first", "second")
    assert parse_partition("x", ALIVIEW, 12).part_of_site.tolist() == [0, 1, 2] * 4
    assert parse_partition("x", WINDOWS, 12).names == ("N1", "N2", "N3")


REFUSED = {
    "datatype=mixed(standard:1-2,dna:3-12)": (
        ALIVIEW.replace("datatype=dna", "datatype=mixed(Standard:1-2,DNA:3-12)"),
        "datatype=mixed(standard:1-2,dna:3-12) is not supported",
    ),
    "protein": (SEAVIEW.replace("=DNA", "=PROTEIN"), "datatype=protein is not supported"),
    "no datatype": (ALIVIEW.replace("datatype=dna ", ""), "datatype=standard is not supported"),
    "transposed": (PAUP.replace("interleave", "transpose"), "a MATRIX with transpose is not supported"),
    "no labels": (ALIVIEW.replace("datatype=dna", "datatype=dna nolabels"), "a MATRIX with nolabels is not supported"),
    "equate": (EQUATE.replace("r=R", "r=R T={AC}"), "equate: t={ac} is not supported"),
    "trees alone": ("#NEXUS\nbegin trees; tree t = (a,b,c); end;", "no DATA or CHARACTERS block"),
    "another file": ("#NEXUS\nbegin mrbayes; execute b.nex; end;", "no DATA … It executes 'b.nex': name that file."),
    "cut off": (GENEIOUS[: GENEIOUS.index("\t;\nEND")], "the MATRIX has no ';' at its end"),
    "fewer sites": (MESQUITE.replace("NCHAR=12", "NCHAR=13"), "says nchar=13, but its matrix has"),
    "a symbol": (ALIVIEW.replace("ACTTACRT", "ACTTAC~T"), "'~'"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_not_supported_is_said_in_one_line(what):
    text, says = REFUSED[what]
    with pytest.raises(AlignmentError, match=saying(f"dna.nex … {says}")) as caught:
        parse_alignment(text.encode(), source="dna.nex")
    assert "\n" not in str(caught.value)
