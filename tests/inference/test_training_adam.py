"""Our Adam against torch's."""

import pytest
import torch
from torch import nn

from phloem.errors import BadArgument
from phloem.inference.training import Adam


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
    with pytest.raises(BadArgument, match="given twice"):
        Adam([one, one])
    with pytest.raises(BadArgument, match="result of a computation"):
        Adam([one * 2])
    with pytest.raises(BadArgument, match="double precision"):
        Adam([nn.Parameter(torch.ones(3).half())])
    layer = nn.Linear(2, 2)
    optimizer = Adam(layer.parameters())
    layer.double()
    layer(torch.ones(2, dtype=torch.float64)).sum().backward()
    with pytest.raises(BadArgument, match="moved in memory"):
        optimizer.step(0.1)


def moved(gradients: list[list[float]], **options: float) -> torch.Tensor:
    """Where a parameter of zeros is after some gradients."""
    parameter = nn.Parameter(torch.zeros(len(gradients[0]), dtype=torch.float64))
    optimizer = Adam([parameter], **options)
    for gradient in gradients:
        parameter.grad = torch.tensor(gradient, dtype=torch.float64)
        optimizer.step(0.01)
    return parameter.detach()


def test_a_gradient_beyond_its_usual_norm_is_scaled_down_to_it():
    """After three gradients of norm 5 the second moments expect 5: with clipping 2 the fourth counts with norm 10."""
    usual = [[3.0, 4.0]] * 3
    clipped = moved([*usual, [60.0, 80.0]], clipping=2.0)
    torch.testing.assert_close(clipped, moved([*usual, [6.0, 8.0]]), rtol=1e-12, atol=0)
    assert not torch.allclose(clipped, moved([*usual, [60.0, 80.0]]))
    within = [*usual, [5.0, 8.0]]
    assert torch.equal(moved(within, clipping=2.0), moved(within))


@pytest.mark.parametrize("size", [1, 15, 16, 17, 100])
def test_the_norm_is_that_of_all_numbers_whatever_their_count(size):
    torch.manual_seed(size)
    usual = torch.randn(size, dtype=torch.float64)
    expected = usual * 1.5 / 7.0
    found = moved([usual.tolist(), (7.0 * usual).tolist()], clipping=1.5)
    torch.testing.assert_close(found, moved([usual.tolist(), (7.0 * expected).tolist()]), rtol=1e-10, atol=0)


def test_the_first_gradient_is_never_clipped_and_rare_ones_count_with_all():
    assert torch.equal(moved([[1e6, 1.0]], clipping=0.1), moved([[1e6, 1.0]]))
    rare = [[1.0, 0.0]] * 50 + [[1.0, 1.0]]  # the second number has no history, but the norm hardly grows
    assert torch.equal(moved(rare, clipping=2.0), moved(rare))


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_gradient_that_is_no_number_moves_nothing_and_is_forgotten(bad):
    good = [[1.0, 2.0], [2.0, -1.0]]
    assert torch.equal(moved([good[0], [bad, 1.0], good[1]]), moved(good))


def test_clipping_to_nothing_is_refused():
    with pytest.raises(BadArgument, match="clipping 0"):
        Adam([nn.Parameter(torch.ones(2))], clipping=0.0)


def test_parameters_of_two_types_are_refused():
    with pytest.raises(BadArgument, match="an optimiser for each"):
        Adam([nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2).double())])


def test_the_norm_is_that_of_all_parameters_together():
    """Two parameters are clipped as one that holds both."""
    torch.manual_seed(2)
    gradients = torch.randn(6, 37, dtype=torch.float64) * torch.tensor([1.0, 1, 1, 30, 1, 5])[:, None]
    whole = moved(gradients.tolist(), clipping=1.5)
    parts = [nn.Parameter(torch.zeros(size, dtype=torch.float64)) for size in (20, 17)]
    optimizer = Adam(parts, clipping=1.5)
    for gradient in gradients:
        for part, piece in zip(parts, gradient.split([20, 17]), strict=True):
            part.grad = piece.clone()
        assert optimizer.step(0.01)
    torch.testing.assert_close(torch.cat([part.detach() for part in parts]), whole, rtol=1e-12, atol=0)


def test_gradients_that_are_not_contiguous_count_as_they_read():
    parameter, other = (nn.Parameter(torch.zeros(3, 4, dtype=torch.float64)) for _ in range(2))
    gradient = torch.arange(12.0, dtype=torch.float64).reshape(4, 3).T
    parameter.grad, other.grad = gradient, gradient.contiguous()
    for one in (parameter, other):
        Adam([one]).step(0.01)
    assert not gradient.is_contiguous()
    assert torch.equal(parameter, other)


def test_a_step_says_whether_its_gradient_was_a_number():
    parameter = nn.Parameter(torch.zeros(2))
    optimizer = Adam([parameter])
    parameter.grad = torch.tensor([1.0, float("nan")])
    assert not optimizer.step(0.1)
    parameter.grad = torch.tensor([1.0, 2.0])
    assert optimizer.step(0.1)
