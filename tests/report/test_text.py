"""A posterior as text: every fact is there, and the drawn tree is complete and fits its width."""

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phloem.errors import BadArgument
from phloem.inference.agreement import Measured, ReferenceComparison
from phloem.inference.chain_check import ChainCheck, CladeDifference
from phloem.inference.evaluation import Estimated, Evaluation
from phloem.inference.measurement import Annealed, PlainDraws
from phloem.inference.parameter_estimates import ParameterEstimate
from phloem.inference.summary import BestTopology, CredibleSet, DrawQuality, DrawSummary, MeanInterval, Summary
from phloem.inference.trust import judge
from phloem.random_streams import RandomStream
from phloem.report.text import (
    describe_counts,
    describe_estimates,
    describe_posterior,
    describe_reference,
    draw_tree,
    supports_of,
)
from phloem.trees.generation import all_topologies, random_topologies
from phloem.trees.reading import parse_newick
from phloem.trees.sample import TreeSample
from phloem.trees.splits import SplitDeviation, nontrivial_splits, split_frequencies
from phloem.trees.topology import TopologyBatch
from phloem.trees.writing import format_newick
from support.made_up_summary import made_up_summary
from support.strategies import topology_batches

TREES = ["(a,b,(c,(d,e)));", "(a,(b,(d,e)),c);", "(a,b,((c,e),d));"]
TRUST = judge(np.random.default_rng(1).normal(size=5000), None, steps_done=5, steps=5, finished=True)
SUMMARY = made_up_summary(
    DrawSummary(
        draws=DrawQuality(5000, 4000.0, 3900.0, 0.1),
        trust=TRUST,
        tree_length=MeanInterval(1.0, 0.9, 1.1),
        credible_sets=(CredibleSet(0.5, 1), CredibleSet(0.95, 1042)),
        distinct_topologies=2,
        best_topologies=(),
    ),
    steps=4000,
    repeats=1,
    samples=5,
)


def drawn(topologies: int, best: TreeSample | None = None, error: float | None = 0.02, **changes: Any) -> Summary:
    """The summary, with so many topologies, of which the best are these, and other changes."""
    listed = () if best is None else zip(best.weights, format_newick(best.topologies, best.taxa), strict=True)
    best_topologies = tuple(BestTopology(float(probability), newick, error) for probability, newick in listed)
    found = SUMMARY.found._replace(distinct_topologies=topologies, best_topologies=best_topologies)
    return replace(SUMMARY, found=found, **changes)


def sample(*weights: float) -> TreeSample:
    parsed = parse_newick(TREES[: len(weights)], taxa=tuple("abcde"))
    return TreeSample(parsed.taxa, parsed.topologies, np.array(weights), None)


def best_lines(found: TreeSample, distinct: int) -> list[str]:
    summary = drawn(distinct, found)
    lines = list(describe_posterior(summary, found, split_frequencies(found)))
    first = next(place for place, line in enumerate(lines) if "topolog" in line)
    return lines[first : next(place for place, line in enumerate(lines) if "credible sets" in line)]


def test_improbable_topologies_are_counted_and_not_listed():
    assert best_lines(sample(0.7, 0.29996, 0.00004), 1200) == [
        "best topologies (of 1,200 in 5,000 draws, 24\N{NARROW NO-BREAK SPACE}%)",
        f"  1  0.7000 ± 0.0200  {TREES[0]}",
        f"  2  0.3000 ± 0.0200  {TREES[1]}",
        "     0.0000  1,198 others",
    ]
    assert best_lines(sample(0.6, 0.3), 4)[-1] == "     0.1000  2 others"


def test_five_topologies_are_listed_at_most_and_one_at_least():
    topologies = all_topologies(5)
    many = TreeSample(tuple("abcde"), topologies, np.array([0.3] + [0.05] * 14), None)
    lines = best_lines(many, 15)
    assert [line.split()[0] for line in lines[1:-1]] == ["1", "2", "3", "4", "5"]
    assert lines[-1] == "     0.5000  10 others"
    assert best_lines(sample(0.00004, 0.00003), 40_000)[1:] == [
        f"  1  0.0000 ± 0.0200  {TREES[0]}",
        "     1.0000  39,999 others",
    ]
    assert best_lines(sample(0.6, 0.3), 3)[-1] == "     0.1000  1 other"


PARAMETERS = (
    ParameterEstimate("kappa", 4.25, 0.31, 4.2, 3.5, 4.875, 0.1),
    ParameterEstimate("pi(A)", 0.33, 0.0123, 0.33, 0.31, 0.35, None),
)


