"""The settings of `phloem density fit`, its presets, and what the paper's experiment is made of."""

import math
from dataclasses import dataclass
from typing import Final

from phloem.config.infer import DECAYS, MOST_CHANNELS, MOST_DRAWS, MOST_LAYERS, NETWORKS
from phloem.config.settings import Schema, check_choice, check_clipping, check_count, check_positive, check_seed
from phloem.errors import ConfigError

# What `features` and `energy` can do; a test keeps the lists the same.
NOISES: Final = ("sbn", "uniform", "listed")
BASES: Final = ("noise", "uniform")

MOST_TREES: Final = 100_000  # per step

# The paper's experiment: the convolutions it compares, and the target it draws.
VARIANTS: Final = ("mlp", "gcn", "gin", "sage", "ggnn", "edge")
PAPER_TAXA: Final = 8
PAPER_CONCENTRATION: Final = 0.008


@dataclass(frozen=True, slots=True)
class DensityConfig:
    """Everything that determines a density, given its trees. The defaults are the preset `standard`.

    convolution, depth, width: of the graph network. noise: what the trees are contrasted with: trees of a subsplit
    network fitted to them (`sbn`), all topologies with equal probability (`uniform`), or the given ones with equal
    probability (`listed`). uniform_share: the share of uniform noise in that of a subsplit network. base: what the
    energy is relative to, the noise or, as in the paper, `uniform`; with the other kinds of noise these are the same.
    batch: trees of the data per step, with `noise_ratio` times as many of the noise. rate: the initial learning rate;
    `cosine` takes it down to 0, `stairs` multiplies it by `stair_factor` at the end of each of `stairs` equal parts.
    clipping: gradients above this multiple of their usual norm are scaled down to it. reports: how many during
    training, each with a normaliser from `report_samples` trees of the noise where there are too many topologies to
    sum over. samples: the same for the final normaliser.
    """

    convolution: str = "ggnn"
    depth: int = 2
    width: int = 100
    noise: str = "sbn"
    uniform_share: float = 0.05
    base: str = "noise"
    noise_ratio: int = 1
    batch: int = 20
    steps: int = 20_000
    rate: float = 0.001
    clipping: float = 3.0
    decay: str = "cosine"
    stairs: int = 20
    stair_factor: float = 0.75
    reports: int = 100
    report_samples: int = 1000
    samples: int = 20_000
    seed: int = 1

    def __post_init__(self) -> None:
        check_choice("--convolution", self.convolution, NETWORKS)
        check_choice("--noise", self.noise, NOISES)
        check_choice("--base", self.base, BASES)
        check_choice("decay", self.decay, DECAYS)
        check_count("--depth", self.depth, least=0, most=MOST_LAYERS)
        check_count("--width", self.width, most=MOST_CHANNELS)
        check_count("--noise-ratio", self.noise_ratio, most=MOST_TREES)
        check_count("--batch", self.batch, most=MOST_TREES)
        if self.batch * self.noise_ratio > MOST_TREES:
            raise ConfigError(
                f"--batch {self.batch} and --noise-ratio {self.noise_ratio}: at most {MOST_TREES:,} trees of noise per "
                "step. Lower one of them."
            )
        for name, count in (("--steps", self.steps), ("stairs", self.stairs), ("reports", self.reports)):
            check_count(name, count)
        check_count("report_samples", self.report_samples, least=10, most=MOST_DRAWS)
        check_count("--samples", self.samples, least=10, most=MOST_DRAWS)
        check_seed("--seed", self.seed)
        check_positive("--rate", self.rate)
        check_clipping("clipping", self.clipping)
        check_positive("stair_factor", self.stair_factor)
        if not 0 < self.uniform_share < 1:
            raise ConfigError(f"--uniform-share {self.uniform_share:g}: give a number between 0 and 1.")


# The published schedule, the one we recommend, and a quick first result (docs/density.md says how they were chosen).
PRESETS: Final[dict[str, DensityConfig]] = {
    "paper": DensityConfig(noise_ratio=1, batch=20, steps=200_000, rate=0.001, clipping=math.inf, decay="stairs"),
    "standard": DensityConfig(),
    "quick": DensityConfig(steps=2_000),
}
# A preset is a schedule. The other fields describe the density and its evaluation.
PRESET_FIELDS: Final = ("noise_ratio", "batch", "steps", "rate", "clipping", "decay", "stairs", "stair_factor")

DENSITY: Final = Schema(DensityConfig, "density fit", PRESETS, PRESET_FIELDS)
