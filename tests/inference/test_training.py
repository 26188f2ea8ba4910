"""The training step against its slow twin, and what a training run must do."""

import dataclasses
import math
import re
import signal

import numpy as np
import pytest
import torch

from phloem.config import EvaluationConfig, TrainingConfig
from phloem.config.infer import BRANCH_MODELS, preset
from phloem.errors import BadArgument, TaxonMismatch, TrainingFailed
from phloem.inference import training as training_module
from phloem.inference.evaluation import evaluate
from phloem.inference.particles import draw_particles, vimco
from phloem.inference.training import Report, Training, TrainingStart, start_in, train
from phloem.interrupts import stoppable
from phloem.kernels.philox import fill_normal_rows
from phloem.random_streams import RandomStream
from phloem.runs import driver
from phloem.runs.history import History
from phloem.target.posterior import TreePosterior
from phloem.trees.generation import random_topologies
from phloem.variational.joint import JointModel, build_branch_model
from phloem.variational.sbn import SubsplitNetwork, support_of
from reference.slow_step import surrogate
from support.small_posteriors import PLAIN, TAXA, example


def step_gradients(model: JointModel, target: TreePosterior, config: TrainingConfig, step: int) -> float:
    """Leave the gradients of a step in the model; returns its bound."""
    return Training(model, target, config, seed=5).gradients(step, 0.3)


@pytest.mark.parametrize("estimator", ["vimco", "rws"])
@pytest.mark.parametrize("branches", BRANCH_MODELS)
def test_a_steps_gradient_is_that_of_its_slow_twin(branches, estimator):
    model, target = example(branches)
    bound = step_gradients(model, target, dataclasses.replace(PLAIN, estimator=estimator), step=7)
    found = [parameter.grad for parameter in model.parameters()]

    stream = RandomStream(5, "training", 7)
    topologies = model.network.sample(4, stream=stream.named("topology"))
    noise = np.empty((4, 9))
    fill_normal_rows(stream.named("lengths").key(), 0, 7, noise)
    expected_bound, total = surrogate(
        model, target.likelihood.patterns, topologies, noise, estimator=estimator, inverse_temperature=0.3
    )
    assert bound == pytest.approx(expected_bound, abs=1e-9)
    for gradient, (name, parameter) in zip(found, model.named_parameters(), strict=True):
        (expected,) = torch.autograd.grad(total, parameter, retain_graph=True)
        assert expected.abs().max() > 1e-6, name
        torch.testing.assert_close(-gradient, expected, rtol=1e-8, atol=1e-9, msg=lambda text, name=name: name + text)


@pytest.mark.parametrize("branches", ["split", "edge"])
def test_with_topologies_held_lengths_follow_the_slow_twins_mean_of_each_ones_bound(branches):
    """Plain and, as the mean over many steps, with less noise."""
    model, target = example(branches)
    lengths = dict(model.branches.named_parameters())
    means, plain = {}, dataclasses.replace(PLAIN, steps=10**6)
    for doubly in (False, True):
        config = dataclasses.replace(plain, doubly_reparameterized=doubly)
        training = Training(model, target, config, seed=5, held=True)
        rows = []
        for step in range(1, 601):
            training.gradients(step, 0.3)
            rows.append(torch.cat([-parameter.grad.flatten() for parameter in lengths.values()]))
        means[doubly] = torch.stack(rows)
        assert model.network.logits.grad is None

    for step in range(1, 601):
        stream = RandomStream(5, "training", step)
        topologies = model.network.sample(4, stream=stream.named("topology"))
        if len(topologies.distinct()[0]) == 3:
            break
    noise = np.empty((4, 9))
    fill_normal_rows(stream.named("lengths").key(), 0, step, noise)
    patterns = target.likelihood.patterns
    _, total = surrogate(model, patterns, topologies, noise, estimator="vimco", inverse_temperature=0.3, held=True)
    expected = torch.cat([gradient.flatten() for gradient in torch.autograd.grad(total, [*lengths.values()])])
    torch.testing.assert_close(means[False][step - 1], expected, rtol=1e-8, atol=1e-9)
    difference = means[False] - means[True]
    used = difference.std(0) > 1e-12
    assert used.sum() > 10
    scores = difference.mean(0)[used] / (difference.std(0)[used] / len(difference) ** 0.5)
    assert scores.abs().max() < 5


