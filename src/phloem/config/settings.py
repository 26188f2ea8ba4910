"""Settings in general: dotted keys, TOML, and defaults, presets, files and flags resolved to one record."""

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import is_dataclass
from difflib import get_close_matches
from pathlib import Path
from types import UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

import tomli_w

from phloem.config.infer import InferConfig, with_preset
from phloem.errors import ConfigError, FileProblem, quoted

PRESET: Final = "preset"
_HEADING: Final = re.compile(r"# All settings of `phloem ([a-z ]+)`;")
_PLACE: Final = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")
_ARRAY: Final = re.compile(r"\[\n([^\]]*),\n\]")
Layer = Mapping[str, Any]


def _kinds(record: type, prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, kind in get_type_hints(record).items():
        if isinstance(kind, type) and is_dataclass(kind):
            yield from _kinds(kind, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", kind


# The type of each setting, in the order of the records.
KINDS: Final[dict[str, Any]] = dict(_kinds(InferConfig))
SECTIONS: Final[dict[str, Any]] = {
    name: kind for name, kind in get_type_hints(InferConfig).items() if is_dataclass(kind)
}
_EXPECTED: Final = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}


def values_of(config: InferConfig) -> dict[str, Any]:
    """The value of every setting by its dotted key."""
    values = {}
    for key in KINDS:
        section, _, name = key.rpartition(".")
        values[key] = getattr(getattr(config, section) if section else config, name)
    return values


def config_of(values: Mapping[str, Any]) -> InferConfig:
    """The configuration with these values, one for every key."""
    parts = nested(values)
    for section, record in SECTIONS.items():
        parts[section] = record(**parts[section])
    return InferConfig(**parts)


def nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values by dotted key as a dict with a dict for each section."""
    parts: dict[str, Any] = {}
    for key, value in values.items():
        section, _, name = key.rpartition(".")
        (parts.setdefault(section, {}) if section else parts)[name] = value
    return parts


def flatten(settings: Mapping[str, Any], source: str = "") -> dict[str, Any]:
    """Settings in nested dicts or by dotted keys → those that are not None by dotted key, each known and of its type.

    `source`: what a message begins with, such as a file's name. `preset` may be among them.
    """
    found = {}
    where = f"{source}: " if source else ""
    for key, value in _entries(settings, where):
        if key != PRESET and key not in KINDS:
            raise ConfigError(f"{where}unknown setting {quoted(key)}. {_advice(key)}")
        if value is None:
            continue
        kind = str if key == PRESET else KINDS[key]
        try:
            found[key] = _convert(value, kind)
        except (TypeError, OverflowError):
            raise ConfigError(f"{where}{key} is {_describe(value)}: give {_expected(kind)}.") from None
    return found


def members(kind: Any) -> tuple[Any, ...]:
    """The types that a setting may have, None left out."""
    if get_origin(kind) in (Union, UnionType):
        return tuple(member for member in get_args(kind) if member is not type(None))
    return (kind,)


def _entries(settings: Mapping[str, Any], where: str) -> Iterator[tuple[str, Any]]:
    for name, value in settings.items():
        if name not in SECTIONS:
            yield name, value
        elif isinstance(value, Mapping):
            yield from ((f"{name}.{inner}", entry) for inner, entry in value.items())
        elif value is not None:
            raise ConfigError(f"{where}{name} is {_describe(value)}: it is a table, [{name}], of settings.")


def _advice(key: str) -> str:
    """The setting that was meant, or all that could be."""
    section, _, name = key.rpartition(".")
    beside = [known.removeprefix(f"{section}.") for known in KINDS if known.rpartition(".")[0] == section]
    if not section:
        beside = [PRESET, *beside, *SECTIONS]
    elsewhere = [known for known in KINDS if known.endswith(f".{name}")]
    meant = elsewhere or (get_close_matches(name, beside, 1) if beside else get_close_matches(key, KINDS, 1))
    return f"Did you mean {quoted(meant[0])}?" if meant else f"Known are {', '.join(beside or SECTIONS)}."


def _convert(value: Any, kind: Any) -> Any:
    """The value as the records want it: whole numbers where any number does become floats, and lists tuples."""
    for member in members(kind):
        if member is float and type(value) in (int, float):
            return float(value)
        if member in (bool, int, str) and type(value) is member:
            return value
        if get_origin(member) is Literal and value in get_args(member):
            return value
        if get_origin(member) is tuple and not isinstance(value, str):
            numbers = value if isinstance(value, list | tuple) else (value,)
            return tuple(_convert(number, float) for number in numbers)
    raise TypeError


def _expected(kind: Any) -> str:
    words = []
    for member in members(kind):
        if get_origin(member) is Literal:
            words += [f'"{choice}"' for choice in get_args(member)]
        else:
            words.append(_EXPECTED.get(member, "numbers such as [1.0, 2.0]"))
    return " or ".join(words)


def _describe(value: Any) -> str:
    if isinstance(value, str):
        return f"the text {quoted(value)}"
    if isinstance(value, bool):
        return str(value).lower()
    return "a table" if isinstance(value, Mapping) else quoted(str(value)).strip("'\"")


class FileSettings(dict[str, Any]):
    """Settings in nested dicts, and the name of the file that they are from."""

    def __init__(self, settings: Mapping[str, Any], source: str) -> None:
        super().__init__(settings)
        self.source = source


def heading(command: str) -> str:
    """The first line of the settings of a command, which is named without `phloem`."""
    return f"# All settings of `phloem {command}`; what is not set has no line.\n"


HEADING: Final = heading("infer")


def command_of(text: str) -> str | None:
    """The command whose settings a text's first line speaks of, without `phloem`; None for other texts."""
    found = _HEADING.match(text)
    return found[1] if found else None


def to_toml(config: InferConfig) -> str:
    """Every setting that is not None."""
    given = {key: value for key, value in values_of(config).items() if value is not None}
    # One line for an array; texts are never broken, so that no other bracket is at the end of a line.
    return HEADING + _ARRAY.sub(lambda found: f"[{' '.join(found[1].split())}]", tomli_w.dumps(nested(given)))


def from_toml(text: str, source: str) -> FileSettings:
    """The settings in a TOML text, each known and of its type; `preset` may be among them.

    `source`: the file's name, for messages.
    """
    try:
        settings = tomllib.loads(text)
    except ValueError as problem:
        raise ConfigError(_syntax_problem(str(problem), text, source)) from None
    except RecursionError:
        raise ConfigError(f"{source}: brackets are nested too deep.") from None
    return FileSettings(nested(flatten(settings, source)), source)


def read_toml(path: Path) -> FileSettings:
    """The settings in a TOML file."""
    try:
        content = path.read_bytes()
    except (OSError, ValueError) as problem:
        reason = getattr(problem, "strerror", None) or problem
        raise FileProblem(f"{path}: cannot be read ({reason}). Name a TOML file with settings.") from None
    try:
        return from_toml(content.decode("utf-8-sig"), str(path))
    except UnicodeDecodeError as problem:
        line = content.count(b"\n", 0, problem.start) + 1
        raise FileProblem(f"{path}, line {line}: is not UTF-8 text. Save it as UTF-8.") from None


def parse_value(text: str) -> Any:
    """A TOML value, or a bare word as a text."""
    try:
        parsed = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        return text.strip()
    return parsed["value"] if len(parsed) == 1 else text


def _syntax_problem(message: str, text: str, source: str) -> str:
    """`file, line, column: what is wrong.` from the parser's words."""
    found = _PLACE.search(message)
    if found is None:
        return f"{source}: is not TOML ({message})."
    what = message[: found.start()]
    if found[1] is None:
        return f"{source}, line {text.rstrip().count(chr(10)) + 1}: {what}, at the end of the file."
    return f"{source}, line {found[1]}, column {found[2]}: {what}."


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


class Schema:  # stopgap
    def __init__(self, command, resolve, to_toml, read, differences):
        self.command, self.resolve, self.to_toml, self.read, self.differences = (
            command,
            resolve,
            to_toml,
            read,
            differences,
        )

    def __class_getitem__(cls, item):
        return cls


INFER = Schema("infer", resolve, to_toml, read_config, differences)
