"""The flags of settings: how a command declares them, from a table, and gets a configuration from what users type."""

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Final, Generic

import typer

from phloem.cli.options import CLOSURE_HELP, CREDIBLE_HELP, parse_numbers
from phloem.config.infer import BRANCH_MODELS, ESTIMATORS, FAMILIES, INFER, STOPS, USUAL_MODEL, InferConfig
from phloem.config.model import EMPIRICAL, INFERRED, MODEL_PARAMETERS, ModelConfig
from phloem.config.partition import ALL, LINKABLE
from phloem.config.search import BOOTSTRAP_METHODS
from phloem.config.settings import C, Layer, Schema, members, parse_value
from phloem.errors import ConfigError, quoted

PANEL: Final = "Settings"  # for settings outside any section
Command = Callable[..., None]


@dataclass(frozen=True, slots=True)
class Flag:
    """An option for one setting. default: in words, where the value alone says too little."""

    name: str
    key: str
    help: str
    default: str | None = None
    metavar: str | None = None

    @property
    def parameter(self) -> str:
        """Its name as a parameter of a function."""
        return self.name.removeprefix("--").replace("-", "_")


class Flags(Generic[C]):
    """A command's flags. Their types and defaults come from the schema."""

    def __init__(self, schema: Schema[C], flags: Sequence[Flag]) -> None:
        self.schema = schema
        self.flags = tuple(flags)
        self._defaults = schema.values(schema.record())

    def options(self) -> list[inspect.Parameter]:
        """The parameters from which typer makes the options; those not given are None."""
        return [self._option(flag) for flag in self.flags]

    def values(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The settings that were given, by dotted key. given: the options by parameter name."""
        values = {flag.key: self._value(flag, given[flag.parameter]) for flag in self.flags}
        return {key: value for key, value in values.items() if value is not None}

    def _option(self, flag: Flag) -> inspect.Parameter:
        section, _, _ = flag.key.rpartition(".")
        kind = self._kind(flag)
        option = typer.Option(
            f"{flag.name}/--no-{flag.name.removeprefix('--')}" if kind is bool else flag.name,
            help=flag.help,
            metavar=flag.metavar,
            show_default=flag.default or self._default(flag.key),
            rich_help_panel=section.capitalize() or PANEL,
        )
        return _parameter(flag.parameter, Annotated[kind | None, option])

    def _kind(self, flag: Flag) -> type:
        """What the command line reads: a number, a text, or yes or no. Several numbers are a text with commas."""
        known = members(self.schema.kinds[flag.key])
        return next((kind for kind in (bool, int, float, str) if kind in known), str)

    def _default(self, key: str) -> str:
        value = self._defaults[key]
        if value is None:
            return "none"
        return f"{value}, or the preset's" if key.partition(".")[0] in self.schema.preset_fields else str(value)

    def _value(self, flag: Flag, given: Any) -> Any:
        is_plain = self._kind(flag) is not str or str in members(self.schema.kinds[flag.key])
        if given is None or is_plain or given in (EMPIRICAL, INFERRED):
            return given
        return parse_numbers(flag.name, given)


@dataclass(frozen=True, slots=True)
class Settings(Generic[C]):
    """The settings given on the command line, in `file` and by `flags`: by dotted key, those of `--set` among them."""

    schema: Schema[C]
    preset: str | None = None
    file: Layer = field(default_factory=dict)
    flags: dict[str, Any] = field(default_factory=dict)

    def resolve(self, base: C | None = None) -> C:
        """The configuration: the defaults or `base`, then the preset, then the file, then `--set`, then the flags."""
        return self.schema.resolve(base=base, preset=self.preset, settings=self.layers())

    def layers(self) -> list[Layer]:
        """The settings in the file, then those by flags."""
        return [self.file, self.flags]


def with_settings(flags: Flags[C], example: str) -> Callable[[Command], Command]:
    """A decorator: a preset, a file, `--set` and the flags become the command's parameter `settings: Settings`.

    example: of what `--set` takes.
    """

    def collect(given: Mapping[str, Any]) -> Settings[C]:
        schema = flags.schema
        file = {} if given["file"] is None else schema.read_toml(given["file"])
        assigned: dict[str, Any] = {}
        for text in given["assignments"] or ():
            assigned |= _parse_assignment(schema, text, example)
        return Settings(schema, given["preset"], file, assigned | flags.values(given))

    return _with_options("settings", [*_sources(flags.schema, example), *flags.options()], collect)


def with_config(flags: Flags[C], name: str = "config", base: C | None = None) -> Callable[[Command], Command]:
    """A decorator: the flags become the command's parameter `name`, a record of the schema.

    The name of a section stands for the section's record alone. base: what holds without any flags.
    """

    def collect(given: Mapping[str, Any]) -> Any:
        config = flags.schema.resolve(base=base, settings=[flags.values(given)])
        return getattr(config, name) if name in flags.schema.sections else config

    return _with_options(name, flags.options(), collect)


def _sources(schema: Schema[C], example: str) -> list[inspect.Parameter]:
    """The options for settings that come from elsewhere than their own flags."""
    presets = typer.Option(
        "--preset",
        metavar="NAME",
        help=f"Where to start from: {', '.join(schema.presets)}.",
        show_default="the file's, or standard",
        rich_help_panel=PANEL,
    )
    file = typer.Option(
        "--config", metavar="FILE", help="A TOML file with settings.", show_default="none", rich_help_panel=PANEL
    )
    assignments = typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help=f"Any setting, such as {example}; may be repeated.",
        show_default="none",
        rich_help_panel=PANEL,
    )
    return [
        _parameter("preset", Annotated[str | None, presets]),
        _parameter("file", Annotated[Path | None, file]),
        _parameter("assignments", Annotated[list[str] | None, assignments]),
    ]


def _parse_assignment(schema: Schema[C], text: str, example: str) -> dict[str, Any]:
    """`KEY=VALUE` → the setting by its dotted key."""
    key, equals, value = text.partition("=")
    if not equals:
        raise ConfigError(f"--set {quoted(text)}: give KEY=VALUE, such as {example}.")
    return schema.flatten({key.strip(): parse_value(value)}, "--set")


def _parameter(name: str, annotation: Any) -> inspect.Parameter:
    """A keyword-only parameter, so that parameters may come in any order."""
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=None)


def _with_options(
    name: str, options: Sequence[inspect.Parameter], collect: Callable[[Mapping[str, Any]], Any]
) -> Callable[[Command], Command]:
    """A decorator: the options replace the command's parameter `name`, which gets what `collect` makes of them."""

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


# The flags of `phloem infer`, which `phloem config show` has too; `phloem likelihood` has those of the model.
MODEL_FLAGS: Final = Flags(
    INFER,
    [
        Flag(
            "--model",
            "model.name",
            f"Substitution model: {', '.join(MODEL_PARAMETERS)}, with +F or +FO, +I, +G as in GTR+I+G4.",
            f"{USUAL_MODEL}; JC with the preset paper",
            "MODEL",
        ),
        Flag("--kappa", "model.kappa", "Transition rate over transversion rate; two for TN93: A↔G,C↔T.", INFERRED),
        Flag("--frequencies", "model.frequencies", "Of A,C,G,T, or `empirical`, or `inferred`.", INFERRED),
        Flag("--rates", "model.rates", "Exchangeabilities AC,AG,AT,CG,CT,GT.", INFERRED),
        Flag("--gamma", "model.gamma", "Number of gamma rate categories.", "as the model says"),
        Flag("--alpha", "model.alpha", "Shape of the gamma distribution of rates.", INFERRED),
        Flag("--median-rates", "model.median_rates", "Use the medians of the categories, not their means.", "means"),
        Flag("--invariant", "model.invariant", "Proportion of invariant sites.", "inferred with +I, else none"),
    ],
)
PRIOR_FLAGS: Final = (
    Flag(
        "--branch-prior",
        "branch_prior",
        "Prior on branch lengths: exponential, gamma-dirichlet (MrBayes' default), uniform.",
        metavar="NAME[:NUMBERS]",
    ),
    Flag("--prior-rate", "prior_rate", "Rate of the exponential prior on branch lengths."),
)
EVIDENCE_FLAGS: Final = Flags(INFER, [*PRIOR_FLAGS, *MODEL_FLAGS.flags])
INFER_FLAGS: Final = Flags(
    INFER,
    [
        Flag("--branches", "branches", f"Branch-length model: {', '.join(BRANCH_MODELS)}.", metavar="NAME"),
        Flag("--family", "family", f"Family of branch-length distributions: {', '.join(FAMILIES)}.", metavar="NAME"),
        Flag("--depth", "depth", "Layers of the graph network."),
        Flag("--width", "width", "Channels of the graph network."),
        *PRIOR_FLAGS,
        Flag(
            "--constrain",
            "constrain",
            "Clades that every tree must have: one on a line, or a tree that has them all.",
            metavar="FILE",
        ),
        Flag("--outgroup", "outgroup", "Root the trees at these taxa, for display.", metavar="NAME,…"),
        Flag("--seed", "seed", "The same seed gives the same posterior."),
        Flag("--runs", "runs", "Independent runs."),
        *MODEL_FLAGS.flags,
        Flag(
            "--partition",
            "partition.sites",
            "Parts of the alignment with models of their own: NEXUS sets, a file of RAxML or IQ-TREE, or `by-codon`.",
            "one part",
            "FILE|by-codon",
        ),
        Flag(
            "--link",
            "partition.link",
            f"Inferred parameters that parts share: some of {', '.join(LINKABLE)}, or `{ALL}`.",
            "none",
            "NAMES",
        ),
        Flag("--part-rates", "partition.rates", "How fast parts evolve: inferred, or equal.", metavar="NAME"),
        Flag("--credible", "support.credible", CREDIBLE_HELP),
        Flag(
            "--closure",
            "support.closure",
            f"{CLOSURE_HELP} auto: clades if chains find the posterior wide, else none.",
            metavar="NAME",
        ),
        Flag(
            "--bootstrap-method",
            "support.method",
            f"How to make bootstrap trees: {', '.join(BOOTSTRAP_METHODS)}.",
            "auto: IQ-TREE if installed, else embedded",
            "NAME",
        ),
        Flag("--bootstrap-replicates", "support.replicates", "Independent bootstrap replicates."),
        Flag("--bootstrap-trees", "support.count", "Bootstrap trees per replicate; IQ-TREE makes at least 1000."),
        Flag(
            "--bootstrap-model",
            "support.model",
            "Model for the bootstrap, by IQ-TREE's name: JC, HKY, GTR+G4, …",
            "the counterpart of --model",
            "MODEL",
        ),
        Flag("--steps", "training.steps", "Training steps; the preset's schedule stretches with them."),
        Flag("--particles", "training.particles", "Trees drawn in every step."),
        Flag(
            "--estimator",
            "training.estimator",
            f"Gradient estimator for topologies: {', '.join(ESTIMATORS)}.",
            metavar="NAME",
        ),
        Flag(
            "--stop",
            "training.stop",
            f"When to stop training: {', '.join(STOPS)} (auto: once the bound is flat).",
            metavar="WHEN",
        ),
        Flag("--samples", "evaluation.samples", "Trees for each estimate of the marginal likelihood."),
        Flag("--repeats", "evaluation.repeats", "Estimates, for their mean and standard deviation."),
    ],
)
with_infer_settings: Final = with_settings(INFER_FLAGS, "training.ramp=0.5")
# `phloem compare` has them too, but for those of one model.
COMPARE_FLAGS: Final = Flags(
    INFER,
    [
        replace(flag, default="the model with the most parameters") if flag.key == "support.model" else flag
        for flag in INFER_FLAGS.flags
        if flag not in MODEL_FLAGS.flags
    ],
)
with_compare_settings: Final = with_settings(COMPARE_FLAGS, "training.ramp=0.5")
FIXED_MODEL: Final = InferConfig(model=ModelConfig("JC"))  # of commands that infer no parameters
with_model: Final = with_config(MODEL_FLAGS, "model", FIXED_MODEL)
with_target: Final = with_config(EVIDENCE_FLAGS, "target", FIXED_MODEL)