def test_a_held_topology_that_only_poor_lengths_make_improbable_gets_better_ones():
    """Its weights vanish beside those of the others, so that the bound of all particles would leave it alone."""
    found = []
    for estimator in (None, vimco):
        model, target = example("split")
        table = model.branches.table
        splits = model.network.support.indices(model.network.sample(1000, stream=RandomStream(1, "sample"))).splits
        count = np.bincount(splits.ravel(), minlength=len(table)) / 1000
        rare = int(np.argmin(np.where(count > 0.1, count, 2.0)))  # a split that some topologies have
        with torch.no_grad():
            table[rare] = torch.tensor([6.0, -4.0])  # lengths near 50, for certain
        config = TrainingConfig(steps=10**6, ramp=0.0, rate=0.05)
        training = Training(model, target, config, seed=2, held=True, estimator=estimator)
        for _ in range(400):
            training.step()
        found.append(table[rare, 0].item())
    assert found[0] < 2.5
    assert found[1] == 6.0


def test_a_users_estimator_is_followed_where_topologies_are_held():
    moved = []
    for estimator in (None, vimco, lambda log_weights: vimco(log_weights)._replace(log_joint=0 * log_weights)):
        model, target = example("split")
        before = model.branches.table.detach().clone()
        Training(model, target, TrainingConfig(steps=100), seed=1, held=True, estimator=estimator).step()
        moved.append(bool((model.branches.table != before).any()))
    assert moved == [True, True, False]


@pytest.mark.parametrize("branches", ["split", "edge"])
def test_less_noise_and_the_same_mean_for_branch_lengths_when_doubly_reparameterized(branches):
    """Means over many steps agree within their errors, topologies have the very same gradient."""
    model, target = example(branches)
    by_form = {}
    for form in (False, True):
        config = dataclasses.replace(PLAIN, doubly_reparameterized=form)
        rows, topology_rows = [], []
        for step in range(1, 1501):
            step_gradients(model, target, config, step)
            rows.append(torch.cat([parameter.grad.flatten() for parameter in model.branches.parameters()]))
            topology_rows.append(model.network.logits.grad)
        by_form[form] = torch.stack(rows), torch.stack(topology_rows)
    plain, doubly = by_form[False][0], by_form[True][0]
    assert torch.equal(by_form[False][1], by_form[True][1])
    difference = plain - doubly
    used = difference.std(0) > 1e-12
    scores = difference.mean(0)[used] / (difference.std(0)[used] / len(difference) ** 0.5)
    assert used.sum() > 10
    assert scores.abs().max() < 5
    assert not torch.allclose(plain, doubly)


def test_the_same_seed_gives_the_same_run_and_another_seed_another():
    runs = []
    for seed in (1, 1, 2):
        model, target = example("edge")
        training = Training(model, target, PLAIN, seed=seed)
        runs.append(([training.step() for _ in range(5)], model.network.logits.detach().clone()))
    assert runs[0][0] == runs[1][0]
    assert torch.equal(runs[0][1], runs[1][1])
    assert runs[0][0] != runs[2][0]


def test_a_network_is_held_while_lengths_are_trained_and_fitted_in_the_end():
    target = example("split")[1]
    trees = random_topologies(6, 6, stream=RandomStream(8, "trees"))
    support = support_of(TAXA, trees)
    config = dataclasses.replace(PLAIN, steps=400, rate=0.02, refit=20.0)

    def fresh() -> Training:
        logits = torch.linspace(-1, 1, support.parameter_count, dtype=torch.float64)
        model = JointModel(SubsplitNetwork(support, logits), build_branch_model("split", support))
        return Training(model, target, config, seed=3, held=True)

    training = fresh()
    network, branches = training.model.network, training.model.branches
    start = network.logits.detach().clone(), branches.table.detach().clone()
    for _ in range(200):
        training.step()
    state = {name: array.copy() for name, array in training.state().items()}
    for _ in range(200):
        training.step()
    assert torch.equal(network.logits, start[0])
    assert (branches.table != start[1]).any()
    assert training.finish()
    assert not torch.equal(network.logits, start[0])
    assert network.logits.requires_grad
    resumed = fresh()
    resumed.step()  # what it has held by then is forgotten
    resumed.restore(state)
    for _ in range(200):
        resumed.step()
    resumed.finish()
    assert torch.equal(resumed.model.network.logits, network.logits)
    assert torch.equal(resumed.model.branches.table, branches.table)


