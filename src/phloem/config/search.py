"""The settings of `phloem search` and `phloem bootstrap`: maximum-likelihood searches and bootstrap trees."""

import re
from dataclasses import dataclass
from typing import Final

from phloem.config.model import ModelConfig, parse_estimated_model
from phloem.config.settings import MOST, Schema, check_choice, check_count, check_seed
from phloem.errors import ConfigError, quoted

BOOTSTRAP_METHODS: Final = ("auto", "iqtree", "embedded")
MOST_TREES: Final = 1_000_000
MOST_REPLICATES: Final = 10_000
LEAST_BOOTSTRAP_TREES: Final = 1000  # that IQ-TREE makes
PLAIN_MODEL: Final = re.compile(r"[A-Za-z0-9+*{},./][A-Za-z0-9+*{},./-]*")
IQTREE_NAMES: Final = {"K80": "K2P", "TN93": "TN"}  # where they differ from ours


@dataclass(frozen=True, slots=True)
class SearchConfig:
    """A maximum-likelihood search with `count` bootstrap trees, under a model whose parameters are estimated.

    keep: how many of the best trees found to keep besides; `within`: at most this many log-likelihood units below the
    very best. threads: climbs at a time, None for one per core; the result does not depend on it.
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
        check_seed("--seed", self.seed)
        check_count("--keep", self.keep, least=0, most=MOST_TREES)
        check_within("--within", self.within)
        if self.threads is not None:
            check_count("--threads", self.threads)


@dataclass(frozen=True, slots=True)
class BootstrapConfig:
    """Independent replicates of `count` bootstrap trees each.

    method: IQ-TREE's ultrafast bootstrap, phloem's embedded search, or `auto`: IQ-TREE if it is installed. A setting
    that the chosen one does not support is an error as soon as the choice is known. model: by IQ-TREE's name. keep,
    within: up to `keep` of the best trees of an embedded search, at most `within` log-likelihood units below the very
    best, follow its bootstrap trees. threads: cores for all replicates together, None for all cores. timeout: seconds
    per replicate.
    """

    count: int = 1000
    replicates: int = 10
    seed: int = 1
    model: str = "JC"
    method: str = "auto"
    keep: int = 0
    within: float = 10.0
    threads: int | None = None
    timeout: float = 86_400.0

    def __post_init__(self) -> None:
        check_choice("--method", self.method, BOOTSTRAP_METHODS)
        check_tree_count("--count", self.count, self.method, "--method")
        check_replicates("--replicates", self.replicates)
        check_seed("--seed", self.seed)
        check_bootstrap_model("--model", self.model, self.method)
        check_count("--keep", self.keep, least=0, most=MOST_TREES)
        if self.keep and self.method == "iqtree":
            raise ConfigError(f"--keep {self.keep}: IQ-TREE makes only bootstrap trees. Give --method embedded.")
        check_within("--within", self.within)
        if self.threads is not None:
            check_count("--threads", self.threads)
        if not self.timeout > 0:
            raise ConfigError(f"--timeout {self.timeout:g}: give a number of seconds above 0.")


SEARCH: Final = Schema(SearchConfig, "search")
BOOTSTRAP: Final = Schema(BootstrapConfig, "bootstrap")


def check_within(name: str, within: float) -> None:
    """A number of log-likelihood units."""
    if not within >= 0:
        raise ConfigError(f"{name} {within:g}: give a number of log-likelihood units, 0 or more.")


def check_tree_count(name: str, count: int, method: str, method_name: str) -> None:
    """A number of trees that the method can make; both options by the names that users know."""
    if method == "iqtree" and count < LEAST_BOOTSTRAP_TREES:
        raise ConfigError(
            f"{name} {count}: IQ-TREE makes {LEAST_BOOTSTRAP_TREES} bootstrap trees or more. "
            f"Ask for more, or give {method_name} embedded."
        )
    check_count(name, count, most=MOST_TREES if method == "embedded" else MOST)


def check_replicates(name: str, replicates: int) -> None:
    """At most as many as there are file names."""
    check_count(name, replicates, most=MOST_REPLICATES)


def check_bootstrap_model(name: str, model: str, method: str) -> None:
    """A model of the embedded search, or for IQ-TREE any name that it cannot mistake for an option."""
    if not PLAIN_MODEL.fullmatch(model):
        raise ConfigError(f"{name} {quoted(model)}: give one of IQ-TREE's names, such as JC, HKY or GTR+G4.")
    if method == "embedded":
        parse_estimated_model(name, model)


def iqtree_model(model: ModelConfig) -> str:
    """The model by IQ-TREE's name, such as HKY+I+G4, without its parameters: IQ-TREE estimates them.

    With one gamma category, or a proportion of 0 invariant sites, there is nothing to estimate: both are left out.
    """
    name = IQTREE_NAMES.get(model.name, model.name)
    invariant = "+I" if model.invariant else ""
    gamma = f"+G{model.gamma}" if model.gamma is not None and model.gamma > 1 else ""
    return f"{name}{invariant}{gamma}"
