"""Every setting by its dotted key, such as `training.steps`: read off the records, so that there is one list."""

from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass
from difflib import get_close_matches
from types import UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from phloem.config.infer import InferConfig
from phloem.errors import ConfigError, quoted

PRESET: Final = "preset"


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
