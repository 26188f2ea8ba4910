"""What may be gone on with: the settings, the alignment and the support that a run was begun with."""

from dataclasses import replace

import pytest

from phloem.config import InferConfig, to_toml
from phloem.data.alignment import Alignment
from phloem.errors import FileProblem
from phloem.runs.directory import CONFIG
from phloem.tasks.infer import SavedRuns, find_saved, run_configs
from phloem.tasks.run_files import infer_run
from support.begun_trainings import begun, checkpoint_of
from support.messages import saying

CONFIG_OF_ONE = InferConfig(seed=5, runs=1)


def begun_run(folder, config=CONFIG_OF_ONE) -> infer_run:
    """A run of which there is a checkpoint before the first step."""
    run = infer_run(folder)
    run.make()
    run.checkpoints.add(replace(checkpoint_of(*begun("split")), config=to_toml(config)))
    return run


def saved_in(run: infer_run) -> SavedRuns:
    return find_saved(run, pytest.fail)


def test_a_run_goes_on_with_its_own_settings(tmp_path):
    saved = saved_in(begun_run(tmp_path))
    assert saved.config == CONFIG_OF_ONE
    saved.check_config(CONFIG_OF_ONE)
    with pytest.raises(FileProblem, match=saying("settings … seed … 5 … 6")):
        saved.check_config(replace(CONFIG_OF_ONE, seed=6))


@pytest.mark.parametrize(("change", "facts"), [({"depth": 3}, "depth … 2 … 3"), ({"runs": 2}, "runs … 1 … 2")])
def test_a_config_file_that_was_edited_is_refused(tmp_path, change, facts):
    run = begun_run(tmp_path)
    run.write(CONFIG, to_toml(replace(CONFIG_OF_ONE, **change)))
    saved = saved_in(run)
    with pytest.raises(FileProblem, match=saying(f"settings … {facts}")):
        saved.check_config(saved.config)


def test_where_there_is_no_checkpoint_any_settings_will_do(tmp_path):
    run = infer_run(tmp_path)
    run.write(CONFIG, to_toml(CONFIG_OF_ONE))
    saved_in(run).check_config(replace(CONFIG_OF_ONE, seed=6))


def test_several_runs_are_known_by_their_checkpoints_where_the_config_file_is_lost(tmp_path):
    together = InferConfig(seed=5, runs=3)
    for number, config in enumerate(run_configs(together), 1):
        begun_run(tmp_path / f"run-{number}", config)
    saved = saved_in(infer_run(tmp_path))
    assert saved.config == together
    saved.check_config(together)


def test_the_same_sequences_under_other_names_are_another_alignment(tmp_path):
    saved = saved_in(begun_run(tmp_path))
    alignment = saved.first.patterns.alignment
    saved.check_alignment(alignment, "dna.fasta")
    with pytest.raises(FileProblem, match=saying("alignment … dna.fasta")):
        saved.check_alignment(Alignment(tuple("uvwxyz"), alignment.states), "dna.fasta")
