"""Model parameters that are inferred: steps, moves, evidence and starts, against what integration says."""

import math

import numpy as np
import pytest
import torch

from phloem.config import InferConfig, TrainingConfig
from phloem.errors import BadArgument
from phloem.inference.annealing import AnnealingPath, anneal
from phloem.inference.draws import DrawCollector, read_draws, write_draws
from phloem.inference.evaluation import draw_log_weights
from phloem.inference.evidence import topology_evidence
from phloem.inference.exploration import explore
from phloem.inference.laplace import ParameterStart
from phloem.inference.moves import NoiseSpace
from phloem.inference.particles import ESTIMATORS, draw_particles
from phloem.inference.training import Training, start_in
from phloem.random_streams import RandomStream
from phloem.target.posterior import TreePosterior
from phloem.tasks.run_files import build_model
from phloem.trees.sample import TreeSample
from phloem.variational.families import Warped
from phloem.variational.joint import JointModel, build_branch_model
from phloem.variational.parameters import ParameterModel
from phloem.variational.sbn import SubsplitNetwork, support_of
from support.weighted_priors import INFERRED, Known, known_posterior

STREAM = RandomStream(5, "parameters")
TAXA = tuple("abcde")
START = ParameterStart(np.array([0.2, 0.1, -0.2, 0.0, -0.3]), np.diag([0.8, 0.9, 0.9, 0.9, 0.9]))


def model_of(posterior: Known, branches: str = "psp") -> JointModel:
    """Never trained, in double precision, with parameters that are not at their start."""
    support = support_of(TAXA, posterior.topologies)
    torch.manual_seed(3)
    network = SubsplitNetwork(support, 0.3 * torch.randn(support.parameter_count, dtype=torch.float64))
    own = build_branch_model(branches, support, width=8, family=Warped, dimension=5).double()
    model = JointModel(network, own, ParameterModel(START.center, START.factor))
    with torch.no_grad():
        for module in (model.branches, model.theta):
            for parameter in module.parameters():
                parameter.add_(0.1 * torch.randn(parameter.shape, dtype=torch.float64))
    return model


@pytest.fixture(scope="module")
def posterior() -> Known:
    return known_posterior(INFERRED, 5, 6)


@pytest.mark.parametrize("branches", ["split", "edge"])
def test_a_steps_gradient_is_that_of_autograd(posterior, branches):
    model, target = model_of(posterior, branches), posterior.target
    config = TrainingConfig(steps=10, particles=4, doubly_reparameterized=False)
    bound = Training(model, target, config, seed=5).gradients(7, 0.3)
    found = [parameter.grad for parameter in model.parameters()]
    particles = draw_particles(model, target, 4, stream=RandomStream(5, "training", 7), inverse_temperature=0.3)
    estimate = ESTIMATORS["vimco"](particles.log_weights())
    assert bound == pytest.approx(estimate.lower_bound, abs=1e-9)
    terms = (particles.log_joint, particles.log_q_topology, particles.log_q_branches)
    total = sum((torch.from_numpy(factor) * term).sum() for factor, term in zip(estimate[1:], terms, strict=True))
    for gradient, (name, parameter) in zip(found, model.named_parameters(), strict=True):
        (expected,) = torch.autograd.grad(total, parameter, retain_graph=True)
        if not name.endswith("ties"):
            assert expected.abs().max() > 1e-6, name
        torch.testing.assert_close(-gradient, expected, rtol=1e-7, atol=1e-8, msg=lambda text, name=name: name + text)


def test_a_restored_training_goes_on_as_if_it_had_not_stopped(posterior):
    config = InferConfig(width=8, training=TrainingConfig(steps=40, particles=4, ramp=0.25, refit=0.0))
    support = support_of(TAXA, posterior.topologies)

    def training(start: ParameterStart) -> Training:
        return Training(build_model(support, config, start), posterior.target, config.training, seed=2)

    whole, begun = training(START), training(START)
    for _ in range(40):
        whole.step()
    for _ in range(17):
        begun.step()
    state = {name: array.copy() for name, array in begun.state().items()}
    resumed = training(start_in(state).theta)
    resumed.restore(state)
    for _ in range(23):
        resumed.step()
    for name, array in whole.state().items():
        np.testing.assert_array_equal(array, resumed.state()[name], err_msg=name)
    assert np.abs(whole.state()["model.theta.location"]).max() > 0


def test_parameters_are_held_while_the_likelihood_is_tempered(posterior):
    config = InferConfig(width=8, training=TrainingConfig(steps=40, particles=4, ramp=0.5, refit=0.0))
    model = build_model(support_of(TAXA, posterior.topologies), config, START)
    training = Training(model, posterior.target, config.training, seed=2)
    for _ in range(15):
        training.step()
    assert (model.theta.location == 0).all()


