"""The settings of a density as TOML."""

import tomllib
from typing import Any, Final, get_type_hints

import tomli_w

from phloem.config.density import DensityConfig
from phloem.config.toml import heading
from phloem.errors import ConfigError, quoted

COMMAND: Final = "density fit"
_KINDS: Final[dict[str, Any]] = get_type_hints(DensityConfig)


def density_to_toml(config: DensityConfig) -> str:
    """Every setting."""
    return heading(COMMAND) + tomli_w.dumps({name: getattr(config, name) for name in _KINDS})


def read_density_config(text: str, source: str) -> DensityConfig:
    """The settings in a TOML text, such as `density_to_toml` writes. `source`: the file's name, for messages."""
    try:
        found = tomllib.loads(text)
    except (ValueError, RecursionError) as problem:
        raise ConfigError(f"{source}: is not TOML ({problem}).") from None
    for name, value in found.items():
        kind = _KINDS.get(name)
        if kind is None:
            raise ConfigError(f"{source}: unknown setting {quoted(name)}. Known are {', '.join(_KINDS)}.")
        if kind is float and type(value) is int:
            found[name] = float(value)
        elif type(value) is not kind:
            raise ConfigError(f"{source}: {name} is {quoted(str(value))}, which is no {kind.__name__}.")
    try:
        return DensityConfig(**found)
    except ConfigError as problem:
        raise ConfigError(f"{source}: {problem}") from None


def density_differences(one: DensityConfig, two: DensityConfig) -> list[str]:
    """A line for every setting that is not the same, such as `steps is 8000, not 9000`."""
    pairs = ((name, getattr(one, name), getattr(two, name)) for name in _KINDS)
    return [f"{name} is {mine}, not {other}" for name, mine, other in pairs if mine != other]
