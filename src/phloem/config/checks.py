"""Checks that several records share. Each names the setting as a user knows it: by its flag where it has one."""

import math

from phloem.errors import ConfigError, quoted

MOST = 1_000_000_000  # of anything: what is more is a slip of the finger


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


def check_positive(name: str, value: float) -> None:
    """A finite number above 0."""
    if not 0 < value < math.inf:
        raise ConfigError(f"{name} {value:g}: give a number above 0.")


def check_share(name: str, value: float) -> None:
    """A number from 0 to 1."""
    if not 0 <= value <= 1:
        raise ConfigError(f"{name} {value:g}: give a number from 0 to 1.")
