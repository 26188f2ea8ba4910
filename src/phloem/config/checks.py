"""Checks that several records share. Each names the setting as a user knows it: by its flag where it has one."""

import math

from phloem.errors import ConfigError, quoted


def check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    """One of a few words."""
    if value not in choices:
        raise ConfigError(f"{name} {quoted(str(value))}: choose one of {', '.join(choices)}.")


def check_count(name: str, value: int, least: int = 1, most: int | None = None) -> None:
    """A whole number within its limits."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    if not whole or value < least or (most is not None and value > most):
        limits = f", {least} or more" if most is None else f" from {least} to {most}"
        raise ConfigError(f"{name} {value}: give a whole number{limits}.")


def check_positive(name: str, value: float) -> None:
    """A finite number above 0."""
    if not 0 < value < math.inf:
        raise ConfigError(f"{name} {value:g}: give a number above 0.")


def check_share(name: str, value: float) -> None:
    """A number from 0 to 1."""
    if not 0 <= value <= 1:
        raise ConfigError(f"{name} {value:g}: give a number from 0 to 1.")
