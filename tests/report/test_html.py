"""The report as a page: what it says, and that nothing in it can escape."""

import json
import re
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from phloem.inference.evaluation import Estimated, Evaluation
from phloem.inference.parameter_estimates import ParameterEstimate
from phloem.inference.trust import Trust
from phloem.random_streams import RandomStream
from phloem.report.clades import clade_table
from phloem.report.contents import ReportContents
from phloem.report.html import render_report
from phloem.report.pages import embedded_json, packed
from phloem.report.wording import NO_BREAK, error_bar, percent
from phloem.trees.consensus import SummaryTree
from phloem.trees.generation import random_topologies
from phloem.trees.rooting import root_at_outgroup
from phloem.trees.sample import GroupedTrees, TreeSample
from phloem.trees.tree import Tree
from support.html_pages import HOSTILE, Reader, unpacked
from support.made_up_report import made_up_contents, made_up_history, made_up_trees


@pytest.fixture(scope="module")
def page() -> Reader:
    return Reader(render_report(made_up_contents(12)))


def test_the_page_says_what_was_run_and_what_was_found(page):
    text = page.text()
    for fact in ("12 taxa", "898 sites", "413 patterns", "JC69", "−6489.11", "± 0.053", "1 run of 40,000 steps"):
        assert fact in text
    assert "Usable, with care" in text
    assert "Train longer." in text
    assert "The runs nearly agree." in text
    assert "Drawn from the neighbour of Taxon_000; the tree is unrooted." in text
    assert "Training is not finished" not in text
    contents = made_up_contents(12)
    assert f"{percent(contents.topologies.weights[0])} " in page.words["dd"]
    clades = clade_table(contents).rows
    errors = [error_bar(contents.topology_errors[0]), *(clade.error_text for clade in clades if clade.error_text)]
    assert [text for text in page.words["small"] if text.endswith(f"{NO_BREAK}%")] == errors
    assert [clade.error_text == "" for clade in clades] == [clade.probability > 1 - 1e-9 for clade in clades]
    assert "0123abcd" in text
    assert "https://openreview.net/forum?id=hVVUY7p64WL" in text


def test_the_same_contents_give_the_same_bytes():
    assert render_report(made_up_contents(8)) == render_report(made_up_contents(8))


def test_nothing_is_loaded_from_anywhere(page):
    for tag, attributes in page.elements:
        assert tag not in ("link", "img", "iframe", "object", "embed", "base", "form")
        assert "src" not in attributes
        assert attributes.get("href", "#").startswith("#") or tag == "a"
    styles = "".join(page.words["style"])
    assert "url(" not in styles
    assert "@import" not in styles


