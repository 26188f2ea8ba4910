"""Constraints by enumeration: how many trees satisfy them, and which; files of them; what is wrong with them."""

import math
from pathlib import Path

import numpy as np
import pytest

from phloem.errors import PhloemError
from phloem.random_streams import RandomStream
from phloem.trees.constraint_files import read_constraints
from phloem.trees.constraints import TopologyConstraints
from phloem.trees.generation import all_topologies, random_topologies
from phloem.trees.reading import read_any_trees
from phloem.trees.splits import nontrivial_splits, robinson_foulds, without_first
from phloem.trees.tree import members_below
from support.messages import assert_says

TAXA = tuple("abcdefgh")
CASES = [
    (4, ["ab"]),
    (5, ["bc"]),
    (5, ["ab", "cd"]),
    (6, ["cd"]),
    (6, ["ab"]),
    (6, ["bc", "def"]),
    (6, ["bc", "bcd", "bcde"]),
    (7, ["bcd", "bc", "fg"]),
    (7, ["ab", "cd", "ef"]),
    (7, ["defg"]),
    (8, ["ab", "cde", "cd"]),
    (8, ["bcdef", "bc", "def"]),
]


def constraints_of(taxa: int, clades: list[str]) -> TopologyConstraints:
    return TopologyConstraints.of(TAXA[:taxa], [(clade, tuple(clade)) for clade in clades])


def splits_of(parent_members: np.ndarray) -> set[bytes]:
    return {row.tobytes() for row in parent_members}


@pytest.mark.parametrize(("taxa", "clades"), CASES)
def test_the_trees_that_satisfy_constraints_are_counted(taxa, clades):
    constraints, topologies = constraints_of(taxa, clades), all_topologies(taxa)
    wanted = {without_first(np.isin(list(TAXA[:taxa]), list(clade))[None])[0].tobytes() for clade in clades}
    has = np.array([wanted <= splits_of(tree) for tree in nontrivial_splits(topologies)])
    np.testing.assert_array_equal(constraints.hold(topologies), has)
    assert math.isclose(math.exp(constraints.log_count), has.sum())
    assert math.isclose(math.exp(constraints.log_share), has.mean())
    weights = np.exp(constraints.log_weight(topologies))
    np.testing.assert_allclose(weights, has / has.mean())


@pytest.mark.parametrize(("taxa", "clades"), CASES)
def test_a_tree_has_a_split_if_all_of_its_own_fit_with_it(taxa, clades):
    constraints, topologies = constraints_of(taxa, clades), all_topologies(taxa)
    fits = np.array([constraints.fit(tree).all() for tree in nontrivial_splits(topologies)])
    np.testing.assert_array_equal(fits, constraints.hold(topologies))


@pytest.mark.parametrize(("taxa", "clades"), CASES)
def test_flags_are_the_branches_of_the_constraints(taxa, clades):
    constraints, topologies = constraints_of(taxa, clades), all_topologies(taxa)
    wanted = splits_of(constraints.members)
    expected = [[split.tobytes() in wanted for split in tree] for tree in nontrivial_splits(topologies)]
    flags = constraints.flags(topologies)
    np.testing.assert_array_equal(flags[:, taxa:-1], expected)
    assert not flags[:, :taxa].any()
    assert not flags[:, -1].any()


@pytest.mark.parametrize(("taxa", "clades"), CASES)
def test_constraints_imposed_on_a_tree_change_nothing_else(taxa, clades):
    constraints, topologies = constraints_of(taxa, clades), all_topologies(taxa)
    imposed = constraints.imposed_on(topologies, stream=RandomStream(1, "test"))
    assert constraints.hold(imposed).all()
    holds = constraints.hold(topologies)
    assert imposed.equal(topologies)[holds].all()
    # What fits with all constraints is still there.
    for before, after in zip(nontrivial_splits(topologies), nontrivial_splits(imposed), strict=True):
        assert splits_of(before[constraints.fit(before)]) <= splits_of(after)


def test_constraints_are_imposed_on_large_trees():
    taxa = tuple(f"t{number}" for number in range(200))
    clades = [("one", taxa[20:90]), ("two", taxa[30:60]), ("three", taxa[150:])]
    constraints = TopologyConstraints.of(taxa, clades)
    topologies = random_topologies(200, 5, stream=RandomStream(1, "trees"))
    once = constraints.imposed_on(topologies, stream=RandomStream(1, "test"))
    assert constraints.hold(once).all()
    assert (np.diag(robinson_foulds(once, topologies)) > 0).all()


@pytest.mark.parametrize(("taxa", "clades"), CASES)
def test_the_tree_of_constraints_has_their_splits_and_no_others(taxa, clades, tmp_path):
    constraints = constraints_of(taxa, clades)
    path = tmp_path / "tree.nwk"
    path.write_text(constraints.newick(TAXA[:taxa]))
    found = read_any_trees(path, taxa=TAXA[:taxa])
    if hasattr(found, "trees"):
        sides = without_first(members_below(found.trees[0])[taxa:-1])
    else:
        sides = nontrivial_splits(found.topologies)[0]
    assert splits_of(sides) == splits_of(constraints.members)
    again = read_constraints(path, TAXA[:taxa])
    assert again.equal(constraints)
    assert not again.equal(constraints_of(taxa, ["ad"] if taxa > 4 else ["ac"]))


