"""A posterior as text for a terminal: the evidence, the best topologies, a tree with clade supports."""

import math
import textwrap
import unicodedata
from collections.abc import Iterator, Sequence

import numpy as np

from phloem.arrays import FloatArray
from phloem.errors import BadArgument, first_few
from phloem.inference.agreement import ReferenceComparison
from phloem.inference.evaluation import Estimated
from phloem.inference.parameter_estimates import ParameterEstimate
from phloem.inference.summary import Summary
from phloem.report.wording import added, annealing, count, decimal, decimals, likelihood_error, percent, printable
from phloem.trees.sample import TreeSample
from phloem.trees.splits import SplitFrequencies, nontrivial_splits
from phloem.trees.topology import TopologyBatch

SHOWN = 5  # topologies at most,
LEAST_SHOWN = 0.00005  # if they are as probable as this
LEAST_WIDTH = 40  # columns of a drawn tree
NARROWEST, WIDEST = 4, 8  # columns per level: a corner and `100` need four


def describe_posterior(
    summary: Summary, topologies: TreeSample, clades: SplitFrequencies, *, width: int = 80
) -> Iterator[str]:
    """Lines of at most `width` characters."""
    if not summary.finished:
        yield from textwrap.wrap(f"not finished: this is the posterior after {count(summary.steps, 'step')}", width)
        yield ""
    if summary.constraints:
        names = first_few([*map(printable, summary.constraints)], ", ")
        yield from textwrap.wrap(f"all trees have the constraints: {names}", width)
    yield from describe_estimates(summary, width)
    if summary.stopped_early:
        yield f"stopped after {count(summary.steps, 'step')}: the bound was flat"
    if summary.skipped_steps:
        yield f"skipped {count(summary.skipped_steps, 'step')} without a finite bound or gradient"
    yield ""
    yield from describe_trust(summary, width)
    yield ""
    yield from _best(summary, width)
    yield from textwrap.wrap(f"topologies in the credible sets: {_credible(summary)}", width)
    yield from _parameters(summary.found.parameters, width)
    yield ""
    yield from textwrap.wrap("clade supports in percent, on the most probable topology", width)
    best = topologies.topologies[0]
    yield from draw_tree(best, topologies.taxa, supports_of(best, clades), width=width)


def describe_estimates(summary: Summary, width: int) -> Iterator[str]:
    """The marginal likelihood and the bounds."""
    for title, name in (
        ("log marginal likelihood", "log_marginal_likelihood"),
        ("ELBO", "elbo"),
        ("multi-sample bound", "lower_bound"),
    ):
        yield f"{title:<24}{describe_estimate(getattr(summary.evaluation, name))}"
    estimates, trees = count(summary.repeats, "estimate"), count(summary.samples, "tree")
    error = likelihood_error(summary.likelihood_error)
    yield from textwrap.wrap(f"(means and standard deviations of {estimates} from {trees} each{error})", width)
    if summary.annealed is not None:
        yield from textwrap.wrap(annealing(summary.annealed, summary.draws.count), width)
    if summary.check is not None and summary.check.added:
        yield from textwrap.wrap(added(summary.check), width)


def describe_estimate(estimate: Estimated) -> str:
    """Mean and deviation, with decimal points aligned."""
    return f"{estimate.mean:12.3f}" + ("" if estimate.std is None else f" ± {estimate.std:.3f}")


def describe_counts(summary: Summary, width: int) -> list[str]:
    """How many topologies were drawn, and how many are probable."""
    return textwrap.wrap(f"topologies: {_distinct(summary)}; in the credible sets: {_credible(summary)}", width)


def describe_trust(summary: Summary, width: int) -> Iterator[str]:
    """The verdict, what it rests on, and what to do."""
    trust = summary.trust
    yield f"can it be trusted? {trust.level.upper() if trust.level != 'good' else 'good'}"
    for finding in trust.findings:
        line = f"  {finding.name}: {finding.value}, {finding.level}"
        yield from textwrap.wrap(line, width, subsequent_indent="    ")
    yield from textwrap.wrap(trust.advice, width, initial_indent="  ", subsequent_indent="  ")