def test_ids_are_unique_headings_are_in_order_and_links_within_the_page_lead_somewhere(page):
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(set(ids)) == len(ids)
    levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch(r"h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    for _, attributes in page.elements:
        for name in ("href", "aria-labelledby", "for"):
            if attributes.get(name, "").startswith("#") or name != "href":
                assert not attributes.get(name) or attributes[name].lstrip("#") in ids


def test_names_of_any_kind_are_text_and_nothing_else():
    contents = made_up_contents(HOSTILE, title=HOSTILE[0], model=HOSTILE[1])
    contents = replace(contents, provenance={"alignment": {"source": HOSTILE[0]}, "seed": "<b>", "versions": {}})
    raw = render_report(contents)
    found = Reader(raw)
    ordinary = Reader(render_report(made_up_contents(len(HOSTILE))))
    assert [tag for tag, _ in found.elements].count("script") == [tag for tag, _ in ordinary.elements].count("script")
    assert not any(name.startswith("on") for _, attributes in found.elements for name in attributes)
    assert not any(tag in ("img", "b") for tag, _ in found.elements)
    assert found.data("browser-data")["taxa"] == list(HOSTILE)
    assert HOSTILE[0] in found.text()
    assert HOSTILE[5] in found.text()  # templates do not read names


def test_every_tip_is_in_both_drawings_once(page):
    names = [
        number
        for number, (tag, attributes) in enumerate(page.elements)
        if tag == "text" and "name" in attributes.get("class", "")
    ]
    assert len(names) == 3 * 12  # two consensus drawings and the cloud's names
    assert page.text().count("Taxon_007") >= 3


def test_an_unfinished_run_says_so_first():
    found = Reader(render_report(made_up_contents(6, is_finished=False, steps_done=12_000, steps=40_000)))
    assert "Training is not finished: step 12,000 of 40,000." in found.text()
    assert "1 run, 12,000 of 40,000 steps done" in found.text()


def test_several_runs_have_a_curve_each():
    histories = [made_up_history(), made_up_history(0.3), made_up_history(-0.2)]
    found = Reader(render_report(made_up_contents(6, runs=3, histories=histories)))
    curves = [attributes for tag, attributes in found.elements if tag == "polyline"]
    assert len(curves) == 2 * 3
    assert "3 runs of 40,000 steps each" in found.text()


def test_a_run_without_history_provenance_deviations_or_findings_still_has_a_report():
    single = Estimated(-6489.11, None)
    contents = made_up_contents(5, histories=[[]], provenance={}, trust=Trust("do not trust", (), "Run again."))
    found = Reader(render_report(replace(contents, evaluation=Evaluation(single, single, single), repeats=1)))
    assert "There is no history of the training." in found.text()
    assert "Nothing was checked." in found.text()
    assert "Do not trust these results" in found.text()
    assert "−6489.11 ±" not in found.text()


def test_figures_that_must_not_be_trusted_are_grey_and_no_others_are():
    for level, is_grey in (("good", False), ("usable", False), ("do not trust", True)):
        text = render_report(made_up_contents(6, trust=Trust(level, (), "Train longer.")))
        assert ('<dl class="figures untrusted">' in text) == is_grey
        assert ('<dl class="measures untrusted">' in text) == is_grey
        assert ("Figures in grey" in text) == is_grey


def with_parameters(**changes) -> ReportContents:
    """Two parameters were inferred, of which the second has one wild draw of little weight."""
    contents = made_up_contents(6, model="K80+G4, of which kappa and the shape are inferred", **changes)
    random, weights = np.random.default_rng(1), contents.trees.weights
    values = {"kappa": random.normal(4, 0.5, len(weights)), "alpha": random.normal(0.5, 0.05, len(weights))}
    values["alpha"][weights.argmin()] = 1e6
    estimates = (
        ParameterEstimate("kappa", 4.0, 0.5, 3.875, 3.0, 5.0, None),
        ParameterEstimate("alpha", 0.5, 0.05, 0.49, 0.4, 0.6, -0.456),
    )
    return replace(contents, parameters=estimates, parameter_values=values)


def test_inferred_parameters_have_a_section_and_fixed_models_have_none(page):
    assert not any(attributes.get("href") == "#model" for _, attributes in page.elements)
    assert not any(attributes.get("id") == "model" for _, attributes in page.elements)
    raw = render_report(with_parameters())
    found = Reader(raw)
    assert any(attributes.get("href") == "#model" for _, attributes in found.elements)
    assert "K80+G4, of which kappa and the shape are inferred." in found.text()
    rows = re.findall(r'<tr><th scope="row">(kappa|alpha)</th>(.*?)</tr>', raw)
    cells = {name: re.findall(r"<td[^>]*>(.*?)</td>", row) for name, row in rows}
    assert cells == {
        "kappa": ["4.000", "0.500", "3.875", "3.000 to 5.000", "–"],
        "alpha": ["0.500", "0.050", "0.490", "0.400 to 0.600", "−0.46"],
    }
    section = raw[raw.index('<section id="model"') :].split("</section>")[0]
    assert section.count('<div class="plot"') == 2
    labels = re.findall(r"<text[^>]*>([^<]*)</text>", section.split("alpha</h3>")[1])
    assert all(float(label) < 1 for label in labels), "a wild draw does not stretch the axis"
    assert len(labels) <= 4


def test_parameters_that_must_not_be_trusted_are_grey():
    for level, is_grey in (("good", False), ("usable", False), ("do not trust", True)):
        text = render_report(with_parameters(trust=Trust(level, (), "Train longer.")))
        assert ('<table class="parameters untrusted">' in text) == is_grey
        assert ('<div class="densities untrusted">' in text) == is_grey


def test_four_taxa_of_one_topology():
    taxa = ("a", "b", "c", "d")
    found = Reader(render_report(made_up_contents(taxa, made_up_trees(taxa, distinct=1))))
    assert "All trees that were drawn have the same topology." in found.text()
    data = found.data("browser-data")
    assert [tree[0] for tree in data["trees"]] == [1.0]
    assert data["consensusClades"] == 1
    assert data["apart"] == {}


def test_a_star_with_nothing_known_is_drawn_without_lengths():
    contents = made_up_contents(5)
    unknown = np.full(6, np.nan)
    star = SummaryTree(contents.consensus.taxa, Tree(np.array([5] * 5 + [-1], np.int32), 5), *[unknown] * 4)
    nothing = np.full(len(contents.splits.mean), np.nan)
    splits = replace(contents.splits, mean=nothing, lower=nothing, upper=nothing, deviation=nothing, median=nothing)
    found = Reader(render_report(replace(contents, consensus=star, splits=splits)))
    assert not any(attributes.get("id") == "with-lengths" for _, attributes in found.elements)
    assert not re.search(r"\bnan\b", found.text())
    data = found.data("browser-data")
    assert data["consensusClades"] == 0
    assert set(data["length"]) == {0.0}


def test_a_rooted_consensus_roots_all_drawings():
    contents = made_up_contents(7)
    rooted = replace(contents, consensus=root_at_outgroup(contents.consensus, contents.consensus.taxa[3]))
    found = Reader(render_report(rooted))
    assert "The tree is rooted as it is drawn." in found.text()
    for tree in found.data("browser-data")["trees"]:
        parent = unpacked(tree[1])
        assert len(parent) == 2 * 7 - 1
        assert parent[3] == len(parent) - 1
        assert tree[3] == 1


def test_what_the_page_draws_is_the_posterior(page):
    contents = made_up_contents(12)
    data = page.data("browser-data")
    frequent = dict(
        zip(map(bytes, np.packbits(contents.splits.members, axis=1)), contents.splits.frequency, strict=True)
    )
    columns = (contents.topologies.topologies, contents.topologies.weights, contents.topology_errors)
    for tree, topology, weight, error in zip(data["trees"], *columns, strict=True):
        assert tree[0] == pytest.approx(weight, rel=1e-3)
        assert tree[4] == pytest.approx(error, rel=1e-3)
        parent, split = unpacked(tree[1]), unpacked(tree[2])
        assert parent[:-1].tolist() == topology.parent[0, :-1].tolist()
        assert split[:12].tolist() == list(range(12))
        below = np.zeros((len(parent), 12), np.bool_)
        below[:12] = np.eye(12, dtype=np.bool_)
        for node in range(len(parent) - 1):
            below[parent[node]] |= below[node]
        for node in range(12, len(parent) - 1):
            key = bytes(np.packbits(below[node]))
            assert data["support"][split[node]] == pytest.approx(frequent[key], rel=1e-3)
            assert (str(split[node]) in data["apart"]) == (frequent[key] <= 0.5)
    cloud = page.data("cloud-data")
    number, lengths = cloud["trees"][7]
    assert unpacked(lengths)[:-1] * cloud["unit"] == pytest.approx(contents.cloud.branch_lengths[7], abs=cloud["unit"])
    parents = unpacked(cloud["topologies"][number]) & 32_767
    assert parents[:-1].tolist() == contents.cloud.topologies.parent[7, :-1].tolist()


def test_embedded_data_comes_back_and_has_no_sign_of_html():
    value = {"names": list(HOSTILE), "number": 0.5}
    text = embedded_json(value)
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text) == value
    numbers = np.array([0, 1, 255, 256, 65_535])
    assert unpacked(packed(numbers)).tolist() == numbers.tolist()


def test_500_taxa_stay_below_5_megabytes():
    taxa = tuple(f"Species_with_a_name_{number}" for number in range(500))
    topologies = random_topologies(500, 200, stream=RandomStream(4, "many taxa"))  # which have nothing in common
    lengths = np.random.default_rng(4).exponential(0.1, (200, topologies.branch_count))
    trees = GroupedTrees.from_sample(TreeSample(taxa, topologies, np.ones(200), lengths))
    raw = render_report(made_up_contents(taxa, trees, cloud=trees.select(np.arange(200, dtype=np.int32))))
    assert len(raw.encode()) < 5_000_000
    assert all(name in raw for name in taxa)


@pytest.mark.parametrize(("threshold", "words"), [(0.5, "above 50 %"), (0.75, "above 75 %"), (1.0, "of 100 %")])
def test_the_consensus_says_which_clades_it_has(threshold, words):
    page = render_report(made_up_contents(6, threshold=threshold))
    text = " ".join(page.replace("\N{NO-BREAK SPACE}", " ").split())
    assert f"every clade with a probability {words}" in text
