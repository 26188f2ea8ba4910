"""What a run can be resumed with: the settings, the alignment and the support that it began with."""

from dataclasses import replace

import numpy as np
import pytest

import phloem
from phloem.config import InferConfig, to_toml
from phloem.data.alignment import Alignment
from phloem.display.events import News
from phloem.errors import FileProblem
from phloem.runs.directory import CONFIG, SavedRuns
from phloem.tasks.infer import Saved, run_configs
from phloem.tasks.run_files import InferRun, infer_run
from phloem.trees.generation import random_topologies
from support.begun_trainings import begun, checkpoint_of
from support.messages import saying

CONFIG_OF_ONE = InferConfig(seed=5, runs=1)


def begun_run(folder, config=CONFIG_OF_ONE) -> InferRun:
    """A run of which there is a checkpoint before the first step."""
    run = infer_run(folder)
    run.make()
    run.checkpoints.add(replace(checkpoint_of(*begun("split")), config=config))
    return run


def saved_in(run: InferRun) -> Saved:
    return SavedRuns.find(run, pytest.fail)


def test_a_run_goes_on_with_its_own_settings(tmp_path):
    saved = saved_in(begun_run(tmp_path))
    assert saved.config == CONFIG_OF_ONE
    saved.check_config(CONFIG_OF_ONE, run_configs(CONFIG_OF_ONE))
    with pytest.raises(FileProblem, match=saying("settings … seed … 5 … 6")):
        saved.check_config(other := replace(CONFIG_OF_ONE, seed=6), run_configs(other))


@pytest.mark.parametrize(("change", "facts"), [({"depth": 3}, "depth … 2 … 3"), ({"runs": 2}, "runs … 1 … 2")])
def test_a_config_file_that_was_edited_is_refused(tmp_path, change, facts):
    run = begun_run(tmp_path)
    run.write(CONFIG, to_toml(replace(CONFIG_OF_ONE, **change)))
    saved = saved_in(run)
    with pytest.raises(FileProblem, match=saying(f"settings … {facts}")):
        saved.check_config(saved.config, run_configs(saved.config))


def test_where_there_is_no_checkpoint_any_settings_will_do(tmp_path):
    run = infer_run(tmp_path)
    run.write(CONFIG, to_toml(CONFIG_OF_ONE))
    other = replace(CONFIG_OF_ONE, seed=6)
    saved_in(run).check_config(other, run_configs(other))


def test_several_runs_are_known_by_their_checkpoints_where_the_config_file_is_lost(tmp_path):
    together = InferConfig(seed=5, runs=3)
    for number, config in enumerate(run_configs(together), 1):
        begun_run(tmp_path / f"run-{number}", config)
    saved = saved_in(infer_run(tmp_path))
    assert saved.config == together
    saved.check_config(together, run_configs(together))


class Stopped(Exception):
    """Enough has been seen."""


def notices_of(path, **settings) -> list[str]:
    """What `phloem.infer` tells of the model before it begins."""
    alignment = begun("split")[0].target.likelihood.patterns.alignment
    trees = random_topologies(6, 3, stream=phloem.RandomStream(1, "t"))
    told: list[str] = []

    def listen(event) -> None:
        if isinstance(event, News):
            raise Stopped
        told.append(getattr(event, "text", ""))

    sample = phloem.trees.TreeSample(alignment.taxa, trees, np.ones(3), None)
    with pytest.raises(Stopped):
        phloem.infer(alignment, sample, out=path, progress=listen, **settings)
    return [text for text in told if text.startswith("model ")]


def test_a_run_says_that_it_takes_the_usual_model_where_nobody_has_named_one(tmp_path):
    usual = ["model GTR+G4, the default, with its parameters inferred; --model JC for the benchmarks' model"]
    assert notices_of(tmp_path / "a") == usual
    assert notices_of(tmp_path / "b", preset="quick", seed=3) == usual
    assert notices_of(tmp_path / "c", preset="paper") == []
    assert notices_of(tmp_path / "d", model={"name": "GTR+G4"}) == []
    assert notices_of(tmp_path / "e", config=InferConfig(seed=4)) == []


@pytest.fixture(scope="module")
def stopped_run(tmp_path_factory):
    """A run of two steps that has a checkpoint before the first, and what it was begun with."""
    path = tmp_path_factory.mktemp("stopped") / "run"
    training = begun("split")[0]
    alignment = training.target.likelihood.patterns.alignment
    trees = phloem.trees.TreeSample(
        alignment.taxa, random_topologies(6, 3, stream=phloem.RandomStream(1, "t")), np.ones(3), None
    )
    settings = {"branches": "split", "training": {"steps": 2}, "evaluation": {"repeats": 1, "samples": 5}}
    settings["model"] = {"name": "JC"}
    phloem.infer(alignment, trees, out=path, runs=1, progress=False, **settings)
    (path / "summary.json").unlink()
    return path, alignment, trees


def test_the_same_sequences_under_other_names_are_another_alignment(stopped_run):
    path, alignment, _ = stopped_run
    with pytest.raises(FileProblem, match=saying(f"{path}: … another alignment")):
        phloem.infer(Alignment(tuple("uvwxyz"), alignment.states), out=path, resume=True, progress=False)
    phloem.infer(alignment, out=path, resume=True, progress=False)


def test_trees_that_give_another_support_are_refused(stopped_run):
    path, alignment, trees = stopped_run
    with pytest.raises(FileProblem, match=saying(f"{path}: … another support")):
        phloem.infer(alignment, trees[:1], out=path, resume=True, progress=False)
    phloem.infer(alignment, trees, out=path, resume=True, progress=False)
