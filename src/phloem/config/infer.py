"""The settings of `phloem infer`: support, training, evaluation, and the presets."""

import math
from dataclasses import dataclass, field, replace
from typing import Any, Final

from phloem.config.model import ModelConfig, parse_length_prior
from phloem.config.partition import PartitionConfig
from phloem.config.search import BOOTSTRAP_METHODS, check_bootstrap_model, check_replicates, check_tree_count
from phloem.config.settings import (
    Schema,
    check_choice,
    check_clipping,
    check_count,
    check_positive,
    check_seed,
    check_share,
)
from phloem.errors import ConfigError

# What `inference` and `variational` can do; a test keeps the lists the same.
ESTIMATORS: Final = ("vimco", "rws")
DECAYS: Final = ("cosine", "stairs")
STOPS: Final = ("steps", "auto")
CLOSURES: Final = ("auto", "none", "clades")
NETWORKS: Final = ("mlp", "gcn", "gin", "gin-text", "sage", "ggnn", "edge", "edge-text")  # a new convolution goes here
BRANCH_MODELS: Final = ("split", "psp", *NETWORKS)
FAMILIES: Final = ("warped", "lognormal")

USUAL_MODEL: Final = ModelConfig("GTR+G4")  # right for most data; benchmarks have JC
USUAL_RATE: Final = 10.0  # of the exponential prior on branch lengths
MOST_PARTICLES: Final = 10_000
MOST_DRAWS: Final = 10_000_000
MOST_CHAINS: Final = 10_000
MOST_REPEATS: Final = 10_000
MOST_RUNS: Final = 100
MOST_LAYERS: Final = 100
MOST_CHANNELS: Final = 10_000


@dataclass(frozen=True, slots=True)
class TrainingConfig:
    """How the posterior is trained. The defaults are the preset `standard`; see `PRESETS`.

    particles: trees per step. estimator: of the gradient for topologies. doubly_reparameterized: less noise in the
    gradient for branch lengths, with the same expectation. ramp: the share of the steps over which the likelihood is
    tempered, its exponent rising from `first_inverse_temperature` to 1. rate: the initial learning rate for branch
    lengths; that for topologies is `topology_rate_factor` times as high. clipping: gradients for branch lengths above
    this multiple of their usual norm are scaled down to it. decay: `cosine` takes both rates down to 0; `stairs`
    multiplies them by `stair_factor` at the end of each of `stairs` equal parts, so a schedule stretches with the
    number of steps. stop: `steps` trains for all of them; `auto` stops early, once the bound has been flat at full
    temperature. refit: after the last step, probabilities of topologies are fitted to weighted draws, so many times
    as many as steps; 0 leaves them as trained.
    """

    steps: int = 10_000
    particles: int = 10
    estimator: str = "vimco"
    doubly_reparameterized: bool = True
    ramp: float = 0.75
    first_inverse_temperature: float = 0.001
    rate: float = 0.003
    topology_rate_factor: float = 10.0
    clipping: float = 3.0
    decay: str = "cosine"
    stairs: int = 20
    stair_factor: float = 0.75
    stop: str = "steps"
    refit: float = 5.0

    def __post_init__(self) -> None:
        check_choice("--estimator", self.estimator, ESTIMATORS)
        check_choice("decay", self.decay, DECAYS)
        check_choice("--stop", self.stop, STOPS)
        for name, count in (("--steps", self.steps), ("--particles", self.particles), ("stairs", self.stairs)):
            check_count(name, count)
        fewest = 1 if self.estimator == "rws" else 2
        if not fewest <= self.particles <= MOST_PARTICLES:
            raise ConfigError(f"--particles {self.particles}: {self.estimator} takes {fewest} to {MOST_PARTICLES:,}.")
        for name in ("ramp", "first_inverse_temperature"):
            check_share(name, getattr(self, name))
        check_clipping("clipping", self.clipping)
        for name in ("rate", "topology_rate_factor", "stair_factor"):
            check_positive(name, getattr(self, name))
        if not 0 <= self.refit * self.steps <= MOST_DRAWS:
            raise ConfigError(
                f"refit {self.refit:g}: give a number of 0 or more, by which the draws are {MOST_DRAWS:,} at most."
            )


@dataclass(frozen=True, slots=True)
class EvaluationConfig:
    """How the result is evaluated: `repeats` estimates from `samples` trees each, and reports during training.

    reports: how many, each with an ELBO from `report_samples` trees. anneal: where the weights of those trees are not
    good, so many are annealed in their place, though no more than there were; 0 leaves them as they are. chains: Markov
    chains from the trees, no more than there are, which show what Q misses; 0 for none.
    """

    samples: int = 1000
    repeats: int = 100
    reports: int = 100
    report_samples: int = 200
    anneal: int = 5000
    chains: int = 100

    def __post_init__(self) -> None:
        check_count("--samples", self.samples, most=MOST_DRAWS)
        check_count("--repeats", self.repeats, most=MOST_REPEATS)
        check_count("reports", self.reports)
        check_count("report_samples", self.report_samples, most=MOST_DRAWS)
        check_count("anneal", self.anneal, least=0, most=MOST_DRAWS)
        if not (self.chains == 0 or 2 <= self.chains <= MOST_CHAINS):
            raise ConfigError(f"chains {self.chains}: give 2 to {MOST_CHAINS:,}, or 0 for none.")


