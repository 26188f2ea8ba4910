"""docs/validation.md from validation-introduction.md and what `validate.py` has found, with its figures.

python benchmarks/write_validation.py            write the page and the figures
python benchmarks/write_validation.py --check    exit with 1 if the page is not what the results give
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from calibration import (
    BINS,
    CREDIBLE,
    LEVEL,
    SETS,
    CladeCount,
    Uniformity,
    bin_name,
    binomial_band,
    ecdf,
    ecdf_band,
    pooled,
    power,
    successes_band,
    uniformity,
)
from phloem import plot
from phloem.experiments.benchmark.table1 import markdown_table
from phloem.inference.trust import LEVELS
from phloem.plot.style import BLUE, FAINT, MUTED, SMALL_SIZE, TEXT_SIZE, TWO_COLUMNS, VERMILION, axes_for, styled
from phloem.storage.files import write_text
from validate import RESULTS, STUDIES, Study, read_lines, results_file

ROOT = Path(__file__).resolve().parent.parent
INTRODUCTION = ROOT / "benchmarks" / "validation-introduction.md"
PAGE = ROOT / "docs" / "validation.md"
COLUMNS = 5  # of panels in a figure
PANEL = 1.1  # inches high
DEVIATIONS = 1.96  # that hold LEVEL of a normal distribution
Lines = Sequence[Mapping[str, Any]]
TITLES = {
    "JC": "JC, 5 to 8 taxa",
    "GTR": "GTR+G4, 5 to 8 taxa",
    "control": "Control: a wrong prior",
    "fifty": "50 taxa",
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing")
    check = parser.parse_args().check
    page = validation_page()
    if check:
        return int(PAGE.read_text(encoding="utf-8") != page)
    for name, figure in figures().items():
        plot.save(figure, PAGE.with_name(name))
    write_text(PAGE, page)
    return 0


def found_lines(folder: Path = RESULTS) -> dict[Study, Lines]:
    """The data sets of each study that has any."""
    lines = {study: read_lines(results_file(study.name, folder)) for study in STUDIES.values()}
    return {study: own for study, own in lines.items() if own}


def finished(lines: Lines) -> Lines:
    """Those that have a posterior."""
    return [line for line in lines if "failed" not in line]


def validation_page(folder: Path = RESULTS) -> str:
    """The text of docs/validation.md."""
    found = found_lines(folder)
    parts = [INTRODUCTION.read_text(encoding="utf-8").rstrip(), "## What was found", overview(found)]
    for study, lines in found.items():
        parts += [f"## {TITLES[study.name]}", *study_parts(study, finished(lines))]
    if found:
        parts += ["## Clades", clades_text(), f"![True clades by their probability]({figure_name('clades')})"]
    return "\n\n".join(parts) + "\n"


def overview(found: Mapping[Study, Lines]) -> str:
    """A row for each study: how much there is, and the worst of it."""
    rows = []
    for study, lines in found.items():
        own = finished(lines)
        tests = rank_tests(own)
        smallest = min(tests, key=lambda name: tests[name].p_value)
        certain = pooled_bin(own, bin_name(*SETS[-1]))
        verdicts = [sum(line["verdict"] == level for line in own) for level in LEVELS]
        rows.append(
            [
                TITLES[study.name],
                f"{len(lines)} of {study.sets}",
                f"{sum(line['seconds'] for line in own) / 60:.0f} min",
                ", ".join(str(count) for count in verdicts),
                str(len(lines) - len(own)),
                f"{p_text(tests[smallest])} of {len(tests)} ({smallest})",
                str(sum(test.leaves_band for test in tests.values())),
                f"{certain.true} of {certain.clades} ({certain.expected:.1f})",
            ]
        )
    levels = ", ".join(LEVELS)
    headings = [
        *("study", "data sets", "processor time", levels, "failed", "smallest p-value", "outside the band"),
        f"true clades of {SETS[-1][0]:g} or more (expected)",
    ]
    return markdown_table(headings, rows)


def study_parts(study: Study, lines: Lines) -> list[str]:
    """Ranks, topologies and clades of a study."""
    tests = rank_tests(lines)
    count = len(lines)
    narrow, shifted = power(count, narrower=1.5), power(count, shift=0.5)
    parts = [
        f"{count} data sets, seeds {lines[0]['seed']} to {lines[-1]['seed']}. With as many, a quantity leaves its band "
        f"in {percent(narrow)} of cases where posteriors are too narrow by a factor of 1.5, in {percent(shifted)} of "
        f"those where they are off by half a standard deviation, and in {percent(1 - LEVEL)} of those where they are "
        f"right. Of {len(tests)} p-values the smallest is below {(1 - LEVEL) / len(tests):.4f} in {percent(1 - LEVEL)} "
        "of cases or fewer.",
        markdown_table(
            ["quantity", "mean rank (0.5)", "spread (1)", "p-value", "band"],
            [rank_row(name, test) for name, test in tests.items()],
        ),
        f"![Ranks, {TITLES[study.name]}]({figure_name(study.name)})",
    ]
    if study.is_small:
        parts += ["True topologies in credible sets of topologies:", coverage_table(lines)]
    return [*parts, "Clades by their probability, and how many of them are true:", clade_table(lines)]


def rank_tests(lines: Lines) -> dict[str, Uniformity]:
    """Every quantity's ranks, in the order of the lines."""
    names = dict.fromkeys(name for line in lines for name in line["ranks"])
    return {name: uniformity([line["ranks"][name] for line in lines]) for name in names}


