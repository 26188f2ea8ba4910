"""Standard error as displays use it: whatever happens to it, the run goes on."""

import contextlib
import io
import sys
from typing import TextIO


class PatientStderr(io.TextIOBase):
    """The standard error of the moment. What it cannot take, as it is closed or broken, is lost without a word.

    A display is the least part of a run: hours of training must not end with the terminal that they were shown on.
    """

    def write(self, text: str) -> int:
        """Pass the text on if possible."""
        with contextlib.suppress(OSError, ValueError):
            if stream := _current():
                stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Pass on what is still held, if possible."""
        with contextlib.suppress(OSError, ValueError):
            if stream := _current():
                stream.flush()

    def isatty(self) -> bool:
        """Whether someone may be looking."""
        with contextlib.suppress(OSError, ValueError):
            stream = _current()
            return stream is not None and stream.isatty()
        return False

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """How text is encoded on its way."""
        return getattr(_current(), "encoding", None) or "utf-8"


def _current() -> TextIO | None:
    """What `sys.stderr` is now; below rich's own stand-in, which would hand the text back to the display."""
    stream: TextIO | None = getattr(sys.stderr, "rich_proxied_file", sys.stderr)
    return stream


def say(line: str) -> None:
    """One line to standard error, at once."""
    stream = PatientStderr()
    stream.write(line + "\n")
    stream.flush()
