"""`import phloem` offers the names of a short script, loaded when they are used."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import phloem


@pytest.mark.parametrize("name", phloem.__all__)
def test_every_name_is_there(name):
    assert getattr(phloem, name).__name__.removeprefix("phloem.") == name
    assert name in dir(phloem)


def test_type_checkers_see_the_same_names():
    tree = ast.parse(Path(phloem.__file__).read_text())
    guarded = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {
        alias.name: node.module for node in guarded.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    assert seen == phloem._HOMES | dict.fromkeys(phloem._PARTS, "phloem")


def test_a_name_that_is_not_there():
    with pytest.raises(AttributeError, match="no attribute 'inferr'"):
        _ = phloem.inferr


def test_importing_is_quick_because_it_loads_nothing():
    script = "import sys, phloem; sys.exit(bool({'numpy', 'numba', 'typer', 'matplotlib'} & set(sys.modules)))"
    subprocess.run([sys.executable, "-c", script], check=True)