def describe_reference(found: ReferenceComparison) -> Iterator[str]:
    """Distances to a reference, one per line."""
    yield f"against the reference ({count(found.topologies, 'topology', 'topologies')})"
    yield f"  its probability outside the support       {found.outside_support:.6f}"
    divergence = "infinite" if found.divergence is None else f"{found.divergence:.4f}"
    yield f"  KL divergence from it to Q(τ)             {divergence}"
    yield f"  total variation to Q(τ)                   {found.total_variation:.4f}"
    yield f"  total variation to the weighted draws     {found.weighted_total_variation:.4f}"
    splits = found.weighted_splits
    yield f"  split frequencies, largest difference     {splits.largest_difference:.4f}"
    yield f"  their standard deviation, largest         {splits.largest:.4f}"
    yield f"  their standard deviation, average         {splits.average:.4f}"
    reference, ours = found.credible_sets
    yield f"  topologies in 95 % credible sets          {reference:,} (reference), {ours:,} (weighted draws)"


def supports_of(topology: TopologyBatch, clades: SplitFrequencies) -> FloatArray:
    """The probability of each interior branch's split, (n-3,)."""
    known = {
        members.tobytes(): share for members, share in zip(clades.members, clades.frequencies.tolist(), strict=True)
    }
    return np.array([known.get(members.tobytes(), 0.0) for members in nontrivial_splits(topology)[0]])


def _credible(summary: Summary) -> str:
    return ", ".join(
        f"{100 * one.share:g}\N{NO-BREAK SPACE}%: {one.topologies:,}" for one in summary.found.credible_sets
    )


def _distinct(summary: Summary) -> str:
    """How many topologies are among the draws and what chains added, and their share, large in wide posteriors."""
    added_trees = summary.check.added if summary.check is not None else 0
    topologies, draws = summary.found.distinct_topologies, summary.draws.count + added_trees
    return f"{topologies:,} in {count(draws, 'draw')}, {percent(topologies / draws)}"


def _best(summary: Summary, width: int) -> Iterator[str]:
    distinct, best = summary.found.distinct_topologies, summary.found.best_topologies
    title = "the only topology that was drawn" if distinct == 1 else f"best topologies (of {_distinct(summary)})"
    yield from textwrap.wrap(title, width)
    shown = best[: max(1, min(SHOWN, sum(one.probability >= LEAST_SHOWN for one in best)))]
    for rank, one in enumerate(shown, 1):
        error = "" if one.error is None else f" ± {one.error:.4f}"
        line = f"{rank:3}  {one.probability:.4f}{error}  {one.newick}"
        yield line if len(line) <= width else line[: width - 1] + "…"
    if distinct > len(shown):
        rest = 1 - sum(one.probability for one in shown)
        yield f"     {rest:.4f}  {count(distinct - len(shown), 'other')}"


def _parameters(found: Sequence[ParameterEstimate], width: int) -> Iterator[str]:
    """A row for each parameter that was inferred."""
    if not found:
        return
    places = decimals([one.deviation for one in found])
    rows = [("model parameters", "mean", "deviation", "95\N{NO-BREAK SPACE}% interval")]
    for one in found:
        mean, deviation, lower, upper = (
            decimal(number, places) for number in (one.mean, one.deviation, one.lower, one.upper)
        )
        rows.append((one.name, mean, deviation, f"{lower} to {upper}"))
    names, *columns = (max(map(len, column)) for column in zip(*rows, strict=True))
    yield ""
    for name, *cells in rows:
        line = "  ".join([f"{name:<{names}}", *(f"{cell:>{room}}" for cell, room in zip(cells, columns, strict=True))])
        yield line if len(line) <= width else line[: width - 1] + "…"


