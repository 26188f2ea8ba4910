"""Help: every command shows an example, and every option its default."""

from collections.abc import Iterator
from typing import Any

import pytest
import typer

from phloem.cli.main import app, run


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The command, and all commands below it, with what one types to get there."""
    yield path, command
    for name, below in getattr(command, "commands", {}).items():
        yield from commands(below, (*path, name))


COMMANDS = dict(commands(typer.main.get_command(app)))


@pytest.fixture
def help_of(capsys, monkeypatch):
    """The help of a command, each option in one line."""
    monkeypatch.setenv("COLUMNS", "500")

    def show(path: tuple[str, ...]) -> list[str]:
        assert run([*path, "--help"]) == 0
        return capsys.readouterr().out.splitlines()

    return show


def test_the_walk_finds_commands_and_those_below_them():
    assert {("infer",), ("likelihood",), ("sbn",), ("sbn", "score"), ("config", "show")} < set(COMMANDS)


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_command_shows_an_example(path, help_of):
    words = " ".join(("phloem", *path))
    lines = [line.strip() for line in help_of(path)]
    assert [line for line in lines if line.startswith(f"{words} ") or (not path and f" {words} " in line)]


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_option_shows_its_default_or_that_it_is_required(path, help_of):
    lines = help_of(path)
    for option in COMMANDS[path].params:
        if option.param_type_name != "option" or option.is_flag:
            continue
        [line] = [line for line in lines if line.startswith("│") and option.opts[0] in line.split()[:4]]
        assert "[default: " in line or "[required]" in line, line