def test_a_state_from_before_tables_were_left_for_later_has_all_of_them_up_to_date():
    network = example("split")[0].network
    states = []
    for is_earlier in (False, True):
        model, target = example("split")
        training = Training(model, target, PLAIN, seed=1)
        for _ in range(30):
            training.step()
        assert torch.isfinite(model.network.logits).all()  # whoever reads them brings them up to date
        state = {name: array.copy() for name, array in training.state().items()}
        if is_earlier:
            del state["topology_adam.table_steps"], state["topology_adam.recent"]
        resumed = Training(*example("split"), PLAIN, seed=1)
        resumed.restore(state)
        assert torch.equal(resumed.model.network.logits, model.network.logits)
        for _ in range(20):
            resumed.step()
        states.append(resumed.model.network.logits.detach().clone())
    torch.testing.assert_close(states[0], states[1], rtol=1e-12, atol=1e-12)
    assert not torch.equal(states[0], network.logits)


def test_two_trainings_of_one_model_take_turns():
    """Each leaves the network up to date when the other one steps."""
    model, target = example("split")
    one, other = (Training(model, target, PLAIN, seed=seed) for seed in (1, 2))
    for _ in range(10):
        assert not one.step().skipped
        assert not other.step().skipped
    steps = [training.state()["topology_adam.table_steps"] for training in (one, other)]
    assert (steps[0] == 10).all()
    assert (steps[1] > 0).any()


def test_another_training_starts_where_a_held_one_did():
    model, target = example("split")
    for held in (False, True):
        training = Training(model, target, PLAIN, seed=1, held=held)
        logits, is_held, theta, _ = start_in(training.state())
        assert is_held == held
        assert theta is None
        assert (logits is None) == (not held)
        if logits is not None:
            assert torch.equal(logits, model.network.logits)
            assert logits.data_ptr() != model.network.logits.data_ptr()
    earlier = {name: array for name, array in training.state().items() if name != "is_held"}
    assert start_in(earlier) == TrainingStart()


def test_a_held_network_is_the_same_and_gets_no_gradient_until_it_is_released():
    model, _ = example("split")
    network = model.network
    trees = network.sample(20, stream=RandomStream(1, "sample"))
    before = network.log_prob(trees)
    network.hold()
    assert not network.log_prob(trees).requires_grad
    assert torch.equal(network.log_prob(trees), before)
    network.release()
    network.logits.data.mul_(2)
    after = network.log_prob(trees)
    assert not torch.equal(after, before)
    after.sum().backward()
    assert network.logits.grad.any()


def test_each_rate_moves_its_own_part():
    model, target = example("split")
    before = [parameter.detach().clone() for parameter in model.parameters()]
    rate = 0.01
    config = TrainingConfig(steps=10**6, rate=rate, topology_rate_factor=3.0)
    Training(model, target, config, seed=1).step()
    moved = [
        (parameter.detach() - old).abs().max().item() for parameter, old in zip(model.parameters(), before, strict=True)
    ]
    assert moved == pytest.approx([3 * rate, rate], rel=1e-4)  # Adam's first step is as long as its rate


def test_clipping_holds_branch_lengths_back_and_leaves_topologies_alone():
    """The first step has no usual size yet, so the second begins at the same place with either."""
    ends = []
    for clipping in (1e-6, float("inf")):
        model, target = example("edge")
        training = Training(model, target, dataclasses.replace(PLAIN, clipping=clipping), seed=1)
        training.step()
        training.step()
        ends.append((model.network.logits.detach(), model.branches.readout.first.weight.detach()))
    assert torch.equal(ends[0][0], ends[1][0])
    assert not torch.equal(ends[0][1], ends[1][1])


