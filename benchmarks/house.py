"""How many files is phloem, how do they hang together, and how many does a reader open to answer a question?

Size. Every `.py` file counts; those with code are the ones that hold more than a docstring.

Imports. An edge goes from a module to one that it imports, wherever the statement stands. A name that an `__init__.py`
passes on counts as imported from where it is defined, and passing it on makes no edge. For edges and cycles, a file
beside the folders is a folder of its own.

Reading. Four things are run, with everything imported and compiled beforehand, and a file is opened if one of its
functions is executed; import code, methods that `dataclass` generates and templates do not count.

- a training step: the fourth of `phloem infer primates --branches edge`;
- the files of a run: one that is stopped after a checkpoint and resumed to its end. Here a file is opened if one of its
  functions is on the stack when something in the run's directory is opened, listed, made, renamed or removed; those in
  `cli` do not count;
- a likelihood: GTR with gamma rates, from the model's parameters to all gradients;
- a density: `phloem density fit primates`, from the command line to what it prints.

Three columns add up to `all`, so nothing is gained by moving a file from one to another. `kernels` are in the folder of
that name, or have compiled functions that are executed, that an executed function names, or that these name in turn;
`foundation` is what a reader knows after a day (FOUNDATION below); `modules` are the rest. The foundation is part of
the answer for the files of a run and counts among the modules there. A reader who wants the idea and not every line
opens fewer.
"""

import argparse
import ast
import importlib
import io
import json
import os
import pkgutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import redirect_stdout
from itertools import product
from pathlib import Path
from statistics import median
from types import CodeType, FrameType, ModuleType
from typing import Any

