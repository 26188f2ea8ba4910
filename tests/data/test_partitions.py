"""Partitions: every way in which programs write them, what is wrong with a file in one line, and random ones back."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phloem.data.partitions import SitePartition, SiteSets, by_codon, parse_partition, read_partition
from phloem.errors import AlignmentError, FileProblem, PhloemError
from support.messages import saying
from support.nexus_files import odd_names, quote

SITES = 12


def partition_in(source: str, text: str, sites: int) -> SitePartition | None:
    """What the file itself activates."""
    return SiteSets(source, text, sites).active_partition()


def parsed(text: str, sites: int = SITES) -> SitePartition:
    return parse_partition("parts.nex", text, sites)


def sets(*lines: str, block: str = "sets") -> str:
    return "\n".join(["#NEXUS", f"begin {block};", *lines, "end;"])


def shown(partition: SitePartition) -> str:
    """`a:1-6 b:7-12`, parts in their order, each with its sites as a string of digits or as runs."""
    words = []
    for index, name in enumerate(partition.names):
        sites = (np.flatnonzero(partition.part_of_site == index) + 1).tolist()
        words.append(f"{name}:{','.join(map(str, sites))}")
    return " ".join(words)


HALVES = "a:1,2,3,4,5,6 b:7,8,9,10,11,12"
CODONS = "p1:1,4,7,10 p2:2,5,8,11 p3:3,6,9,12"
DIALECTS = {
    "charsets alone": (sets("charset a = 1-6;", "charset b = 7-12;"), HALVES),
    "the last site, steps": (sets("charset p1=1-.\\3;", "charset p2=2 - . \\ 3;", "charset p3=3-12/3;"), CODONS),
    "lists": (sets("CHARSET a = 1 2-4 5 - 6;", "CharSet b=7-10, 11,12;"), HALVES),
    "references, in any order": (sets("charset b = c 12;", "charset c=7-11;", "partition p=2: 1-6, B;"), None),
    "mrbayes": (
        sets("charset a=1-6;", "charset b=7-.;", "partition x=1:1-.;", "part y=2:a,b;", "set part=y;", block="mrbayes"),
        HALVES,
    ),
    "mrbayes, by number": (
        sets("partition x = 1: 1-.;", "partition y = 2: 1-6, 7-.;", "set autoclose=yes partition=3;", block="MrBayes"),
        HALVES.replace("a:", "part1:").replace("b:", "part2:"),
    ),
    "mrbayes, the default": (sets("charset a=1-6;", "set partition=default;", block="mrbayes"), None),
    "paup, labels": (sets("charpartition p = a: 1-6, b: 7-12;", block="paup"), HALVES),
    "paup, numbers": (sets("charpartition p = 1: 1-6, 2: 7-12;"), HALVES.replace("a:", "1:").replace("b:", "2:")),
    "paup, remainder": (sets("charset c1=1-6;", "charpartition p = a: c1, b: remainder;"), HALVES),
    "mesquite": (
        "#NEXUS\n[written by Mesquite]\nBEGIN SETS;\nTITLE  Sets;\n"
        "CHARSET 'gene 1' (CHARACTERS = 'my = matrix') =  1-6;\nCHARPARTITION * UNTITLED  =  a :  'gene 1', b : 7 - 12;"
        "\nEND;\nBEGIN ASSUMPTIONS;\nTYPESET * UNTITLED = unord: 1 - 12;\nEXSET * UNTITLED  =  3;\nEND;",
        HALVES,
    ),
    "mesquite, codons": (
        sets("CODONPOSSET * UNTITLED = p1: 1-12\\3, p2: 2 - 12\\3, p3: 3-12\\3;", block="CODONS"),
        CODONS,
    ),
    "geneious": (sets("\tcharset a [gene one] = 1-6;", "\tcharset b [gene; two] = 7-12;"), HALVES),
    "seaview": (sets("CHARSET 'a' = 1-6;", "CHARSET 'b' = 7-12;"), HALVES),
    "iq-tree, kind of data": (sets("charset a = DNA, 1-6;", "charset b=dna, 7-12;"), HALVES),
    "iq-tree, all": (sets("charset a = *;"), None),
    "starred among several": (sets("charpartition x=a:all;", "charpartition * y=a:1-6,b:7-.;"), HALVES),
    "the same sets in two blocks": (
        sets("charset a=1-6;", "charset b=7-12;") + sets("charset A=1-6;", "charset b=7-.;", block="mrbayes")[6:],
        HALVES,
    ),
    "raxml": ("DNA, a = 1-6\n\nDNA, b = 7-12\n", HALVES),
    "raxml, steps": ("DNA, p1=1-12\\3\nDNA, p2 = 2-12\\3 # second\n# third\nDNA, p3 = 3-12/3", CODONS),
    "raxml, lists": ("DNAX, a = 1-3, 4-6\r\nDNAF, b = 7-9 10-12", HALVES),
}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_partitions_of_other_programs_are_read(dialect):
    text, expected = DIALECTS[dialect]
    found = parsed(text)
    wanted = {
        "references, in any order": "part1:1,2,3,4,5,6 B:7,8,9,10,11,12",
        "mrbayes, the default": "all:1,2,3,4,5,6,7,8,9,10,11,12",
        "iq-tree, all": "a:1,2,3,4,5,6,7,8,9,10,11,12",
    }
    assert shown(found) == (expected or wanted[dialect])
    assert found.models == (None,) * len(found)
    assert found.sizes.sum() == SITES


# As IQ-TREE 2 writes them.
BEST_SCHEME = sets(
    "  charset a_b = 1-3  7-9;", "  charset c = 4-6 10-12;", "  charpartition mymodels =", "    GTR+F+R3: a_b, HKY: c;"
)
BEST_MODEL = sets(
    "  charset a_b = 1-3  7-9;",
    "  charset c = 4-6 10-12;",
    "  charpartition mymodels =",
    "    HKY{2.8148}+F{0.338664,0.243506,0.202156,0.215674}: a_b{2.81728},",
    "    GTR{6.00538,7.80217,3.55096,1.53774,20.6814}+F{0.388, 0.211, 0.185, 0.216}+I{0.1}+G4{0.5}: c{3.4};",
)


def test_models_of_iqtree_and_raxml_ng_come_with_the_partition():
    found = parsed(BEST_SCHEME)
    assert (found.names, found.models) == (("a_b", "c"), ("GTR+F+R3", "HKY"))
    assert found.part_of_site.tolist() == [0, 0, 0, 1, 1, 1] * 2
    found = parsed(BEST_MODEL)
    assert found.names == ("a_b", "c")
    assert found.models[0] == "HKY{2.8148}+F{0.338664,0.243506,0.202156,0.215674}"
    assert found.models[1].endswith("+I{0.1}+G4{0.5}")
    found = parsed("GTR{1/2/1/1/2/1}+FO+G, a = 1-6\nhky85, b = 7-12")
    assert found.models == ("GTR{1/2/1/1/2/1}+FO+G", "hky85")


def test_a_model_over_several_sets_or_ranges_names_the_part_after_them():
    found = parsed(sets("charset a=1-3;", "charset b=4-6;", "charpartition m = GTR+G: a b, JC: 7-12;"))
    assert (found.names, found.models) == (("a_b", "part2"), ("GTR+G", "JC"))


def test_what_would_leave_out_sites_is_said():
    assert parsed(DIALECTS["mesquite"][0]).ignored == ("parts.nex: exset would leave out sites: all are used.",)
    assert parsed(DIALECTS["seaview"][0]).ignored == ()


def test_the_partition_of_an_alignment_is_what_set_partition_activates():
    lines = ("charset a=1-6;", "charset b=7-12;", "partition p=2:a,b;")
    assert partition_in("dna.nex", sets(*lines, block="mrbayes"), SITES) is None
    assert shown(partition_in("dna.nex", sets(*lines, "set partition=P;", block="mrbayes"), SITES)) == HALVES
    assert partition_in("dna.nex", sets(*lines, "set partition=1;", block="mrbayes"), SITES) is None


def test_a_set_that_nobody_uses_may_be_wrong():
    lines = (
        "charset a=1-6;",
        "charset odd=1-99999 nonsense;",
        "charset = 3;",
        "partition p=2:1-6,7-.;",
        "set partition=p;",
    )
    assert len(partition_in("dna.nex", sets(*lines, block="mrbayes"), SITES)) == 2


def test_codon_positions():
    assert shown(by_codon(SITES)) == CODONS.replace("p", "codon")
    message = "partition by codon: 898 sites are no whole number of codons. Give an alignment of whole codons, or "
    with pytest.raises(AlignmentError, match=saying(message + "a partition file.")):
        by_codon(898)


WRONG = [
    (sets("charset a=1-7;", "charset b=6-12;"), "site 6 is in two parts, 'a' and 'b', as is 1 more. … partition NAME"),
    (
        sets("charpartition p = a:1-9, b:4-.;"),
        "line 3, charpartition: site 4 is in two parts, 'a' and 'b', as are 5 more",
    ),
    (sets("charset a=1-7;", "charset b=9;"), "site 8 is in no part, as are 3 more. Put each site in one part. Or"),
    ("DNA, a = 1-11", "parts.nex: site 12 is in no part. Put each site in one part."),
    ("DNA, a = 1-12\nDNA, b =", "part 'b' has no sites. Remove it, or give it some."),
    (sets("charpartition p=a:all, b:remainder;"), "part 'b' has no sites"),
    (sets("charset a=1-13;"), "line 3, charset: '1-13' goes beyond the alignment, which has 12 sites. Correct"),
    ("DNA, a = 1-12 13", "line 1: '13' goes beyond the alignment, which has 12 sites"),
    (sets("charset a=0-12;"), "'0-12': sites and steps are counted from 1, not 0. Correct it."),
    (sets("charset a=1-12\\0;"), "'1-12\\0': sites and steps are counted from 1"),
    (sets("charset a=-3;"), "'-3' is no site or range. Write 7, 1-100, 101-. or 1-.\\3."),
    (sets("charset a=1--3;"), "'1--3' is no site or range"),
    (sets("charset a=1-\\3;"), "'1-\\3' is no site or range"),
    (sets(f"charset a=1-{'9' * 5000};"), "is no site or range"),
    (sets("charset a=12-1;"), "line 3, charset: the range '12-1' goes backwards. Write 1-12."),
    (
        sets("charset a=1-6;", "partition p=2:a,c;"),
        "line 4, partition: 'c' is no site and no charset. The file has 'a'.",
    ),
    (sets("charset a=b;", "charset b=a;"), "charset 'a' is defined by itself. Correct one of the charsets."),
    (sets("charset a=1-6;", "charset a=7-12;"), "line 4, charset: 'a' is defined twice. Rename one of the two."),
    (sets("charpartition p=a:1-6, A:7-12;"), "two parts are called 'A'. Give each its own name."),
    (sets("partition p=3:1-6,7-12;"), "line 3, partition: 'p' says '3' before the colon and has 2 parts. Correct one"),
    (
        sets("partition p=1-6,7-12;"),
        "'p' is not of the form 2: gene1, gene2, nor of the form label: sites, label: sites",
    ),
    (sets("partition p=;"), "'p' is not of the form"),
    (sets("partition p=2: 1-6,,7-12;"), "says '2' before the colon and has 3 parts"),
    (sets("partition 2: a, b;"), "line 3, partition: no name and an equals sign. Write partition NAME = …;"),
    (sets("charset;"), "line 3, charset: no name and an equals sign. Write charset NAME = …;"),
    (sets("charset a = 1-6", "charset b = 7-12;"), "'charset' is no site and no charset. … or add a missing ';'."),
    (sets("charset a = 1-12")[:-4], "line 3, charset: no ';' at its end. The file may have been cut off."),
    (sets("charset a = remainder;"), "`remainder` must be a part of its own, in a partition. List the sites."),
    (sets("charset a (VECTOR) = 111111111111;"), "the VECTOR form is not supported. List the sites"),
    (
        sets("charset a = other.phy: 1-12;"),
        "sites of another file, 'other.phy', are not supported. Join the alignments",
    ),
    (sets("charset a = CODON, 1-12;"), "'CODON' is no model of nucleotides, and phloem takes no other data. Write DNA"),
    (sets("charset a=1-.;", "charpartition p=LG+G4:a;"), "line 4, charpartition: 'LG+G4' is no model of nucleotides"),
    (
        "DNA, a = 1-6\nWAG, b = 7-12",
        "parts.nex, line 2: 'WAG' is no model of nucleotides, and phloem takes no other data.",
    ),
    ("a = 1-6", "line 1: 'a = 1-6' is no part. Write lines such as DNA, gene1 = 1-100."),
    ("DNA a = 1-6", "is no part"),
    ("# nothing\n", "parts.nex: no parts. Give a NEXUS file, or lines such as DNA, gene1 = 1-100."),
    (sets("title x;"), "parts.nex: no charset or partition. Write charset NAME = 1-100; for each part."),
    (
        sets("partition p=1:all;", "partition q=1:all;"),
        "2 partitions, 'p', 'q'. Choose one: add `begin mrbayes; set parti",
    ),
    (sets("set partition=x;", block="mrbayes"), "no partition is called 'x'. The file has no partition."),
    (sets("partition p=1:all;", "set partition=7;", block="mrbayes"), "no partition is called '7'. The file has 'p'."),
    (sets("charset 'a=1;"), "parts.nex, line 3: this quoted name has no closing quote. Close it."),
    (sets("[charset a=1;"), "parts.nex, line 3: this comment has no closing ']'. Close it."),
]


@pytest.mark.parametrize(("text", "facts"), WRONG, ids=range(len(WRONG)))
def test_what_is_wrong_is_said_in_one_line(text, facts):
    with pytest.raises(AlignmentError, match=saying(facts)) as caught:
        parsed(text)
    message = str(caught.value)
    assert message.startswith("parts.nex")
    assert message.isprintable()
    assert len(message) < 300


def test_a_chain_of_charsets_ends():
    lines = [f"charset c{index} = c{index + 1};" for index in range(3000)]
    with pytest.raises(AlignmentError, match="by itself"):
        parsed(sets(*lines, "charset c3000=1-12;"))


def test_many_ranges_take_no_more_memory_than_the_sites():
    assert len(parsed(sets(f"charset a = {'1-. ' * 20_000};"), sites=100_000)) == 1


def test_charsets_that_all_overlap_are_refused_before_they_fill_the_memory():
    lines = [f"charset c{index} = 1-.;" for index in range(5000)]
    with pytest.raises(AlignmentError, match=saying("site 1 is in two parts, 'c0' and 'c1', as are 999,999 more")):
        parsed(sets(*lines), sites=1_000_000)


def test_files(tmp_path):
    path = tmp_path / "parts.txt"
    path.write_bytes(b"\xef\xbb\xbfDNA, a = 1-12\n")
    assert read_partition(path, SITES).names == ("a",)
    path.write_bytes(b"\xff")
    with pytest.raises(AlignmentError, match=saying("not a text file (byte 1). Give a partition file.")):
        read_partition(path, SITES)
    with pytest.raises(FileProblem, match="no such file"):
        read_partition(tmp_path / "none", SITES)


def test_a_record_holds_to_its_invariant():
    with pytest.raises(AlignmentError, match="do not fit 2 names"):
        SitePartition(("a", "b"), np.zeros(4, np.int32), (None, None))
    assert not by_codon(3).part_of_site.flags.writeable


@st.composite
def partitions(draw) -> tuple[list[str], list[int]]:
    """Odd names, and for each site its part; every part has a site."""
    names = draw(odd_names(least=1, most=4))
    owners = draw(st.lists(st.integers(0, len(names) - 1), min_size=1, max_size=30))
    return names, draw(st.permutations([*range(len(names)), *owners]))


def ranges(sites: list[int], last: int, draw) -> str:
    """The sites as single ones, runs and steps, in any order, with blanks where they can be."""
    rest, words = sorted(sites), []
    while rest:
        step = draw(st.integers(1, 4))
        run = [rest[0]]
        while run[-1] + step in rest:
            run.append(run[-1] + step)
        rest = [site for site in rest if site not in run]
        end = "." if run[-1] == last and draw(st.booleans()) else str(run[-1])
        blank = draw(st.sampled_from(["", " "]))
        if len(run) == 1:
            words.append(end)
        else:
            words.append(f"{run[0]}{blank}-{blank}{end}" + (f"{blank}\\{blank}{step}" if step > 1 else ""))
    return " ".join(draw(st.permutations(words)))


@given(partition=partitions(), data=st.data())
def test_any_partition_comes_back_from_every_format(partition, data):
    names, owners = partition
    lists = [
        ranges([site + 1 for site, owner in enumerate(owners) if owner == index], len(owners), data.draw)
        for index in range(len(names))
    ]
    quoted = ["'" + name.replace("'", "''") + "'" for name in names]
    defined = [f"charset {name} = {sites};" for name, sites in zip(quoted, lists, strict=True)]
    labelled = ", ".join(f"{name} : {sites}" for name, sites in zip(quoted, lists, strict=True))
    listed = ", ".join(quoted)
    texts = [
        sets(*defined),
        sets(f"charpartition * p = {labelled};"),
        sets(*defined, f"partition p = {len(names)}: {listed};", "set partition = p;", block="mrbayes"),
        sets(*defined, f"charpartition p = {', '.join(f'{name}: {name}' for name in quoted)};"),
    ]
    for text in texts:
        found = parsed(text, len(owners))
        assert found.names == tuple(names)
        assert found.part_of_site.tolist() == owners
    lines = [f"GTR+G4, gene{index} = {sites.replace(' - ', '-')}" for index, sites in enumerate(lists)]
    found = parsed("\n".join(lines), len(owners))
    assert found.part_of_site.tolist() == owners
    assert found.models == ("GTR+G4",) * len(names)


def outcome(read, *arguments):
    """What it returns, or the one line of its error."""
    try:
        return read(*arguments)
    except PhloemError as problem:
        line = str(problem)
    assert line.isprintable()
    return line


VALID = [text for text, _ in DIALECTS.values()] + [BEST_SCHEME, BEST_MODEL]


@given(data=st.data())
def test_damaged_files_are_read_or_refused(data):
    text = data.draw(st.sampled_from(VALID))
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(text)))
        stop = data.draw(st.integers(start, min(len(text), start + 5)))
        pieces = st.sampled_from([*"=,:;()[]{}'\"*-.\\/ \n0179", "partition", "charset", "remainder", "²", "\x1b", "a"])
        text = text[:start] + "".join(data.draw(st.lists(pieces, max_size=3))) + text[stop:]
    for read in (parsed, lambda damaged: partition_in("parts.nex", damaged, SITES)):
        found = outcome(read, text)
        assert found is None or isinstance(found, str) or found.part_of_site.shape == (SITES,)


@given(content=st.one_of(st.binary(max_size=60), st.text(max_size=60).map(lambda text: f"#NEXUS {text}".encode())))
def test_random_bytes_are_refused_or_read(content, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / "random-partition"
    path.write_bytes(content)
    outcome(read_partition, path, SITES)


def test_names_that_need_no_quotes_are_read_without():
    assert quote("gene_1") == "gene_1"
    assert parsed(sets("charset gene_1-a.b = 1-.;")).names == ("gene_1-a.b",)