def rank_row(name: str, test: Uniformity) -> list[str]:
    """Of the table."""
    band = "leaves it" if test.leaves_band else "inside"
    return [f"`{name}`", f"{test.mean:.3f}", f"{test.spread:.2f}", p_text(test), band]


def p_text(test: Uniformity) -> str:
    """`0.012`."""
    return f"{test.p_value:.3f}" if test.p_value >= 0.001 else "< 0.001"


def coverage_table(lines: Lines) -> str:
    """How often the true topology is in the credible set, by chance at its edge and as users are shown it."""
    rows = []
    for share in CREDIBLE:
        inside = np.mean([line["ranks"]["topology"] < share for line in lines])
        whole = [line["credible"][f"{share:g}"] for line in lines]
        expected, has_truth = [float(one[0]) for one in whole], [bool(one[2]) for one in whole]
        rows.append(
            [
                percent(share),
                percent(float(inside), 1),
                band_text(binomial_band(len(lines), share)),
                percent(float(np.mean(has_truth)), 1),
                percent(float(np.mean(expected)), 1),
                band_text(successes_band(expected)),
                f"{np.mean([one[1] for one in whole]):.1f}",
            ]
        )
    headings = [
        *("set", "randomised set has the truth", f"{percent(LEVEL)} band"),
        *("smallest set has the truth", "expected", f"{percent(LEVEL)} band", "topologies in it"),
    ]
    return markdown_table(headings, rows)


def percent(share: float, digits: int = 0) -> str:
    """`95 %`."""
    return f"{100 * share:.{digits}f} %"


def band_text(band: tuple[float, float]) -> str:
    """`41.0–59.0 %`."""
    return f"{100 * band[0]:.1f}–{100 * band[1]:.1f} %"


def clade_table(lines: Lines) -> str:
    """Bins of probabilities, then the clades of one half or more and those of 0.95 or more."""
    rows = []
    for lower, upper in (*BINS, *SETS):
        count = pooled_bin(lines, bin_name(lower, upper))
        if count.clades:
            label = f"{lower:g} to {upper:g}" if (lower, upper) in BINS else f"**{lower:g} or more**"
            expected, error = count.expected, np.sqrt(count.variance)
            band = [round(count.clades * end) for end in binomial_band(count.clades, expected / count.clades)]
            rows.append(
                [
                    label,
                    str(count.clades),
                    f"{expected:.1f} ± {error:.1f}",
                    f"{band[0]} to {band[1]}",
                    str(count.true),
                    percent(count.true / count.clades, 1),
                    f"{count.deviation:+.1f}".replace("-", "−"),
                ]
            )
    headings = ["probability", "clades", "expected true", "binomial band", "true", "share", "off by deviations"]
    return markdown_table(headings, rows)


def pooled_bin(lines: Lines, name: str) -> CladeCount:
    """The clades of a range over all data sets."""
    return pooled([CladeCount(*line["clades"][name]) for line in lines])


