"""Densities as files: what comes back is bit for bit what was written, or nothing."""

import json
import math

import numpy as np
import pytest

from phloem.config.density import NOISES
from phloem.energy.density import Normalizer
from phloem.energy.files import DensityInputs, read_density, write_density
from phloem.energy.files import trained as model_with
from phloem.energy.training import Appraiser, DensityReport, DensityReporter, DensityTraining, train_density
from phloem.errors import FileProblem
from phloem.runs.checkpoints import Checkpoint, CheckpointFolder, read_checkpoint, write_checkpoint
from phloem.runs.driver import take_steps
from phloem.runs.history import History
from phloem.storage.arrays import OtherFormat, OtherKind, read_sealed, without_prefix, write_sealed
from phloem.tasks.density import DENSITY_RUNS, DensityCheckpoint
from phloem.trees.generation import all_topologies
from support.small_densities import sample_of, target, trained, training_of

CASES = [*((noise, "noise") for noise in NOISES), ("sbn", "uniform")]


@pytest.mark.parametrize(("noise", "base"), CASES)
def test_a_density_comes_back_bit_for_bit(noise, base, tmp_path):
    density = trained(5, noise, base)
    path = tmp_path / "density.safetensors"
    write_density(density, path)
    back = read_density(path)
    topologies = all_topologies(5)
    np.testing.assert_array_equal(back.log_prob(topologies), density.log_prob(topologies))
    np.testing.assert_array_equal(back.noise.log_prob(topologies), density.noise.log_prob(topologies))
    np.testing.assert_array_equal(
        back.unnormalized.base.log_prob(topologies), density.unnormalized.base.log_prob(topologies)
    )
    assert type(back.noise) is type(density.noise)
    assert back.config == density.config
    assert back.taxa == density.taxa
    np.testing.assert_array_equal(back.observed.weights, density.observed.weights)
    np.testing.assert_array_equal(back.observed.topologies.parent, density.observed.topologies.parent)
    for one, two in zip(back.normalizer, density.normalizer, strict=True):
        assert one == two or (math.isnan(one) and math.isnan(two))


@pytest.mark.parametrize(
    "normalizer", [Normalizer(0.1, 0.2, None, 50, 7.3, None), Normalizer(-1.5, 0.2, None, 50, 7.3, 0.4)]
)
def test_an_estimated_normaliser_comes_back(normalizer, tmp_path):
    density = trained(5)
    path = tmp_path / "density.safetensors"
    write_density(
        type(density)(density.config, density.observed, density.unnormalized, density.noise, normalizer), path
    )
    assert read_density(path).normalizer == normalizer


def checkpoint_of(
    training: DensityTraining, sample, history: History[DensityReport] | None = None
) -> DensityCheckpoint:
    inputs = DensityInputs(sample, training.noise)
    return Checkpoint(training.config, inputs, training.state(), history or History(DensityReport))


@pytest.mark.parametrize(("noise", "base"), CASES)
def test_a_training_goes_on_from_its_checkpoint_bit_for_bit(noise, base, tmp_path):
    sample = target(5)[:10].normalized()
    path = tmp_path / "checkpoint.safetensors"
    training = training_of(sample, noise=noise, base=base, steps=10)
    history = History(DensityReport)
    appraise = Appraiser(sample, training.noise, ratio=1, draws=10)
    for _ in take_steps(training, DensityReporter(training, appraise), history):
        if training.steps_done == 6:
            write_checkpoint(DENSITY_RUNS, checkpoint_of(training, sample, history), path)
            break
    found = read_checkpoint(DENSITY_RUNS, path)
    assert found.step == 6
    assert (found.config, found.inputs.sample.taxa) == (training.config, sample.taxa)
    assert found.history.reports == history.reports != []
    assert found.history.recent == history.recent != []
    assert found.history.seconds == history.seconds
    resumed = DensityTraining(*found.inputs, found.config)
    resumed.restore(found.training)
    one = train_density(training, appraise, history=history)
    two = train_density(resumed, Appraiser(*found.inputs, ratio=1, draws=10), history=found.history)
    assert [report._replace(seconds=0) for report in one] == [report._replace(seconds=0) for report in two]
    topologies = all_topologies(5)
    np.testing.assert_array_equal(training.density.log_density(topologies), resumed.density.log_density(topologies))


