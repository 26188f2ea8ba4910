"""The report: one HTML file with everything in it."""

from typing import Any, NamedTuple

import numpy as np

from phloem.inference.trust import Level
from phloem.report import wording
from phloem.report.charts import Histogram, histogram, training_charts
from phloem.report.clades import branch_table, clade_table
from phloem.report.consensus import draw_consensus
from phloem.report.contents import PAPER, ReportContents, bibtex, phloem_version, read_provenance
from phloem.report.pages import embedded_json, render_page
from phloem.report.topologies import browser_data, cloud_data, interior_count, topologies_shown
from phloem.trees.branch_lengths import shortest_interval, tree_lengths

SIGNS: dict[Level, str] = {"good": "good", "usable": "usable", "do not trust": "bad"}  # names of signs and colours
BRANCH_MODELS = {"split": "one row of parameters per split", "psp": "splits and primary subsplit pairs"}
SHOWN = 0.998  # of the weight in histograms of parameters: a single light draw far away would take up the axis
FAMILIES = {"warped": "skewed lengths, tied to their neighbours", "lognormal": "independent lognormal lengths"}


class Distribution(NamedTuple):
    """A histogram with its mean and interval in words."""

    picture: Histogram
    mean: str
    interval: str


class ParameterRow(NamedTuple):
    """A parameter of the substitution model in words, and its histogram."""

    name: str
    deviation: str  # standard
    median: str
    with_tree_length: str  # correlation
    density: Distribution


def render_report(contents: ReportContents) -> str:
    """A self-contained page, with styles, scripts and data in it. The same contents give the same text."""
    has_lengths = bool(np.nan_to_num(contents.consensus.length).any())
    release = phloem_version(contents.provenance)
    cloud = cloud_data(contents)
    return render_page(
        "report.html",
        contents=contents,
        credible_95=next((item.topologies for item in contents.credible if abs(item.share - 0.95) < 1e-9), None),
        branch_model="; ".join(
            [
                BRANCH_MODELS.get(contents.branches, f"learnable features, {contents.branches}"),
                *([FAMILIES[contents.family]] if contents.family in FAMILIES else []),
            ]
        ),
        signs=SIGNS,
        phylogram=draw_consensus(contents.consensus, with_lengths=True) if has_lengths else None,
        cladogram=draw_consensus(contents.consensus, with_lengths=False),
        interior_branches=interior_count(contents.consensus),
        where_drawn=_where_drawn(contents),
        topologies_shown=topologies_shown(contents),
        browser=embedded_json(browser_data(contents)),
        cloud=cloud,
        cloud_json=embedded_json(cloud),
        tree_length=_tree_length(contents),
        branch_lengths=_branch_lengths(contents),
        branches=branch_table(contents),
        clades=clade_table(contents),
        parameters=_parameters(contents),
        charts=training_charts(contents.histories),
        provenance=read_provenance(contents.provenance),
        release=release,
        paper=PAPER,
        bibtex=bibtex(release),
    )


def _where_drawn(contents: ReportContents) -> str:
    """What the left end of the drawing means."""
    consensus = contents.consensus
    if consensus.is_rooted:
        return "The tree is rooted as it is drawn."
    if consensus.tree.parent[0] == len(consensus.tree.parent) - 1:
        return f"Drawn from the neighbour of {wording.short_name(consensus.taxa[0])}; the tree is unrooted."
    return "The tree is unrooted; its left end is only where the drawing begins."


def _tree_length(contents: ReportContents) -> Distribution | None:
    lengths, weights = tree_lengths(contents.trees), contents.trees.weights
    return _distribution(lengths, weights)


def _branch_lengths(contents: ReportContents) -> Distribution | None:
    """All branches of all trees together, on a logarithmic axis."""
    trees = contents.trees
    weights = np.repeat(trees.weights, trees.branch_lengths.shape[1])
    return _distribution(trees.branch_lengths.ravel(), weights, log=True)


def _parameters(contents: ReportContents) -> list[ParameterRow]:
    """Those of the substitution model that were inferred, with the same decimals."""
    rows = []
    places = wording.decimals([one.deviation for one in contents.parameters])
    for one in contents.parameters:
        mean, deviation, median, lower, upper = (wording.decimal(number, places) for number in one[1:6])
        with_length = wording.UNKNOWN if one.with_tree_length is None else wording.decimal(one.with_tree_length)
        values, weights = contents.parameter_values[one.name], contents.trees.weights
        low, high = shortest_interval(values, weights, SHOWN)
        shown = (values >= low) & (values <= high)
        picture = histogram(values[shown], weights[shown], inside=(one.lower, one.upper), mean=one.mean, most_ticks=4)
        assert picture is not None  # some draw has weight
        density = Distribution(picture, mean, f"{lower} to {upper}")
        rows.append(ParameterRow(one.name, deviation, median, with_length, density))
    return rows


def _distribution(values: Any, weights: Any, *, log: bool = False) -> Distribution | None:
    use = np.isfinite(values) & (weights > 0) & (values > 0)
    values, weights = values[use], weights[use]
    if not len(values):
        return None
    mean = float(np.average(values, weights=weights))
    low, high = shortest_interval(values, weights)
    if log:
        picture = histogram(
            np.log10(values), weights, inside=tuple(np.log10([low, high])), mean=float(np.log10(mean)), log=True
        )
    else:
        picture = histogram(values, weights, inside=(low, high), mean=mean)
    return picture and Distribution(picture, wording.length(mean), wording.interval(low, high))
