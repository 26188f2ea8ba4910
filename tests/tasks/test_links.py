"""Links in a run directory and beside it: nothing outside the directory is ever written or removed."""

import hashlib
import os
import shutil
from pathlib import Path

import pytest

import phloem
from phloem.cli.main import run
from phloem.errors import FileProblem
from phloem.tasks.run_files import EXPORTS

TINY = ["--preset", "quick", "--runs", "1", "--steps", "3", "--samples", "20", "--repeats", "2", "--quiet"]
TINY += ["--model", "JC", "--set", "training.refit=0", "--set", "evaluation.anneal=0", "--set", "evaluation.chains=0"]
INFER = ["infer", "primates", "--trees", "primates", *TINY]
INSIDE = (
    *("config.toml", "provenance.json", "history.csv", "support.npz", "parameters.safetensors", "draws.safetensors"),
    *("topologies.csv", "clades.csv", "summary.json", "SHA256SUMS", ".lock", *EXPORTS),
)
FIGURES = ("consensus.svg", "weights.svg")  # drawing takes seconds
FOLDERS = ("checkpoints", "tensorboard", "bootstrap", "run-1")
COMMANDS = {
    "force": [*INFER, "--out", "run", "--force"],
    "resume": ["infer", "--out", "run", "--resume", "--quiet"],
    "report": ["report", "run"],
    "figures": ["report", "run", "--figures", "svg"],
    "sample": ["sample", "run", "--out", "run/posterior.nex"],
    "sample to a name that is a link": ["sample", "run", "--out", "run/mine.nex", "--log", "run/mine.log"],
}


@pytest.fixture(scope="module")
def small_run(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("small") / "run"
    assert run([*INFER, "--out", str(path)]) == 0
    return path


@pytest.fixture
def home(small_run, tmp_path, monkeypatch):
    """A directory with a run, and outside it another run and a file of the user's."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(small_run, "run")
    shutil.copytree(small_run, "outside/other")
    Path("outside/precious.txt").write_text("precious")
    return tmp_path


def hashes(folder: str) -> dict[str, str]:
    paths = sorted(path for path in Path(folder).rglob("*") if path.is_file())
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("hard", [False, True], ids=["symbolic", "hard"])
def test_a_linked_file_keeps_what_it_points_to(command, hard, home):
    for name in FIGURES if command == "figures" else (*INSIDE, "mine.nex", "mine.log"):
        shutil.rmtree("run")
        shutil.copytree("outside/other", "run")
        link, target = Path("run", name), Path("outside/other", name)
        if name in EXPORTS or not target.exists():  # what is written anew would be the same again
            target = Path("outside/precious.txt")
        link.unlink(missing_ok=True)
        if hard:
            os.link(target, link)
        else:
            link.symlink_to(target.resolve())
        before = hashes("outside")
        run(COMMANDS[command])
        assert hashes("outside") == before, name


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", FOLDERS)
def test_a_linked_folder_keeps_what_is_in_it(name, command, home):
    shutil.rmtree(Path("run", name), ignore_errors=True)
    target = Path("outside/other", name)
    if name == "run-1":
        target = Path("outside/other")
    target.mkdir(exist_ok=True)
    (target / "events.out.tfevents.1").write_text("")
    (target / "bootstrap.json").write_text('{"files": {"replicate_01.nwk.gz": {}}}')
    (target / "replicate_01.nwk.gz").write_text("")
    Path("run", name).symlink_to(target.resolve())
    before = hashes("outside")
    run(COMMANDS[command])
    assert hashes("outside") == before


@pytest.mark.parametrize("option", ["--force", "--resume"])
@pytest.mark.parametrize("name", ["summary.json", "checkpoints", "tensorboard", "run-1", ".lock"])
def test_a_link_is_refused_by_its_name(name, option, home, capsys):
    path = Path("run", name)
    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    path.symlink_to(Path("outside/other").resolve())
    before = hashes("run")
    assert run([*INFER, "--out", "run", option]) == 2
    assert f"run/{name}: is a link" in capsys.readouterr().err
    assert hashes("run") == before


def test_links_that_lead_nowhere_are_not_followed(home):
    Path("run/report.html").unlink()
    Path("run/report.html").symlink_to(Path("outside/new.html").resolve())
    assert run(["report", "run"]) == 2
    assert run(COMMANDS["resume"]) == 2
    assert not Path("outside/new.html").exists()


def test_a_link_to_a_run_directory_is_that_directory(home):
    Path("link").symlink_to("run")
    assert run(["report", "link"]) == 0
    assert run(["infer", "--out", "link", "--resume", "--quiet"]) == 0


def test_a_checkpoint_folder_that_becomes_a_link_during_a_run_is_not_written_through(home):
    elsewhere = Path("outside/checkpoints").resolve()

    def move(event):
        if getattr(event, "report", None) and not elsewhere.exists():
            Path("new/checkpoints").rename(elsewhere)
            Path("new/checkpoints").symlink_to(elsewhere)
            moved.update(hashes("outside"))

    moved: dict[str, str] = {}
    with pytest.raises(FileProblem, match="new/checkpoints: is a link"):
        phloem.infer("primates", "primates", "quick", out="new", runs=1, training={"steps": 20}, progress=move)
    assert moved
    assert hashes("outside") == moved


def test_linked_replicates_are_refused(home, capsys):
    Path("replicates").mkdir()
    Path("replicates/replicate_01.nwk.gz").symlink_to(Path("outside/precious.txt").resolve())
    assert run(["bootstrap", "primates", "--out", "replicates", "--method", "embedded"]) == 2
    assert "replicate_01.nwk.gz: is a link" in capsys.readouterr().err
    assert Path("outside/precious.txt").read_text() == "precious"
