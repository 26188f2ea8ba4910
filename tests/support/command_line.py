"""The command line, as tests use it: the installed program, and the one line that it says about a mistake."""

import sys
from pathlib import Path

PROGRAM = str(Path(sys.executable).with_name("phloem"))


def complaint(capsys) -> str:
    """The one line on stderr; nothing on stdout."""
    captured = capsys.readouterr()
    assert captured.out == ""
    lines = captured.err.splitlines()
    assert len(lines) == 1, captured.err
    assert lines[0].startswith("phloem: ")
    return lines[0]
