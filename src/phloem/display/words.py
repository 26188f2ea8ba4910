"""What the displays share: numbers and durations as text, speed, and a standard error that never stops a run."""

import contextlib
import io
import sys
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO

from phloem.errors import counted, first_few, printable

if TYPE_CHECKING:
    from phloem.display.events import News, Phase
    from phloem.inference.training import Report
if TYPE_CHECKING:
    from phloem.display.events import Notice, Overview

WINDOW = 15.0  # seconds: long enough to be steady, short enough to follow a change
SHORTEST = 1.0  # seconds: less would be a guess
LONGEST_NAME = 40  # characters


class PatientStderr(io.TextIOBase):
    """The current standard error. If it is closed or broken, output is dropped silently.

    Hours of training must not be lost because the terminal that showed them was closed.
    """

    def write(self, text: str) -> int:
        """Pass the text on if possible."""
        with contextlib.suppress(OSError, ValueError):
            if stream := _current():
                stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Flush the stream if possible."""
        with contextlib.suppress(OSError, ValueError):
            if stream := _current():
                stream.flush()

    def isatty(self) -> bool:
        """Whether it is a terminal."""
        with contextlib.suppress(OSError, ValueError):
            stream = _current()
            return stream is not None and stream.isatty()
        return False

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """The stream's encoding."""
        return getattr(_current(), "encoding", None) or "utf-8"


def _current() -> TextIO | None:
    """What `sys.stderr` is now, without rich's proxy, which would hand the text back to the display."""
    stream: TextIO | None = getattr(sys.stderr, "rich_proxied_file", sys.stderr)
    return stream


def say(line: str) -> None:
    """One line to standard error, at once."""
    stream = PatientStderr()
    stream.write(line + "\n")
    stream.flush()


def complain(text: str) -> None:
    """A line of phloem's on standard error."""
    say(f"phloem: {printable(text)}")


class Speed:
    """How fast an amount grows, over the last seconds of this session."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, float]] = deque()  # time, amount

    def see(self, now: float, amount: float) -> None:
        """Record the amount at this time; a drop starts over."""
        if self._seen and amount < self._seen[-1][1]:
            self._seen.clear()
        self._seen.append((now, amount))
        while len(self._seen) > 2 and self._seen[1][0] <= now - WINDOW:
            self._seen.popleft()

    @property
    def per_second(self) -> float | None:
        """None while too little is known, or if nothing grows."""
        if not self._seen:
            return None
        (first_time, first), (last_time, last) = self._seen[0], self._seen[-1]
        if last_time - first_time < SHORTEST or last <= first:
            return None
        return (last - first) / (last_time - first_time)


class RunProgress:
    """One run, as known from its news.

    `elbos` has the ELBOs of this session's reports: they are for the target itself, while the bound's target changes
    with the temperature, so that the bound falls as long as the temperature does.
    """

    def __init__(self) -> None:
        self.phase: Phase | None = None  # no news yet
        self.share = 0.0
        self.step = 0
        self.report: Report | None = None
        self.elbos: list[float] = []
        self._steps = Speed()
        self._shares = Speed()

    def take(self, news: "News", now: float) -> None:
        """Update from the news."""
        if news.phase != self.phase:
            self._shares = Speed()
        self.phase, self.share = news.phase, news.share
        self._shares.see(now, news.share)
        self.step = news.step or self.step
        if news.phase == "training":
            self._steps.see(now, news.step)
        if news.report is not None:
            self.report = news.report
            self.elbos.append(news.report.elbo)

    @property
    def steps_per_second(self) -> float | None:
        """Training speed, also after training."""
        return self._steps.per_second

    @property
    def seconds_left(self) -> float | None:
        """Of the phase, at the recent speed."""
        speed = self._shares.per_second
        return None if speed is None else max(0.0, 1 - self.share) / speed


def clock_time(seconds: float) -> str:
    """Elapsed time: `3:12` or `1:03:12`."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def rough_duration(seconds: float) -> str:
    """Estimated time: `40 s`, `3 min`, `1 h 20 min` or `2 d 3 h`."""
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
    """The temperature to three digits: `1`, `1.25`, `12.5`, `1,000`."""
    if not inverse > 0:
        return "∞"
    return f"{float(f'{1 / inverse:.3g}'):,.12g}"


def rate(value: float) -> str:
    """Steps per second: `250`, or `3.2` if it is small."""
    return f"{value:,.0f}" if value >= 9.95 else f"{value:.1f}"


def shortened(text: str, width: int) -> str:
    """The text, cut to the width with a `…` at its end if it is too long."""
    return text if len(text) <= width else text[: max(0, width - 1)] + "…"


def notice_line(notice: "Notice") -> str:
    """A notice as the user sees it."""
    return f"phloem: {printable(notice.text)}"


def overview_lines(overview: "Overview") -> list[str]:
    """Facts about the alignment and the plan, one per line."""
    summary = overview.alignment
    lines = [
        f"{printable(overview.source)}: {counted(summary.taxa, 'taxon', 'taxa')}, "
        f"{counted(summary.sites, 'site')}, {counted(summary.patterns, 'pattern')}, "
        f"{_percent(summary.missing_share)} missing, "
        f"{counted(summary.constant_sites, 'constant site')}"
    ]
    if summary.identical:
        groups = first_few([_names(group) for group in summary.identical], "; ", "more group", "more groups")
        lines.append(f"identical sequences: {groups} (the data cannot tell their order; one of each is enough)")
    if summary.empty_taxa:
        lines.append(f"taxa without any data: {_names(summary.empty_taxa)}")
    if summary.empty_sites:
        lines.append(f"sites without any data: {summary.empty_sites:,}")
    plan = [f"model {printable(overview.model)}", f"branch lengths by {overview.branches}"]
    plan.append(counted(overview.steps, "step"))
    if overview.runs > 1:
        plan.append(f"{overview.runs} runs")
    priors = "; ".join(f"{about} {printable(prior)}" for about, prior in overview.priors.items())
    lines.append("; ".join([*plan, f"run directory {printable(str(overview.directory))}"]))
    lines.append(f"priors: {priors}")
    return lines


def _percent(share: float) -> str:
    """`0 %` only if nothing is missing."""
    return "0 %" if share == 0 else "<0.1 %" if share < 0.001 else f"{100 * share:.1f} %"


def _names(names: Sequence[str]) -> str:
    return first_few([shortened(printable(name), LONGEST_NAME) for name in names], ", ")
