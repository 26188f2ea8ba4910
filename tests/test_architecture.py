"""Who may import whom: the sources are read and held to the design."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import phloem

PACKAGE = Path(phloem.__file__).parent
SOURCES = sorted(PACKAGE.rglob("*.py"))

FOUNDATION = {"lazy", "errors", "arrays", "random_streams", "interrupts", "threads", "autograd", "storage", "config"}
# What each part may import besides itself, in the order in which data flows.
MAY_IMPORT = {
    "lazy": set(),
    "errors": set(),
    "arrays": set(),
    "random_streams": {"errors"},
    "interrupts": set(),
    "threads": {"errors", "interrupts"},
    "autograd": {"errors", "arrays"},
    "storage": {"errors", "arrays"},
    "config": {"lazy", "errors"},
    "kernels": {"arrays"},
    "data": FOUNDATION | {"kernels"},
    "trees": FOUNDATION | {"kernels", "data"},
    "target": FOUNDATION | {"kernels", "data", "trees"},
    "models": {"lazy", "target"},
    "search": FOUNDATION | {"kernels", "data", "trees", "target"},
    "features": FOUNDATION | {"kernels", "trees"},
    "variational": FOUNDATION | {"kernels", "trees", "features"},
    "runs": FOUNDATION,
    "inference": FOUNDATION | {"kernels", "data", "trees", "target", "features", "variational", "runs"},
    "energy": FOUNDATION | {"kernels", "trees", "features", "variational", "inference", "runs"},
    "report": FOUNDATION | {"data", "trees", "inference", "runs"},
    "plot": FOUNDATION | {"data", "trees", "inference", "report", "runs"},
    "display": {"errors", "data", "inference", "runs"},
    "tasks": FOUNDATION
    | {"kernels", "data", "trees", "target", "search", "features", "variational", "inference", "energy", "runs"}
    | {"report", "plot", "display"},
    "experiments": FOUNDATION | {"data", "trees", "energy", "runs", "report", "plot", "display", "tasks"},
    "cli": {"tasks", "experiments", "runs", "display", "config", "errors"},
    "__main__": {"cli"},
}
# Packages from outside that only some parts may use; what is not listed here is free.
OUTSIDE = {
    "numba": {"kernels"},
    "llvmlite": {"kernels"},
    "torch": {"threads", "autograd", "target", "features", "variational", "inference", "energy", "tasks"},
    "matplotlib": {"plot", "experiments"},
    "typer": {"cli"},
    "jinja2": {"report"},
    "rich": {"cli", "display"},
}


def part_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports_of(path: Path) -> Iterator[str]:
    """The dotted names of all modules that a file imports, wherever the statement stands."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            assert node.module is not None
            if node.module == "phloem":
                yield from (f"phloem.{alias.name}" for alias in node.names)
            else:
                yield node.module


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_follow_the_flow_of_data(path):
    part = part_of(path)
    if part == "__init__":  # the package itself only points to names
        return
    assert part in MAY_IMPORT, f"{part} has no place in the architecture"
    for name in imports_of(path):
        top, *rest = name.split(".")
        if top == "phloem":
            assert rest[0] in MAY_IMPORT[part] | {part}, f"{part} must not import {name}"
        elif part == "kernels":
            assert top in {"numpy", "numba", "llvmlite"} | sys.stdlib_module_names, f"kernels must not import {name}"
        else:
            assert part in OUTSIDE.get(top, {part}), f"{part} must not import {name}"


def test_the_rules_themselves_have_no_cycle():
    order = list(MAY_IMPORT)
    for part, allowed in MAY_IMPORT.items():
        assert all(order.index(other) < order.index(part) for other in allowed), part


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_files_are_one_idea(path):
    text = path.read_text()
    assert path.name != "utils.py"
    assert len(text.splitlines()) <= 700
    if path.stat().st_size:
        assert ast.get_docstring(ast.parse(text)), "a module says what it is for"


def test_every_function_that_others_may_call_has_a_docstring():
    silent = [
        f"{path.relative_to(PACKAGE)}: {node.name}"
        for path in SOURCES
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
        and not node.name.startswith("_")
        and not ast.get_docstring(node)
    ]
    assert not silent


def test_every_kernel_goes_through_the_one_jit_policy():
    for path in SOURCES:
        if path.name != "jit.py":
            assert "njit" not in path.read_text()
            assert "numba.jit" not in path.read_text()