def clades_text() -> str:
    """What the figure of clades shows."""
    return (
        f"How many more clades are true than their probabilities say, as a share of the clades in the bin; bars hold "
        f"{percent(LEVEL)} if probabilities are right."
    )


def figure_name(what: str) -> str:
    """Beside the page."""
    return f"validation-{what}.svg"


def figures(folder: Path = RESULTS) -> dict[str, Figure]:
    """All figures of the page, by their names."""
    found = {study: finished(lines) for study, lines in found_lines(folder).items()}
    drawn = {figure_name(study.name): rank_figure(lines) for study, lines in found.items()}
    right = {study: lines for study, lines in found.items() if study.is_right}
    return {**drawn, figure_name("clades"): clade_figure(right)} if right else drawn


def rank_figure(lines: Lines) -> Figure:
    """The empirical distribution of each quantity's ranks less the uniform one, with the band, a panel each."""
    names = list(rank_tests(lines))
    rows = -(-len(names) // COLUMNS)
    band = ecdf_band(len(lines))
    most = 1.15 * max(float(np.abs([band.lower, band.upper]).max()), *(largest(lines, name) for name in names))
    with styled():
        figure = Figure(figsize=(TWO_COLUMNS, PANEL * rows + 0.3), layout="constrained")
        panels = figure.subplots(rows, COLUMNS, sharex=True, sharey=True, squeeze=False)
        for name, ax in zip(names, panels.flat, strict=False):
            axes_for(ax)
            draw_ranks(ax, name, lines)
            ax.set_ylim(-most, most)
        for ax in panels.flat[len(names) :]:
            ax.remove()
        for ax in panels.flat[max(0, len(names) - COLUMNS) : len(names)]:  # the lowest of each column
            ax.tick_params(labelbottom=True)
        figure.supxlabel("rank of the truth", size=TEXT_SIZE)
        figure.supylabel("share of ranks below, found − uniform", size=TEXT_SIZE)
    return figure


def largest(lines: Lines, name: str) -> float:
    """How far a quantity's ranks are from uniform."""
    ranks = np.array([line["ranks"][name] for line in lines])
    return float(np.abs(ecdf(ranks) - ecdf_band(len(ranks)).points).max())


def draw_ranks(ax: Axes, name: str, lines: Lines) -> None:
    """A panel."""
    ranks = np.array([line["ranks"][name] for line in lines])
    band = ecdf_band(len(ranks))
    color = VERMILION if uniformity(ranks.tolist()).leaves_band else BLUE
    ax.fill_between(band.points, band.lower, band.upper, color=FAINT, linewidth=0)
    ax.axhline(0, color=MUTED, linewidth=0.4)
    ax.plot(band.points, ecdf(ranks) - band.points, color=color, linewidth=0.9)
    ax.set_xlim(0, 1)
    ax.set_xticks([0, 0.5, 1], ["0", "0.5", "1"])
    ax.set_title(name, size=TEXT_SIZE, pad=2)


def clade_figure(found: Mapping[Study, Lines]) -> Figure:
    """By study and bin, how many more clades are true than expected, as a share of the clades."""
    names = [bin_name(*one) for one in BINS]
    labels = [f"{lower:g}–{upper:g}" for lower, upper in BINS]
    with styled():
        figure = Figure(figsize=(TWO_COLUMNS, 2.2), layout="constrained")
        panels = [axes_for(ax) for ax in figure.subplots(1, len(found), squeeze=False).flat]
        for ax, (study, lines) in zip(panels, found.items(), strict=True):
            for place, name in enumerate(names):
                count = pooled_bin(lines, name)
                if count.clades:
                    reach = DEVIATIONS * np.sqrt(count.variance) / count.clades
                    ax.bar(place, 2 * reach, 0.7, -reach, color=FAINT)
                    ax.plot(place, (count.true - count.expected) / count.clades, "o", color=BLUE, markersize=3)
            ax.axhline(0, color=MUTED, linewidth=0.4)
            ax.use_sticky_edges = False
            ax.margins(y=0.1)
            ax.set_xticks(range(len(names)), labels, rotation=60, size=SMALL_SIZE)
            ax.set_title(TITLES[study.name], size=TEXT_SIZE)
            ax.set_xlabel("probability of clades")
        panels[0].set_ylabel("true − expected, share of clades")
    return figure


if __name__ == "__main__":
    sys.exit(main())
