"""Reading trees: formats, names, weights, lengths, order, and tables of weighted trees."""

import gzip

import dendropy
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phloem.errors import BadArgument, FileProblem, NotBinary, PhloemError, TaxonMismatch, TreeFormatError
from phloem.trees.reading import parse_newick, read_any_trees, read_trees, read_weighted_table
from phloem.trees.sample import TreeSample, count_burnin, pool
from phloem.trees.splits import nontrivial_splits
from phloem.trees.tree import WeightedTrees
from reference import nested
from support.nexus_files import odd_names, quote
from support.strategies import nested_trees, topology_batches

MRBAYES_T = """#NEXUS
[ID: 123]
[Param: tree]
begin trees;
   translate
      1 Homo_sapiens,
      2 Pan,
      3 'Gorilla gorilla',
      4 Pongo
      ;
   tree gen.0 = [&U] (1:1.000000e-01,2:2.0e-01,(3:3.0E-1,4:.4):5e-1);
   tree gen.500 = [&U] (2:0.2,(1:0.1,3:0.3)[a comment; with (brackets)]:0.05,4:0.4);
end;
"""
TRPROBS = """#NEXUS
[ID: 0146056142]
begin trees;
   translate
    1 A, 2 B, 3 C, 4 D;
   tree tree_1 [p = 0.281, P = 0.281] = [&W 0.281014] (1,2,(3,4));
   tree tree_2 [p = 0.200, P = 0.481] = [&W 0.199961] ((1,3),2,4);
   tree tree_3 [p = 0.063, P = 0.544] = (1,3,(2,4));
end;
"""
BEAST = """#NEXUS

Begin taxa;
\tDimensions ntax=4;
\t\tTaxlabels
\t\t\tA
\t\t\t'B 2'
\t\t\tC
\t\t\tD
\t\t\t;
End;
Begin trees;
\tTranslate
\t\t   1 A,
\t\t   2 'B 2',
\t\t   3 C,
\t\t   4 D
\t\t   ;
tree STATE_0 [&lnP=-34291.61,posterior=-34291.61] = [&R] ((1:[&rate=1.0]0.5,2[&x={1,2}]:[&rate=0.3]0.5)\
[&height_95%_HPD={0.4,0.6},posterior=1]:[&rate=0.5]0.25,(3:0.5,4:0.5):[&rate=1]0.125)[&height=1.0];
tree STATE_1000 [&lnP=-3.1E4] = [&R] (((1:0.5,3:0.5):0.25,2:0.75):0.1,4:0.85);
End;
"""


def splits_of(sample: TreeSample) -> list[set[frozenset[str]]]:
    """The nontrivial splits by name, the side without the first taxon."""
    taxa = np.array(sample.taxa)
    return [{frozenset(taxa[members].tolist()) for members in tree} for tree in nontrivial_splits(sample.topologies)]