@pytest.mark.parametrize("temperatures", [4, 12])
def test_annealed_weights_are_unbiased_and_parameters_those_of_the_posterior(posterior, temperatures):
    model = model_of(posterior)
    path = AnnealingPath.even(temperatures, angle=0.5, interchanges=2)
    kept = DrawCollector()
    log_weights = anneal(model, posterior.target, path, 6000, stream=STREAM, keep=kept)
    ratio = np.exp(log_weights - posterior.log_marginal)
    noise = math.sqrt(1 / posterior.worth)
    assert abs(ratio.mean() - 1) < 4 * (ratio.std() / math.sqrt(len(ratio)) + noise)
    draws = kept.draws(TAXA)
    weights = ratio / ratio.sum()
    for mine, theirs in ((draws.theta, posterior.theta), (draws.branch_lengths, posterior.lengths)):
        mean, variance = posterior.mean(theirs)
        ours = weights @ mine
        error = np.sqrt(((weights[:, None] * (mine - ours)) ** 2).sum(axis=0) + variance / posterior.worth)
        assert (np.abs(ours - mean) < 4.5 * error).all()


def test_slopes_for_noise_are_those_of_differences(posterior):
    model = model_of(posterior)
    space, topologies = NoiseSpace.of(model, posterior.target), posterior.topologies[:4]
    noise, parameters = np.random.default_rng(1).standard_normal((4, 12)), model.branches.branch_parameters(topologies)
    _, slope = space.weigh_with_slope(topologies, parameters.detach(), noise)
    for column in range(12):
        step = 1e-5 * np.eye(12)[column]
        above, below = (space.weigh(topologies, parameters.detach(), noise + sign * step).log_ratio for sign in (1, -1))
        np.testing.assert_allclose(slope[:, column], (above - below) / 2e-5, rtol=1e-5, atol=1e-5)


def test_evidence_of_topologies(posterior):
    model = model_of(posterior, "edge")
    some = np.array([0, 4, 9])
    topologies = posterior.topologies.take(some)
    found = topology_evidence(
        posterior.target, topologies, branches=model.branches, theta=model.theta, stream=STREAM, error=0.03
    )
    counts = np.bincount(posterior.number, minlength=15)[some]
    assert (np.abs(found.log_evidence - posterior.log_evidence[some]) < 4 * (found.error + 3 / np.sqrt(counts))).all()
    with pytest.raises(BadArgument, match="tree 1 of 3 is not one that the run has lengths for"):
        topology_evidence(posterior.target, topologies, stream=STREAM)


def test_exploring_chains_say_where_parameters_are(posterior):
    sample = TreeSample(TAXA, posterior.topologies, np.full(15, 1 / 15), None)
    found = explore(posterior.target, [sample], theta=START, chains=60, stream=STREAM)
    assert found.theta is not None
    mean, variance = posterior.mean(posterior.theta)
    assert (np.abs(found.theta.center - mean) < 0.5 * np.sqrt(variance)).all()
    deviation = np.sqrt(np.diagonal(found.theta.factor @ found.theta.factor.T))
    assert (np.abs(np.log(deviation / np.sqrt(variance))) < 0.4).all()
    with pytest.raises(BadArgument, match="where the model's parameters begin"):
        explore(posterior.target, [sample], chains=4, stream=STREAM)


def test_exploring_chains_begin_with_lengths_that_fit_the_parameters(posterior, monkeypatch):
    sample = TreeSample(TAXA, posterior.topologies, np.full(15, 1 / 15), None)
    starts = []

    def stopped(_target, _taxa, begun, *_arguments, **_options):
        starts.append(begun)
        raise InterruptedError

    monkeypatch.setattr("phloem.inference.exploration.run_chains", stopped)
    with pytest.raises(InterruptedError):
        explore(posterior.target, [sample], theta=START, length=0.3, chains=4, stream=STREAM)
    assert (starts[0].branch_lengths == 0.3).all()


def test_draws_keep_their_parameters_in_files(posterior, tmp_path):
    kept = DrawCollector()
    with torch.no_grad():
        draw_log_weights(model_of(posterior), posterior.target, 50, stream=STREAM, keep=kept)
    draws = kept.draws(TAXA)
    write_draws(draws, tmp_path / "draws.safetensors")
    np.testing.assert_array_equal(read_draws(tmp_path / "draws.safetensors").theta, draws.theta)
    assert draws.theta.shape == (50, 5)


def test_q_and_target_must_infer_the_same(posterior):
    model = model_of(posterior)
    without = TreePosterior(posterior.target.likelihood)
    with pytest.raises(BadArgument, match="Q has 5 coordinates of model parameters, the target 0"):
        Training(model, without, TrainingConfig(steps=10), seed=1)
