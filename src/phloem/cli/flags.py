"""The flags that set a configuration: one table, a preset, a file, `--set`, and how a command takes options from it."""

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from phloem.cli.options import CREDIBLE_HELP, parse_numbers
from phloem.config import InferConfig, ModelConfig, resolve
from phloem.config.infer import BRANCH_MODELS, ESTIMATORS, PRESET_FIELDS, PRESETS, STOPS
from phloem.config.model import EMPIRICAL, MODEL_PARAMETERS
from phloem.config.search import BOOTSTRAP_METHODS
from phloem.config.settings import KINDS, flatten, members, parse_value, read_toml, values_of
from phloem.errors import ConfigError, quoted

STANDARD: Final = values_of(InferConfig())
SETTINGS: Final = "Settings"  # the panel of those that belong to no section
Command = Callable[..., None]


@dataclass(frozen=True, slots=True)
class Flag:
    """An option that sets one setting. `default`: in words, where its value alone says too little."""

    name: str
    key: str
    help: str
    default: str | None = None
    metavar: str | None = None

    @property
    def parameter(self) -> str:
        """Its name as a parameter of a function."""
        return self.name.removeprefix("--").replace("-", "_")

    @property
    def kind(self) -> type:
        """What the command line reads: a number, a text, or yes or no. Several numbers are a text with commas."""
        return next((kind for kind in (bool, int, float, str) if kind in members(KINDS[self.key])), str)

    def option(self) -> inspect.Parameter:
        """The parameter from which typer makes the option. What is not given is None."""
        section, _, _ = self.key.rpartition(".")
        declaration = f"{self.name}/--no-{self.name.removeprefix('--')}" if self.kind is bool else self.name
        option = typer.Option(
            declaration,
            help=self.help,
            metavar=self.metavar,
            show_default=self.default or self._standard(),
            rich_help_panel=section.capitalize() or SETTINGS,
        )
        return parameter(self.parameter, Annotated[self.kind | None, option])

    def _standard(self) -> str:
        """The default of the preset `standard`, in words."""
        value = STANDARD[self.key]
        if value is None:
            return "none"
        return f"{value}, or the preset's" if self.key.partition(".")[0] in PRESET_FIELDS else str(value)

    def value(self, given: Any) -> Any:
        """What was given, as the setting wants it."""
        if given is None or self.kind is not str or str in members(KINDS[self.key]) or given == EMPIRICAL:
            return given
        return parse_numbers(self.name, given)


MODEL_FLAGS: Final = (
    Flag("--model", "model.name", f"Substitution model: {', '.join(MODEL_PARAMETERS)}.", metavar="MODEL"),
    Flag("--kappa", "model.kappa", "Transition rate over transversion rate; for TN93 two: A↔G,C↔T."),
    Flag("--frequencies", "model.frequencies", "Of A,C,G,T, or `empirical`.", "empirical, where a model has any"),
    Flag("--rates", "model.rates", "Exchangeabilities AC,AG,AT,CG,CT,GT."),
    Flag("--gamma", "model.gamma", "Number of gamma rate categories."),
    Flag("--alpha", "model.alpha", "Shape of the gamma distribution of rates."),
    Flag("--median-rates", "model.median_rates", "Categories' medians instead of their means.", "means"),
    Flag("--invariant", "model.invariant", "Proportion of invariant sites."),
)
FLAGS: Final = (
    Flag("--branches", "branches", f"How branch lengths are modelled: {', '.join(BRANCH_MODELS)}.", metavar="NAME"),
    Flag("--depth", "depth", "Layers of the graph network."),
    Flag("--width", "width", "Channels of the graph network."),
    Flag("--prior-rate", "prior_rate", "Rate of the exponential prior on branch lengths."),
    Flag("--seed", "seed", "The same seed gives the same posterior."),
    Flag("--runs", "runs", "Independent trainings."),
    *MODEL_FLAGS,
    Flag("--credible", "support.credible", CREDIBLE_HELP),
    Flag(
        "--bootstrap-method",
        "support.method",
        f"Who makes bootstrap trees: {', '.join(BOOTSTRAP_METHODS)}.",
        "auto: IQ-TREE where it is found, else embedded",
        "NAME",
    ),
    Flag("--bootstrap-replicates", "support.replicates", "Independent searches."),
    Flag("--bootstrap-trees", "support.count", "Bootstrap trees of each search; IQ-TREE makes 1000 or more."),
    Flag("--bootstrap-model", "support.model", "Their model, in IQ-TREE's words.", "what goes with --model", "MODEL"),
    Flag("--steps", "training.steps", "Training steps; the preset's schedule stretches with them."),
    Flag("--particles", "training.particles", "Trees drawn in every step."),
    Flag(
        "--estimator",
        "training.estimator",
        f"Gradient estimator for topologies: {', '.join(ESTIMATORS)}.",
        metavar="NAME",
    ),
    Flag(
        "--stop", "training.stop", f"When training ends: {', '.join(STOPS)} (when the bound is flat).", metavar="WHEN"
    ),
    Flag("--samples", "evaluation.samples", "Trees for each estimate of the marginal likelihood."),
    Flag("--repeats", "evaluation.repeats", "Estimates, for their mean and standard deviation."),
)


def parameter(name: str, annotation: Any, default: Any = None) -> inspect.Parameter:
    """A parameter by name only, so that any order will do."""
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


def values_by_key(flags: Sequence[Flag], given: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that were given, by dotted key."""
    values = {flag.key: flag.value(given[flag.parameter]) for flag in flags}
    return {key: value for key, value in values.items() if value is not None}


def with_options(
    name: str, options: Sequence[inspect.Parameter], collect: Callable[[Mapping[str, Any]], Any]
) -> Callable[[Command], Command]:
    """A decorator for commands: options take the place of the parameter `name`, which gets what they `collect` to."""

    def decorate(command: Command) -> Command:
        declared = inspect.signature(command, eval_str=True).parameters
        parameters: list[inspect.Parameter] = []
        for own in declared.values():
            parameters += options if own.name == name else [own.replace(kind=inspect.Parameter.KEYWORD_ONLY)]

        @functools.wraps(command)
        def wrapper(**given: Any) -> None:
            collected = {option.name: given.pop(option.name, None) for option in options}
            command(**given, **{name: collect(collected)})

        wrapper.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        wrapper.__annotations__ = {own.name: own.annotation for own in parameters}
        return wrapper

    return decorate


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