def test_the_smaller_side_is_the_clade():
    constraints = constraints_of(6, ["cdef", "def"])
    assert [constraints.clade(number) for number in range(2)] == [["a", "b"], ["d", "e", "f"]]
    assert constraints.in_words() == "cdef (2 taxa), def (3 taxa)"
    assert constraints.as_json("file")["clades"] == {"cdef": ["a", "b"], "def": ["d", "e", "f"]}


FORMS = {
    "a line each": "apes: Pan, Homo, 'Gorilla g.'\nHylobates Pongo\n",
    "comments and blank lines": "# of apes\n\napes :Pan Homo 'Gorilla g.'\n\n\tHylobates,Pongo\n",
    "the other sides": "Hylobates Pongo Mus Rattus\nPan Homo 'Gorilla g.' Mus Rattus\n",
    "Windows": "\ufeffPan Homo 'Gorilla g.'\r\nHylobates,Pongo\r\n",
    "Newick": "((Pan,Homo,'Gorilla g.'),(Hylobates:0.1,Pongo)0.9:1,Mus,Rattus);",
    "a rooted tree": "(((Pan,Homo,'Gorilla g.'),Mus,Rattus),(Hylobates,Pongo));",
    "NEXUS": "#NEXUS\nbegin trees; translate 1 Pan, 2 Homo, 3 'Gorilla g.', 4 Hylobates, 5 Pongo, 6 Mus, 7 Rattus; "
    "tree c = ((1,2,3),(4,5),6,7); end;",
}
NAMES = ("Mus", "Rattus", "Pan", "Homo", "Gorilla g.", "Hylobates", "Pongo")


@pytest.mark.parametrize("form", FORMS)
def test_files_of_constraints(form, tmp_path):
    path = tmp_path / "clades"
    path.write_text(FORMS[form])
    found = read_constraints(path, NAMES)
    expected = TopologyConstraints.of(NAMES, [("1", ("Pan", "Homo", "Gorilla g.")), ("2", ("Hylobates", "Pongo"))])
    assert found.equal(expected)
    assert len(found) == 2


def test_constraints_have_names(tmp_path):
    path = tmp_path / "clades"
    path.write_text("'great apes': Pan Homo\n\nHylobates Pongo\n")
    assert read_constraints(path, NAMES).names == ("great apes", "line 3")


BAD = {
    "contradictory": ("one: Pan Homo\ntwo: Homo Pongo\n", "constraints 'one' and 'two': contradict each other"),
    "contradictory on other sides": (
        "one: Pan Homo\ntwo: Pan Pongo Hylobates Mus Rattus\n",
        "constraints 'one' and 'two': contradict each other",
    ),
    "the same": ("one: Pan Homo\ntwo: Homo, Pan\n", "constraints 'one' and 'two': are the same split. Leave one out."),
    "the same from both sides": (
        "one: Pan Homo\ntwo: Mus Rattus 'Gorilla g.' Hylobates Pongo\n",
        "constraints 'one' and 'two': are the same split",
    ),
    "an unknown taxon": ("one: Pan Hommo\n", "constraint 'one': 'Hommo' not in the alignment. Use its names"),
    "one taxon": ("Pan\n", "constraint 'line 1': has 1 taxon, … says nothing. Name two taxa or more"),
    "all taxa": ("Pan Homo 'Gorilla g.' Hylobates Pongo Mus Rattus", "constraint 'line 1': has all taxa, which"),
    "all taxa but one": ("Pan Homo 'Gorilla g.' Hylobates Pongo Mus", "has all taxa but one, … says nothing"),
    "no taxa": ("apes:\n", "constraint 'apes': has 0 taxa"),
    "a taxon twice": ("apes: Pan Homo Pan\n", "constraint 'apes': 'Pan' there twice. Name every taxon once."),
    "a name twice": ("apes: Pan Homo\napes: Mus Rattus\n", "constraint 'apes': is there twice."),
    "nothing": ("", "names no clade. Write `NAME: taxon"),
    "comments alone": ("# Pan Homo\n\n", "names no clade"),
    "two colons": ("a: b: Pan Homo\n", "line 1: is no clade. Write"),
    "brackets": ("apes = Pan Homo (1)\n", "line 1: is no clade"),
    "half a tree": ("((Pan,Homo),Mus", "no ';' at its end"),
    "a tree that says nothing": ("(Mus,Rattus,Pan,Homo,'Gorilla g.',Hylobates,Pongo);", "its tree has no inner branch"),
    "a tree on fewer taxa": ("((Pan,Homo),Mus,Rattus);", "A tree of constraints has all taxa of the alignment."),
    "two trees": ("((Pan,Homo),Mus,Rattus,'Gorilla g.',Hylobates,Pongo);" * 2, "has 2 trees where one is needed"),
    "a name that a terminal obeys": ("'a\x1bb': Pan Homo\n", "line 1: the name … has a control character"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_files_are_a_line(case, tmp_path):
    content, says = BAD[case]
    path = tmp_path / "clades.txt"
    path.write_text(content)
    with pytest.raises(PhloemError) as caught:
        read_constraints(path, NAMES)
    said = str(caught.value)
    assert said.startswith(str(path))
    assert "\n" not in said
    assert_says(said, says)


def test_other_bad_files_are_a_line(tmp_path):
    for content, says in ((b"Pan Homo\nPan \xff\n", "line 2: is not UTF-8 text"), (b"(Pan\xff,Homo);", "UTF-8")):
        (tmp_path / "clades").write_bytes(content)
        with pytest.raises(PhloemError) as caught:
            read_constraints(tmp_path / "clades", NAMES)
        assert_says(str(caught.value), says)
    with pytest.raises(PhloemError, match="none"):
        read_constraints(Path("none"), NAMES)
