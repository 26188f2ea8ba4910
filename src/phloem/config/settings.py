"""The settings of any command: dotted keys, TOML, and defaults, presets, files and flags resolved to one record.

A command's settings are a frozen dataclass that refuses bad values; `Schema` does the rest for any such record. At the
end are the checks that the records share.
"""

import math
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import is_dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType, UnionType
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import tomli_w

from phloem.errors import ConfigError, FileProblem, quoted
from phloem.storage.files import read_bytes

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

PRESET: Final = "preset"  # the key by which a file or a layer names a preset
MOST: Final = 1_000_000_000  # of anything; more is a typing error
_HEADING: Final = re.compile(r"# All settings of `phloem ([a-z ]+)`;")
_PLACE: Final = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")
_ARRAY: Final = re.compile(r"\[\n([^\]]*),\n\]")
_EXPECTED: Final = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}

Layer = Mapping[str, Any]  # settings in nested dicts or by dotted keys; None for those not given
C = TypeVar("C", bound="DataclassInstance")


class FileSettings(dict[str, Any]):
    """Settings in nested dicts, and the name of the file they come from."""

    def __init__(self, settings: Mapping[str, Any], source: str) -> None:
        super().__init__(settings)
        self.source = source


class Schema(Generic[C]):
    """The settings of a command: a frozen record (sections are nested records), its presets, and its name.

    A setting has a dotted key such as `training.steps`. record: every field has a default. command: the words after
    `phloem`. presets: whole records by name. preset_fields: the fields that a preset decides, all of them; the other
    fields describe the question, which is the user's alone. earlier: what settings were before they existed, for
    the records of runs that lack them. heads: keys that say what a section is about, such as the name of a model:
    where they are given anew, what was said with the one before of the section's other settings no longer counts; what
    was said without one does. first_fields: what a preset decides too where there is nothing yet that it would change.
    """

    def __init__(
        self,
        record: type[C],
        command: str,
        presets: Mapping[str, C] = MappingProxyType({}),
        preset_fields: tuple[str, ...] = (),
        earlier: Mapping[str, Any] = MappingProxyType({}),
        heads: tuple[str, ...] = (),
        first_fields: tuple[str, ...] = (),
    ) -> None:
        self.record = record
        self.command = command
        self.presets = presets
        self.preset_fields = preset_fields
        self.earlier = earlier
        self.heads = heads
        self.first_fields = first_fields
        hints = get_type_hints(record)
        self.sections: dict[str, Any] = {name: kind for name, kind in hints.items() if is_dataclass(kind)}
        self.kinds: dict[str, Any] = {}  # the type of every setting by its key, in the order of the records
        for name, kind in hints.items():
            if name in self.sections:
                self.kinds |= {f"{name}.{inner}": inner_kind for inner, inner_kind in get_type_hints(kind).items()}
            else:
                self.kinds[name] = kind

    @property
    def keys(self) -> tuple[str, ...]:
        """The dotted keys of all settings, in the order of the records."""
        return tuple(self.kinds)

    def resolve(self, *, base: C | None = None, preset: str | None = None, settings: Sequence[Layer] = ()) -> C:
        """The defaults or `base`, then the fields that a preset decides, then the settings, layer upon layer.

        Without a base, a preset may decide more.

        A layer may name a preset itself: the last one to do so counts, and `preset` over all of them. A message about
        a value from a file begins with the file's name.
        """
        sources = [getattr(layer, "source", "") for layer in settings]
        layers = [self.flatten(layer, source) for layer, source in zip(settings, sources, strict=True)]
        start = base
        for layer, source in reversed([*zip(layers, sources, strict=True), ({PRESET: preset}, "")]):
            if layer.get(PRESET) is not None:
                start = self._with_preset(start, layer[PRESET], source)
                break
        start = start or self.record()
        problems = [self._problem(start, layers[:count]) for count in range(len(layers) + 1)]
        if problems[-1] is not None:
            # The first layer that leads to this problem has caused it: a later one may mend what an earlier one lacks.
            raise ConfigError(_located(problems[-1], sources[problems.index(problems[-1]) - 1]))
        return self._merge(start, layers)

    def differences(self, one: C, two: C) -> list[str]:
        """A line for every setting that differs, such as `training.steps is 8000, not 9000`."""
        others = self.values(two)
        return [
            f"{key} is {_shown(value)}, not {_shown(others[key])}"
            for key, value in self.values(one).items()
            if value != others[key]
        ]

    def to_toml(self, config: C) -> str:
        """A heading, and every setting that is not None."""
        given = {key: value for key, value in self.values(config).items() if value is not None}
        # One line for an array: texts are never broken, so no other bracket ends a line.
        text = _ARRAY.sub(lambda found: f"[{' '.join(found[1].split())}]", tomli_w.dumps(nested(given)))
        return heading(self.command) + text

    def read(self, text: str, source: str) -> C:
        """The configuration in a TOML text, such as `to_toml` writes. source: the file's name, for messages."""
        return self.resolve(settings=[self.from_toml(text, source)])

    def read_record(self, text: str, source: str) -> C:
        """Like `read`, of a run's own record, which names every setting that there was when it was written."""
        found = self.from_toml(text, source)
        return self.resolve(settings=[nested(self.earlier), found])

    def from_toml(self, text: str, source: str) -> FileSettings:
        """The settings in a TOML text, each known and of its type; `preset` may be among them."""
        try:
            settings = tomllib.loads(text)
        except ValueError as problem:
            raise ConfigError(_syntax_problem(str(problem), text, source)) from None
        except RecursionError:
            raise ConfigError(f"{source}: brackets are nested too deep.") from None
        return FileSettings(nested(self.flatten(settings, source)), source)

    def read_toml(self, path: Path) -> FileSettings:
        """The settings in a TOML file."""
        content = read_bytes(path)
        try:
            return self.from_toml(content.decode("utf-8-sig"), str(path))
        except UnicodeDecodeError as problem:
            line = content.count(b"\n", 0, problem.start) + 1
            raise FileProblem(f"{path}, line {line}: is not UTF-8 text. Save it as UTF-8.") from None

    def values(self, config: C) -> dict[str, Any]:
        """The value of every setting by its dotted key."""
        values = {}
        for key in self.keys:
            section, _, name = key.rpartition(".")
            values[key] = getattr(getattr(config, section) if section else config, name)
        return values

    def flatten(self, settings: Layer, source: str = "") -> dict[str, Any]:
        """The settings that are not None by dotted key, each known and of its type; `preset` may be among them.

        source: what a message begins with, such as a file's name.
        """
        found = {}
        where = f"{source}: " if source else ""
        kinds = self.kinds | ({PRESET: str} if self.presets else {})
        for key, value in self._entries(settings, where):
            if key not in kinds:
                raise ConfigError(f"{where}unknown setting {quoted(key)}. {self._advice(key)}")
            if value is None:
                continue
            try:
                found[key] = _convert(value, kinds[key])
            except (TypeError, OverflowError):
                raise ConfigError(f"{where}{key} is {_describe(value)}: give {_expected(kinds[key])}.") from None
        return found

    def _entries(self, settings: Layer, where: str) -> Iterator[tuple[str, Any]]:
        for name, value in settings.items():
            if name not in self.sections:
                yield name, value
            elif isinstance(value, Mapping):
                yield from ((f"{name}.{inner}", entry) for inner, entry in value.items())
            elif value is not None:
                raise ConfigError(f"{where}{name} is {_describe(value)}: it is a section, [{name}], of settings.")

    def _advice(self, key: str) -> str:
        """The setting that was probably meant, or all that could be."""
        section, _, name = key.rpartition(".")
        beside = [known.removeprefix(f"{section}.") for known in self.keys if known.rpartition(".")[0] == section]
        if not section:
            beside = [*([PRESET] if self.presets else []), *beside, *self.sections]
        elsewhere = [known for known in self.keys if known.rpartition(".")[2] == name]
        meant = elsewhere or (get_close_matches(name, beside, 1) if beside else get_close_matches(key, self.keys, 1))
        if meant:
            return f"Did you mean {quoted(meant[0])}?"
        return f"Known settings: {', '.join(beside or self.sections or self.keys)}."

    def _with_preset(self, base: C | None, name: str, source: str) -> C:
        try:
            check_choice("--preset", name, tuple(self.presets))
        except ConfigError as problem:
            raise ConfigError(_located(str(problem), source)) from None
        fields = self.preset_fields if base else (*self.preset_fields, *self.first_fields)
        preset = self.presets[name]
        return replace(base or self.record(), **{field: getattr(preset, field) for field in fields})

    def _merge(self, start: C, layers: Sequence[Layer]) -> C:
        values = self.values(start)
        for number, layer in enumerate(layers):
            for head in self.heads:
                if head in layer:
                    section = head.rpartition(".")[0]
                    usual = self.sections[section]()
                    keys = [key for key in values if key.startswith(f"{section}.")]
                    values |= {key: getattr(usual, key.rpartition(".")[2]) for key in keys}
                    values |= _said_since(head, keys, layers[:number])
            values |= {key: value for key, value in layer.items() if key != PRESET}
        parts = nested(values)
        for section, record in self.sections.items():
            parts[section] = record(**parts[section])
        return self.record(**parts)

    def _problem(self, start: C, layers: Sequence[Layer]) -> str | None:
        try:
            self._merge(start, layers)
        except ConfigError as problem:
            return str(problem)
        return None