def test_inferred_parameters_are_a_table_and_fixed_models_have_none():
    found = sample(0.7, 0.3)
    summary = drawn(2, found)
    text = "\n".join(describe_posterior(summary, found, split_frequencies(found)))
    assert "model parameters" not in text
    inferred = replace(summary, found=summary.found._replace(parameters=PARAMETERS))
    lines = list(describe_posterior(inferred, found, split_frequencies(found)))
    place = next(number for number, line in enumerate(lines) if line.startswith("model parameters"))
    assert [
        line.replace("\N{NO-BREAK SPACE}", " ").replace("\N{NARROW NO-BREAK SPACE}", " ")
        for line in lines[place - 1 : place + 4]
    ] == [
        "",
        "model parameters   mean  deviation   95 % interval",
        "kappa             4.250      0.310  3.500 to 4.875",
        "pi(A)             0.330      0.012  0.310 to 0.350",
        "",
    ]
    assert "\n".join([*lines[: place - 1], *lines[place + 3 :]]) == text
    narrow = list(describe_posterior(inferred, found, split_frequencies(found), width=40))
    assert max(map(len, narrow)) <= 40
    assert any(line.startswith("kappa") and line.endswith("…") for line in narrow)


def test_a_run_of_an_earlier_version_has_probabilities_without_errors():
    found = sample(0.7, 0.3)
    lines = list(describe_posterior(drawn(2, found, error=None), found, split_frequencies(found)))
    assert f"  1  0.7000  {TREES[0]}" in lines


def test_a_topology_that_fits_is_shown_whole():
    taxa = ("Alligator", "Bison", "Camel", "Dolphin", "Elephant")
    found = TreeSample(taxa, sample(0.7, 0.3).topologies, np.array([0.7, 0.3]), None)
    summary = drawn(2, found)
    whole = "  1  0.7000 ± 0.0200  (Alligator,Bison,(Camel,(Dolphin,Elephant)));"
    for width, line in ((len(whole), whole), (len(whole) - 1, whole[:-2] + "…")):
        assert line in list(describe_posterior(summary, found, split_frequencies(found), width=width))


def test_estimates_stand_below_each_other_with_their_deviations():
    estimates = Evaluation(
        elbo=Estimated(-10.5, 12.0),
        lower_bound=Estimated(-7109.0004, None),
        log_marginal_likelihood=Estimated(-7108.42, 0.178),
    )
    assert list(describe_estimates(drawn(2, repeats=1000, samples=50, evaluation=estimates), 80)) == [
        "log marginal likelihood    -7108.420 ± 0.178",
        "ELBO                         -10.500 ± 12.000",
        "multi-sample bound         -7109.000",
        "(means and standard deviations of 1,000 estimates from 50 trees each; the",
        "standard error of the log marginal likelihood is 0.0056)",
    ]


def test_every_distance_to_a_reference_has_its_line():
    found = ReferenceComparison(1500, 0.000123, 0.0, 0.31, 0.22, SplitDeviation(0.01, 0.02, 0.03), (42, 1043))
    assert list(describe_reference(found)) == [
        "against the reference (1,500 topologies)",
        "  its probability outside the support       0.000123",
        "  KL divergence from it to Q(τ)             0.0000",
        "  total variation to Q(τ)                   0.3100",
        "  total variation to the weighted draws     0.2200",
        "  split frequencies, largest difference     0.0300",
        "  their standard deviation, largest         0.0200",
        "  their standard deviation, average         0.0100",
        "  topologies in 95 % credible sets          42 (reference), 1,043 (weighted draws)",
    ]
    assert "Q(τ)             infinite" in list(describe_reference(found._replace(divergence=None)))[2]


def test_counts_are_of_all_topologies_and_of_those_in_credible_sets():
    [line] = describe_counts(drawn(3210), 200)
    expected = "topologies: 3,210 in 5,000 draws, 64.2 %; in the credible sets: 50 %: 1, 95 %: 1,042"
    assert line.replace("\N{NO-BREAK SPACE}", " ").replace("\N{NARROW NO-BREAK SPACE}", " ") == expected


def test_topologies_are_a_share_of_all_draws_with_those_of_chains():
    difference = CladeDifference(0.5, Measured(0.5, 0.1), 0.0)
    check = ChainCheck(100, 100, Measured(0.1, 0.01), difference, added=200)
    line = " ".join(describe_counts(drawn(5200, check=check), 200))
    assert line.replace("\N{NARROW NO-BREAK SPACE}", " ").startswith("topologies: 5,200 in 5,200 draws, 100 %")


def test_a_single_topology_has_no_others():
    title, only = best_lines(sample(1.0), 1)
    assert title.startswith("the only topology")
    assert only == f"  1  1.0000 ± 0.0200  {TREES[0]}"


def test_supports_are_those_of_each_interior_branch_and_0_where_a_split_was_not_seen():
    seen = split_frequencies(sample(0.7, 0.3))
    drawn = {tree: supports_of(parse_newick([tree], taxa=tuple("abcde")).topologies, seen).tolist() for tree in TREES}
    assert drawn[TREES[0]] == [1.0, 0.7]  # d e, and c d e around them
    assert drawn[TREES[2]] == [0.0, 0.7]


