"""The benchmark as a whole, on a small data set: what is trained, what is reused, what fails, what tables say."""

import gzip
import json
import shutil
from pathlib import Path

import pytest

from phloem.errors import BadArgument, ConfigError, FileProblem, ProgramProblem
from phloem.experiments.benchmark import task
from phloem.experiments.benchmark.cells import Cell, Setup
from phloem.experiments.benchmark.figures import draw_figures
from phloem.experiments.benchmark.gaps import gaps_path, reproduce_table2
from phloem.experiments.benchmark.processes import Ended
from phloem.experiments.benchmark.supports import Bootstrap, support_trees
from phloem.experiments.benchmark.task import reproduce_supports, reproduce_table1
from support.small_benchmark import NAME, SETUP, data_folder, small_request

SPLIT, MLP = (Cell(SETUP, NAME, variant, 1) for variant in ("split", "mlp"))


def benchmark(request, show=lambda *_: None):
    """The results, and what was said."""
    said = []
    return reproduce_table1(request, show, said.append), said


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    """Two cells; no test may change it."""
    folder = tmp_path_factory.mktemp("benchmark")
    benchmark(small_request(folder / "out", data_folder(folder / "data"), jobs=2))
    return folder / "out"


@pytest.fixture
def copied(finished, tmp_path) -> Path:
    return shutil.copytree(finished, tmp_path / "copy")


@pytest.fixture
def no_processes(monkeypatch):
    """Nothing may be run."""

    def run(commands, *_args, **_options):
        assert list(commands) == []

    monkeypatch.setattr(task, "run_processes", run)


def cells_of(out: Path) -> dict[str, dict]:
    return {
        f"{cell['variant']}-{cell['seed']}": cell for cell in json.loads((out / "table1.json").read_text())["cells"]
    }


def test_the_table_has_the_numbers_of_the_runs(finished):
    cells = cells_of(finished)
    assert list(cells) == ["split-1", "mlp-1"]
    for cell in (SPLIT, MLP):
        summary = json.loads((cell.directory(finished) / "summary.json").read_text())
        found = cells[f"{cell.variant}-1"]
        assert found["state"] == "finished"
        assert (found["elbo"]["mean"], found["elbo"]["std"]) == tuple(summary["elbo"].values())
        assert found["log_marginal_likelihood"]["mean"] == summary["log_marginal_likelihood"]["mean"]
        assert found["elbo"]["published"] is found["elbo"]["difference"] is None
        assert found["steps"] == found["steps_done"] == 30
        assert summary["family"] == "lognormal"
        assert summary["chains"] is None
        assert summary["annealed"] is None
        assert 0 < found["training_seconds"] < found["wall_seconds"]
        assert found["processor_seconds"] > 0
        assert found["support"]["origin"].startswith("bootstrap by embedded search of phloem")
        assert (found["support"]["replicates"], found["changes"]["training.refit"]) == (1, "0")
    for suffix in ("md", "html"):
        assert "finished" in (finished / f"table1.{suffix}").read_text()


def test_both_cells_have_the_same_trees(finished):
    arrays = [(cell.directory(finished) / "support.npz").read_bytes() for cell in (SPLIT, MLP)]
    assert arrays[0] == arrays[1]


@pytest.mark.usefixtures("no_processes")
def test_a_finished_cell_is_not_run_again(copied):
    before = (SPLIT.directory(copied) / "provenance.json").read_text()
    results, said = benchmark(small_request(copied, None))
    assert [result.state for result in results] == ["finished", "finished"]
    assert said == ["2 cells of 2 are there already"]
    assert (SPLIT.directory(copied) / "provenance.json").read_text() == before


@pytest.mark.usefixtures("no_processes")
def test_tables_keep_what_earlier_calls_have_found(copied):
    benchmark(small_request(copied, None, variants=("mlp",)))
    assert list(cells_of(copied)) == ["split-1", "mlp-1"]


def test_a_stopped_cell_resumes_to_the_same_result(finished, tmp_path):
    """What is stopped is shown as stopped, and the other as not begun."""
    out, data = tmp_path / "out", data_folder(tmp_path / "data")
    run = SPLIT.directory(out)

    def stop(*_):
        if run.joinpath("history.csv").exists():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        benchmark(small_request(out, data), stop)
    assert cells_of(out)["split-1"]["state"] in ("stopped", "finished")
    assert cells_of(out)["mlp-1"]["state"] == "not begun"
    shutil.rmtree(data)  # the copy and the trees are there
    benchmark(small_request(out, None))
    for cell in (SPLIT, MLP):
        ours, theirs = (json.loads((cell.directory(folder) / "summary.json").read_text()) for folder in (out, finished))
        assert ours["elbo"] == theirs["elbo"]
    assert {name: cell["state"] for name, cell in cells_of(out).items()} == {"split-1": "finished", "mlp-1": "finished"}


