"""All settings of `phloem infer`, and the presets."""

import math
from dataclasses import dataclass, field, replace
from typing import Any, Final

from phloem.config.bootstrap import BOOTSTRAP_METHODS, check_bootstrap_model, check_replicates, check_tree_count
from phloem.config.checks import check_choice, check_count, check_positive
from phloem.config.model import ModelConfig
from phloem.config.training import EvaluationConfig, TrainingConfig
from phloem.errors import ConfigError

# Names of what `variational` has; a test holds the lists together.
BRANCH_MODELS: Final = ("split", "psp", "mlp", "gcn", "gin", "gin-text", "sage", "ggnn", "edge", "edge-text")
MOST_RUNS: Final = 100
MOST_LAYERS: Final = 100
MOST_CHANNELS: Final = 10_000


@dataclass(frozen=True, slots=True)
class SupportConfig:
    """How the support is made.

    credible: each tree file counts with its most frequent topologies up to this share. Where there are no tree files,
    there are `replicates` of `count` bootstrap trees each, made by the `method`, under a `model` in IQ-TREE's words;
    None stands for the one that goes with the substitution model (`iqtree_model`).
    """

    credible: float = 0.95
    method: str = "auto"
    replicates: int = 10
    count: int = 1000
    model: str | None = None

    def __post_init__(self) -> None:
        if not 0 < self.credible <= 1:
            raise ConfigError(f"--credible {self.credible:g}: give a share above 0, up to 1.")
        check_choice("--bootstrap-method", self.method, BOOTSTRAP_METHODS)
        check_replicates("--bootstrap-replicates", self.replicates)
        check_tree_count("--bootstrap-trees", self.count, self.method, "--bootstrap-method")
        if self.model is not None:
            check_bootstrap_model("--bootstrap-model", self.model, self.method)


@dataclass(frozen=True, slots=True)
class InferConfig:
    """All that decides a result of `phloem infer`, given the alignment and the trees for its support.

    prior_rate: of the exponential prior on branch lengths. depth, width: of the graph network. seed: the same seed
    gives the same posterior. runs: independent trainings, each from its own seed.
    """

    branches: str = "edge"
    depth: int = 2
    width: int = 100
    prior_rate: float = 10.0
    seed: int = 1
    runs: int = 2
    model: ModelConfig = field(default_factory=ModelConfig)
    support: SupportConfig = field(default_factory=SupportConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)

    def __post_init__(self) -> None:
        check_choice("--branches", self.branches, BRANCH_MODELS)
        check_count("--depth", self.depth, least=0, most=MOST_LAYERS)
        check_count("--width", self.width, most=MOST_CHANNELS)
        check_positive("--prior-rate", self.prior_rate)
        check_count("--seed", self.seed, least=0, most=2**63 - 1)
        check_count("--runs", self.runs, most=MOST_RUNS)


# The published schedule, what we advise, and a first look (docs/schedules.md has what they were chosen by).
PRESETS: Final[dict[str, InferConfig]] = {
    "paper": InferConfig(
        runs=1,
        support=SupportConfig(count=10_000),
        training=TrainingConfig(
            steps=400_000,
            doubly_reparameterized=False,
            ramp=0.25,
            rate=0.001,
            topology_rate_factor=1.0,
            clipping=math.inf,
            decay="stairs",
        ),
    ),
    "standard": InferConfig(),
    "quick": InferConfig(runs=1, training=TrainingConfig(steps=8_000, topology_rate_factor=10.0)),
}
# What a preset is about. The rest of a configuration describes the question, and no preset answers that.
PRESET_FIELDS: Final = ("runs", "support", "training", "evaluation")


def preset(name: str, **changes: Any) -> TrainingConfig:
    """The training of a preset, with some settings changed; those that are None are the preset's own."""
    check_choice("--preset", name, tuple(PRESETS))
    return replace(PRESETS[name].training, **{key: value for key, value in changes.items() if value is not None})


def with_preset(config: InferConfig, name: str) -> InferConfig:
    """The configuration with all that a preset is about taken from it."""
    check_choice("--preset", name, tuple(PRESETS))
    return replace(config, **{field: getattr(PRESETS[name], field) for field in PRESET_FIELDS})
