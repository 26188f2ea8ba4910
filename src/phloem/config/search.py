"""The settings of searches for the maximum-likelihood tree and of bootstraps."""

import re
from dataclasses import dataclass
from typing import Final

from phloem.config.checks import MOST, check_choice, check_count
from phloem.config.model import ModelConfig, parse_estimated_model
from phloem.errors import ConfigError, quoted

MOST_TREES = 1_000_000
BOOTSTRAP_METHODS: Final = ("auto", "iqtree", "embedded")
# What IQ-TREE asks for.
LEAST_BOOTSTRAP_TREES = 1000
MOST_REPLICATES = 10_000
PLAIN_MODEL = re.compile(r"[A-Za-z0-9+*{},./][A-Za-z0-9+*{},./-]*")
# Models that have another name there.
IQTREE_NAMES: Final = {"K80": "K2P", "TN93": "TN"}


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


@dataclass(frozen=True, slots=True)
class BootstrapConfig:
    """Independent replicates of `count` bootstrap trees each.

    method: IQ-TREE's ultrafast bootstrap, phloem's own embedded search, or `auto`: what IQ-TREE cannot do, or the
    search cannot, is an error once it is known which of them it is. model: in IQ-TREE's words. keep, within: as many of
    the best trees of an embedded search, no more log-likelihood units below the very best, come after its bootstrap
    trees. threads: cores for all replicates; None for all that there are. timeout: seconds for one replicate.
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
        if self.seed < 0:
            raise ConfigError(f"--seed {self.seed}: it must not be negative.")
        check_bootstrap_model("--model", self.model, self.method)
        check_count("--keep", self.keep, least=0, most=MOST_TREES)
        if self.keep and self.method == "iqtree":
            raise ConfigError(f"--keep {self.keep}: IQ-TREE gives its bootstrap trees alone. Give --method embedded.")
        check_within("--within", self.within)
        if self.threads is not None and self.threads < 1:
            raise ConfigError(f"--threads {self.threads}: at least 1 is needed.")
        if not self.timeout > 0:
            raise ConfigError(f"--timeout {self.timeout:g}: give a number of seconds above 0.")


def check_tree_count(name: str, count: int, method: str, method_name: str) -> None:
    """As many trees as the method makes; both options by the names that the user knows."""
    if method == "iqtree" and count < LEAST_BOOTSTRAP_TREES:
        raise ConfigError(
            f"{name} {count}: IQ-TREE makes {LEAST_BOOTSTRAP_TREES} bootstrap trees or more. "
            f"Give as many, or {method_name} embedded."
        )
    check_count(name, count, most=MOST_TREES if method == "embedded" else MOST)


def check_replicates(name: str, replicates: int) -> None:
    """As many replicates as have names."""
    if not 1 <= replicates <= MOST_REPLICATES:
        raise ConfigError(f"{name} {replicates}: give a number from 1 to {MOST_REPLICATES}.")
    check_count(name, replicates)


def check_bootstrap_model(name: str, model: str, method: str) -> None:
    """A model that the embedded search knows, or a word that IQ-TREE can take for one and that is no option of its."""
    if not PLAIN_MODEL.fullmatch(model):
        raise ConfigError(f"{name} {quoted(model)}: give one of IQ-TREE's names, such as JC, HKY or GTR+G4.")
    if method == "embedded":
        parse_estimated_model(name, model)


def iqtree_model(model: ModelConfig) -> str:
    """The model in IQ-TREE's words, such as HKY+I+G4. Its numbers are left out: IQ-TREE finds the best itself.

    One gamma category, and no invariant sites, are no rates that differ: IQ-TREE cannot fit them.
    """
    name = IQTREE_NAMES.get(model.name, model.name)
    invariant = "+I" if model.invariant else ""
    gamma = f"+G{model.gamma}" if model.gamma is not None and model.gamma > 1 else ""
    return f"{name}{invariant}{gamma}"
