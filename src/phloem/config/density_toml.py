"""The settings of a density as TOML."""

import tomllib
from dataclasses import asdict
from typing import Final

import tomli_w

from phloem.config.density import DensityConfig, changed
from phloem.config.toml import heading
from phloem.errors import ConfigError

COMMAND: Final = "density fit"


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
