"""The configuration on the command line: a preset, a file, `--set`, and flags for what is set most often."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from phloem.cli.flags import FLAGS, MODEL_FLAGS, SETTINGS, parameter, values_by_key, with_options
from phloem.config import PRESETS, InferConfig, ModelConfig, read_toml, resolve
from phloem.config.keys import flatten
from phloem.config.toml import parse_value
from phloem.errors import ConfigError, quoted

SOURCES: Final = (
    parameter(
        "preset",
        Annotated[
            str | None,
            typer.Option(
                "--preset",
                metavar="NAME",
                help=f"Where to start from: {', '.join(PRESETS)}.",
                show_default="the file's, or standard",
                rich_help_panel=SETTINGS,
            ),
        ],
    ),
    parameter(
        "file",
        Annotated[
            Path | None,
            typer.Option(
                "--config",
                metavar="FILE",
                help="Settings in a TOML file.",
                show_default="none",
                rich_help_panel=SETTINGS,
            ),
        ],
    ),
    parameter(
        "assignments",
        Annotated[
            list[str] | None,
            typer.Option(
                "--set",
                metavar="KEY=VALUE",
                help="Any setting, such as training.ramp=0.5; may be repeated.",
                show_default="none",
                rich_help_panel=SETTINGS,
            ),
        ],
    ),
)


@dataclass(frozen=True, slots=True)
class Settings:
    """What the command line says of the configuration. flags: by dotted key, those of `--set` among them."""

    preset: str | None = None
    file: Path | None = None
    flags: dict[str, Any] = field(default_factory=dict)

    def resolve(self, base: InferConfig | None = None) -> InferConfig:
        """The configuration: the defaults or `base`, then the preset, then the file, then `--set`, then the flags."""
        layers = [] if self.file is None else [read_toml(self.file)]
        return resolve(base=base, preset=self.preset, settings=[*layers, self.flags])


def parse_assignment(text: str) -> dict[str, Any]:
    """`KEY=VALUE` → the setting by its dotted key."""
    key, equals, value = text.partition("=")
    if not equals:
        raise ConfigError(f"--set {quoted(text)}: give KEY=VALUE, such as training.ramp=0.5.")
    return flatten({key.strip(): parse_value(value)}, "--set")


def _settings(given: Mapping[str, Any]) -> Settings:
    flags: dict[str, Any] = {}
    for text in given["assignments"] or ():
        flags |= parse_assignment(text)
    return Settings(given["preset"], given["file"], flags | values_by_key(FLAGS, given))


def _model(given: Mapping[str, Any]) -> ModelConfig:
    return ModelConfig(
        **{key.removeprefix("model."): value for key, value in values_by_key(MODEL_FLAGS, given).items()}
    )


# Decorators: the command's parameter `settings: Settings`, or `model: ModelConfig`, becomes the options for it.
with_settings = with_options("settings", [*SOURCES, *(flag.option() for flag in FLAGS)], _settings)
with_model = with_options("model", [flag.option() for flag in MODEL_FLAGS], _model)
