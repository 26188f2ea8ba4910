"""How far a run is, and how fast it goes."""

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from phloem.display.news import News, Phase
    from phloem.inference.history import Report

WINDOW = 15.0  # seconds: long enough to be steady, short enough to follow a change
SHORTEST = 1.0  # seconds: less would be a guess


class Speed:
    """How fast an amount grows, from what was seen of it in the last seconds of this session."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, float]] = deque()  # time, amount

    def see(self, now: float, amount: float) -> None:
        """The amount at this time. An amount that falls starts anew."""
        if self._seen and amount < self._seen[-1][1]:
            self._seen.clear()
        self._seen.append((now, amount))
        while len(self._seen) > 2 and self._seen[1][0] <= now - WINDOW:
            self._seen.popleft()

    @property
    def per_second(self) -> float | None:
        """None while too little was seen, or if nothing grows."""
        if not self._seen:
            return None
        (first_time, first), (last_time, last) = self._seen[0], self._seen[-1]
        if last_time - first_time < SHORTEST or last <= first:
            return None
        return (last - first) / (last_time - first_time)


class RunProgress:
    """One run as its news tell it.

    `elbos` has those of this session's reports: they are of the target itself, while the bound's own target changes
    with the temperature, so that it falls as long as the temperature does.
    """

    def __init__(self) -> None:
        self.phase: Phase | None = None  # nothing heard yet
        self.share = 0.0
        self.step = 0
        self.report: Report | None = None
        self.elbos: list[float] = []
        self._steps = Speed()
        self._shares = Speed()

    def take(self, news: "News", now: float) -> None:
        """Take in what is new."""
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
        """Of the training, also when it is over."""
        return self._steps.per_second

    @property
    def seconds_left(self) -> float | None:
        """Of the phase, if it goes on as it did lately."""
        speed = self._shares.per_second
        return None if speed is None else max(0.0, 1 - self.share) / speed
