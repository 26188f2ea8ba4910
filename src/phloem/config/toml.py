"""Configurations as TOML: written with every setting, read with a line for everything that is wrong."""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import tomli_w

from phloem.config.infer import InferConfig
from phloem.config.keys import flatten, nested, values_of
from phloem.errors import ConfigError, FileProblem

_HEADING: Final = re.compile(r"# All settings of `phloem ([a-z ]+)`;")
_PLACE: Final = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")
_ARRAY: Final = re.compile(r"\[\n([^\]]*),\n\]")


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