def draw_tree(
    topology: TopologyBatch, taxa: Sequence[str], supports: FloatArray | Sequence[float], *, width: int = 80
) -> list[str]:
    """The tree, rooted at taxon 0's neighbour, with a line per taxon and the interior branches' supports in percent.

    supports: between 0 and 1, of the branches n to 2n-4. A clade that is too deep for the width is drawn separately
    below: `→ [1]` stands for the tree under the line `[1]`. Names that are too long end in `…`.
    """
    leaf_count = topology.taxon_count
    if len(topology) != 1 or len(taxa) != leaf_count or len(supports) != leaf_count - 3:
        raise BadArgument(
            f"tree drawing: {len(topology)} trees on {leaf_count} taxa with {len(taxa)} names and {len(supports)} "
            "supports, where one tree on n taxa, n names and n-3 supports are needed."
        )
    if width < LEAST_WIDTH:
        raise BadArgument(f"tree drawing: {width} columns are too few. Use {LEAST_WIDTH} or more.")
    children, heights = _children_and_heights(topology)
    longest = max(_cells(name) for name in taxa)
    # Names may always take a third of the width, and more where the tree leaves room; references need a little.
    names_width = min(longest, max(width // 3, width - NARROWEST * heights[-1] - 1))
    room = width - max(names_width, len(_reference(leaf_count))) - 1
    level_width = max(NARROWEST, min(WIDEST, room // heights[-1]))
    levels = min(heights[-1], room // level_width)
    names = [_shortened(name, names_width) for name in taxa]
    percents = [_percent(support) for support in supports]
    return _Drawing(children, heights, names, percents, levels, level_width).lines()


class _Drawing:
    """Lines in the making. Level k of a tree is in column k * level_width; the names follow the last level."""

    def __init__(
        self,
        children: list[list[int]],
        heights: list[int],
        names: list[str],
        percents: list[str],
        levels: int,
        level_width: int,
    ) -> None:
        self._children = children
        self._heights = heights
        self._names = names
        self._percents = percents
        self._levels = levels
        self._level_width = level_width
        self._roots = [
            len(heights) - 1
        ]  # of the trees to draw: the whole tree, then the clades that are drawn separately

    def lines(self) -> list[str]:
        """The tree, then the clades drawn separately, each below its number."""
        lines: list[str] = []
        for number, root in enumerate(self._roots):  # the list grows meanwhile
            lines += ["", f"[{number}]"] if number else []
            lines += self._draw(root)
        return lines

    def _draw(self, root: int) -> list[str]:
        lines = []
        # A node, its level, its line so far, and the start of the lines of its second and third child.
        pending = [(root, 0, "", "")]
        while pending:
            node, level, line, below = pending.pop()
            if node < len(self._names):
                lines.append(self._tip(line, self._names[node]))
            elif level and self._is_separate(node, level):
                lines.append(self._tip(line, _reference(len(self._roots))))
                self._roots.append(node)
            else:
                children = self._children[node - len(self._names)]
                for place in reversed(range(len(children))):
                    last = place == len(children) - 1
                    start = below + ("└" if last else "├") if place else line + "┬"
                    trunk = below + (" " if last else "│") + " " * (self._level_width - 1)
                    pending.append((children[place], level + 1, start + self._branch(children[place]), trunk))
        return lines

    def _is_separate(self, node: int, level: int) -> bool:
        """Whether a clade is drawn separately: as soon as all of it fits, so that no scraps are left over."""
        height = self._heights[node]
        return level + height > self._levels and (height <= self._levels or level == self._levels)

    def _branch(self, node: int) -> str:
        leaf_count = len(self._names)
        percent = "" if node < leaf_count else self._percents[node - leaf_count]
        return f"{percent:─^{self._level_width - 1}}"

    def _tip(self, line: str, text: str) -> str:
        return f"{line.ljust(self._levels * self._level_width, '─')} {text}"


def _children_and_heights(topology: TopologyBatch) -> tuple[list[list[int]], list[int]]:
    """The children of every interior node, the lowest first, and the height of every node in levels.

    Leaves have height 0. Taxon 0 is a child of the root. With low clades first the drawing slopes to the right.
    """
    neighbors: list[list[int]] = topology.neighbors[0, topology.taxon_count :].tolist()
    children: list[list[int]] = []
    heights = [0] * topology.taxon_count
    for below in [*(around[1:] for around in neighbors[:-1]), neighbors[-1]]:  # children are numbered below parents
        children.append(sorted(below, key=heights.__getitem__))
        heights.append(1 + max(heights[child] for child in below))
    return children, heights


def _reference(number: int) -> str:
    """What stands for a clade that is drawn separately."""
    return f"→ [{number}]"


def _percent(support: float) -> str:
    return f"{100 * support:.0f}" if math.isfinite(support) else "?"


def _shortened(name: str, width: int) -> str:
    """A printable name of at most `width` columns."""
    name = printable(name)
    if _cells(name) <= width:
        return name
    while _cells(name) > width - 1:
        name = name[:-1]
    return name + "…"


def _cells(text: str) -> int:
    """Columns on a terminal: two for wide characters, none for combining ones."""
    return sum(0 if unicodedata.combining(sign) else 1 + (unicodedata.east_asian_width(sign) in "WF") for sign in text)
