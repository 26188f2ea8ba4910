"""The program itself, from its first line on: requests to stop."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PROGRAMS = {
    "python -m phloem": [sys.executable, "-m", "phloem"],
    "phloem": [sys.executable, "-c", "import sys; from phloem.__main__ import main; sys.exit(main())"],
}
# Python imports this file, if there is one, before any other.
CTRL_C_AT_AN_IMPORT = """
import signal, sys

class Interrupt:
    def find_spec(name, path=None, target=None):
        if name == {name!r}:
            sys.meta_path.remove(Interrupt)
            signal.raise_signal(signal.{how})

sys.meta_path.insert(0, Interrupt)
"""


def run_interrupted(program: str, name: str, folder: Path, *arguments: str, how: str = "SIGINT"):
    (folder / "sitecustomize.py").write_text(CTRL_C_AT_AN_IMPORT.format(name=name, how=how))
    path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = os.environ | {"PYTHONPATH": path}
    return subprocess.run([*PROGRAMS[program], *arguments], env=environment, capture_output=True, text=True, cwd=folder)


def test_the_installed_program_listens_as_early_as_the_module():
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts == {"phloem": "phloem.__main__:main"}


def test_nothing_that_takes_time_is_imported_before_it_listens():
    script = "import sys; before = set(sys.modules); import phloem; print(*sys.modules.keys() - before)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) == {"phloem", "phloem.lazy"}


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("name", ["phloem.cli", "typer", "phloem.cli.support"])
def test_ctrl_c_while_the_commands_are_imported_is_a_line(program, name, tmp_path):
    done = run_interrupted(program, name, tmp_path, "--version")
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "phloem: interrupted.\n")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["numpy", "numpy.linalg", "torch", "torch._C", "llvmlite", "phloem.kernels.jit"])
@pytest.mark.parametrize("how", ["SIGINT", "SIGTERM"])
def test_a_request_to_stop_while_a_task_is_imported_is_a_line(name, how, tmp_path):
    done = run_interrupted("phloem", name, tmp_path, "infer", "primates", "--out", "run", how=how)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "phloem: interrupted.\n")
    assert sorted(path.name for path in tmp_path.iterdir() if path.suffix != ".py") in ([], ["__pycache__"])
