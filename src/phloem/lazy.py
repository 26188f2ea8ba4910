"""Public names that are listed once and loaded when they are first used.

A package's `__init__.py` lists its names as imports that type checkers read and Python skips:

    if TYPE_CHECKING:
        from phloem.trees.reading import read_trees as read_trees
    else:
        __getattr__, __dir__ = lazy_names(__name__, __file__)

The program imports `phloem` before it can say a word about Ctrl-C, so nothing is loaded or read here until a name is
asked for; not even `__all__` and the version exist before that.
"""

import sys

TYPE_CHECKING = False  # as type checkers know it; `typing` takes a while to load

if TYPE_CHECKING:
    from collections.abc import Callable


def lazy_names(module: str, file: str) -> "tuple[Callable[[str], object], Callable[[], list[str]]]":
    """`__getattr__` and `__dir__` of a module, from the imports that its file lists for type checkers.

    A name that is not in the list but in that of a listed submodule has moved there: an ImportError says so.
    """
    homes: dict[str, str] = {}

    def names() -> list[str]:
        homes.update(homes or _listed_imports(file))
        return sorted(homes)

    def load(name: str) -> object:
        from importlib import import_module

        value: object
        submodules = [f"{module}.{listed}" for listed in names() if homes[listed] == module]
        path = f"{module}.{name}"
        if name == "__all__":
            value = names()
        elif name == "__version__" and "." not in module:
            value = import_module("importlib.metadata").version(module)
        elif path in submodules:
            value = import_module(path)
        elif name in homes:
            value = getattr(import_module(homes[name]), name)
        else:
            for submodule in submodules:
                if name in import_module(submodule).__all__:
                    raise ImportError(f"{module}.{name} is {submodule}.{name} since 0.2", name=module)
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        setattr(sys.modules[module], name, value)
        return value

    def list_names() -> list[str]:
        return [*names(), *(name for name in vars(sys.modules[module]) if name.startswith("__"))]

    return load, list_names


def _listed_imports(file: str) -> dict[str, str]:
    """Name → module for every `from module import name as name` under the file's `if TYPE_CHECKING`."""
    import ast
    from pathlib import Path

    tree = ast.parse(Path(file).read_text(encoding="utf-8"))
    guarded = next(node for node in tree.body if isinstance(node, ast.If))
    imports = [node for node in guarded.body if isinstance(node, ast.ImportFrom)]
    return {alias.name: str(node.module) for node in imports for alias in node.names}
