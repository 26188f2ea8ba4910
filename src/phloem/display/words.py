"""How displays put things: numbers, durations, and the report on an alignment."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from phloem.display.news import Notice, Overview

MOST_LISTED = 5
LONGEST_NAME = 40


def clock_time(seconds: float) -> str:
    """`3:12` or `1:03:12`, for time that has passed."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def rough_duration(seconds: float) -> str:
    """`40 s`, `3 min`, `1 h 20 min` or `2 d 3 h`, for time that is an estimate."""
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h" if hours else f"{days} d"


def nats(value: float) -> str:
    """A bound or an ELBO."""
    return f"{value:.2f}"


def temperature(inverse: float) -> str:
    """The temperature with three digits: `1`, `1.25`, `12.5`, `1,000`."""
    if not inverse > 0:
        return "∞"
    return f"{float(f'{1 / inverse:.3g}'):,.12g}"


def rate(value: float) -> str:
    """Steps a second: `250`, or `3.2` where it matters."""
    return f"{value:,.0f}" if value >= 9.95 else f"{value:.1f}"


def counted(count: int, one: str, many: str) -> str:
    """`1 topology`, `1,200 topologies`."""
    return f"{count:,} {one if count == 1 else many}"


def one_line(text: str) -> str:
    """User text without the signs that move a terminal's cursor or change its colours."""
    return "".join(sign if sign.isprintable() else " " for sign in text)


def shortened(text: str, width: int) -> str:
    """The text, or as much of it as fits with a `…` at its end."""
    return text if len(text) <= width else text[: max(0, width - 1)] + "…"


def notice_line(notice: "Notice") -> str:
    """A notice as the user sees it."""
    return f"phloem: {one_line(notice.text)}"


def overview_lines(overview: "Overview") -> list[str]:
    """The report on the alignment and what will be done with it, a fact a line."""
    summary = overview.alignment
    lines = [
        f"{one_line(overview.source)}: {counted(summary.taxa, 'taxon', 'taxa')}, "
        f"{counted(summary.sites, 'site', 'sites')}, {counted(summary.patterns, 'pattern', 'patterns')}, "
        f"{_percent(summary.missing_share)} missing, "
        f"{counted(summary.constant_sites, 'constant site', 'constant sites')}"
    ]
    if summary.identical:
        groups = _some([_names(group) for group in summary.identical], "; ", "more groups")
        lines.append(f"identical sequences: {groups} (the data cannot tell their order; one of each is enough)")
    if summary.empty_taxa:
        lines.append(f"taxa without any data: {_names(summary.empty_taxa)}")
    if summary.empty_sites:
        lines.append(f"sites without any data: {summary.empty_sites:,}")
    plan = [f"model {one_line(overview.model)}", f"branch lengths by {overview.branches}", f"{overview.steps:,} steps"]
    if overview.runs > 1:
        plan.append(f"{overview.runs} runs")
    lines.append("; ".join([*plan, f"run directory {one_line(str(overview.directory))}"]))
    return lines


def _percent(share: float) -> str:
    """`0 %` only if there is none."""
    return "0 %" if share == 0 else "<0.1 %" if share < 0.001 else f"{100 * share:.1f} %"


def _names(names: Sequence[str]) -> str:
    return _some([shortened(one_line(name), LONGEST_NAME) for name in names], ", ", "more")


def _some(items: list[str], separator: str, rest: str) -> str:
    """The first few items, and how many more there are."""
    shown = separator.join(items[:MOST_LISTED])
    return shown if len(items) <= MOST_LISTED else f"{shown} and {len(items) - MOST_LISTED} {rest}"