@dataclass(frozen=True, slots=True)
class SupportConfig:
    """Where the support comes from.

    credible: each tree file contributes its most frequent topologies up to this share. closure: `none` generates what
    recombines their subsplits, `clades` every tree that consists of their splits, `auto` is `clades` where chains find
    the posterior wide, else `none`. Without tree files, the trees are `replicates` times `count` bootstrap trees, made
    by `method` under `model`, which IQ-TREE's names describe; None stands for the counterpart of the substitution model
    (`iqtree_model`). explore: so many short chains from bootstrap trees add theirs; 0 for none.
    """

    credible: float = 0.95
    closure: str = "auto"
    explore: int = 200
    method: str = "auto"
    replicates: int = 10
    count: int = 1000
    model: str | None = None

    def __post_init__(self) -> None:
        if not 0 < self.credible <= 1:
            raise ConfigError(f"--credible {self.credible:g}: give a share above 0, up to 1.")
        check_choice("--closure", self.closure, CLOSURES)
        if not (self.explore == 0 or 2 <= self.explore <= MOST_CHAINS):
            raise ConfigError(f"explore {self.explore}: give 2 to {MOST_CHAINS:,} chains, or 0 for none.")
        check_choice("--bootstrap-method", self.method, BOOTSTRAP_METHODS)
        check_replicates("--bootstrap-replicates", self.replicates)
        check_tree_count("--bootstrap-trees", self.count, self.method, "--bootstrap-method")
        if self.model is not None:
            check_bootstrap_model("--bootstrap-model", self.model, self.method)


@dataclass(frozen=True, slots=True)
class InferConfig:
    """Everything that determines the result of `phloem infer`, given the alignment and the trees for its support.

    branches: the model that gives each branch its parameters. family: of the distributions that these describe.
    branch_prior: on branch lengths, exponential, gamma-dirichlet or uniform. prior_rate: of the exponential. constrain:
    a file of clades that every tree must have. outgroup: taxa at which trees are rooted for display, with commas
    between them. depth, width: of the graph network. seed: the same seed gives the same posterior. runs: independent
    runs, each with its own seed. own: which parts are the user's own objects, given to `phloem.infer` in Python, which
    fills this in.
    """

    branches: str = "edge"
    family: str = "warped"
    depth: int = 2
    width: int = 100
    branch_prior: str = "exponential"
    prior_rate: float = USUAL_RATE
    constrain: str | None = None
    outgroup: str | None = None
    seed: int = 1
    runs: int = 1
    own: str | None = None
    model: ModelConfig = field(default_factory=lambda: USUAL_MODEL)
    partition: PartitionConfig = field(default_factory=PartitionConfig)
    support: SupportConfig = field(default_factory=SupportConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)

    def __post_init__(self) -> None:
        check_choice("--branches", self.branches, BRANCH_MODELS)
        check_choice("--family", self.family, FAMILIES)
        check_count("--depth", self.depth, least=0, most=MOST_LAYERS)
        check_count("--width", self.width, most=MOST_CHANNELS)
        check_positive("--prior-rate", self.prior_rate)
        kind = parse_length_prior("--branch-prior", self.branch_prior).kind
        if kind != "exponential" and self.prior_rate != USUAL_RATE:
            raise ConfigError(f"--prior-rate: the {kind} prior has no such rate. Give its numbers with --branch-prior.")
        check_seed("--seed", self.seed)
        check_count("--runs", self.runs, most=MOST_RUNS)


# The published schedule, the one we recommend, and a quick first result (docs/schedules.md says how they were chosen).
PRESETS: Final[dict[str, InferConfig]] = {
    "paper": InferConfig(
        family="lognormal",
        model=ModelConfig("JC"),
        support=SupportConfig(count=10_000, closure="none", explore=0),
        training=TrainingConfig(
            steps=400_000,
            doubly_reparameterized=False,
            ramp=0.25,
            rate=0.001,
            topology_rate_factor=1.0,
            clipping=math.inf,
            decay="stairs",
            refit=0.0,
        ),
        evaluation=EvaluationConfig(anneal=0, chains=0),
    ),
    "standard": InferConfig(),
    "quick": InferConfig(training=TrainingConfig(steps=4_000)),
}
# The other fields describe the question, which no preset answers.
PRESET_FIELDS: Final = ("family", "runs", "support", "training", "evaluation")


# What runs had before there was a choice of families, a fit to weighted draws, annealing, a check by chains, closed
# supports, and chains that explore.
_EARLIER: Final = {
    "family": "lognormal",
    "training.refit": 0.0,
    "evaluation.anneal": 0,
    "evaluation.chains": 0,
    "support.closure": "none",
    "support.explore": 0,
}
INFER: Final = Schema(
    InferConfig, "infer", PRESETS, PRESET_FIELDS, _EARLIER, heads=("model.name",), first_fields=("model",)
)


def preset(name: str, **changes: Any) -> TrainingConfig:
    """The training settings of a preset, with changes; None keeps the preset's value."""
    training = INFER.resolve(preset=name).training
    return replace(training, **{key: value for key, value in changes.items() if value is not None})


# The functions of this schema that scripts use.
resolve = INFER.resolve
to_toml = INFER.to_toml
from_toml = INFER.from_toml


def read_config(text: str, source: str) -> InferConfig:
    """The settings in a TOML text, such as `to_toml` writes. source: the file's name, for messages."""
    return INFER.read(text, source)
