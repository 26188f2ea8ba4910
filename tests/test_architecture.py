"""The design, held: who may import whom, what a file is, and where tests are. Each rule lists all that breaks it."""

import ast
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import phloem

PACKAGE = Path(phloem.__file__).parent
TESTS = Path(__file__).parent
SOURCES = {path: ast.parse(path.read_text()) for path in sorted(PACKAGE.rglob("*.py"))}

FOUNDATION = {
    "lazy",
    "errors",
    "arguments",
    "arrays",
    "random_streams",
    "interrupts",
    "threads",
    "autograd",
    "storage",
    "config",
}
# What each part may import besides itself, in the order in which data flows.
MAY_IMPORT = {
    "lazy": set(),
    "errors": set(),
    "arguments": {"errors"},
    "arrays": set(),
    "random_streams": {"errors"},
    "interrupts": {"errors"},
    "threads": {"errors", "arrays", "interrupts"},
    "autograd": {"errors", "arrays"},
    "storage": {"errors", "arrays", "interrupts"},
    "config": {"lazy", "errors", "storage"},
    "kernels": {"arrays"},
    "data": FOUNDATION | {"kernels"},
    "trees": FOUNDATION | {"kernels", "data"},
    "target": FOUNDATION | {"kernels", "data", "trees"},
    "models": {"lazy", "target"},
    "search": FOUNDATION | {"kernels", "data", "trees", "target"},
    "features": FOUNDATION | {"kernels", "trees"},
    "variational": FOUNDATION | {"kernels", "trees", "features"},
    "runs": FOUNDATION,
    "inference": FOUNDATION | {"kernels", "data", "trees", "target", "search", "features", "variational", "runs"},
    "energy": FOUNDATION | {"kernels", "trees", "features", "variational", "inference", "runs"},
    "report": FOUNDATION | {"data", "trees", "inference", "runs"},
    "plot": FOUNDATION | {"data", "trees", "inference", "report", "runs"},
    "display": {"errors", "interrupts", "data", "inference", "runs"},
    "tasks": FOUNDATION
    | {"kernels", "data", "trees", "target", "search", "features", "variational", "inference", "energy", "runs"}
    | {"report", "plot", "display"},
    "experiments": FOUNDATION | {"data", "trees", "energy", "runs", "report", "plot", "display", "tasks"},
    "cli": {"tasks", "experiments", "runs", "display", "config", "interrupts", "errors"},
    "__main__": {"cli"},
}
# Packages from outside that only some parts may use; what is not listed here is free.
OUTSIDE = {
    "numba": {"kernels"},
    "llvmlite": {"kernels"},
    "torch": {"threads", "autograd", "target", "features", "variational", "inference", "energy", "tasks", "runs"},
    "matplotlib": {"plot", "experiments"},
    "typer": {"cli"},
    "jinja2": {"report"},
    "rich": {"cli", "display"},
}


# Imports inside functions load a module where it is needed and no sooner. Commands do so to answer at once, and
# `import phloem` does so for its names. Elsewhere it takes a reason: which part, what, and why.
LATE_IMPORTS = {
    ("display", "rich"): "takes a while to load, and only a terminal needs it",
    ("display", "phloem.display.panel"): "loads rich",
    ("tasks", "phloem.plot"): "loads matplotlib, which takes a while and only figures need",
    ("runs", "torch.utils.tensorboard"): "is an optional dependency",
}
LATE_ANYWHERE = {"cli", "lazy"}
LONGEST = 700  # lines
# Folders of tests that belong to no part: what tests share.
SHARED = {"support", "reference", "golden"}
SCRIPTS = {"benchmarks"}  # beside src, of which some have tests


class Import(NamedTuple):
    """A module that is imported, and where."""

    name: str  # dotted
    line: int
    is_late: bool  # inside a function


