"""No file makes the terminal do anything: control characters in names stop at the door, and at the terminal itself."""

import io
import os
import pty
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from phloem.cli.main import Terminal, run
from support.command_line import complaint
from support.messages import assert_says

CLEAR, TITLE, BELL = "\x1b[2J", "\x1b]0;owned\x07", "\x07"


def shown(text: str) -> str:
    stream = io.StringIO()
    Terminal(stream).write(text)
    return stream.getvalue()


def test_only_line_ends_tabs_and_colours_pass():
    assert shown("a\tb\n\x1b[1;32mgreen\x1b[0m é 東\n") == "a\tb\n\x1b[1;32mgreen\x1b[0m é 東\n"
    assert shown(f"a{CLEAR}b{TITLE}c\rd\x9b2Je\x7f\x1b") == "a [2Jb ]0;owned c d 2Je  "


def names(evil: str) -> list[str]:
    return ["A", f"B{evil}", "C", "D"]


@pytest.mark.parametrize("evil", [CLEAR, TITLE, "\x1b[31m", "\r", "\x9b", "\n"])
def test_names_with_control_characters_are_refused(evil, capsys):
    labels = [f"'{name}'" for name in names(evil)]
    Path("trees.nwk").write_text(f"({labels[0]}:1,{labels[1]}:1,({labels[2]}:1,{labels[3]}:1):1);")
    assert run(["embed", "trees.nwk", "--out", "x.npz"]) == 2
    said = complaint(capsys)
    assert said.isprintable()
    assert_says(said, "trees.nwk … control character")
    np.savez("evil.npz", taxa=np.array(names(evil)), features=np.ones((1, 6, 4)))
    assert run(["recover", "evil.npz"]) == 2
    assert complaint(capsys).isprintable()
    Path("dna.fasta").write_text("".join(f">{name}\nACGT\n" for name in names(evil)))
    run(["likelihood", "dna.fasta", "primates", "--long-names"])
    assert capsys.readouterr().err.replace("\n", "").isprintable()


def on_a_terminal(*arguments: str) -> str:
    """What a command shows on a terminal, after which the terminal still shows it."""
    master, slave = pty.openpty()
    with subprocess.Popen([sys.executable, "-m", "phloem", *arguments], stdout=slave, stderr=slave) as process:
        os.close(slave)
        content = b""
        while True:
            try:
                piece = os.read(master, 4096)
            except OSError:  # how Linux says that nobody writes any more
                break
            if not piece:
                break
            content += piece
        process.wait()
    os.close(master)
    return content.decode()


def test_the_program_guards_a_terminal_and_leaves_files_as_they_are():
    out = f"x{CLEAR}{TITLE}.npz"
    Path("trees.nwk").write_text("(A,B,(C,D));")
    screen = on_a_terminal("embed", "trees.nwk", "--out", out)
    assert "4 channels" in screen
    assert not {"\x1b", BELL} & set(screen)
    piped = subprocess.run(
        [sys.executable, "-m", "phloem", "embed", "trees.nwk", "--out", out], capture_output=True, text=True
    )
    assert out in piped.stdout