def test_a_cell_that_fails_is_told_of_and_stops_no_other(copied):
    for cell in (SPLIT, MLP):
        shutil.rmtree(cell.directory(copied))
    SPLIT.directory(copied).mkdir()
    (SPLIT.directory(copied) / "notes.txt").write_text("mine")
    with pytest.raises(ProgramProblem, match=r"1 cell failed, P1-split-1: .*notes.txt and no run.*1 of 2 cells"):
        benchmark(small_request(copied, None))
    cells = cells_of(copied)
    assert (cells["split-1"]["state"], cells["mlp-1"]["state"]) == ("failed", "finished")
    assert "notes.txt" in cells["split-1"]["problem"]
    assert "notes.txt" in (copied / "table1.md").read_text()
    (SPLIT.directory(copied) / "notes.txt").unlink()
    results, _ = benchmark(small_request(copied, None))
    assert [result.state for result in results] == ["finished", "finished"]


@pytest.mark.usefixtures("no_processes")
def test_a_data_set_that_is_missing_fails_its_cells(tmp_path):
    (tmp_path / "data").mkdir()
    with pytest.raises(ProgramProblem, match="2 cells failed, P1-split-1: P1: found no alignment in"):
        benchmark(small_request(tmp_path / "out", tmp_path / "data"))
    assert {cell["state"] for cell in cells_of(tmp_path / "out").values()} == {"failed"}


@pytest.mark.usefixtures("no_processes")
def test_a_cell_at_work_elsewhere_is_left_alone(copied, monkeypatch):
    (SPLIT.directory(copied) / "summary.json").unlink()
    with SPLIT.run(copied).path.joinpath(".lock").open("w"):
        monkeypatch.setattr("phloem.runs.directory.RunDirectory.is_in_use", lambda run: run.path.name == SPLIT.name)
        results, said = benchmark(small_request(copied, None))
    assert [result.state for result in results] == ["running", "finished"]
    assert "P1-split-1: another process is at work on it, which is left alone" in said


@pytest.mark.usefixtures("no_processes")
def test_a_cell_with_other_settings_is_a_failure(copied):
    path = MLP.directory(copied) / "config.toml"
    path.write_text(path.read_text().replace("rate = 0.003", "rate = 0.004"))
    with pytest.raises(ProgramProblem, match=r"P1-mlp-1: .* other settings: training.rate is 0.004, not 0.003"):
        benchmark(small_request(copied, None))


@pytest.mark.usefixtures("no_processes")
def test_supports_are_made_once(finished, tmp_path, monkeypatch):
    out, data = tmp_path / "out", data_folder(tmp_path / "data")
    request = small_request(out, data)
    made = reproduce_supports(request, lambda *_: None, lambda _text: None)
    monkeypatch.setattr("phloem.experiments.benchmark.supports.run_bootstrap", None)  # it may not be called again
    assert reproduce_supports(request, lambda *_: None, lambda _text: None) == made
    assert made[NAME] == support_trees(out, NAME)
    name = "replicate_01.nwk.gz"
    assert (out / "supports" / NAME / name).read_bytes() == (finished / "supports" / NAME / name).read_bytes()
    for bootstrap, words in ((Bootstrap(2), "--bootstrap-replicates 2"), (Bootstrap(1, 31), "--bootstrap-trees 31")):
        with pytest.raises(ProgramProblem, match=words):
            reproduce_supports(request._replace(bootstrap=bootstrap), lambda *_: None, lambda _text: None)
    (out / "supports" / NAME / name).write_text("")
    with pytest.raises(FileProblem, match="is not as it was written"):
        support_trees(out, NAME)


def test_the_replicates_of_the_data_are_taken_where_there_are_enough(finished, tmp_path):
    data = data_folder(tmp_path / "data")
    trees = finished / "supports" / NAME / "replicate_01.nwk.gz"
    (data / "ufboot" / NAME).mkdir(parents=True)
    for number in (1, 2, 10):
        shutil.copy(trees, data / "ufboot" / NAME / f"rep_{number}.ufboot.gz")
    request = small_request(tmp_path / "out", data, bootstrap=Bootstrap(2))
    [made] = reproduce_supports(request, lambda *_: None, lambda _text: None).values()
    assert made.origin == "IQ-TREE's ultrafast bootstrap under JC, of the benchmark's data"
    assert sorted(path.name for path in made.path.iterdir()) == ["rep_1.ufboot.gz", "rep_2.ufboot.gz"]
    assert (made.replicates, made.trees) == (2, len(gzip.decompress(trees.read_bytes()).splitlines()))


