"""Inferred model parameters: coordinates, priors with their Jacobians, and gradients through the likelihood."""

import math

import numpy as np
import pytest
import torch
from scipy import integrate, stats

from phloem.config import ModelConfig
from phloem.data.patterns import compress
from phloem.errors import BadArgument
from phloem.target.coordinates import Multipliers, Ratio, Shape, Share, Shares
from phloem.target.free_parameters import FreeParameters, model_in_words
from phloem.target.likelihood import TreeLikelihood
from phloem.target.posterior import TreePosterior
from phloem.target.substitution import build_model
from phloem.trees.generation import all_topologies
from support.models import with_numbers
from support.small_posteriors import evolved

MODELS = ["K80", "F81", "HKY+G4", "TN93+I", "SYM+G", "GTR", "GTR+I+G4", "GTR+F+G6", "JC+I+G", "JC+G4"]
ONE_NUMBER = {
    "kappa": (Ratio("kappa"), lambda kappa: (1 + kappa) ** -2.0),  # κ/(1+κ) uniform
    "alpha": (Shape(), lambda alpha: math.exp(-alpha)),
    "pinvar": (Share("pinvar"), lambda share: 1.0 if 0 < share < 1 else 0.0),
}
PATTERNS = compress(evolved(5, 60, seed=2))


def target_of(name: str, **fixed) -> TreePosterior:
    config = ModelConfig(name, **fixed)
    model = build_model(config, PATTERNS)
    parameters = FreeParameters.of(config, model)
    assert parameters is not None
    likelihood = TreeLikelihood(PATTERNS, model, threads=1, states_differ=parameters.change_states)
    return TreePosterior(likelihood, parameters=parameters)


def random_coordinates(target: TreePosterior, trees: int) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(4).normal(0, 0.7, (trees, target.dimension)))


@pytest.mark.parametrize("name", list(ONE_NUMBER))
def test_a_density_of_coordinates_is_that_of_the_parameter_and_integrates_to_one(name):
    kind, density = ONE_NUMBER[name]
    places = np.array([[-3.0], [-0.5], [0.2], [2.0]])
    step = 1e-6
    slope = (kind.values(places + step) - kind.values(places - step)) / (2 * step)
    expected = [math.log(density(float(value))) for value in kind.values(places)[:, 0]] + np.log(slope[:, 0])
    np.testing.assert_allclose(kind.log_prior(places)[0], expected, rtol=1e-6)
    total, _ = integrate.quad(lambda x: math.exp(kind.log_prior(np.array([[x]]))[0][0]), -60, 60, limit=500)
    assert total == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("count", [2, 4, 6])
def test_shares_are_uniform(count):
    kind = Shares(tuple(f"x{number}" for number in range(count)), 1)
    drawn = np.random.default_rng(1).dirichlet(np.ones(count), 20)
    coordinates = np.stack([kind.coordinates(row) for row in drawn])
    np.testing.assert_allclose(kind.values(coordinates), drawn)
    step = 1e-6
    for row, coordinate, value in zip(drawn, coordinates, kind.log_prior(coordinates)[0], strict=True):
        steps = step * np.eye(count - 1)
        jacobian = np.delete(kind.values(coordinate + steps) - kind.values(coordinate - steps), 1, axis=1) / (2 * step)
        expected = stats.dirichlet.logpdf(row, np.ones(count)) + np.linalg.slogdet(jacobian)[1]
        assert value == pytest.approx(expected, abs=1e-5)


SHARES = [Shares(("a", "b", "c"), 0), Multipliers(("a", "b", "c"), np.array([3, 7, 2]))]


@pytest.mark.parametrize("kind", [*SHARES, *(kind for kind, _ in ONE_NUMBER.values())])
def test_slopes_of_priors_and_values_by_differences(kind):
    random = np.random.default_rng(2)
    places, by_values = random.normal(size=(5, kind.dimension)), random.normal(size=(5, len(kind.names)))
    slopes, pulled = kind.log_prior(places)[1], kind.pull_back(kind.values(places), by_values)
    for column in range(kind.dimension):
        step = np.zeros(kind.dimension)
        step[column] = 1e-6
        above, below = places + step, places - step
        by_difference = (kind.log_prior(above)[0] - kind.log_prior(below)[0]) / 2e-6
        np.testing.assert_allclose(slopes[:, column], by_difference, atol=1e-7)
        change = ((kind.values(above) - kind.values(below)) * by_values).sum(axis=1) / 2e-6
        np.testing.assert_allclose(pulled[:, column], change, atol=1e-7)


@pytest.mark.parametrize("name", MODELS)
def test_a_model_for_each_tree_is_that_model_alone(name):
    target = target_of(name)
    trees = all_topologies(5)[:6]
    lengths, theta = torch.rand(6, 7, dtype=torch.float64) / 5, random_coordinates(target, 6)
    together = target.log_likelihood(trees, lengths, theta).numpy()
    assert target.parameters is not None
    parameters = target.parameters.at(theta.numpy()).parameters
    for tree in range(6):
        model = with_numbers(build_model(ModelConfig(name), PATTERNS), parameters, tree)
        alone = TreeLikelihood(PATTERNS, model, threads=1)(trees[tree], lengths[tree : tree + 1])
        assert together[tree] == pytest.approx(float(alone), abs=1e-8)
        start = FreeParameters([model], target.parameters.inferred).start()
        np.testing.assert_allclose(start, theta[tree], atol=1e-9)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("temperature", [1.0, 0.3])