class Broken(TreePosterior):
    """A target whose log-density is no number from its third call on."""

    calls = 0

    def log_joint(self, *arguments, **options):
        Broken.calls += 1
        value = super().log_joint(*arguments, **options)
        return value if Broken.calls < 3 else value * float("nan")


def test_steps_without_a_finite_bound_move_nothing_and_end_the_run_if_they_go_on():
    model, target = example("split")
    Broken.calls = 0
    training = Training(model, Broken(target.likelihood), TrainingConfig(steps=1000), seed=1)
    assert not training.step().skipped
    assert not training.step().skipped
    before = [parameter.detach().clone() for parameter in model.parameters()]
    assert training.step().skipped
    assert all(torch.equal(old, new) for old, new in zip(before, model.parameters(), strict=True))
    with pytest.raises(TrainingFailed, match="step 102: the last 100 steps gave no finite bound"):
        train(training, EvaluationConfig(reports=1))


def skip_steps(training: Training, skipped) -> dict[int, float]:
    """Have some steps give no finite bound; returns the bounds that all of them would have had, as they come."""
    bounds = {}
    gradients = training.gradients

    def sometimes_nan(number, inverse_temperature):
        bounds[number] = gradients(number, inverse_temperature)
        return math.nan if skipped(number) else bounds[number]

    training.gradients = sometimes_nan
    return bounds


def test_a_reports_bound_is_of_the_steps_that_were_not_skipped():
    training = Training(*example("split"), TrainingConfig(steps=5), seed=1)
    bounds = skip_steps(training, lambda number: number in (1, 2, 4))
    first, second = train(training, EvaluationConfig(reports=2))
    assert math.isnan(first.lower_bound)
    assert second.lower_bound == np.mean([bounds[3], bounds[5]])


def test_skipped_steps_end_the_run_only_in_a_row(monkeypatch):
    monkeypatch.setattr(driver, "MOST_SKIPPED_IN_A_ROW", 3)
    training = Training(*example("split"), PLAIN, seed=1)
    skip_steps(training, lambda number: number % 3)
    for _ in range(12):
        training.step()
    assert training.skipped == 8


def test_a_restored_training_knows_what_it_has_skipped(monkeypatch):
    monkeypatch.setattr(driver, "MOST_SKIPPED_IN_A_ROW", 3)
    training, again = (Training(*example("split"), PLAIN, seed=1) for _ in range(2))
    for one in (training, again):
        skip_steps(one, lambda number: number > 1)
    for _ in range(3):
        training.step()
    again.restore(training.state())
    assert again.skipped == 2
    with pytest.raises(TrainingFailed, match="step 4: the last 3 steps"):
        again.step()


def test_a_gradient_for_topologies_that_is_no_number_does_not_keep_branch_lengths(monkeypatch):
    model, target = example("split")
    training = Training(model, target, PLAIN, seed=1)
    gradients = training.gradients

    def broken(number, inverse_temperature):
        bound = gradients(number, inverse_temperature)
        model.network.logits.grad[0] = math.nan
        return bound

    monkeypatch.setattr(training, "gradients", broken)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    assert training.step().skipped
    logits, table = model.parameters()
    assert torch.equal(logits, before[0])
    assert not torch.equal(table, before[1])


def test_a_request_to_stop_waits_for_the_end_of_a_step(monkeypatch):
    training, history = Training(*example("split"), PLAIN, seed=1), History(Report)
    gradients = training.gradients

    def interrupted(number, inverse_temperature):
        if number == 3:
            signal.raise_signal(signal.SIGINT)
        return gradients(number, inverse_temperature)

    monkeypatch.setattr(training, "gradients", interrupted)
    with pytest.raises(KeyboardInterrupt), stoppable():
        train(training, EvaluationConfig(reports=1), history=history)
    assert training.steps_done == len(history.recent) == 3


class Interrupting(list[Report]):
    """Reports, each of which comes with a request to stop."""

    def append(self, report: Report) -> None:
        super().append(report)
        signal.raise_signal(signal.SIGINT)