def write(tmp_path, text, name="trees.txt"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_mrbayes_t(tmp_path):
    sample = read_trees(write(tmp_path, MRBAYES_T))
    assert sample.taxa == ("Homo_sapiens", "Pan", "Gorilla gorilla", "Pongo")
    assert splits_of(sample) == [{frozenset({"Gorilla gorilla", "Pongo"})}, {frozenset({"Pan", "Pongo"})}]
    assert sample.weights.tolist() == [1, 1]
    # Branches by lower node: leaves 0..3, then the interior node below the root.
    assert sample.branch_lengths is not None
    np.testing.assert_array_equal(sample.branch_lengths, [[0.1, 0.2, 0.3, 0.4, 0.5], [0.1, 0.2, 0.3, 0.4, 0.05]])


def test_trprobs_weights(tmp_path):
    sample = read_trees(write(tmp_path, TRPROBS))
    assert sample.weights.tolist() == [0.281014, 0.199961, 0.063]
    assert sample.branch_lengths is None


def test_beast_annotations_and_rooted_trees(tmp_path):
    sample = read_trees(write(tmp_path, BEAST))
    assert sample.taxa == ("A", "B 2", "C", "D")
    assert splits_of(sample) == [{frozenset({"C", "D"})}, {frozenset({"B 2", "D"})}]
    assert sample.branch_lengths is not None
    # The two branches at the root are one in the unrooted tree.
    np.testing.assert_allclose(sample.branch_lengths[0], [0.5, 0.5, 0.5, 0.5, 0.375])
    np.testing.assert_allclose(sample.branch_lengths[1], [0.5, 0.75, 0.5, 0.95, 0.25])


def test_a_file_says_itself_what_it_is(tmp_path):
    as_nexus = read_trees(write(tmp_path, "  \n#nexus begin trees; tree a = (A,B,(C,D)); end;", "trees.nwk"))
    as_newick = read_trees(write(tmp_path, "(A,B,(C,D));", "trees.nex"))
    assert as_nexus.topologies.equal(as_newick.topologies).all()


def test_gzip_is_recognised_by_content(tmp_path):
    plain = read_trees(write(tmp_path, MRBAYES_T))
    packed = read_trees(write(tmp_path, gzip.compress(MRBAYES_T.encode()), "no_suffix"))
    assert packed.taxa == plain.taxa
    assert packed.topologies.equal(plain.topologies).all()


def test_a_byte_order_mark_and_windows_line_ends_are_no_trouble(tmp_path):
    sample = read_trees(write(tmp_path, b"\xef\xbb\xbf" + TRPROBS.replace("\n", "\r\n").encode()))
    assert len(sample) == 3
    assert len(parse_newick("\ufeff(A,B,(C,D));\r\n(A,C,(B,D));\r\n").taxa) == 4


def test_utree_default_star_odd_titles_and_upper_case(tmp_path):
    text = """#NEXUS
    BEGIN TREES;
      UTREE * 'a title; with = signs' = [&U] (A,B,(C,D));
      Tree\t* second=(A,C,(B,D));
      TREE tree = (A,D,(B,C));
    ENDBLOCK;"""
    assert len(read_trees(write(tmp_path, text))) == 3


def test_paup_weights_are_fractions():
    np.testing.assert_array_equal(parse_newick("[&U][&W 1/3](A,B,(C,D));[&w 2](A,B,(C,D));").weights, [1 / 3, 2])


def test_only_tree_blocks_count_and_other_blocks_are_passed_over(tmp_path):
    text = """#NEXUS
    begin data; dimensions ntax=3 nchar=2; format datatype=dna; matrix A ac B gt C 'gt' ; end;
    begin notes; tree not_a_tree = (X,Y,Z); end;
    begin trees; tree one = (A,B,(C,D)); end;
    begin mrbayes; set autoclose=yes; end;
    begin trees; tree two = (A,C,(B,D)); end;"""
    assert len(read_trees(write(tmp_path, text))) == 2


def test_a_run_that_still_goes_on_has_no_end_statement(tmp_path):
    assert len(read_trees(write(tmp_path, MRBAYES_T.replace("end;", "")))) == 2


def test_leaves_may_be_named_translated_or_numbered(tmp_path):
    text = """#NEXUS
    begin taxa; dimensions ntax=4; taxlabels D C B A; end;
    begin trees; translate x A; tree t = (x,3,(D,C)); tree t = (A,B,(1,2)); end;"""
    sample = read_trees(write(tmp_path, text))
    assert sample.taxa == ("D", "C", "B", "A")
    assert sample.topologies[0].equal(sample.topologies[1]).all()


def test_a_translate_table_may_name_more_taxa_than_the_trees_have(tmp_path):
    text = "#NEXUS begin trees; translate 1 A, 2 B, 3 C, 4 D, 5 E,; tree t = (5,3,(1,2)); end;"
    assert read_trees(write(tmp_path, text)).taxa == ("A", "B", "C", "E")


def test_quoted_names_mean_what_they_quote():
    sample = parse_newick("('it''s','a,b',('(c)','[d]'));(it's,'a,b',('(c)','[d]'));")
    assert sample.taxa == ("(c)", "[d]", "a,b", "it's")
    assert sample.topologies[0].equal(sample.topologies[1]).all()


@given(names=odd_names(), translated=st.booleans())
def test_any_names_come_back_from_labels_tables_and_trees(tmp_path_factory, names, translated):
    path = tmp_path_factory.mktemp("odd") / "trees.nex"
    quoted = [quote(name) for name in names]
    numbers = [f"n{number}" for number in range(len(names))]
    table = f"translate {', '.join(map(' '.join, zip(numbers, quoted, strict=True)))};\n" if translated else ""
    tree = ",".join(numbers if translated else quoted)
    path.write_text(
        f"#NEXUS\nbegin taxa;\ndimensions ntax={len(names)};\ntaxlabels {' '.join(quoted)};\nend;\n"
        f"begin trees;\n{table}tree 'a; = (b' = [&U] ({tree});\nend;\n"
    )
    assert list(read_any_trees(path).taxa) == names
    if any(len(name) == 1 for name in names):  # DendroPy takes a quoted semicolon for the end of the labels
        return
    judge = dendropy.Tree.get(path=path, schema="nexus", preserve_underscores=True)
    assert sorted(leaf.taxon.label for leaf in judge.leaf_node_iter()) == sorted(names)


def test_underscores_stay_underscores():
    assert parse_newick("(Homo_sapiens,'Homo sapiens',x);").taxa == ("Homo sapiens", "Homo_sapiens", "x")


def test_names_may_be_in_any_script():
    assert parse_newick("(Ähre,ねこ,🐸);").taxa == ("Ähre", "ねこ", "🐸")


def test_newick_taxa_are_sorted_unless_an_order_is_given():
    assert parse_newick("(C,A,(D,B));").taxa == ("A", "B", "C", "D")
    assert parse_newick("(C,A,(D,B));", taxa=["D", "C", "B", "A"]).taxa == ("D", "C", "B", "A")


def test_interior_labels_and_root_lengths_are_passed_over():
    sample = parse_newick("((A:1,B:2)95/0.99:3,(C:4,D:5)'98 %':6)root:7;")
    assert sample.branch_lengths is not None
    np.testing.assert_array_equal(sample.branch_lengths[0], [1, 2, 4, 5, 9])


def test_missing_lengths_are_nan():
    sample = parse_newick("(A:1,B:2,(C:3,D:4));(A,B,(C,D));")
    assert sample.branch_lengths is not None
    np.testing.assert_array_equal(sample.branch_lengths, [[1, 2, 3, 4, np.nan], [np.nan] * 5])


def test_trees_may_span_lines_and_share_them():
    assert len(parse_newick("(A,\n  B,\n (C,\tD)\n);(A,C,(B,D)); (A,\n\nD,(B,C))\n;")) == 3


def test_burnin_by_count_and_by_fraction(tmp_path):
    path = write(tmp_path, "".join(f"({a},{b},({c},{d}));\n" for a, b, c, d in ["ABCD", "ACBD", "ADBC", "ABCD"]))
    assert len(read_trees(path, burnin=1)) == 3
    assert len(read_trees(path, burnin=0.25)) == 3
    assert len(read_trees(path, burnin=0.5)) == 2
    assert read_trees(path, burnin=3).topologies.equal(read_trees(path).topologies[3]).all()
    assert len(read_trees(path, burnin=0.75)) == 1
    for bad in (4, 1.5, -1, 17, 1.0, -0.5):
        with pytest.raises(BadArgument, match="burn-in"):
            read_trees(path, burnin=bad)


def test_tree_numbers_in_errors_count_the_burnin_too(tmp_path):
    path = write(tmp_path, "(A,B,(C,D));(A,B,(C,D));(A,B,(C,X));")
    with pytest.raises(TaxonMismatch, match="tree 3, line 1, column 33: taxon 'X' is not in tree 2"):
        read_trees(path, burnin=1)


def test_a_polytomy_is_read_for_embedding_and_refused_as_a_binary_tree(tmp_path):
    path = write(tmp_path, "(A,B,(C,D),E);\n(A,B,(C,(D,E)));")
    with pytest.raises(NotBinary, match="tree 1, line 1, column 1: this tree has a polytomy"):
        read_trees(path)
    trees = read_any_trees(path)
    assert isinstance(trees, WeightedTrees)
    assert [len(tree.parent) for tree in trees.trees] == [7, 8]
    assert [tree.is_binary for tree in trees.trees] == [False, True]


def test_any_trees_are_a_sample_where_all_are_binary(tmp_path):
    path = write(tmp_path, "((A,B),(C,D));")
    assert isinstance(read_any_trees(path), TreeSample)
    rooted = read_any_trees(path, keep_root=True)
    assert isinstance(rooted, WeightedTrees)
    assert rooted.trees[0].parent.tolist() == [4, 4, 5, 5, 6, 6, -1]


@given(nested_trees(most=25), st.booleans())
def test_trees_of_any_degrees_are_what_the_text_says(tmp_path_factory, tree, keep_root):
    taxa = [f"t{leaf:03d}" for leaf in range(len(nested.leaves(tree)))]
    path = write(tmp_path_factory.mktemp("any"), nested.to_newick(tree, taxa))
    read = read_any_trees(path, keep_root=keep_root)
    parent = read.topologies.parent[0] if isinstance(read, TreeSample) else read.trees[0].parent
    found = nested.from_parent(parent.tolist(), len(taxa))
    assert read.taxa == tuple(taxa)
    assert nested.nontrivial_splits(found) == nested.nontrivial_splits(tree)
    if keep_root:
        assert set(nested.clades(found)) == set(nested.clades(tree))


def test_a_caterpillar_of_10_000_leaves_is_read():
    leaves = [f"t{leaf:05d}" for leaf in range(10_000)]
    text = "(" * 9_998 + leaves[0] + "".join(f",{leaf})" for leaf in leaves[1:-2]) + f",{leaves[-2]},{leaves[-1]});"
    sample = parse_newick(text)
    assert len(sample.taxa) == 10_000
    assert sample.topologies.parent[0].tolist()[10_000:] == [*range(10_001, 19_998), -1]


def test_three_taxa_are_enough():
    sample = parse_newick("(A:1,(B:2,C:3):4);")
    assert sample.topologies.parent.tolist() == [[3, 3, 3, -1]]
    assert sample.branch_lengths is not None
    np.testing.assert_array_equal(sample.branch_lengths, [[5, 2, 3]])


def test_a_fraction_of_a_hundred_trees_is_not_rounded_below_itself():
    assert count_burnin(0.29, 100, "x") == 29
    assert count_burnin(np.float32(0.5), 4, "x") == 2
    assert count_burnin(np.int64(3), 4, "x") == 3


def test_apostrophes_in_comments_and_names_are_no_quotes(tmp_path):
    text = """#NEXUS
    begin taxa; taxlabels O'Brien [it's] D'Arcy C 'x y' [isn't]; end;
    begin trees; translate 1 O'Brien [it's], 2 D'Arcy [it's], 3 C, 4 'x y'; tree O'Brien [it's] = (1,2,(3,4)); end;"""
    sample = read_trees(write(tmp_path, text))
    assert sample.taxa == ("O'Brien", "D'Arcy", "C", "x y")
    assert len(sample) == 1


def test_a_nexus_file_may_begin_with_many_blank_lines(tmp_path):
    assert len(read_trees(write(tmp_path, "\n" * 10_000 + TRPROBS))) == 3


def test_an_equals_sign_in_a_name_opens_no_quote():
    """`A='x` is one name, whatever follows, for the scanner that counts nodes and for the parser that makes them."""
    many = ",".join(f"q{number}" for number in range(5000))
    with pytest.raises(NotBinary, match="5005 nodes"):
        parse_newick(f"(A='x,{many},(B,C'));")


def test_trees_must_have_the_alignments_taxa():
    with pytest.raises(TaxonMismatch, match=r"tree 1, line 1, column 1: lacks 'E'"):
        parse_newick("(A,B,(C,D));", taxa=["A", "B", "C", "E"])
    with pytest.raises(TaxonMismatch, match=r"tree 1, line 1, column 1: has 'D', which the others lack"):
        parse_newick("(A,B,(C,D));", taxa=["A", "B", "C"])
    with pytest.raises(TreeFormatError, match=r"character .* half"):
        parse_newick("(A\udc80,B,C);")
    with pytest.raises(TaxonMismatch, match="two of the expected taxa have the same name"):
        parse_newick("(A,B,(C,D));", taxa=["A", "A", "B", "C"])


def dendropy_splits(tree: dendropy.Tree, first: str) -> set[frozenset[str]]:
    everything = {leaf.taxon.label for leaf in tree.leaf_node_iter()}
    found = set()
    for node in tree.preorder_node_iter():
        side = {leaf.taxon.label for leaf in node.leaf_iter()}
        side = everything - side if first in side else side
        if 1 < len(side) < len(everything) - 1:
            found.add(frozenset(side))
    return found


@pytest.mark.parametrize("name", [f"mrbayes/DS{number}/rep_{number}.trprobs.gz" for number in (1, 2, 3, 4)])
def test_dendropy_reads_the_same_posteriors(real_data, name, tmp_path):
    lines = gzip.decompress((real_data / name).read_bytes()).decode().splitlines()
    places = [place for place, line in enumerate(lines) if line.strip().startswith("tree ")]
    assert len(read_trees(real_data / name)) == len(places)
    left_out = set(places) - set(places[:: len(places) // 500 + 1])  # dendropy takes its time
    text = "\n".join(line for place, line in enumerate(lines) if place not in left_out)
    (tmp_path / "some.trprobs").write_text(text)
    sample = read_trees(tmp_path / "some.trprobs")
    assert len(sample) >= 20
    trees = dendropy.TreeList.get(data=text, schema="nexus", preserve_underscores=True, store_tree_weights=True)
    assert len(trees) == len(sample)
    assert tuple(taxon.label for taxon in trees.taxon_namespace) == sample.taxa
    np.testing.assert_allclose([tree.weight for tree in trees], sample.weights)
    assert [dendropy_splits(tree, sample.taxa[0]) for tree in trees] == splits_of(sample)


@pytest.mark.parametrize("name", [f"DS{number}" for number in range(1, 9)])
def test_dendropy_reads_the_same_bootstrap_trees(real_data, name):
    path = real_data / "ufboot" / name / "rep_1.ufboot.gz"
    text = b"\n".join(gzip.decompress(path.read_bytes()).splitlines()[::100]).decode()
    sample = parse_newick(text)
    trees = dendropy.TreeList.get(data=text, schema="newick", preserve_underscores=True)
    assert [dendropy_splits(tree, sample.taxa[0]) for tree in trees] == splits_of(sample)
    assert parse_newick(text, taxa=sample.taxa).topologies.equal(read_trees(path).topologies[::100]).all()


def test_the_ten_ds1_posteriors_have_2784_topologies_and_the_best_has_probability_0_278(real_data):
    runs = [read_trees(real_data / f"mrbayes/DS1/rep_{run}.trprobs.gz") for run in range(1, 11)]
    merged = pool(runs).distinct()
    assert len(merged) == 2784
    assert round(merged.weights.max(), 3) == 0.278
    shares = np.sort(merged.weights)[::-1]
    assert np.searchsorted(np.cumsum(shares), 0.95) + 1 == 42


def test_blanks_and_comments_may_stand_anywhere():
    sample = parse_newick("(A[a [nested] one]:1[&&NHX:S=x] ,\fB:2 ,\v(C:3 ,D:4 )x :5 );")
    assert sample.branch_lengths is not None
    assert sample.branch_lengths.tolist() == [[1, 2, 3, 4, 5]]
    assert parse_newick("([x]'a;b',B,C);").taxa == ("B", "C", "a;b")


def test_what_looks_like_a_weight_and_is_none():
    assert parse_newick("[&width=3](A,B,C);[&W_x](A,B,C);[p = -3](A,B,C);").weights.tolist() == [1, 1, 1]
    assert parse_newick("[&W 0.25][p = 0.2](A,B,C);[p = 0.2][p = 0.3](A,B,C);").weights.tolist() == [0.25, 0.2]


def nexus(tmp_path, text):
    return read_trees(write(tmp_path, "#NEXUS " + text))


def test_only_the_word_tree_makes_a_tree(tmp_path):
    assert len(nexus(tmp_path, "begin trees; treeset s = 1-2; tree a = (A,B,C); end;")) == 1
    assert len(nexus(tmp_path, "begin trees; tree[1] a = (A,B,C); tree'b' = (A,B,C); end;")) == 2
    assert len(nexus(tmp_path, "begin trees; tree a = (A,B,C); end; tree b = (A,B,C);")) == 1


def test_names_outrank_numbers_and_tables_outside_trees_do_not_count(tmp_path):
    sample = nexus(tmp_path, "begin taxa; taxlabels 2 1 3 4; end; begin trees; tree a = (2,3,(1,4)); end;")
    assert sample.taxa == ("2", "1", "3", "4")
    assert sample.topologies.parent.tolist() == [[5, 4, 5, 4, 5, -1]]
    text = "begin data; translate 1 X, 2 Y, 3 Z; end; begin trees; tree a = (A,B,C); end;"
    assert nexus(tmp_path, text).taxa == ("A", "B", "C")


def test_comments_in_tables_may_nest(tmp_path):
    text = "begin trees; translate 1 A [x [y, z] z], 2 'B [b]', 3 C; tree a=(1,2,3); end;"
    assert nexus(tmp_path, text).taxa == ("A", "B [b]", "C")


def test_a_translated_taxon_that_the_first_tree_lacks_is_refused_later(tmp_path):
    text = "begin trees; translate 1 A,2 B,3 C,4 D,5 E; tree a=(1,2,(3,4)); tree b=(1,2,(3,5)); end;"
    with pytest.raises(TaxonMismatch, match="'E' is not in tree 1"):
        nexus(tmp_path, text)


def test_weights_follow_their_trees(tmp_path):
    path = write(tmp_path, "[&W 1](A,B,(C,D));[&W 3](A,B,C,D);[&W 2](A,B,(C,D));")
    assert read_any_trees(path).weights.tolist() == [1, 3, 2]
    assert read_any_trees(path, burnin=1).weights.tolist() == [3, 2]


@pytest.mark.parametrize("bad", ["(A,B,C,D);", "(A,B,(C,D);", "(A,B);"])
def test_the_first_tree_after_the_burnin_keeps_its_number_in_errors(tmp_path, bad):
    with pytest.raises(PhloemError, match="tree 2, line 1, column"):
        read_trees(write(tmp_path, "(A,B,(C,D));" + bad), burnin=1)


def test_many_missing_taxa_are_counted():
    with pytest.raises(TaxonMismatch, match="lacks 'D', 'E', 'F', 'G', 'H' and 2 more"):
        parse_newick("(A,B,C);", taxa=list("ABCDEFGHIJ"))


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
    with pytest.raises(BadArgument, match=r"trees\.tsv: burn-in 3 leaves nothing of 3 trees"):
        read(tmp_path, GOOD, burnin=3)


@pytest.mark.parametrize("weight", ["-1", "nan", "inf", "-inf", "x", "", "1,5", "0x10", "1e999"])
def test_weights_are_finite_numbers_from_zero_up(weight, tmp_path):
    with pytest.raises(TreeFormatError, match=r"trees\.tsv, line 5: weight '.*'\. Give a finite number"):
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
        ("0.25\t((a,b),c,(d,e)); ((a,b),c,(d,e));", TreeFormatError, r"trees\.tsv: 5 trees in 4 lines\. Give one"),
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