def test_no_line_is_wider_than_it_may_be():
    found = sample(0.7, 0.3)
    summary = drawn(2, repeats=100, samples=1000, finished=False)
    for width in (40, 60, 80):
        lines = list(describe_posterior(summary, found, split_frequencies(found), width=width))
        assert max(map(len, lines)) <= width


def test_the_verdict_stands_with_what_it_rests_on_and_what_to_do():
    found = sample(0.7, 0.3)
    summary = drawn(2, repeats=100, samples=1000)
    text = "\n".join(describe_posterior(summary, found, split_frequencies(found)))
    assert "can it be trusted? good" in text
    for finding in TRUST.findings:
        assert f"  {finding.name}: {finding.value}, good" in text
    assert "Nothing to worry about" in text
    assert "topologies in the credible sets: 50\N{NO-BREAK SPACE}%: 1, 95\N{NO-BREAK SPACE}%: 1,042" in text
    assert "not finished" not in text
    worse = replace(summary, found=summary.found._replace(trust=TRUST._replace(level="do not trust")), finished=False)
    lines = list(describe_posterior(worse, found, split_frequencies(found)))
    assert lines[0] == "not finished: this is the posterior after 4,000 steps"
    assert "can it be trusted? DO NOT TRUST" in lines


REFERENCE = re.compile(r"→ \[(\d+)\]")
Clades = dict[frozenset[str], str]


def caterpillar(leaf_count: int) -> TopologyBatch:
    """Every interior node has a leaf of its own."""
    newick = f"(t{leaf_count - 2},t{leaf_count - 1})"
    for leaf in range(leaf_count - 3, 0, -1):
        newick = f"(t{leaf},{newick})"
    return parse_newick(f"(t0,{newick[1:]};", taxa=[f"t{leaf}" for leaf in range(leaf_count)]).topologies


def clades_of_drawing(lines: list[str]) -> Clades:
    """The taxa below every interior branch of a drawing and what is written on it, by walking along the lines."""
    blocks: list[list[str]] = [[]]
    for line in lines:
        if re.fullmatch(r"\[\d+\]", line):
            assert blocks[-1].pop() == ""
            assert line == f"[{len(blocks)}]"
            blocks.append([])
        else:
            blocks[-1].append(line)
    whole: dict[int, frozenset[str]] = {}
    clades: Clades = {}
    for number in reversed(range(len(blocks))):  # a block refers to later ones only
        whole[number] = walk(blocks[number], whole, clades)
    return clades


def walk(lines: list[str], whole: dict[int, frozenset[str]], clades: Clades) -> frozenset[str]:
    """All taxa of a block, bottom up: every node is a ┬, and its later children start at a ├ or └ right below."""
    waiting: dict[int, list[frozenset[str]]] = {}  # by column, the children that were found below
    taxa: frozenset[str] = frozenset()
    for line in reversed(lines):
        found = re.fullmatch(r"([ │]*)([├└┬])([^ ]*) (.+)", line)
        assert found, line
        before, corner, run, tip = found.groups()
        assert all(line[column] == "│" for column in waiting if column < len(before)), line
        assert all(sign == " " or column in waiting for column, sign in enumerate(before)), line
        corners = [(len(before), corner), *((len(before) + 1 + m.start(), "┬") for m in re.finditer("┬", run))]
        reference = REFERENCE.fullmatch(tip)
        taxa = whole[int(reference[1])] if reference else frozenset([tip])
        end = len(line) - len(tip) - 1
        for place, (column, sign) in reversed(list(enumerate(corners))):
            label = line[column + 1 : end].replace("─", "")
            if len(taxa) > 1:
                assert label.isdigit()
                assert taxa not in clades
                clades[taxa] = label
            else:
                assert label == ""
            if sign == "┬":
                taxa = taxa.union(*waiting.pop(column))
            else:
                assert (sign == "└") == (column not in waiting)
                waiting.setdefault(column, []).append(taxa)
                assert place == 0
            end = column
    assert not waiting
    return taxa


def clades_of_tree(topology: TopologyBatch, taxa: list[str], percents: list[int]) -> Clades:
    return {
        frozenset(name for name, is_member in zip(taxa, members, strict=True) if is_member): str(percent)
        for members, percent in zip(nontrivial_splits(topology)[0].tolist(), percents, strict=True)
    }


