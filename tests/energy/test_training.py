"""Training: gradients against an enumerated oracle, targets recovered, and every step repeatable."""

import math

import numpy as np
import pytest
import torch

from phloem.config.infer import NETWORKS
from phloem.energy.nce import best_loss
from phloem.energy.noise import UniformNoise
from phloem.energy.training import (
    Appraiser,
    DensityReport,
    DensityReporter,
    DensityStep,
    DensityTraining,
    new_model,
    train_density,
)
from phloem.errors import BadArgument, TrainingFailed
from phloem.random_streams import RandomStream
from phloem.runs.driver import take_steps
from phloem.runs.history import History
from phloem.trees.generation import all_topologies
from phloem.trees.topology import TopologyBatch
from reference.plain_nce import energy, loss
from support.nce_draws import drawn_by
from support.small_densities import config_of, sample_of, target, training_of


def gradients_of(training: DensityTraining) -> list[torch.Tensor]:
    return [parameter.grad.clone() for parameter in training.density.model.parameters()]


@pytest.mark.parametrize(
    ("convolution", "noise", "base"),
    [(name, "uniform", "noise") for name in NETWORKS]
    + [("ggnn", "listed", "noise"), ("ggnn", "sbn", "noise"), ("ggnn", "sbn", "uniform"), ("mlp", "sbn", "uniform")],
)
def test_a_steps_gradient_is_that_of_a_loop_over_the_drawn_trees(convolution, noise, base):
    sample = target(5)
    settings = {"convolution": convolution, "noise": noise, "base": base, "seed": 3}
    training = training_of(sample, double=True, batch=3, noise_ratio=2, **settings)
    found_loss = training.gradients(5)
    found = gradients_of(training)
    drawn = drawn_by(sample, training.noise, size=3, ratio=2, seed=3, step=5)
    rows = np.array([np.frombuffer(row, np.int32) for part in drawn for row in part])
    trees = TopologyBatch.from_canonical(rows)
    model = training.density.model
    model.zero_grad()
    log_noise = training.noise.log_prob(trees).tolist()
    log_base = np.full(9, -math.log(15)).tolist() if base == "uniform" else log_noise
    log_model = [log_base[tree] - energy(model, trees, tree) for tree in range(9)]
    expected = loss(log_model, log_noise, 3 * [1 / 3] + 6 * [0.0], 3 * [0.0] + 6 * [1 / 6], 2)
    expected.backward()
    assert found_loss == pytest.approx(expected.item(), rel=1e-10)
    for name, gradient in zip(dict(model.named_parameters()), found, strict=True):
        twin = model.get_parameter(name).grad
        assert twin is not None, name
        torch.testing.assert_close(gradient, twin, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("convolution", ["mlp", "ggnn", "edge"])
def test_the_mean_gradient_of_all_pairs_of_trees_is_that_of_the_expected_loss(convolution):
    sample = target(5, concentration=1.0)
    training = training_of(sample, double=True, convolution=convolution, batch=1)
    batches = training._batches
    model = training.density.model
    means = [torch.zeros_like(parameter) for parameter in model.parameters()]
    mean_loss = 0.0
    for data in range(15):
        for noise in range(15):
            batch = batches._listed_batch(np.array([data]), np.array([noise]))
            batches.at = lambda _step, batch=batch: batch
            mean_loss += sample.weights[data] / 15 * training.gradients(1)
            for mean, gradient in zip(means, gradients_of(training), strict=True):
                mean += sample.weights[data] / 15 * gradient
    model.zero_grad()
    log_noise = 15 * [-math.log(15)]
    log_model = [log_noise[tree] - energy(model, sample.topologies, tree) for tree in range(15)]
    expected = loss(log_model, log_noise, sample.weights.tolist(), 15 * [1 / 15], 1)
    expected.backward()
    assert mean_loss == pytest.approx(expected.item(), rel=1e-10)
    for mean, parameter in zip(means, model.parameters(), strict=True):
        torch.testing.assert_close(mean, parameter.grad, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize(("noise", "base"), [("uniform", "noise"), ("sbn", "noise"), ("sbn", "uniform")])
def test_a_trained_model_recovers_its_target_on_five_taxa(noise, base):
    sample = target(5, seed=2)
    settings = {"batch": 1000, "steps": 1000, "rate": 0.01, "width": 16, "clipping": math.inf}
    training = training_of(sample, noise=noise, base=base, **settings)
    appraise = Appraiser(sample, training.noise, ratio=1, draws=10)
    reports = train_density(training, appraise)
    log_model = training.density.log_density(sample.topologies)
    total = np.logaddexp.reduce(log_model)
    assert 0.5 * np.abs(np.exp(log_model - total) - sample.weights).sum() <= 0.01
    assert abs(total) < 0.05  # the last bias has learned to normalise
    best = best_loss(sample.weights, np.exp(training.noise.log_prob(sample.topologies)))
    assert 0 <= reports[-1].expected_loss - best < 3e-3
    assert reports[-1].divergence < 5e-3


@pytest.mark.parametrize("noise", ["uniform", "sbn"])
def test_a_training_that_stops_and_goes_on_is_bit_for_bit_the_same(noise):
    sample = target(6)
    whole, first, second = (training_of(sample, noise=noise) for _ in range(3))
    losses = [whole.step().loss for _ in range(20)]
    found = [first.step().loss for _ in range(8)]
    saved = {name: array.copy() for name, array in first.state().items()}
    first.step()
    second.restore(saved)
    assert second.steps_done == 8
    found += [second.step().loss for _ in range(12)]
    assert found == losses
    assert_same(whole.state(), second.state())
    np.testing.assert_array_equal(
        whole.density.log_density(sample.topologies), second.density.log_density(sample.topologies)
    )


def assert_same(one: dict[str, np.ndarray], two: dict[str, np.ndarray]) -> None:
    assert one.keys() == two.keys()
    for name in one:
        np.testing.assert_array_equal(one[name], two[name], err_msg=name)


def test_a_seed_decides_all_and_another_seed_all_otherwise():
    sample = target(5)
    states = []
    for seed in (4, 4, 5):
        training = training_of(sample, seed=seed)
        torch.manual_seed(seed + len(states))  # the seed of torch itself plays no part
        training.step()
        states.append({name: array.copy() for name, array in training.state().items()})
    assert_same(states[0], states[1])
    for name in states[0]:
        assert name in ("counters", "adam.step_counts") or not np.array_equal(states[0][name], states[2][name]), name


def test_first_parameters_leave_the_numbers_of_torch_alone():
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    one, two = new_model(5, config_of(seed=1)), new_model(5, config_of(seed=2))
    assert torch.equal(torch.rand(2), expected)
    assert not torch.equal(one.readout.first.weight, two.readout.first.weight)
    assert (one.features.width, len(one.features.convolutions)) == (6, 2)


def test_steps_are_those_of_torchs_adam_with_the_schedules_rates():
    training = training_of(target(5), rate=0.02, decay="stairs", stairs=4, steps=8, stair_factor=0.5)
    mine = list(training.density.model.parameters())
    twin = [parameter.detach().clone().requires_grad_() for parameter in mine]
    optimizer = torch.optim.Adam(twin)
    for number in range(1, 9):
        training.gradients(number)
        for own, other in zip(mine, twin, strict=True):
            other.grad = own.grad.clone()
        optimizer.param_groups[0]["lr"] = 0.02 * 0.5 ** ((number - 1) // 2)
        optimizer.step()
        assert training.step().step == number
        for own, other in zip(mine, twin, strict=True):
            torch.testing.assert_close(own, other, rtol=1e-4, atol=1e-6)


def test_all_steps_done_are_all():
    training = training_of(target(5), steps=2)
    training.step()
    training.step()
    with pytest.raises(BadArgument, match=r"all of 2 steps taken\. Give the config more"):
        training.step()


def spoil(training: DensityTraining, monkeypatch, value: float) -> None:
    """In the steps to come every energy is no finite number."""
    model = training.density.model
    energy = model.energy
    monkeypatch.setattr(
        model, "energy", lambda states, graph: energy(states, graph) * (value if torch.is_grad_enabled() else 1)
    )


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_what_is_not_finite_moves_nothing_and_a_hundred_in_a_row_end_the_training(value, monkeypatch):
    training = training_of(target(5), steps=1000)
    training.step()
    before = {name: array.copy() for name, array in training.state().items()}
    with monkeypatch.context() as spoiled:
        spoil(training, spoiled, value)
        for _ in range(99):
            assert training.step().skipped
    assert training.skipped == 99
    after = training.state()
    assert after.pop("counters").tolist() == [100, 99, 99]
    before.pop("counters")
    assert_same(before, after)
    info = training.step()
    assert not info.skipped
    assert math.isfinite(info.loss)
    assert training.state()["counters"].tolist() == [101, 99, 0]
    spoil(training, monkeypatch, value)
    for _ in range(99):
        training.step()
    with pytest.raises(TrainingFailed, match=r"step 201: the last 100 steps gave no finite loss or gradient\. Use a"):
        training.step()


@pytest.mark.parametrize("part", ["loss", "gradient"])
def test_a_loss_or_a_gradient_alone_that_is_not_finite_moves_nothing_either(part, monkeypatch):
    training = training_of(target(5))
    gradients = training.gradients

    def broken(number: int) -> float:
        loss = gradients(number)
        if part == "loss":
            return math.inf
        training.density.model.readout.first.weight.grad[0, 0] = math.nan
        return loss

    monkeypatch.setattr(training, "gradients", broken)
    before = [parameter.detach().clone() for parameter in training.density.model.parameters()]
    assert training.step().skipped
    assert all(map(torch.equal, before, training.density.model.parameters()))


def note_steps(training: DensityTraining, monkeypatch) -> list[DensityStep]:
    """A list that gets the outcome of every step."""
    found: list[DensityStep] = []
    step = training.step

    def noted() -> DensityStep:
        found.append(step())
        return found[-1]

    monkeypatch.setattr(training, "step", noted)
    return found


def test_reports_have_the_mean_loss_since_the_last_and_what_the_appraiser_found(monkeypatch):
    sample = target(5)
    training = training_of(sample, steps=10, reports=3)
    steps = note_steps(training, monkeypatch)
    appraise = Appraiser(sample, training.noise, ratio=1, draws=10)
    history = History(DensityReport)
    told = [report for report in take_steps(training, DensityReporter(training, appraise), history) if report]
    reports = history.reports
    losses = [info.loss for info in steps]
    assert reports == told
    assert [report.step for report in reports] == [3, 6, 10]
    for report, (start, stop) in zip(reports, ((0, 3), (3, 6), (6, 10)), strict=True):
        assert report.loss == pytest.approx(np.mean(losses[start:stop]))
        assert report.normalizer_error == 0
        assert report.seconds >= 0
    log_model = training.density.log_density(sample.topologies)
    assert reports[-1].log_normalizer == pytest.approx(np.logaddexp.reduce(log_model))


def test_skipped_steps_do_not_count_in_the_mean_loss(monkeypatch):
    sample = target(5)
    training = training_of(sample, steps=6, reports=2)
    appraise = Appraiser(sample, training.noise, ratio=1, draws=10)
    steps = note_steps(training, monkeypatch)
    history = History(DensityReport)
    with monkeypatch.context() as spoiled:
        spoil(training, spoiled, math.nan)
        for _ in take_steps(training, DensityReporter(training, appraise), history):
            if training.steps_done == 4:
                spoiled.undo()
    one, two = history.reports
    losses = [info.loss for info in steps]
    assert [math.isnan(loss) for loss in losses] == 4 * [True] + 2 * [False]
    assert math.isnan(one.loss)
    assert two.loss == pytest.approx(np.mean(losses[4:]))


def test_where_topologies_are_too_many_there_is_no_expected_loss():
    topologies = all_topologies(9)[[5, 70_000, 100_000]]
    sample = sample_of(topologies, [1, 2, 3])
    training = training_of(sample, steps=2, reports=2, seed=7)
    appraise = Appraiser(sample, training.noise, ratio=1, draws=200)
    expected = []
    history = History(DensityReport)
    for report in take_steps(training, DensityReporter(training, appraise), history):
        if report is not None:
            stream = RandomStream(7, "density/report", report.step)
            expected.append(appraise(training.density, stream=stream).normalizer)
    reports = history.reports
    assert all(math.isnan(report.expected_loss) for report in reports)
    assert [(report.log_normalizer, report.normalizer_error) for report in reports] == [
        (normalizer.log_value, normalizer.error) for normalizer in expected
    ]
    assert reports[-1].normalizer_error > 0


def test_noise_on_other_taxa_is_refused():
    with pytest.raises(BadArgument, match="noise on 6 taxa for trees on 5"):
        DensityTraining(target(5), UniformNoise(6), config_of())


def test_a_state_of_another_model_is_refused():
    state = training_of(target(5), width=7).state()
    with pytest.raises(BadArgument, match="the state is that of another model"):
        training_of(target(5)).restore(state)
