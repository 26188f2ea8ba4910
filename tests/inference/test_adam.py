"""Our Adam against torch's."""

import pytest
import torch
from torch import nn

from phloem.errors import BadArgument
from phloem.inference.adam import Adam


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_parameters_move_as_torch_moves_them(dtype):
    torch.manual_seed(1)
    ours = [nn.Parameter(torch.randn(3, 5, dtype=dtype)), nn.Parameter(torch.randn(7, dtype=dtype))]
    theirs = [nn.Parameter(parameter.detach().clone()) for parameter in ours]
    optimizer, reference = Adam(ours), torch.optim.Adam(theirs, lr=1.0)
    for step in range(30):
        rate = 0.01 / (1 + step)
        for group in reference.param_groups:
            group["lr"] = rate
        for parameters in (ours, theirs):
            loss = (parameters[0] ** 2).sum() * (1 + step % 3) + parameters[1].exp().sum()
            loss.backward()
        optimizer.step(rate)
        reference.step()
        optimizer.clear_gradients()
        reference.zero_grad()
    for one, other in zip(ours, theirs, strict=True):
        assert one.grad is None
        torch.testing.assert_close(one, other, rtol=1e-5 if dtype == torch.float32 else 1e-12, atol=1e-6)


def test_a_parameter_without_a_gradient_stays():
    still = nn.Parameter(torch.ones(3))
    Adam([still]).step(0.1)
    assert (still == 1).all()


def test_parameters_that_cannot_be_updated_in_place_are_refused():
    with pytest.raises(BadArgument, match="not contiguous"):
        Adam([nn.Parameter(torch.randn(4, 3).T)])


def test_tiny_gradients_and_late_ones_move_parameters_as_torch_moves_them():
    ours = [nn.Parameter(torch.zeros(2, dtype=torch.float64)) for _ in range(2)]
    theirs = [nn.Parameter(torch.zeros(2, dtype=torch.float64)) for _ in range(2)]
    optimizer, reference = Adam(ours), torch.optim.Adam(theirs, lr=0.01)
    for step in range(40):
        for parameters in (ours, theirs):
            parameters[0].grad = torch.tensor([3e-8, -1e-7], dtype=torch.float64) * (1 + step % 3)
            parameters[1].grad = None if step < 30 else torch.tensor([1.0, 2.0], dtype=torch.float64)
        optimizer.step(0.01)
        reference.step()
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=0)


def test_torch_sees_that_a_parameter_has_changed():
    parameter = nn.Parameter(torch.ones(3))
    value = (parameter**2).sum()
    value.backward(retain_graph=True)
    Adam([parameter]).step(0.1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        value.backward()


def test_parameters_that_would_not_move_are_refused():
    one = nn.Parameter(torch.ones(3))
    with pytest.raises(BadArgument, match="every parameter once"):
        Adam([one, one])
    with pytest.raises(BadArgument, match="no results of computations"):
        Adam([one * 2])
    with pytest.raises(BadArgument, match="single or double"):
        Adam([nn.Parameter(torch.ones(3).half())])
    layer = nn.Linear(2, 2)
    optimizer = Adam(layer.parameters())
    layer.double()
    layer(torch.ones(2, dtype=torch.float64)).sum().backward()
    with pytest.raises(BadArgument, match="other memory than before"):
        optimizer.step(0.1)
