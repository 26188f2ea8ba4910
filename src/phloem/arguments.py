"""Arguments of public functions and fields of public records, checked by their annotations.

Somebody who hands a tree sample to a function of splits is told so in one line, not by an attribute that is missing
somewhere below.
"""

import functools
import inspect
import types
from collections.abc import Callable, Collection
from dataclasses import fields
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Literal, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from phloem.errors import BadArgument

P = ParamSpec("P")
R = TypeVar("R")
# What may stand for a number: numpy has its own.
NUMBERS: dict[type, type] = {int: Integral, float: Real}
SIMPLE = {int: "a whole number", float: "a number", str: "a text", Path: "a path", bool: "True or False"}
ITEMS = {int: "whole numbers", float: "numbers", str: "texts"}
ADVICE = {"SplitFrequencies": ": make one with phloem.trees.split_frequencies"}


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """A decorator: arguments of another kind than the annotations say raise a `BadArgument`."""
    signature = inspect.signature(function)

    @functools.wraps(function)
    def call(*arguments: P.args, **options: P.kwargs) -> R:
        given = signature.bind(*arguments, **options).arguments
        hints = _hints(function)
        for name, value in given.items():
            _check(function.__name__, name, value, hints.get(name, Any))
        return function(*arguments, **options)

    return call


def check_fields(record: Any) -> None:
    """Raise a `BadArgument` if a field of a dataclass is of another kind than its annotation says."""
    kind: Any = type(record)
    hints = _hints(kind)
    for field in fields(record):
        _check(kind.__name__, field.name, getattr(record, field.name), hints[field.name])


@functools.cache
def _hints(annotated: Any) -> dict[str, Any]:
    return get_type_hints(annotated)


def _check(what: str, name: str, value: Any, hint: Any) -> None:
    if not _fits(value, hint):
        needed = _in_words(hint)
        raise BadArgument(f"{what}: {name} is {_kind(value)}. Give {needed}{ADVICE.get(needed.split()[-1], '')}.")


def _fits(value: Any, hint: Any) -> bool:
    origin, inner = get_origin(hint), get_args(hint)
    if hint is Any or isinstance(hint, TypeVar) or origin is Callable:
        return True
    if hint is None or hint is type(None):
        return value is None
    if origin in (Union, types.UnionType):
        return any(_fits(value, member) for member in inner)
    if origin is Literal:
        return isinstance(value, str)  # which of the words are allowed is checked where they are used
    if origin is not None:
        inside = inner[0] if inner and (origin is not tuple or inner[-1] is ...) else Any
        if origin is np.ndarray or not isinstance(value, origin) or not isinstance(value, Collection):
            return isinstance(value, origin)
        return all(_fits(item, inside) for item in value)
    if not isinstance(hint, type):
        return True
    return isinstance(value, NUMBERS.get(hint, hint)) and not (hint in NUMBERS and isinstance(value, bool))


def _kind(value: Any) -> str:
    return "missing" if value is None else _with_article(type(value).__name__)


def _in_words(hint: Any) -> str:
    """`a TreeSample`, `a number`, `a path or a TreeSample`."""
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        words = dict.fromkeys(_in_words(member) for member in get_args(hint) if member is not type(None))
        return " or ".join(words)
    if origin is not None:
        items = [ITEMS.get(member, member.__name__) for member in get_args(hint) if isinstance(member, type)]
        return "a NumPy array" if origin.__name__ == "ndarray" else " of ".join(["a list", *items[:1]])
    return SIMPLE.get(hint) or _with_article(getattr(hint, "__name__", str(hint)))


def _with_article(word: str) -> str:
    return f"{'an' if word[0] in 'AEIOUaeiou' else 'a'} {word}"
