"""Defaults, a preset, a file and flags → one configuration; and what differs between two."""

from collections.abc import Mapping, Sequence
from typing import Any

from phloem.config.infer import InferConfig, with_preset
from phloem.config.keys import PRESET, config_of, flatten, values_of
from phloem.config.toml import from_toml
from phloem.errors import ConfigError

Layer = Mapping[str, Any]


def resolve(
    *, base: InferConfig | None = None, preset: str | None = None, settings: Sequence[Layer] = ()
) -> InferConfig:
    """The defaults or `base`, with what a preset is about taken from it, then with the settings, layer upon layer.

    settings: nested dicts or dotted keys; None stands for what is not given. A layer may name a preset itself: the
    last one that does counts, and `preset` over all of them. A message about what a file has set begins with its name.
    """
    sources = [getattr(layer, "source", "") for layer in settings]
    layers = [flatten(layer, source) for layer, source in zip(settings, sources, strict=True)]
    start = base or InferConfig()
    for layer, source in reversed([*zip(layers, sources, strict=True), ({PRESET: preset}, "")]):
        if layer.get(PRESET) is not None:
            start = _with_preset(start, layer[PRESET], source)
            break
    problems = [_problem(start, layers[:count]) for count in range(len(layers) + 1)]
    if problems[-1] is not None:
        # The first layer with which it is there has caused it. What a file lacks, flags may still have given.
        raise ConfigError(_located(problems[-1], sources[problems.index(problems[-1]) - 1]))
    return _build(start, layers)


def read_config(text: str, source: str) -> InferConfig:
    """The configuration in a TOML text, such as `to_toml` writes. `source`: the file's name, for messages."""
    return resolve(settings=[from_toml(text, source)])


def differences(one: InferConfig, two: InferConfig) -> list[str]:
    """A line for every setting that is not the same, such as `training.steps is 8000, not 9000`."""
    others = values_of(two)
    return [
        f"{key} is {_shown(value)}, not {_shown(others[key])}"
        for key, value in values_of(one).items()
        if value != others[key]
    ]


def _build(start: InferConfig, layers: Sequence[Layer]) -> InferConfig:
    values = values_of(start)
    for layer in layers:
        values |= {key: value for key, value in layer.items() if key != PRESET}
    return config_of(values)


def _problem(start: InferConfig, layers: Sequence[Layer]) -> str | None:
    try:
        _build(start, layers)
    except ConfigError as problem:
        return str(problem)
    return None


def _with_preset(config: InferConfig, name: str, source: str) -> InferConfig:
    try:
        return with_preset(config, name)
    except ConfigError as problem:
        raise ConfigError(_located(str(problem), source)) from None


def _located(problem: str, source: str) -> str:
    return f"{source}: {problem}" if source else problem


def _shown(value: object) -> str:
    if value is None:
        return "unset"
    if isinstance(value, bool):
        return str(value).lower()
    return f"[{', '.join(map(str, value))}]" if isinstance(value, tuple) else str(value)
