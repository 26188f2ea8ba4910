"""The search for the maximum-likelihood tree, and its bootstrap."""

from dataclasses import dataclass

from phloem.config.checks import check_count
from phloem.config.estimated_model import parse_estimated_model
from phloem.errors import ConfigError

MOST_TREES = 1_000_000


@dataclass(frozen=True, slots=True)
class SearchConfig:
    """One search: `count` bootstrap trees under a model whose parameters are estimated.

    keep: how many of the best trees of all come with the bootstrap trees, and `within` how many log-likelihood units
    of the very best they must be. threads: climbs at the same time; the result does not depend on them.
    """

    count: int = 1000
    model: str = "JC"
    seed: int = 1
    keep: int = 0
    within: float = 10.0
    threads: int | None = None

    def __post_init__(self) -> None:
        check_count("--count", self.count, most=MOST_TREES)
        parse_estimated_model("--model", self.model)
        check_count("--seed", self.seed, least=0, most=2**63 - 1)
        check_count("--keep", self.keep, least=0, most=MOST_TREES)
        check_within("--within", self.within)
        if self.threads is not None:
            check_count("--threads", self.threads)


def check_within(name: str, within: float) -> None:
    """A number of log-likelihood units."""
    if not within >= 0:
        raise ConfigError(f"{name} {within:g}: give a number of log-likelihood units, 0 or more.")
