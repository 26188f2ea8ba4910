"""Time that tests make pass."""


class Clock:
    """Time that passes when a test says so, or somebody sleeps."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
