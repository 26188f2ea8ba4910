"""Activations and gates, against numpy and torch."""

import numpy as np
import pytest
import torch

from phloem.kernels.features.layers import bias_elu, elu_backward, gru, gru_backward, hyperbolic_tangent, logistic
from phloem.kernels.jit import vector_kernel

PRECISIONS = {np.float32: 4e-7, np.float64: 2e-14}


@vector_kernel
def apply_gates(values, logistics, tangents):
    for place in range(len(values)):
        logistics[place] = logistic(values[place])
        tangents[place] = hyperbolic_tangent(values[place])


@pytest.mark.parametrize("kind", PRECISIONS)
def test_what_is_not_a_number_stays_so(kind):
    values = np.full((1, 20), np.nan, kind)
    logistics, tangents = np.empty(20, kind), np.empty(20, kind)
    apply_gates(values[0], logistics, tangents)
    bias_elu(values, np.zeros(20, kind))
    for results in (values, logistics, tangents):
        assert np.isnan(results).all()


@pytest.mark.parametrize("kind", PRECISIONS)
def test_elu_and_its_gradient_are_torchs(kind):
    random = np.random.default_rng(1)
    values, bias = 3 * random.normal(size=(40, 13)).astype(kind), random.normal(size=13).astype(kind)
    values[0, :3] = -bias[:3]  # exactly zero
    inputs = torch.from_numpy(values.copy()).requires_grad_()
    shift = torch.from_numpy(bias).requires_grad_()
    expected = torch.nn.functional.elu(inputs + shift)
    gradient = torch.from_numpy(random.normal(size=values.shape).astype(kind))
    expected.backward(gradient)
    bias_elu(values, bias)
    np.testing.assert_allclose(values, expected.detach(), rtol=10 * PRECISIONS[kind], atol=PRECISIONS[kind])
    inner, sums = np.empty_like(values), np.empty_like(bias)
    elu_backward(gradient.numpy(), values, inner, sums)
    np.testing.assert_allclose(inner, inputs.grad, rtol=1e-5, atol=PRECISIONS[kind])
    np.testing.assert_allclose(sums, shift.grad, rtol=1e-4, atol=10 * PRECISIONS[kind])


@pytest.mark.parametrize("kind", PRECISIONS)
def test_gates_are_numpys(kind):
    values = np.concatenate([np.linspace(-30, 30, 4001), [-1000, 1000, 0]]).astype(kind)
    logistics, tangents = np.empty_like(values), np.empty_like(values)
    apply_gates(values, logistics, tangents)
    exact = values.astype(np.float64)
    with np.errstate(over="ignore"):
        np.testing.assert_allclose(logistics, 1 / (1 + np.exp(-exact)), rtol=1e-6, atol=1e-37)
    np.testing.assert_allclose(tangents, np.tanh(exact), atol=4 * PRECISIONS[kind])


@pytest.mark.parametrize("kind", PRECISIONS)
@pytest.mark.parametrize("channels", [1, 7, 100])
def test_the_gated_unit_and_its_gradients_are_torchs(kind, channels):
    nodes, both = 23, 2 * channels
    torch.manual_seed(channels)
    exact = torch.float32 if kind == np.float32 else torch.float64
    cell = torch.nn.GRUCell(channels, channels, dtype=exact)
    inputs, states, gradient = torch.randn(3, nodes, channels, dtype=exact)
    states.requires_grad_()
    sent, kept = (inputs @ cell.weight_ih.T).detach(), (states @ cell.weight_hh.T).detach()
    expected = cell(inputs, states)
    expected.backward(gradient)

    gates = torch.cat([sent[:, :both] + kept[:, :both], sent[:, both:], kept[:, both:]], dim=1).numpy()
    bias = torch.cat([cell.bias_ih[:both] + cell.bias_hh[:both], cell.bias_ih[both:], cell.bias_hh[both:]])
    outputs, old = np.empty((nodes, channels), kind), states.detach().numpy()
    gru(gates, old, bias.detach().numpy(), outputs)
    by_gates, passed, by_bias = np.empty_like(gates), np.empty_like(old), np.empty(4 * channels, kind)
    gru_backward(gradient.numpy(), old, gates, by_gates, passed, by_bias)

    close = {"rtol": 1e-4, "atol": 1e-5} if kind == np.float32 else {"rtol": 1e-10, "atol": 1e-12}
    np.testing.assert_allclose(outputs, expected.detach(), **close)
    by_input, by_recurrent = by_gates[:, : 3 * channels], np.delete(by_gates, np.s_[both : 3 * channels], axis=1)
    np.testing.assert_allclose(by_input.T @ inputs.numpy(), cell.weight_ih.grad, **close)
    np.testing.assert_allclose(by_recurrent.T @ old, cell.weight_hh.grad, **close)
    np.testing.assert_allclose(passed + by_recurrent @ cell.weight_hh.detach().numpy(), states.grad, **close)
    np.testing.assert_allclose(by_bias[: 3 * channels], cell.bias_ih.grad, **close)
    np.testing.assert_allclose(np.delete(by_bias, np.s_[both : 3 * channels]), cell.bias_hh.grad, **close)


@pytest.mark.parametrize("place", range(4))
def test_a_gate_that_is_not_a_number_makes_its_own_output_so(place):
    gates, states, outputs = np.zeros((3, 4 * 20)), np.zeros((3, 20)), np.empty((3, 20))
    gates[1, 20 * place + 5] = np.nan
    gru(gates, states, np.zeros(80), outputs)
    np.testing.assert_array_equal(np.argwhere(np.isnan(outputs)), [[1, 5]])