def test_a_request_to_stop_cannot_come_between_a_report_and_the_end_of_its_bounds():
    training, history = Training(*example("split"), PLAIN, seed=1), History(Report, Interrupting())
    with pytest.raises(KeyboardInterrupt), stoppable():
        train(training, EvaluationConfig(reports=50), history=history)
    assert [report.step for report in history.reports] == [2]
    assert history.recent == []


def test_absurd_lengths_are_finite_and_their_trees_weigh_nothing():
    model, target = example("split")
    inner = range(len(TAXA), len(model.network.support.splits))
    with torch.no_grad():
        model.branches.table[inner[0], 0] = 5000.0  # an inner split, which not all trees have
    with torch.no_grad():
        particles = draw_particles(model, target, 50, stream=RandomStream(1, "draws"))
    absurd = (particles.lengths > 1e200).any(1).numpy()
    assert 0 < absurd.sum() < 50
    assert torch.isfinite(particles.lengths).all()
    assert (particles.log_weights()[absurd] < -1e200).all()
    assert not Training(model, target, dataclasses.replace(PLAIN, particles=50), seed=1).step().skipped


def test_a_model_on_other_taxa_or_in_another_order_is_refused():
    _, target = example("split")
    support = support_of(TAXA[::-1], random_topologies(6, 5, stream=RandomStream(1, "trees")))
    other = JointModel(SubsplitNetwork(support), build_branch_model("split", support))
    with pytest.raises(TaxonMismatch, match="the order of them"):
        Training(other, target, PLAIN, seed=1)
    with pytest.raises(TaxonMismatch, match="the order of them"):
        evaluate(other, target, EvaluationConfig(), particles=2, stream=RandomStream(1, "x"))


def test_no_step_after_the_last():
    model, target = example("split")
    training = Training(model, target, dataclasses.replace(PLAIN, steps=1), seed=1)
    training.step()
    with pytest.raises(BadArgument, match="all of 1 step taken"):
        training.step()


def test_training_reports_as_often_as_asked_and_raises_the_bound():
    model, target = example("split")
    training = Training(model, target, TrainingConfig(steps=403), seed=1)
    seen = []
    history = train(training, EvaluationConfig(reports=4, report_samples=300), progress=seen.append)
    assert seen == history
    assert [report.step for report in history] == [100, 201, 302, 403]
    assert len({report.elbo for report in history}) == 4
    assert history[-1].elbo > history[0].elbo + 1
    assert history[-1].inverse_temperature == 1
    assert [report.seconds for report in history] == sorted(report.seconds for report in history)
    assert training.steps_done == 403


def test_a_reports_bound_is_the_mean_over_its_steps_and_its_elbo_has_draws_of_its_own(monkeypatch):
    model, target = example("split")
    again, _ = example("split")
    config = TrainingConfig(steps=6)
    twin = Training(again, target, config, seed=1)
    bounds = [twin.step().lower_bound for _ in range(6)]
    streams = []
    draw = training_module.draw_log_weights
    monkeypatch.setattr(
        training_module,
        "draw_log_weights",
        lambda *parts, stream, **rest: streams.append(stream) or draw(*parts, stream=stream, **rest),
    )
    history = train(Training(model, target, config, seed=1), EvaluationConfig(reports=2))
    assert [report.lower_bound for report in history] == pytest.approx([np.mean(bounds[:3]), np.mean(bounds[3:])])
    assert [(stream.purpose, stream.step) for stream in streams] == [("report", 3), ("report", 6)]


def test_more_reports_than_steps_are_one_a_step():
    model, target = example("split")
    history = train(Training(model, target, TrainingConfig(steps=3), seed=1), EvaluationConfig(reports=100))
    assert [report.step for report in history] == [1, 2, 3]


@pytest.mark.parametrize("name", ["paper", "standard"])
def test_a_training_that_fails_is_advised_a_lower_rate_than_its_own(name):
    model, target = example("split")
    config = preset(name)
    advice = Training(model, target, config, seed=1).advice
    [rate] = re.findall(r"training\.rate=([\d.e-]+)\)", advice)
    assert 0.1 * config.rate < float(rate) < config.rate
    assert "--steps" in advice
    assert "--steps" not in Training(model, target, dataclasses.replace(config, ramp=0.0), seed=1).advice