def test_gradients_by_hand_by_autograd_and_by_differences(name, temperature):
    target = target_of(name)
    trees = all_topologies(5)[3:6]
    lengths, theta = torch.rand(3, 7, dtype=torch.float64) / 5 + 0.01, random_coordinates(target, 3)
    value, slopes = target.log_joint_by_hand(trees, lengths, temperature, theta=theta)
    recorded_lengths, recorded_theta = lengths.clone().requires_grad_(), theta.clone().requires_grad_()
    recorded = target.log_joint(trees, recorded_lengths, temperature, theta=recorded_theta)
    torch.testing.assert_close(recorded.detach(), value, rtol=1e-12, atol=0)
    recorded.sum().backward()
    torch.testing.assert_close(slopes.lengths, recorded_lengths.grad, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(slopes.theta, recorded_theta.grad, rtol=1e-9, atol=1e-9)
    step = 1e-5
    for column in range(target.dimension):
        moved = step * torch.eye(target.dimension, dtype=torch.float64)[column]
        above, below = (target.log_joint(trees, lengths, temperature, theta=theta + sign * moved) for sign in (1, -1))
        torch.testing.assert_close(slopes.theta[:, column], (above - below) / (2 * step), rtol=1e-5, atol=1e-5)


def test_what_is_given_is_fixed():
    target = target_of("HKY+I+G4", kappa=4.0, alpha=0.5)
    assert target.parameters is not None
    assert target.parameters.names == ("pi(A)", "pi(C)", "pi(G)", "pi(T)", "pinvar")
    parameters = target.parameters.at(np.zeros((1, 4))).parameters
    assert parameters.exchangeabilities.tolist() == [[[1, 4, 1, 1, 4, 1]]]
    assert parameters.shape.tolist() == [[0.5]]
    config = ModelConfig("JC")
    assert FreeParameters.of(config, build_model(config, PATTERNS)) is None


def test_extreme_coordinates_give_numbers():
    target = target_of("GTR+I+G4")
    theta = torch.cat([torch.full((1, target.dimension), size, dtype=torch.float64) for size in (-40.0, 40.0, 25.0)])
    value, slopes = target.log_joint_by_hand(
        all_topologies(5)[:3], torch.full((3, 7), 0.1, dtype=torch.float64), 1.0, theta=theta
    )
    assert torch.isfinite(value).all()
    assert torch.isfinite(slopes.theta).all()


def test_coordinates_are_asked_for():
    target = target_of("K80")
    trees, lengths = all_topologies(5)[:2], torch.full((2, 7), 0.1, dtype=torch.float64)
    with pytest.raises(BadArgument, match=r"none given, and shape \(2, 1\) is needed"):
        target.log_joint(trees, lengths)
    with pytest.raises(BadArgument, match=r"shape \(1, 1\) given"):
        target.log_joint(trees, lengths, theta=torch.zeros(1, 1))


@pytest.mark.parametrize(
    ("name", "fixed", "words"),
    [
        ("GTR+G4", {}, "GTR+G4, of which exchangeabilities, frequencies and the shape are inferred"),
        ("JC+G", {}, "JC+G4, of which the shape is inferred"),
        ("K80", {}, "K80, of which kappa is inferred"),
        ("TN93+I", {}, "TN93+I, of which both kappas, frequencies and the proportion of invariant sites are inferred"),
        ("HKY+G4", {"alpha": 0.5}, "HKY+G4, shape 0.5; kappa and frequencies are inferred"),
        ("HKY+G4", {"kappa": 4.0, "median_rates": True}, "HKY+G4, kappa 4, medians of categories; frequencies …"),
        ("TN93", {"kappa": (2.5, 3.0)}, "TN93, kappa 2.5 3; frequencies are inferred"),
        ("SYM+I+G4", {"rates": (1, 2, 1, 1, 2, 1), "invariant": 0.25}, "SYM+I+G4, exchangeabilities 1 2 1 1 2 1, …"),
        ("F81+G4", {"frequencies": (0.1, 0.2, 0.3, 0.4)}, "F81+G4, frequencies 0.1000 0.2000 0.3000 0.4000; the …"),
    ],
)
def test_words_say_what_is_inferred_and_the_numbers_of_the_rest(name, fixed, words):
    target = target_of(name, **fixed)
    said = model_in_words(target.likelihood.model, target.parameters)
    assert said.startswith(words.removesuffix("…"))
    assert said.endswith(" inferred")
    assert words.endswith("…") or said == words


def test_words_on_a_fixed_model_are_its_numbers():
    model = build_model(ModelConfig("HKY", kappa=4.0, frequencies=(0.1, 0.2, 0.3, 0.4)), PATTERNS)
    assert model_in_words(model, None) == model.in_words()