@given(topology_batches(least=4, most=60, trees=1), st.integers(40, 160), st.integers(0, 2**32))
def test_the_drawing_is_the_tree(topology, width, seed):
    random = np.random.default_rng(seed)
    taxa = [f"{leaf}{'x' * random.integers(9)}" for leaf in range(topology.taxon_count)]
    percents = random.integers(0, 101, topology.taxon_count - 3).tolist()
    lines = draw_tree(topology, taxa, np.array(percents) / 100, width=width)
    assert max(map(len, lines)) <= width
    assert sorted(name for line in lines if (name := line.split(" ")[-1]) in taxa) == sorted(taxa)
    assert clades_of_drawing(lines) == clades_of_tree(topology, taxa, percents)


@pytest.mark.parametrize("width", [40, 80, 200])
@pytest.mark.parametrize("leaf_count", [4, 20, 100, 500])
def test_a_caterpillar_of_any_depth_is_drawn_whole(leaf_count, width):
    topology, taxa = caterpillar(leaf_count), [f"t{leaf}" for leaf in range(leaf_count)]
    percents = [leaf % 101 for leaf in range(leaf_count - 3)]
    lines = draw_tree(topology, taxa, np.array(percents) / 100, width=width)
    assert max(map(len, lines)) <= width
    assert clades_of_drawing(lines) == clades_of_tree(topology, taxa, percents)


def test_a_small_tree_looks_like_this():
    taxa = ["Tarsier", "Lemur", "Squirrel_monkey", "Human", "Chimp", "Gibbon"]
    tree = parse_newick("(Tarsier,Lemur,(Squirrel_monkey,((Human,Chimp),Gibbon)));", taxa=taxa).topologies
    assert draw_tree(tree, taxa, [1.0, 0.876, 0.5]) == [
        "┬─────────────────────────────── Tarsier",
        "├─────────────────────────────── Lemur",
        "└──50───┬─────────────────────── Squirrel_monkey",
        "        └──88───┬─────────────── Gibbon",
        "                └──100──┬─────── Human",
        "                        └─────── Chimp",
    ]


def test_a_deep_clade_is_drawn_below():
    lines = draw_tree(caterpillar(14), [f"taxon_{leaf:02}" for leaf in range(14)], [0.9] * 11, width=40)
    assert lines == [
        "┬─────────────────────────── taxon_00",
        "├─────────────────────────── taxon_01",
        "└90─┬─────────────────────── taxon_02",
        "    └90─┬─────────────────── taxon_03",
        "        └90─┬─────────────── taxon_04",
        "            └90─┬─────────── taxon_05",
        "                └90───────── → [1]",
        "",
        "[1]",
        "┬─────────────────────────── taxon_06",
        "└90─┬─────────────────────── taxon_07",
        "    └90─┬─────────────────── taxon_08",
        "        └90─┬─────────────── taxon_09",
        "            └90─┬─────────── taxon_10",
        "                └90─┬─────── taxon_11",
        "                    └90─┬─── taxon_12",
        "                        └─── taxon_13",
    ]


@pytest.mark.parametrize("leaf_count", [4, 30, 500])
@pytest.mark.parametrize("letter", ["x", "\t", "字"])
def test_long_names_are_cut(leaf_count, letter):
    topology = random_topologies(leaf_count, 1, stream=RandomStream(1, "trees"))
    lines = draw_tree(topology, [f"{leaf} {letter * 90}" for leaf in range(leaf_count)], [0.5] * (leaf_count - 3))
    cells = 2 if letter == "字" else 1
    assert max(len(line) + (cells - 1) * line.count(letter) for line in lines) <= 80
    assert sum(line.endswith("…") for line in lines) == leaf_count
    assert all(line.isprintable() for line in lines)


def test_an_unknown_support_is_a_question_mark():
    assert "?" in "".join(draw_tree(caterpillar(4), "ABCD", [float("nan")]))


def test_what_does_not_fit_together_is_refused():
    tree = caterpillar(5)
    for topology, taxa, supports, width in [
        (tree, "ABCD", [1, 1], 80),
        (tree, "ABCDE", [1], 80),
        (TopologyBatch.concatenate([tree, tree]), "ABCDE", [1, 1], 80),
        (tree, "ABCDE", [1, 1], 39),
    ]:
        with pytest.raises(BadArgument, match="tree drawing"):
            draw_tree(topology, taxa, supports, width=width)


def test_annealed_draws_are_said_to_be():
    annealed = Annealed(2000, 11, 2, 4, PlainDraws(SUMMARY.evaluation, 500, 30.4, 0.618))
    lines = " ".join(describe_estimates(replace(SUMMARY, annealed=annealed), 200))
    assert "2,000 of 5,000 draws were annealed: moved from Q to the posterior at 11 temperatures" in lines
    assert "Of 500 plain draws 30 were effective, k̂ 0.62; the ELBO of Q itself is −10.00." in lines
    alone = annealed._replace(draws=5000, plain=None)
    lines = " ".join(describe_estimates(replace(SUMMARY, annealed=alone), 200))
    assert "All 5,000 draws were annealed" in lines
    assert lines.endswith("which evens out their weights.")
