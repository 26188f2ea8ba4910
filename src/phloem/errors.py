"""What can go wrong: every error that phloem raises on purpose says where, what, and what to do.

Names in files can hold anything, so what is said to users goes through here: `quoted` puts a name into a message, and
`printable` makes any text safe for a terminal.
"""

import re

# What a terminal obeys instead of showing it, and line ends.
CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
# How torch, its C++ libraries, Python's threads and the dynamic linker say that memory ran out.
SIGNS_OF_NO_MEMORY = ("allocate memory", "bad_alloc", "start new thread", "failed to map segment")


class PhloemError(Exception):
    """Bad input or a bad request. The message is one line that a user can act on."""


class FileProblem(PhloemError):
    """A file that cannot be read or written at all."""


class DiskFull(FileProblem):
    """A file that could be written if there were space."""


class TreeFormatError(PhloemError):
    """Text that is not a tree, or not a tree that phloem can hold."""


class AlignmentError(PhloemError):
    """Sequences that are not an alignment, or not one of nucleotides."""


class TaxonMismatch(PhloemError):
    """Trees, tables or alignments that speak of different taxa."""


class NotBinary(PhloemError):
    """A tree with a polytomy where a binary tree is needed."""


class FeatureMismatch(PhloemError):
    """Node features that belong to no tree."""


class BadArgument(PhloemError):
    """A value outside the range that a function accepts."""


class ProgramProblem(PhloemError):
    """An external program that is missing, or that did not do its work."""


class TrainingFailed(PhloemError):
    """A training that can no longer get anywhere."""


class NotFinite(PhloemError):
    """A computation gave what is no number."""


class OutOfMemory(PhloemError):
    """Memory ran out in a run that can be resumed; the message says how."""


class StoppedByUser(PhloemError):
    """Long work was interrupted and can be resumed; the message says how."""


class ConfigError(PhloemError):
    """A setting, or a combination of settings, that makes no sense."""


class InputWarning(UserWarning):
    """Something in a file that was not taken as it stands; the command line shows it as one line."""


def is_lack_of_memory(problem: BaseException | None) -> bool:
    """Whether memory ran out: in Python, in a library, or while one was loaded."""
    while problem is not None:
        if isinstance(problem, MemoryError) or any(sign in str(problem).lower() for sign in SIGNS_OF_NO_MEMORY):
            return True
        problem = problem.__cause__ or problem.__context__
    return False


def has_control(name: str) -> bool:
    """Whether a name holds what a terminal would obey: no taxon is called so, and none may be."""
    return CONTROL.search(name) is not None


def printable(text: str) -> str:
    """The text in one line, without characters that move a terminal's cursor or change its colours."""
    return "".join(sign if sign.isprintable() else " " for sign in text)


def quoted(text: str, limit: int = 60) -> str:
    """`text` between quotes, in one printable line and not too long, for use in a message."""
    shown = text if len(text) <= limit else text[: limit - 1] + "…"
    return repr(shown)


def listed(names: list[str], limit: int = 5) -> str:
    """The first few names, quoted, and how many more there are."""
    return first_few([quoted(name) for name in names], ", ", limit=limit)


def first_few(items: list[str], separator: str, noun: str = "more", plural: str = "more", *, limit: int = 5) -> str:
    """`A, B and 3 more`, or `A; B and 1 more group`."""
    shown, rest = separator.join(items[:limit]), len(items) - limit
    return shown if rest <= 0 else f"{shown} and {counted(rest, noun, plural)}"


def counted(number: int, noun: str, plural: str = "") -> str:
    """`1 run`, `2 runs`, `12,000 topologies`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
