"""The bootstrap by IQ-TREE: how much of it, and under which model."""

import re
from dataclasses import dataclass
from typing import Final

from phloem.config.checks import check_count
from phloem.config.model import ModelConfig
from phloem.errors import ConfigError, quoted

# What IQ-TREE asks for.
LEAST_BOOTSTRAP_TREES = 1000
MOST_REPLICATES = 10_000
PLAIN_MODEL = re.compile(r"[A-Za-z0-9+*{},./][A-Za-z0-9+*{},./-]*")

# Models that have another name there.
IQTREE_NAMES: Final = {"K80": "K2P", "TN93": "TN"}


@dataclass(frozen=True, slots=True)
class BootstrapConfig:
    """Ultrafast bootstrap by IQ-TREE: independent replicates of `count` trees each.

    model: in IQ-TREE's words. threads: replicates at work at the same time, each on one core; None for all cores.
    timeout: seconds for one replicate.
    """

    count: int = 1000
    replicates: int = 10
    seed: int = 1
    model: str = "JC"
    threads: int | None = None
    timeout: float = 86_400.0

    def __post_init__(self) -> None:
        check_tree_count("--count", self.count)
        check_replicates("--replicates", self.replicates)
        if self.seed < 0:
            raise ConfigError(f"--seed {self.seed}: it must not be negative.")
        check_plain_model("--model", self.model)
        if self.threads is not None and self.threads < 1:
            raise ConfigError(f"--threads {self.threads}: at least 1 is needed.")
        if not self.timeout > 0:
            raise ConfigError(f"--timeout {self.timeout:g}: give a number of seconds above 0.")


def check_tree_count(name: str, count: int) -> None:
    """As many trees as IQ-TREE makes."""
    if count < LEAST_BOOTSTRAP_TREES:
        raise ConfigError(f"{name} {count}: IQ-TREE makes {LEAST_BOOTSTRAP_TREES} bootstrap trees or more.")
    check_count(name, count)


def check_replicates(name: str, replicates: int) -> None:
    """As many replicates as have names."""
    if not 1 <= replicates <= MOST_REPLICATES:
        raise ConfigError(f"{name} {replicates}: give a number from 1 to {MOST_REPLICATES}.")
    check_count(name, replicates)


def check_plain_model(name: str, model: str) -> None:
    """A word that IQ-TREE can take for a model, and that is no option of its command line."""
    if not PLAIN_MODEL.fullmatch(model):
        raise ConfigError(f"{name} {quoted(model)}: give one of IQ-TREE's names, such as JC, HKY or GTR+G4.")


def iqtree_model(model: ModelConfig) -> str:
    """The model in IQ-TREE's words, such as HKY+I+G4. Its numbers are left out: IQ-TREE finds the best itself.

    One gamma category, and no invariant sites, are no rates that differ: IQ-TREE cannot fit them.
    """
    name = IQTREE_NAMES.get(model.name, model.name)
    invariant = "+I" if model.invariant else ""
    gamma = f"+G{model.gamma}" if model.gamma is not None and model.gamma > 1 else ""
    return f"{name}{invariant}{gamma}"