def test_the_model_of_a_checkpoint_is_that_of_the_training():
    training = training_of(target(5), noise="sbn")
    training.step()
    model = model_with(training.config, training.noise, without_prefix("model", training.state()))
    topologies = all_topologies(5)
    before = training.density.log_density(topologies)
    np.testing.assert_array_equal(model.log_density(topologies), before)
    training.step()
    np.testing.assert_array_equal(model.log_density(topologies), before)  # it has memory of its own


def test_a_folder_has_the_newest_checkpoint(tmp_path):
    sample = target(5)
    training = training_of(sample)
    folder = CheckpointFolder(tmp_path / "checkpoints", DENSITY_RUNS)
    for _ in range(3):
        training.step()
        folder.add(checkpoint_of(training, sample))
    newest, problems = folder.newest()
    assert newest is not None
    assert (newest.step, problems) == (3, [])


def test_a_changed_byte_is_refused_in_one_line(tmp_path):
    path = tmp_path / "density.safetensors"
    write_density(trained(4), path)
    content = path.read_bytes()
    random = np.random.default_rng(1)
    for place in [0, 7, 8, 50, len(content) - 1, *random.integers(len(content), size=40)]:
        damaged = bytearray(content)
        damaged[place] ^= 1 << int(random.integers(8))
        path.write_bytes(damaged)
        with pytest.raises(FileProblem, match=r"density\.safetensors: ") as raised:
            read_density(path)
        assert str(raised.value).isprintable()
    for size in (0, 5, 100, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:size])
        with pytest.raises(FileProblem, match=r"density\.safetensors: is damaged"):
            read_density(path)
    with pytest.raises(FileProblem, match=r"nothing: no such file"):
        read_density(tmp_path / "nothing")


@pytest.mark.parametrize(
    "change",
    [
        lambda arrays, texts: arrays.pop("sample.weights"),
        lambda arrays, texts: arrays.pop("model.readout.second.bias"),
        lambda arrays, texts: arrays.update({"model.readout.second.bias": np.zeros(2, np.float32)}),
        lambda arrays, texts: arrays.update({"sample.parent": arrays["sample.parent"] + 1}),
        lambda arrays, texts: arrays.update({"sample.weights": -arrays["sample.weights"]}),
        lambda arrays, texts: arrays.pop("noise.logits"),
        lambda arrays, texts: texts.update(taxa=json.dumps(["a", "b"])),
        lambda arrays, texts: texts.update(config="steps = 0"),
        lambda arrays, texts: texts.update(config="sleeps = 1"),
        lambda arrays, texts: texts.update(normalizer="[1"),
        lambda arrays, texts: texts.pop("normalizer"),
    ],
)
def test_parts_that_make_no_sense_are_refused_in_one_line(change, tmp_path):
    path = tmp_path / "density.safetensors"
    write_density(trained(5, "sbn"), path)
    arrays, texts = read_sealed(path, kind="density fit", layout="1")
    texts = {name: text for name, text in texts.items() if name in ("config", "taxa", "normalizer")}
    change(arrays, texts)
    write_sealed(path, arrays, texts, kind="density fit", layout="1")
    with pytest.raises(FileProblem, match=r"density\.safetensors: is damaged \(its parts make no sense\)\.$"):
        read_density(path)


def test_files_of_other_commands_and_versions_say_so(tmp_path):
    path = tmp_path / "density.safetensors"
    write_sealed(path, {}, {}, kind="infer", layout="1")
    with pytest.raises(OtherKind, match="is of a run of `phloem infer`, not of `phloem density fit`"):
        read_density(path)
    write_sealed(path, {}, {}, kind="density fit", layout="0")
    with pytest.raises(OtherFormat, match="in format 0, and this version has format 1"):
        read_checkpoint(DENSITY_RUNS, path)


def test_trees_of_weight_zero_stay_in_a_list(tmp_path):
    sample = sample_of(all_topologies(5)[:4], [1, 0, 2, 1]).normalized()
    training = training_of(sample, noise="listed")
    write_checkpoint(DENSITY_RUNS, checkpoint_of(training, sample), tmp_path / "c")
    back = read_checkpoint(DENSITY_RUNS, tmp_path / "c").inputs.noise
    np.testing.assert_array_equal(back.log_prob(all_topologies(5)), training.noise.log_prob(all_topologies(5)))
