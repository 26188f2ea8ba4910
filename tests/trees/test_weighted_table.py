"""Tables of trees with weights: what they hold, and each thing that can be wrong with its line."""

import gzip

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phloem.errors import BadArgument, FileProblem, NotBinary, PhloemError, TaxonMismatch, TreeFormatError
from phloem.trees.reading import parse_newick, read_weighted_table
from reference import nested
from support.strategies import topology_batches

TREES = ["((a,b),c,(d,e));", "((a,c),b,(d,e));", "(a,(b,d),(c,e));"]
GOOD = "".join(f"{weight}\t{tree}\n" for weight, tree in zip(("0.5", "2", "1e-3"), TREES, strict=True))


def read(tmp_path, text: str | bytes, name: str = "trees.tsv", **options):
    path = tmp_path / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_weighted_table(path, **options)


def test_a_table_is_trees_and_their_weights(tmp_path):
    found = read(tmp_path, GOOD)
    assert found.taxa == tuple("abcde")
    assert found.weights.tolist() == [0.5, 2, 1e-3]
    assert found.topologies.equal(parse_newick(TREES).topologies).all()
    assert found.branch_lengths is None


@given(topology_batches(most=12, trees=5), st.data())
@settings(max_examples=30)
def test_any_trees_and_weights_come_back(tmp_path_factory, topologies, data):
    numbers = st.floats(0, 1e300) | st.integers(0, 10**9)
    weights = data.draw(st.lists(numbers, min_size=len(topologies), max_size=len(topologies)))
    names = [f"taxon {number:02}" for number in range(topologies.taxon_count)]
    quoted = [f"'{name}'" for name in names]
    texts = [nested.to_newick(nested.from_parent(row, len(names)), quoted) for row in topologies.parent.tolist()]
    ending = data.draw(st.sampled_from(["\n", "\r\n"]))
    lines = [f"{weight!r}\t{text}" for weight, text in zip(weights, texts, strict=True)]
    found = read(tmp_path_factory.mktemp("table"), ending.join(lines))
    assert found.taxa == tuple(names)
    assert found.weights.tolist() == weights
    assert found.topologies.equal(topologies).all()


def test_gzipped_tables_byte_order_marks_and_empty_lines_make_no_difference(tmp_path):
    expected = read(tmp_path, GOOD)
    spaced = "\ufeff\n" + GOOD.replace("\n", "\r\n\n  \n")
    for name, content in (("a.tsv", spaced.encode()), ("a.tsv.gz", gzip.compress(GOOD.encode()))):
        found = read(tmp_path, content, name)
        assert found.weights.tolist() == expected.weights.tolist()
        assert found.topologies.equal(expected.topologies).all()


def test_taxa_are_in_the_order_that_is_asked_for(tmp_path):
    found = read(tmp_path, GOOD, taxa=list("edcba"))
    assert found.taxa == tuple("edcba")
    assert found.with_taxa("abcde").topologies.equal(parse_newick(TREES).topologies).all()


@pytest.mark.parametrize(("burnin", "left"), [(0, 3), (1, 2), (2, 1), (0.34, 2), (0.5, 2), (0.7, 1)])
def test_a_burn_in_drops_the_first_trees_with_their_weights(burnin, left, tmp_path):
    found = read(tmp_path, GOOD, burnin=burnin)
    assert found.weights.tolist() == [0.5, 2, 1e-3][3 - left :]
    assert found.topologies.equal(parse_newick(TREES).topologies[3 - left :]).all()


def test_a_burn_in_must_leave_some(tmp_path):
    with pytest.raises(BadArgument, match=r"trees\.tsv: burn-in 3 drops all 3 trees"):
        read(tmp_path, GOOD, burnin=3)


@pytest.mark.parametrize("weight", ["-1", "nan", "inf", "-inf", "x", "", "1,5", "0x10", "1e999"])
def test_weights_are_finite_numbers_from_zero_up(weight, tmp_path):
    with pytest.raises(TreeFormatError, match=r"trees\.tsv, line 5: weight '.*'\. Give a number from 0 up\.$"):
        read(tmp_path, f"{GOOD}\n{weight}\t{TREES[0]}\n")


@pytest.mark.parametrize(
    ("line", "kind", "message"),
    [
        ("0.5 ((a,b),c,(d,e));", TreeFormatError, r"trees\.tsv, line 5: give a weight, a tab and a Newick tree\.$"),
        ("0.5\t((a,b),c,(d,e));\t1", TreeFormatError, r"trees\.tsv, line 5: give a weight, a tab and a Newick tree\.$"),
        ("0.25\t((a,b),c,(d,e);", TreeFormatError, r"^\S*trees\.tsv, tree 4, line 5, column \d+: "),
        ("0.25\t((a,b),c,(d,));", TreeFormatError, r"^\S*trees\.tsv, tree 4, line 5, column 18: a leaf has no name"),
        ("0.25\t((a,b),c,(d,x));", PhloemError, r"^\S*trees\.tsv, tree 4, line 5, column 18: "),
        ("0.25\t(a,b,c,(d,e));", NotBinary, r"^\S*trees\.tsv, tree 4, line 5, column 6: this tree has a polytomy"),
        ("0.25\t((a,b),c,(d,e)); ((a,b),c,(d,e));", TreeFormatError, r"trees\.tsv: 5 trees in 4 lines\. Give one a"),
    ],
)
def test_what_is_wrong_with_a_line_is_said_with_its_number(line, kind, message, tmp_path):
    for burnin in (0, 1):
        with pytest.raises(kind, match=message) as raised:
            read(tmp_path, f"{GOOD}\n{line}\n", burnin=burnin)
        assert str(raised.value).isprintable()


def test_other_taxa_are_named(tmp_path):
    with pytest.raises(TaxonMismatch, match=r"trees\.tsv, tree 1, line 1, column 5: lacks 'f'"):
        read(tmp_path, GOOD, taxa=list("abcdf"))


@pytest.mark.parametrize("content", [b"", b"\n \n", b"\xef\xbb\xbf"])
def test_a_table_without_trees_is_refused(content, tmp_path):
    with pytest.raises(TreeFormatError, match=r"trees\.tsv: holds no trees\. Give lines of a weight, a tab"):
        read(tmp_path, content)


def test_what_is_no_text_or_no_file_is_refused(tmp_path):
    with pytest.raises(TreeFormatError, match=r"trees\.tsv: is not UTF-8 text\. Save it as UTF-8\."):
        read(tmp_path, b"0.5\t(a,\xff,c);\n")
    with pytest.raises(FileProblem, match="no such file"):
        read_weighted_table(tmp_path / "nothing.tsv")


def test_the_shared_target_sums_to_one(real_data):
    found = read_weighted_table(real_data / "density" / "eight_taxa_target.tsv.gz")
    assert found.taxa == tuple("ABCDEFGH")
    assert len(found) == len(found.distinct()) == 2_899
    assert found.weights.sum() == pytest.approx(1)
    assert found.weights[0] == 0.057006364569046564
    first = parse_newick("((G,(E,C)),A,(H,(B,(F,D))));").topologies
    assert found.topologies[0].equal(first).all()
    assert np.all(np.diff(found.weights) <= 0)
