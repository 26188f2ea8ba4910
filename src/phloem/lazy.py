"""Public names that are listed once and loaded when they are first used.

A package's `__init__.py` lists its names as imports that type checkers read and Python skips:

    if TYPE_CHECKING:
        from phloem.trees.reading import read_trees as read_trees
    else:
        __all__, __getattr__, __dir__ = lazy_names(__name__, __file__)
"""

import ast
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path


def lazy_names(module: str, file: str) -> tuple[list[str], Callable[[str], object], Callable[[], list[str]]]:
    """`__all__`, `__getattr__` and `__dir__` of a module, from the imports that its file lists for type checkers.

    A name that is not in the list but in that of a listed submodule has moved there: an ImportError says so.
    """
    homes = _listed_imports(file)
    names = sorted(homes)
    submodules = [f"{module}.{name}" for name in names if homes[name] == module]

    def load(name: str) -> object:
        if name not in homes:
            for submodule in submodules:
                if name in import_module(submodule).__all__:
                    raise ImportError(f"{module}.{name} is {submodule}.{name} since 0.2", name=module)
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        path = f"{module}.{name}"
        value = import_module(path) if path in submodules else getattr(import_module(homes[name]), name)
        setattr(sys.modules[module], name, value)
        return value

    def list_names() -> list[str]:
        return [*names, *(name for name in vars(sys.modules[module]) if name.startswith("__"))]

    return names, load, list_names


def _listed_imports(file: str) -> dict[str, str]:
    """Name → module for every `from module import name as name` under the file's `if TYPE_CHECKING`."""
    tree = ast.parse(Path(file).read_text(encoding="utf-8"))
    guarded = next(node for node in tree.body if isinstance(node, ast.If))
    imports = [node for node in guarded.body if isinstance(node, ast.ImportFrom)]
    return {alias.name: str(node.module) for node in imports for alias in node.names}