def test_trees_of_two_beginnings_are_not_mixed(finished, tmp_path):
    folder = tmp_path / "out" / "supports" / NAME
    folder.mkdir(parents=True)
    shutil.copy(finished / "supports" / NAME / "replicate_01.nwk.gz", folder / "rep_1.ufboot.gz")
    with pytest.raises(ProgramProblem, match=r"rep_1.ufboot.gz: is of another bootstrap, which was not finished"):
        reproduce_supports(
            small_request(tmp_path / "out", data_folder(tmp_path / "data")), lambda *_: None, lambda _text: None
        )


def test_a_cell_that_another_call_has_finished_did_not_fail(copied, monkeypatch):
    """Ours ran into the other's lock."""
    kept = (SPLIT.directory(copied) / "summary.json").read_bytes()
    (SPLIT.directory(copied) / "summary.json").unlink()

    def run(commands, *_, begun, ended, **__):
        assert len(commands) == 1
        begun(0)
        (SPLIT.directory(copied) / "summary.json").write_bytes(kept)
        ended(0, Ended(2, 1.0, 1.0, "out/cells: is in use by another run."))

    monkeypatch.setattr(task, "run_processes", run)
    results, said = benchmark(small_request(copied, None))
    assert [result.state for result in results] == ["finished", "finished"]
    assert "P1-split-1: another process has finished it" in said
    assert len(json.loads(SPLIT.sessions_path(copied).read_text())["sessions"]) == 1


def test_gaps_are_measured_once_for_every_model(copied, tmp_path, monkeypatch):
    trees = copied / "supports" / NAME / "replicate_01.nwk.gz"
    said = []
    request = small_request(copied, None)
    found = reproduce_table2(request, [trees], 20, lambda *_: None, said.append)
    assert [cell["state"] for cell in found["cells"]] == ["finished", "finished"]
    assert all(cell["trees"] and cell["gaps"]["by probability"]["gap"] > 0 for cell in found["cells"])
    assert json.loads((copied / "table2.json").read_text()) == found
    for suffix in ("md", "html"):
        assert "20 draws a bound" in (copied / f"table2.{suffix}").read_text()
    record = json.loads(gaps_path(SPLIT, copied).read_text())
    gaps_path(SPLIT, copied).write_text(json.dumps(record | {"parameters": "of another model"}))
    commands = []
    monkeypatch.setattr("phloem.experiments.benchmark.gaps.run_processes", lambda todo, *_, **__: commands.extend(todo))
    found = reproduce_table2(request, [trees], 20, lambda *_: None, said.append)
    assert [command[1] for command in commands] == [str(SPLIT.directory(copied))]
    assert [cell["state"] for cell in found["cells"]] == ["not measured", "finished"]
    written = draw_figures(request)
    assert [path.suffix for path in written] == [".pdf", ".svg", ".json"]
    assert len(json.loads(written[2].read_text())["gaps"]) == 1
    with pytest.raises(BadArgument, match="found no trees of its posterior"):
        reproduce_table2(request, [], 20, lambda *_: None, said.append)


def test_figures_are_of_what_is_there(copied):
    pdf, svg, numbers = draw_figures(small_request(copied, None))
    assert pdf.read_bytes().startswith(b"%PDF")
    assert "Split" in svg.read_text()
    assert json.loads(numbers.read_text())["setup"] == SETUP.name
    curves = json.loads(numbers.read_text())["curves"]
    assert [curve["variant"] for curve in curves] == ["split", "mlp"]
    assert curves[0]["steps"][-1] == 30
    with pytest.raises(FileProblem, match=r"no cells of lognormal-paper .* It has others: lognormal-standard"):
        draw_figures(small_request(copied, None, setup=Setup(preset="paper")))


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"datasets": ("DS99",)}, BadArgument, "--datasets 'DS99': choose from P1"),
        ({"datasets": ()}, BadArgument, "--datasets: give each once, and at least one"),
        ({"variants": ("edge", "edge")}, BadArgument, "--variants: give each once"),
        ({"variants": ("gin-text",)}, BadArgument, "--variants 'gin-text': choose from split, psp"),
        ({"seeds": (1, 1)}, BadArgument, "--seeds: give each once"),
        ({"jobs": 0}, BadArgument, "--jobs 0"),
        ({"setup": Setup("normal")}, ConfigError, "--family 'normal'"),
        ({"setup": Setup(preset="fast")}, ConfigError, "--preset 'fast'"),
        ({"setup": Setup(changes=(("training.steps", "0"),))}, ConfigError, "--steps 0"),
    ],
    ids=str,
)
def test_what_makes_no_sense_leaves_nothing(changes, error, words, tmp_path):
    with pytest.raises(error, match=words):
        benchmark(small_request(tmp_path / "deep" / "out", tmp_path, **changes))
    assert not (tmp_path / "deep").exists()


def test_a_directory_with_other_files_is_left_alone(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(FileProblem, match=r"is not empty \(it holds notes.txt\) and is no benchmark"):
        benchmark(small_request(tmp_path, None))
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
