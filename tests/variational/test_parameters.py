"""Q(θ): its density is that of what it draws, its gradients are those of differences; lengths move with its noise."""

import math

import numpy as np
import pytest
import torch
from scipy import integrate

from phloem.errors import BadArgument
from phloem.trees.generation import all_topologies
from phloem.variational.families import Lognormal, Warped
from phloem.variational.parameters import ParameterModel, lengths_from_noise, shifted

CENTER = np.array([1.0, -2.0, 0.5])
FACTOR = np.array([[0.5, 0.0, 0.0], [0.3, 0.4, 0.0], [-0.2, 0.1, 0.6]])


def warped_model(dimension: int = 3) -> ParameterModel:
    model = ParameterModel(CENTER[:dimension], FACTOR[:dimension, :dimension])
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(0.4 * torch.randn(parameter.shape, dtype=torch.float64))
    return model


def test_at_the_start_it_is_the_normal_approximation():
    model = ParameterModel(CENTER, FACTOR)
    noise = np.random.default_rng(1).standard_normal((50, 3))
    found = model.sample(noise)
    expected = torch.distributions.MultivariateNormal(torch.from_numpy(CENTER), scale_tril=torch.from_numpy(FACTOR))
    np.testing.assert_allclose(found.coordinates.detach(), CENTER + noise @ FACTOR.T)
    np.testing.assert_allclose(found.log_prob.detach(), expected.log_prob(found.coordinates.detach()))


def test_noise_and_coordinates_are_one_to_one_and_the_density_is_its_volume():
    model, noise = warped_model(), np.random.default_rng(2).standard_normal((20, 3))
    coordinates, log_prob = (tensor.detach().numpy() for tensor in model.sample(noise))
    np.testing.assert_allclose(model.noise_of(coordinates), noise, atol=1e-9)
    step = 1e-6
    for row in range(20):
        moved = [model.sample(noise[row] + sign * step * np.eye(3)).coordinates.detach().numpy() for sign in (1, -1)]
        log_volume = np.linalg.slogdet((moved[0] - moved[1]) / (2 * step))[1]
        normal = -(noise[row] ** 2).sum() / 2 - 1.5 * math.log(2 * math.pi)
        assert log_prob[row] == pytest.approx(normal - log_volume, abs=1e-6)


def test_one_coordinate_integrates_to_one():
    model = warped_model(1)

    def density(place: float) -> float:
        noise = model.noise_of(np.array([[place]]))
        return math.exp(model.sample(noise).log_prob.item())

    assert integrate.quad(density, -30, 30, points=[-1, 1, 3], limit=300)[0] == pytest.approx(1, abs=1e-5)


def test_gradients_are_those_of_differences():
    noise = np.random.default_rng(3).standard_normal((4, 3))
    model = warped_model()
    learned = [tensor.detach().clone().requires_grad_() for tensor in model.learned]

    def outputs(*tensors: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return model.sampling(noise)(*tensors)

    assert torch.autograd.gradcheck(outputs, learned, atol=1e-6)


def test_gradients_for_noise():
    model, random = warped_model(), np.random.default_rng(4)
    noise, by_coordinates, by_log_prob = (random.standard_normal(size) for size in ((5, 3), (5, 3), (5,)))
    operation = model.sampling(noise)
    operation.values((True,) * 4, *model.learned)
    found = operation.noise_gradient(by_coordinates, by_log_prob)

    def total(place: np.ndarray) -> np.ndarray:
        coordinates, log_prob = (tensor.detach().numpy() for tensor in model.sample(place))
        return (coordinates * by_coordinates).sum(axis=1) + log_prob * by_log_prob

    for column in range(3):
        step = np.zeros(3)
        step[column] = 1e-6
        np.testing.assert_allclose(found[:, column], (total(noise + step) - total(noise - step)) / 2e-6, atol=1e-6)


@pytest.mark.parametrize("family", [Lognormal, Warped])
def test_lengths_move_with_the_noise_of_parameters(family):
    topologies, random = all_topologies(5)[:3], np.random.default_rng(5)
    columns = family.parameters_per_branch + 2
    parameters = torch.from_numpy(random.normal(0, 0.5, (3, 7, columns)))
    noise, theta_noise = random.standard_normal((3, 7)), random.standard_normal((3, 2))
    operation = lengths_from_noise(family, topologies, noise, theta_noise, path_only=False)
    assert operation is not None
    lengths, log_prob = operation.values((True,), parameters)
    distribution = family(shifted(parameters, theta_noise), topologies)
    torch.testing.assert_close(distribution.log_prob(lengths), log_prob)
    still = family.from_noise(topologies, noise, path_only=False).values((True,), parameters[:, :, :-2])[0]
    assert (still != lengths).all()

    recorded = parameters.clone().requires_grad_()
    assert torch.autograd.gradcheck(operation, recorded, atol=1e-6)
    by_lengths, by_log_prob = torch.from_numpy(random.normal(size=(3, 7))), torch.from_numpy(random.normal(size=3))
    operation.values((True,), parameters)
    found = operation.noise_gradient(by_lengths, by_log_prob)

    def total(of_branches: np.ndarray, of_theta: np.ndarray) -> np.ndarray:
        moved = lengths_from_noise(family, topologies, of_branches, of_theta, path_only=False)
        assert moved is not None
        lengths, log_prob = moved.values((True,), parameters)
        return ((lengths * by_lengths).sum(dim=1) + log_prob * by_log_prob).numpy()

    for column in range(9):
        step = np.zeros(9)
        step[column] = 1e-6
        of_branches, of_theta = np.split(step, [7])
        change = total(noise + of_branches, theta_noise + of_theta) - total(noise - of_branches, theta_noise - of_theta)
        np.testing.assert_allclose(found[:, column], change / 2e-6, atol=1e-5)


def test_a_factor_must_be_a_triangle():
    for factor in (np.eye(2), -np.eye(3)):
        with pytest.raises(BadArgument, match="the factor must be square and triangular"):
            ParameterModel(CENTER, factor)
