"""Transition probabilities P(t) = exp(Qt) of a reversible rate matrix, with derivatives for t and Q."""

from typing import Any

import torch
from torch import Tensor


class TransitionMatrices(torch.autograd.Function):
    """P(t) for many times t, (…, 4, 4), through the eigenvalues of the symmetrised rate matrix.

    With Q = U Λ U⁻¹, P = I + U expm1(Λt) U⁻¹, which keeps small probabilities exact for short branches.
    Derivatives: dP/dt = Q P, and for Q the Daleckii–Krein formula, whose divided differences

        (exp(λi t) - exp(λj t)) / (λi - λj)    or    t exp(λi t)  where  λi = λj

    hold for repeated eigenvalues too, which JC69, K80, F81 and HKY85 have.
    """

    @staticmethod
    def forward(ctx: Any, rate_matrix: Tensor, frequencies: Tensor, times: Tensor) -> Tensor:
        root = frequencies.sqrt()
        symmetric = root[:, None] * rate_matrix / root
        values, vectors = torch.linalg.eigh((symmetric + symmetric.T) / 2)
        values[-1] = 0.0  # the largest one is zero but for rounding
        right, left = vectors / root[:, None], vectors.T * root
        growth = torch.expm1(values * times[..., None])  # (…, 4)
        matrices = torch.eye(4, dtype=times.dtype) + (right * growth[..., None, :]) @ left
        ctx.save_for_backward(rate_matrix, values, right, left, times, matrices)
        return matrices

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, None, Tensor]:
        rate_matrix, values, right, left, times, matrices = ctx.saved_tensors
        time_gradient = (gradient * (rate_matrix @ matrices)).sum((-2, -1))
        if not ctx.needs_input_grad[0]:
            return None, None, time_gradient
        exponentials = torch.exp(values * times[..., None])  # (…, 4)
        gap = (values[:, None] - values).abs()
        equal = gap < 1e-7
        lowered = times[..., None, None] * exponentials[..., None, :]  # its limit where two values meet
        # With the larger value λ of the two, exp(λt) · -expm1(-gap t) / gap loses nothing to cancellation, and
        # however long t is, neither factor overflows.
        larger = torch.maximum(exponentials[..., None, :], exponentials[..., :, None])
        divided = larger * -torch.expm1(-gap * times[..., None, None]) / gap.masked_fill(equal, 1.0)
        differences = torch.where(equal, lowered, divided)
        inner = (right.T @ gradient @ left.T) * differences
        rate_gradient = left.T @ inner.reshape(-1, 4, 4).sum(0) @ right.T
        return rate_gradient, None, time_gradient
