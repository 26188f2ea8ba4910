"""README and docs: the snippets run, and the links lead somewhere."""

import os
import re
import shlex
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from phloem.cli import main

with warnings.catch_warnings():  # a tutorial uses it, and its own imports meet what torch has deprecated
    warnings.simplefilter("ignore")
    import torch_geometric.nn  # noqa: F401

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)[^)]*\)")
CODE = re.compile(r"`((?:\w+/)*\w+\.py|(?:\w+/)+)`")  # a file such as `runs/driver.py`, or a folder such as `runs/`


def snippets(page: Path, language: str) -> list[str]:
    return [body for found, body in FENCE.findall(page.read_text()) if found == language]


@pytest.fixture
def output_of(capsys, monkeypatch):
    """Runs a command and gives what it prints: in this process, which has loaded all of phloem, or in a shell."""
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("COLUMNS", "80")

    def output(command: str) -> str:
        if command.startswith("phloem ") and not set(command) & set("|&;<>$*"):
            capsys.readouterr()
            code = main.run(shlex.split(command)[1:])
            said = capsys.readouterr()
            assert code == 0, f"{command}\n{said.err}"
            return said.out
        done = subprocess.run(["bash", "-ec", command], capture_output=True, text=True)
        assert done.returncode == 0, f"{command}\n{done.stderr}"
        return done.stdout

    return output


def with_few_steps(command: str) -> str:
    """Presets take as long as a user will wait; what they find is tested elsewhere."""
    if "--steps" in command:
        return command
    few = "--preset quick --steps 300"
    command = command.replace("--preset quick", few)
    return command.replace(f"phloem infer primates {few}", f"phloem infer primates {few} --set evaluation.anneal=200")


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_snippets_run_in_an_empty_directory(page, tmp_path, monkeypatch, output_of):
    """First the commands, then the Python code, each page in one directory, as a reader would."""
    monkeypatch.chdir(tmp_path)
    for block in snippets(page, "console"):
        commands = [line[2:] for line in block.splitlines() if line.startswith("$ ")]
        assert commands, "a console block shows commands after `$ `"
        for command in commands:
            printed = output_of(with_few_steps(command))
        expected = [line for line in block.splitlines() if not line.startswith("$ ")]
        if expected and len(commands) == 1 and "…" not in block:
            assert printed.splitlines() == expected
    namespace: dict[str, object] = {}
    for block in snippets(page, "python"):
        exec(compile(block, str(page), "exec"), namespace)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files(page):
    for target in LINK.findall(page.read_text()):
        if not target.startswith(("http", "mailto")):
            assert (page.parent / target).exists(), target


@pytest.mark.parametrize(
    "page", [*PAGES, ROOT / "benchmarks" / "README.md"], ids=lambda page: str(page.relative_to(ROOT))
)
def test_sources_that_a_page_names_exist(page):
    """Files on every page; folders on that of the architecture, as others also name folders of a run."""
    is_architecture = page.name == "architecture.md"
    roots = (ROOT / "src" / "phloem", ROOT, page.parent)
    named = [name for name in CODE.findall(page.read_text()) if is_architecture or name.endswith(".py")]
    assert named or not is_architecture
    assert [name for name in named if not any((root / name).exists() for root in roots)] == []


def test_the_index_has_every_page():
    index = ROOT / "docs" / "index.md"
    listed = {(index.parent / target).resolve() for target in LINK.findall(index.read_text())}
    assert [page.name for page in PAGES if page != index and page.resolve() not in listed] == []


def test_the_readme_has_snippets_to_run():
    assert snippets(ROOT / "README.md", "console")
    assert snippets(ROOT / "README.md", "python")


def test_decisions_are_numbered_in_a_row():
    numbers = [int(path.name[:3]) for path in sorted((ROOT / "docs" / "decisions").glob("*.md"))]
    assert numbers == list(range(1, len(numbers) + 1))


@pytest.mark.slow
def test_the_tour_runs(tmp_path):
    script = ROOT / "examples" / "tour.py"
    run = subprocess.run([sys.executable, str(script)], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "21 of 21 topologies" in run.stdout
    assert "-6424.202" in run.stdout


@pytest.mark.slow
def test_the_demo_is_the_main_job_on_the_bundled_example(tmp_path):
    """What `make demo` runs but for its steps, twice: the second time the first run is in its place."""
    (recipe,) = re.findall(r"^demo:.*\n\t\$\(BIN\)/(phloem infer primates .*)$", (ROOT / "Makefile").read_text(), re.M)
    command = [str(Path(sys.executable).parent / "phloem"), *recipe.split()[1:]]
    for steps in ("400", "5"):
        run = subprocess.run([*command, "--steps", steps], cwd=tmp_path, capture_output=True, text=True, check=True)
        assert run.stdout.startswith("log marginal likelihood    -5")
