"""The terminal, safe from what files hold: whatever a command prints, it obeys nothing but colours."""

import io
import re
from typing import TextIO

# What a terminal obeys, but for line ends, tabs, and the colours of our own tables and help.
UNSAFE = re.compile("\x1b(?!\\[[0-9;]*m)|[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f-\x9f]")


class Terminal(io.TextIOBase):
    """A stream that shows text on a terminal, with blanks in place of control characters."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write what is safe of the text."""
        return self._stream.write(UNSAFE.sub(" ", text))

    def flush(self) -> None:
        """Flush the stream."""
        self._stream.flush()

    def isatty(self) -> bool:
        """It is a terminal: nothing else needs this."""
        return True

    def fileno(self) -> int:
        """The stream's."""
        return self._stream.fileno()

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """The stream's."""
        return self._stream.encoding