SMALL = 60  # lines
BASIC = ("errors", "arrays", "random_streams", "interrupts", "config/", "kernels/arrays", "kernels/jit")
FOUNDATION = (*BASIC, "files", "array_files", "sealed_files", "storage/")  # as they were called, and as they are
TOUCHING = {"open", "os.listdir", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.scandir"}  # audit events
INFER = (
    "infer primates --trees primates --model JC --branches edge --steps 6 --runs 1 --samples 20 --repeats 2 "
    "--threads 1 --quiet"
)
DENSITY = "density fit primates --preset quick --steps 20 --samples 100"
TRACED_STEP, STOPPED_STEP = 4, 5  # checkpoints are after 2 and 4

Sources = dict[str, tuple[int, ast.Module]]  # by path: how many lines, and what they say
Opened = dict[str, list[str]]  # files by column


def by_folder(paths: Iterable[str]) -> str:
    return listed(path.partition("/")[0] if "/" in path else "." for path in paths)


def listed(names: Iterable[str]) -> str:
    """Each name and how often it is there, the most frequent first."""
    return ", ".join(
        f"{name} {count}" for name, count in sorted(Counter(names).items(), key=lambda it: (-it[1], it[0]))
    )


def measure_size(sources: Sources) -> dict[str, Any]:
    """Files and their lines."""
    lines = {path: count for path, (count, _) in sources.items()}
    code = [path for path, (_, tree) in sources.items() if len(tree.body) > (ast.get_docstring(tree) is not None)]
    largest = max(lines, key=lambda path: lines[path])
    return {
        "files": len(lines),
        "files with code": len(code),
        "lines": sum(lines.values()),
        "median lines": f"{median(lines.values()):g}, with code {median(lines[path] for path in code):g}",
        "largest": f"{lines[largest]} {largest}",
        f"under {SMALL} lines": sum(lines[path] < SMALL for path in code),
        "by folder": by_folder(code),
    }


def imported(node: ast.AST) -> list[tuple[str, str, str]]:
    """What a statement imports of phloem: module, name in it or nothing, name that it gets."""
    found: list[tuple[str, str, str]] = []
    if isinstance(node, ast.ImportFrom):
        assert not node.level, "relative imports are not followed"
        found = [(node.module or "", alias.name, alias.asname or alias.name) for alias in node.names]
    elif isinstance(node, ast.Import):
        found = [(alias.name, "", alias.asname or "phloem") for alias in node.names]
    return [names for names in found if names[0].partition(".")[0] == "phloem"]


def measure_imports(sources: Sources) -> dict[str, Any]:
    """Who imports whom."""
    trees: dict[str, ast.Module] = {}
    passed_on: dict[tuple[str, str], tuple[str, str]] = {}  # (package, name) → (module, name there)
    for path, (_, tree) in sources.items():
        module = f"phloem/{path}".removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        trees[module] = tree
        if path.endswith("__init__.py"):
            used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
            every = [names for node in ast.walk(tree) for names in imported(node)]
            passed_on |= {(module, bound): (base, name) for base, name, bound in every if bound not in used}

    def target(base: str, name: str) -> str:
        if f"{base}.{name}" in trees:
            return f"{base}.{name}"
        return target(*passed_on[base, name]) if (base, name) in passed_on else base

    edges: set[tuple[str, str]] = set()
    inside: set[tuple[str, int]] = set()
    others: set[tuple[str, int]] = set()
    for module, tree in trees.items():
        for node in ast.walk(tree):
            found = [target(base, name) for base, name, bound in imported(node) if (module, bound) not in passed_on]
            edges |= {(module, other) for other in found if other != module}
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                for inner in ast.walk(node):
                    if isinstance(inner, ast.Import | ast.ImportFrom):
                        (inside if imported(inner) else others).add((module, inner.lineno))
    folders = [tuple([*module.split("."), ""][1] for module in edge) for edge in edges]
    reach = {pair for pair in folders if pair[0] != pair[1]}
    names = {name for pair in reach for name in pair}
    for between, one, other in product(names, repeat=3):  # Warshall's closure: the first changes slowest
        if (one, between) in reach and (between, other) in reach:
            reach.add((one, other))
    cycles = {" ".join(sorted(b for b in names if {(a, b), (b, a)} <= reach)) for a in names if (a, a) in reach}
    return {
        "import edges": len(edges),
        "within a folder": sum(one == other for one, other in folders),
        "single importer": sum(count == 1 for count in Counter(other for _, other in edges).values()),
        "cycles of folders": "; ".join(sorted(cycles)) or "none",
        "imports in functions": f"{len(inside)} of phloem, {len(others)} others",
        "of phloem": listed(module.removeprefix("phloem.") for module, _ in inside),
    }


class Tracer:
    """Notes which functions of the package are executed, and which touch the files of a directory."""

    def __init__(self, folder: Path) -> None:
        self.start = f"{folder}{os.sep}"
        self.executed: dict[CodeType, dict[str, Any]] = {}  # with their globals
        self.touching: set[CodeType] = set()
        self.watched: Path | None = None
        sys.addaudithook(self._audit)

    def _profile(self, frame: FrameType, event: str, _argument: object) -> None:
        if event == "call":
            self.executed[frame.f_code] = frame.f_globals

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.watched is None or event not in TOUCHING:
            return
        paths = [
            Path(os.fsdecode(given)).absolute() for given in arguments[:2] if isinstance(given, str | bytes | Path)
        ]
        frame = sys._getframe(1) if any(path.is_relative_to(self.watched) for path in paths) else None
        while frame:
            self.touching.add(frame.f_code)
            frame = frame.f_back

    def trace(self, task: Callable[[], Any]) -> Any:
        """Run a task, and note what it executes in place of what was noted before."""
        self.executed.clear()
        threading.setprofile(self._profile)
        sys.setprofile(self._profile)
        try:
            return task()
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    def files(self, codes: Iterable[CodeType]) -> set[str]:
        """The files of the package in which the functions are."""
        names = {code.co_filename for code in codes if code.co_filename.startswith(self.start)}
        return {Path(name.removeprefix(self.start)).as_posix() for name in names if name.endswith(".py")}

    def opened(self) -> Opened:
        """The files of what was executed. numba reports calls of compiled functions as Python does of others."""
        loaded = [module for name, module in sys.modules.items() if name.startswith("phloem.")]
        every = [value.py_func for module in loaded for value in vars(module).values() if hasattr(value, "py_func")]
        compiled = {function.__code__: function.__globals__ for function in every}
        kernels = self.executed.keys() & compiled.keys()
        waiting = [(code, compiled.get(code, names)) for code, names in self.executed.items()]
        while waiting:
            new = {function.__code__ for function in named_kernels(*waiting.pop())} - kernels
            kernels |= new
            waiting += [(code, compiled[code]) for code in new]
        plain = self.files(self.executed.keys() - compiled.keys())
        foundation = {path for path in plain if path.removesuffix(".py").startswith(FOUNDATION)}
        modules = {path for path in plain - foundation if not path.startswith("kernels/")}
        opened = self.files(kernels) | plain
        columns = {"modules": modules, "foundation": foundation, "kernels": opened - modules - foundation}
        return {column: sorted(files) for column, files in columns.items()}


def named_kernels(code: CodeType, names: dict[str, Any], depth: int = 3) -> Iterator[Any]:
    """The Python functions of the kernels that a function names, by themselves or in a module (`pruning.evaluate`)."""
    for value in (names[name] for name in code.co_names if name in names):
        if isinstance(value, ModuleType) and value.__name__.startswith("phloem") and depth:
            yield from named_kernels(code, vars(value), depth - 1)
        elif hasattr(value, "py_func"):
            yield value.py_func


def find(name: str) -> Any:
    """A public class or function, wherever it lives."""
    modules = [module for key, module in sorted(sys.modules.items()) if key.partition(".")[0] == "phloem"]
    found = (vars(module).get(name) for module in modules)  # not getattr, which asks modules for names that moved
    return next(value for value in found if (getattr(value, "__module__", "") or "").startswith("phloem"))


def command(text: str, code: int = 0) -> None:
    """A command of phloem in this process."""
    given = importlib.import_module("phloem.cli.main").run(text.split())
    assert given == code, f"phloem {text}: exit code {given}"


def infer(options: str, wanted: int, act: Callable[[Callable[[], Any]], Any], code: int = 0) -> None:
    """`phloem infer`, with one training step, counted from 1, taken by `act`, which is given the step."""
    training, taken = find("Training"), 0
    step = training.step

    def counted(self: Any) -> Any:
        nonlocal taken
        taken += 1
        return act(lambda: step(self)) if taken == wanted else step(self)

    training.step = counted
    command(f"{INFER} {options}", code)
    training.step = step


def stop(step: Callable[[], Any]) -> Any:
    """Ctrl-C during a step."""
    signal.raise_signal(signal.SIGINT)
    return step()


def likelihood(patterns: Any, topologies: Any) -> None:
    """A likelihood with gradients of the branch lengths and of the model, under GTR with gamma rates."""
    import torch

    lengths = torch.full((10, 21), 0.1, dtype=torch.float64, requires_grad=True)
    shape = torch.tensor(0.5, dtype=torch.float64, requires_grad=True)
    model = find("gtr")([1, 2, 1, 1, 3, 1], [0.3, 0.2, 0.2, 0.3], find("SiteRates")(shape=shape, categories=4))
    find("TreeLikelihood")(patterns, model, threads=1)(topologies, lengths).sum().backward()
    assert lengths.grad is not None
    assert shape.grad is not None


def read(folder: Path) -> dict[str, Opened]:
    """What a reader opens of the package that is imported, which must be the one in the folder."""
    import phloem

    assert Path(phloem.__file__).resolve().parent == folder, f"{phloem.__file__} was imported instead of {folder}"
    for module in pkgutil.walk_packages(phloem.__path__, "phloem."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    tracer, found = Tracer(folder), {}
    infer("--out traced", TRACED_STEP, tracer.trace)
    found["a training step"] = tracer.opened()

    tracer.watched = Path("stopped").absolute()
    infer("--out stopped --checkpoint-every 2steps", STOPPED_STEP, stop, code=130)
    command(f"{INFER} --out stopped --resume")
    tracer.watched = None
    touching = sorted(path for path in tracer.files(tracer.touching) if not path.startswith("cli/"))
    found["the files of a run"] = {"modules": touching, "foundation": [], "kernels": []}

    patterns = find("compress")(find("read_alignment")("primates"))
    topologies = find("random_topologies")(12, 10, stream=find("RandomStream")(1, "house"))
    likelihood(patterns, topologies)
    tracer.trace(lambda: likelihood(patterns, topologies))
    found["a likelihood"] = tracer.opened()

    command(f"{DENSITY} --out warm")
    tracer.trace(lambda: command(f"{DENSITY} --out density"))
    found["a density"] = tracer.opened()
    return found


def read_apart(folder: Path) -> dict[str, Opened]:
    """`read` in a process that imports the package from the folder, and in a directory of its own."""
    with tempfile.TemporaryDirectory() as home:
        own = [sys.executable, "-P", str(Path(__file__).resolve()), str(folder), "--read"]
        env = {**os.environ, "PYTHONPATH": str(folder.parent)}
        done = subprocess.run(own, env=env, cwd=home, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    found: dict[str, Opened] = json.loads(done.stdout)
    return found


def show(counts: dict[str, Any], reading: dict[str, Opened]) -> None:
    """Both as tables."""
    for what, value in counts.items():
        print(f"{what:<20}  {f'{value:,}' if isinstance(value, int) else value}")
    print(f"\n{'to read':<20}  modules  foundation  kernels  all  modules by folder")
    for question, opened in reading.items():
        modules, foundation, kernels = map(len, opened.values())
        total = modules + foundation + kernels
        print(
            f"{question:<20}  {modules:>7}  {foundation:>10}  {kernels:>7}  {total:>3}  {by_folder(opened['modules'])}"
        )


def main() -> None:
    """Count, trace and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    beside = Path(__file__).resolve().parents[1] / "src" / "phloem"
    parser.add_argument("folder", nargs="?", type=Path, default=beside, help="the package's sources")
    parser.add_argument("--json", action="store_true", help="as JSON, with the names of the files to read")
    parser.add_argument("--read", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    folder = given.folder.resolve()
    if given.read:
        with redirect_stdout(io.StringIO()):
            found = read(folder)
        print(json.dumps(found))
        return
    texts = {path.relative_to(folder).as_posix(): path.read_text("utf-8") for path in sorted(folder.rglob("*.py"))}
    sources = {path: (len(text.splitlines()), ast.parse(text)) for path, text in texts.items()}
    counts, reading = {**measure_size(sources), **measure_imports(sources)}, read_apart(folder)
    if given.json:
        print(json.dumps({"counts": counts, "reading": reading}, indent=1))
    else:
        show(counts, reading)


if __name__ == "__main__":
    main()
