"""All settings of `phloem density fit`, and its presets."""

import math
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, get_type_hints

import tomli_w

from phloem.config.checks import check_choice, check_count, check_positive
from phloem.config.infer import DECAYS, MOST_CHANNELS, MOST_DRAWS, MOST_LAYERS
from phloem.config.settings import heading
from phloem.errors import ConfigError, quoted

# Names of what `features` and `energy` have; a test holds the lists together.
CONVOLUTIONS: Final = ("mlp", "gcn", "gin", "gin-text", "sage", "ggnn", "edge", "edge-text")
NOISES: Final = ("sbn", "uniform", "listed")
BASES: Final = ("noise", "uniform")
MOST_TREES: Final = 100_000  # a step
COMMAND: Final = "density fit"


@dataclass(frozen=True, slots=True)
class DensityConfig:
    """All that decides a density, given its trees. The defaults are the preset `standard`.

    convolution, depth, width: of the graph network. noise: what the trees are told apart from: those of a subsplit
    network that is fitted to them (`sbn`), all topologies alike (`uniform`), or the given ones alike (`listed`).
    uniform_share: how much of a subsplit network's noise is uniform. base: what the energy is relative to, the noise or
    `uniform`, as in the paper; with the other kinds of noise these are the same. batch: trees of the data a step, and
    `noise_ratio` times as many of the noise. rate: the first learning rate; `cosine` takes it down to 0, `stairs`
    multiplies it by `stair_factor` at the end of each of `stairs` equal parts. clipping: a gradient of more than so
    many times its usual norm is scaled down to that. reports: how often training is reported on, each time with a
    normaliser by `report_samples` trees of the noise where topologies are too many to sum. samples: the same for the
    last normaliser.
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
        check_choice("--convolution", self.convolution, CONVOLUTIONS)
        check_choice("--noise", self.noise, NOISES)
        check_choice("--base", self.base, BASES)
        check_choice("decay", self.decay, DECAYS)
        check_count("--depth", self.depth, least=0, most=MOST_LAYERS)
        check_count("--width", self.width, most=MOST_CHANNELS)
        check_count("--noise-ratio", self.noise_ratio, most=MOST_TREES)
        check_count("--batch", self.batch, most=MOST_TREES)
        if self.batch * self.noise_ratio > MOST_TREES:
            raise ConfigError(
                f"--batch {self.batch} and --noise-ratio {self.noise_ratio}: at most {MOST_TREES:,} trees of noise a "
                "step. Give less of one."
            )
        for name, count in (("--steps", self.steps), ("stairs", self.stairs), ("reports", self.reports)):
            check_count(name, count)
        check_count("report_samples", self.report_samples, least=10, most=MOST_DRAWS)
        check_count("--samples", self.samples, least=10, most=MOST_DRAWS)
        check_count("--seed", self.seed, least=0, most=2**63 - 1)
        check_positive("--rate", self.rate)
        if not self.clipping > 0:
            raise ConfigError(f"clipping {self.clipping:g}: give a number above 0, or inf for none.")
        check_positive("stair_factor", self.stair_factor)
        if not 0 < self.uniform_share < 1:
            raise ConfigError(f"--uniform-share {self.uniform_share:g}: give a number between 0 and 1.")


# The published schedule, what we advise, and a first look (docs/density.md has what they were chosen by).
DENSITY_PRESETS: Final[dict[str, dict[str, Any]]] = {
    "paper": {
        "batch": 20,
        "noise_ratio": 1,
        "steps": 200_000,
        "rate": 0.001,
        "clipping": math.inf,
        "decay": "stairs",
    },
    "standard": {},
    "quick": {"steps": 2_000},
}


def density_preset(name: str, **changes: Any) -> DensityConfig:
    """The settings of a preset, with some changed; those that are None are the preset's own."""
    check_choice("--preset", name, tuple(DENSITY_PRESETS))
    settings = DENSITY_PRESETS[name] | {key: value for key, value in changes.items() if value is not None}
    return changed(DensityConfig(), settings, "density")


def changed(config: DensityConfig, settings: Mapping[str, Any], source: str) -> DensityConfig:
    """The settings with some others, each of its kind. source: where these come from, for messages."""
    kinds: dict[str, Any] = get_type_hints(DensityConfig)
    wanted = dict(settings)
    for name, value in settings.items():
        kind = kinds.get(name)
        if kind is None:
            raise ConfigError(f"{source}: unknown setting {quoted(name)}. Known are {', '.join(kinds)}.")
        if kind is float and type(value) is int:
            wanted[name] = float(value)
        elif type(value) is not kind:
            raise ConfigError(f"{source}: {name} is {quoted(str(value))}, which is no {kind.__name__}.")
    return replace(config, **wanted)


def density_to_toml(config: DensityConfig) -> str:
    """Every setting."""
    return heading(COMMAND) + tomli_w.dumps(asdict(config))


def read_density_config(text: str, source: str) -> DensityConfig:
    """The settings in a TOML text, such as `density_to_toml` writes. `source`: the file's name, for messages."""
    try:
        found = tomllib.loads(text)
    except (ValueError, RecursionError) as problem:
        raise ConfigError(f"{source}: is not TOML ({problem}).") from None
    try:
        return changed(DensityConfig(), found, source)
    except ConfigError as problem:
        text = str(problem)
        raise ConfigError(text if text.startswith(source) else f"{source}: {text}") from None


def density_differences(one: DensityConfig, two: DensityConfig) -> list[str]:
    """A line for every setting that is not the same, such as `steps is 8000, not 9000`."""
    others = asdict(two)
    return [f"{name} is {mine}, not {others[name]}" for name, mine in asdict(one).items() if mine != others[name]]


def _resolve(*, base=None, preset=None, settings=()):
    given = {}
    for layer in settings:
        given |= {k: v for k, v in layer.items() if v is not None}
    if base is None or preset is not None:
        return density_preset(preset or "standard", **given)
    return changed(base, given, "density")


from phloem.config.settings import Schema  # noqa

DENSITY = Schema("density fit", _resolve, density_to_toml, read_density_config, density_differences)
