"""Alignments, site patterns and the short report on them."""

import numpy as np
import pytest

from phloem.data.alignment import MEMBERS, STATES, Alignment, encode, letter_for
from phloem.data.patterns import compress, merge_relabelled, summarize
from phloem.data.reading import read_alignment
from phloem.errors import AlignmentError
from support.messages import saying


def test_every_symbol_is_the_set_of_its_states_in_either_case():
    for symbol, members in MEMBERS.items():
        for form in (symbol, symbol.lower()):
            code = int(encode(form)[0])
            assert {STATES[bit] for bit in range(4) if code >> bit & 1} == set(members)
    assert encode("U")[0] == encode("T")[0]
    assert encode("-")[0] == encode("?")[0] == encode("N")[0] == 15
    assert encode("J!. é")[:5].tolist() == [0] * 5


def test_an_alignment_that_does_not_hold_together_cannot_exist():
    for taxa, shape in ((("A", "B"), (3, 4)), (("A", "B", "A"), (3, 4)), (("A", "B", "C"), (3,))):
        with pytest.raises(AlignmentError, match="fit"):
            Alignment(taxa, np.ones(shape, np.uint8))


def test_sets_have_a_letter():
    assert [letter_for(text) for text in ("AC", "ca", "A,C", "ACGT", "A", "XY!")] == ["M", "M", "M", "N", "A", "!"]


def test_patterns_are_in_order_of_first_appearance_and_map_back_to_sites():
    alignment = Alignment.from_sequences("ABC", ["ACAGAC", "ACAGAC", "TCTATC"])
    patterns = compress(alignment)
    assert patterns.counts.tolist() == [3, 2, 1]
    assert patterns.pattern_of_site.tolist() == [0, 1, 0, 2, 0, 1]
    np.testing.assert_array_equal(patterns.states[:, patterns.pattern_of_site], alignment.states)
    assert patterns.tip_partials.shape == (3, 3, 4)
    assert patterns.tip_partials[2, 0].tolist() == [0, 0, 0, 1]


@pytest.mark.parametrize(
    ("number", "shape", "distinct"),
    [
        (1, (27, 1949), 934),
        (2, (29, 2520), 1246),
        (3, (36, 1812), 1020),
        (4, (41, 1137), 768),
        (5, (50, 378), 256),
        (6, (50, 1133), 489),
        (7, (59, 1824), 1037),
        (8, (64, 1008), 406),
    ],
)
def test_the_benchmark_alignments_have_their_known_sizes(real_data, number, shape, distinct):
    alignment = read_alignment(real_data / "alignments" / f"DS{number}.fasta")
    assert alignment.states.shape == shape
    patterns = compress(alignment)
    assert len(patterns) == distinct
    merged = merge_relabelled(patterns)
    assert merged.counts.sum() == shape[1]
    if number == 1:
        assert len(merged) == 753


def test_relabelled_patterns_are_merged_and_still_map_back_to_sites():
    alignment = Alignment.from_sequences("ABC", ["ACGTAR", "ACGTCY", "CGTAAN"])
    merged = merge_relabelled(compress(alignment))
    assert merged.pattern_of_site.tolist() == [0, 0, 0, 0, 1, 2]
    assert merged.counts.tolist() == [4, 1, 1]
    again = merge_relabelled(merged)
    np.testing.assert_array_equal(again.states, merged.states)


def test_the_report_counts_what_matters():
    alignment = Alignment.from_sequences("ABCDE", ["ACGT-N", "ACGA-R", "ACGT-N", "ACGT-A", "------"])
    report = summarize(alignment)
    assert (report.taxa, report.sites, report.patterns) == (5, 6, 6)
    assert report.missing_share == pytest.approx(12 / 30)
    assert report.constant_sites == 5
    assert report.empty_sites == 1
    assert report.empty_taxa == ("E",)
    assert report.identical == (("A", "C"),)


@pytest.mark.parametrize(
    ("taxa", "rows", "facts"),
    [
        ("AB", ["A", "C"], "2 sequences. … 3 … 4 to infer"),
        ("A", ["A"], "1 sequence. … 3 … 4 to infer"),
        (["A", "", "C"], ["A", "C", "G"], "sequence 2 … name"),
        (["A", "B", "A"], ["A", "C", "G"], "several … 'A'"),
        ("ABC", ["AC", "A", "AC"], "'B' … 1 site where … 'A' … 2"),
        ("ABC", ["", "", ""], "no sites"),
        ("ABC", ["ACG", "AC!", "ACG"], "'B' … column 3 … '!'"),
        ("ABC", ["ACG", "ACé", "ACG"], "'B' … column 3 … 'é'"),
        ("ABC", ["MEL", "MKF", "MLL"], "protein"),
        ("ABC", ["012", "010", "011"], "'0'"),
    ],
)
def test_what_is_no_alignment_is_refused(taxa, rows, facts):
    with pytest.raises(AlignmentError, match=saying(facts)):
        Alignment.from_sequences(list(taxa), rows)
