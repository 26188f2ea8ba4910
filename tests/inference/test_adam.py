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