def imports_of(tree: ast.AST, is_late: bool = False) -> Iterator[Import]:
    """All modules that a file imports, wherever the statement stands; `from phloem import x` imports `phloem.x`."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from (Import(alias.name, node.lineno, is_late) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            modules = {f"{base}.{alias.name}" if is_package(base, alias.name) else base for alias in node.names}
            yield from (Import(name, node.lineno, is_late) for name in sorted(modules))
        else:
            yield from imports_of(node, is_late or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def is_package(base: str, name: str) -> bool:
    """Whether `from base import name` imports a module of phloem or of its tests."""
    if base == "phloem":
        return True
    folder = PACKAGE.joinpath(*base.split(".")[1:]) if base.startswith("phloem.") else TESTS.joinpath(*base.split("."))
    return (folder / f"{name}.py").is_file() or (folder / name).is_dir()


def part_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def module_of(path: Path) -> str:
    """The dotted name."""
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")


def at(path: Path, line: int | None = None) -> str:
    """A place in the sources or the tests."""
    base = PACKAGE.parent if path.is_relative_to(PACKAGE) else TESTS.parent
    return f"{path.relative_to(base)}:{line}" if line else str(path.relative_to(base))


def assert_none(violations: list[str]) -> None:
    assert not violations, f"{len(violations)} found:\n" + "\n".join(violations)


def test_imports_follow_the_flow_of_data():
    violations = []
    for path, tree in SOURCES.items():
        part = part_of(path)
        if part == "__init__":  # the package itself only points to names
            continue
        if part not in MAY_IMPORT:
            violations.append(f"{at(path)}: {part} has no place in MAY_IMPORT")
            continue
        for name, line, _ in imports_of(tree):
            top, *rest = name.split(".")
            if top == "phloem":
                allowed = rest[:1] and rest[0] in MAY_IMPORT[part] | {part}
            elif part == "kernels":
                allowed = top in {"numpy", "numba", "llvmlite"} | sys.stdlib_module_names
            else:
                allowed = part in OUTSIDE.get(top, {part})
            if not allowed:
                violations.append(f"{at(path, line)}: {part} must not import {name}")
    assert_none(violations)


def test_imports_are_absolute():
    assert_none(
        [
            f"{at(path, line)}: {name} is relative"
            for path, tree in SOURCES.items()
            for name, line, _ in imports_of(tree)
            if name.startswith(".")
        ]
    )


def test_the_rules_themselves_have_no_cycle():
    order = list(MAY_IMPORT)
    for part, allowed in MAY_IMPORT.items():
        assert all(order.index(other) < order.index(part) for other in allowed), part


def test_modules_do_not_import_each_other_in_a_circle():
    """Neither inside functions nor for types alone: two modules that need each other are one subject."""
    modules = {module_of(path): tree for path, tree in SOURCES.items()}
    del modules["phloem"]  # which only points to names
    graph = {module: {name for name, _, _ in imports_of(tree)} & modules.keys() for module, tree in modules.items()}
    circles = []
    while True:
        try:
            TopologicalSorter(graph).prepare()
            break
        except CycleError as problem:
            circle = problem.args[1][::-1]
            circles.append(" imports ".join(circle))
            graph[circle[0]].remove(circle[1])
    assert_none(circles)


def test_imports_stand_at_the_top_unless_there_is_a_reason():
    violations, used = [], set()
    for path, tree in SOURCES.items():
        for name, line, is_late in imports_of(tree):
            if not is_late or part_of(path) in LATE_ANYWHERE:
                continue
            reasons = {(part, what) for part, what in LATE_IMPORTS if part == part_of(path) and within(name, what)}
            used |= reasons
            if not reasons:
                violations.append(f"{at(path, line)}: {name} is imported inside a function")
    violations += [f"LATE_IMPORTS: nothing in {part} needs {what}" for part, what in LATE_IMPORTS.keys() - used]
    assert_none(violations)


def within(name: str, package: str) -> bool:
    return name == package or name.startswith(f"{package}.")


def test_a_module_says_what_it_is_for():
    assert_none([f"{at(path)}: no docstring" for path, tree in SOURCES.items() if not ast.get_docstring(tree)])


def test_no_file_is_too_long_to_read():
    lengths = {path: len(path.read_text().splitlines()) for path in SOURCES}
    assert_none([f"{at(path)}: {length} lines" for path, length in lengths.items() if length > LONGEST])


def test_nothing_is_called_utils():
    assert_none([at(path) for path in SOURCES if path.stem in ("utils", "util", "helpers")])


def test_every_function_that_others_may_call_has_a_docstring():
    assert_none(
        [
            f"{at(path, node.lineno)}: {node.name}"
            for path, tree in SOURCES.items()
            for node in tree.body
            if isinstance(node, ast.FunctionDef | ast.ClassDef)
            and not node.name.startswith("_")
            and not ast.get_docstring(node)
        ]
    )


def test_every_kernel_goes_through_the_one_jit_policy():
    assert_none(
        [
            f"{at(path)}: {word}"
            for path in SOURCES
            for word in ("njit", "numba.jit")
            if path.name != "jit.py" and word in path.read_text()
        ]
    )


def test_every_folder_of_tests_is_that_of_a_part():
    parts = {part_of(path) for path in SOURCES if path.parent != PACKAGE}
    folders = {path.name for path in TESTS.iterdir() if path.is_dir() and next(path.rglob("*.py"), None)}
    assert_none([f"tests/{name}: src/phloem has no such folder" for name in sorted(folders - parts - SHARED - SCRIPTS)])


def test_no_test_module_imports_another():
    """What tests share is in tests/support, a slow twin in tests/reference."""
    folders = {path.name for path in TESTS.iterdir() if path.is_dir()} - SHARED
    assert_none(
        [
            f"{at(path, line)}: {name}"
            for path in sorted(TESTS.rglob("*.py"))
            for name, line, _ in imports_of(ast.parse(path.read_text()))
            if name.split(".")[0] in folders or any(word.startswith("test_") for word in name.split("."))
        ]
    )