def _said_since(head: str, keys: Sequence[str], layers: Sequence[Layer]) -> Layer:
    """What layers say of some keys after the last one that gives the head anew."""
    said: dict[str, Any] = {}
    for layer in layers:
        said = {} if head in layer else said | {key: layer[key] for key in keys if key in layer}
    return said


def heading(command: str) -> str:
    """The first line of a file with the settings of a command, which is named without `phloem`."""
    return f"# All settings of `phloem {command}`; what is not set has no line.\n"


def command_of(text: str) -> str | None:
    """The command, without `phloem`, whose settings the text's heading announces; None for other texts."""
    found = _HEADING.match(text)
    return found[1] if found else None


def nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values by dotted key as a dict with a dict for each section."""
    parts: dict[str, Any] = {}
    for key, value in values.items():
        section, _, name = key.rpartition(".")
        (parts.setdefault(section, {}) if section else parts)[name] = value
    return parts


def members(kind: Any) -> tuple[Any, ...]:
    """The types that a setting may have, None left out."""
    if get_origin(kind) in (Union, UnionType):
        return tuple(member for member in get_args(kind) if member is not type(None))
    return (kind,)


def parse_value(text: str) -> Any:
    """A TOML value, or a bare word as a text."""
    try:
        parsed = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        return text.strip()
    return parsed["value"] if len(parsed) == 1 else text


def _convert(value: Any, kind: Any) -> Any:
    """The value as the records want it: an int becomes a float where any number will do, and a list a tuple."""
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
    return "a section" if isinstance(value, Mapping) else quoted(str(value)).strip("'\"")


def _shown(value: object) -> str:
    if value is None:
        return "unset"
    if isinstance(value, bool):
        return str(value).lower()
    return f"[{', '.join(map(str, value))}]" if isinstance(value, tuple) else str(value)


def _located(problem: str, source: str) -> str:
    return f"{source}: {problem}" if source else problem


def _syntax_problem(message: str, text: str, source: str) -> str:
    """`file, line, column: what is wrong.` from the parser's message."""
    found = _PLACE.search(message)
    if found is None:
        return f"{source}: is not TOML ({message})."
    what = message[: found.start()]
    if found[1] is None:
        return f"{source}, line {text.rstrip().count(chr(10)) + 1}: {what}, at the end of the file."
    return f"{source}, line {found[1]}, column {found[2]}: {what}."


# Checks that the records share. Each names a setting as users know it: by its flag where it has one.


def check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    """One of a few words."""
    if value not in choices:
        raise ConfigError(f"{name} {quoted(str(value))}: choose one of {', '.join(choices)}.")


def check_count(name: str, value: int, least: int = 1, most: int = MOST) -> None:
    """A whole number within its limits."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    if not whole or not least <= value <= most:
        shown = quoted(str(value), 30).strip("'")
        raise ConfigError(f"{name} {shown}: give a whole number from {least} to {most:,}.")


def check_seed(name: str, value: int) -> None:
    """What a random stream takes."""
    check_count(name, value, least=0, most=2**63 - 1)


def check_positive(name: str, value: float) -> None:
    """A finite number above 0."""
    if not 0 < value < math.inf:
        raise ConfigError(f"{name} {value:g}: give a number above 0.")


def check_share(name: str, value: float) -> None:
    """A number from 0 to 1."""
    if not 0 <= value <= 1:
        raise ConfigError(f"{name} {value:g}: give a number from 0 to 1.")


def check_clipping(name: str, value: float) -> None:
    """A number above 0, or infinity."""
    if not value > 0:
        raise ConfigError(f"{name} {value:g}: give a number above 0, or inf for no clipping.")
