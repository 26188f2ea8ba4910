"""Time that tests make pass."""


class Clock:
    """Time that passes when a test says so, or somebody sleeps."""

    def __init__(self, now: float = 0.0) -> None:
        self.now = now

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
