"""Log-likelihoods of trees with branch lengths, differentiable in the lengths and in the model's parameters."""

from typing import final

import numpy as np
import torch
from torch import Tensor

from phloem.arrays import FloatArray
from phloem.autograd import Operation, check_tensors, plain_values
from phloem.data.patterns import SitePatterns, merge_relabelled
from phloem.errors import BadArgument
from phloem.target.partitioned import PartitionedModel
from phloem.target.pruning import Evaluation, Pruning
from phloem.target.rates import ModelRates, Parameters, fixed_rates
from phloem.target.substitution import SubstitutionModel, jc69
from phloem.threads import available_threads
from phloem.trees.topology import TopologyBatch


class TreeLikelihood:
    """p(Y given τ, q) for one alignment and one model.

    One kernel call gives log-likelihoods and all derivatives. Columns of the alignment that are equal within a clade
    are computed once; which these are is remembered from call to call. Where the model treats all states alike,
    patterns are merged up to the names of the states. The result depends neither on the number of threads nor on what
    is remembered. A model whose parameters need no gradient is taken as it is when it is first used.

    states_differ: whether models that treat states differently are asked for later, whatever this one does.
    """

    def __init__(
        self,
        patterns: SitePatterns,
        model: SubstitutionModel | PartitionedModel | None = None,
        *,
        threads: int | None = None,
        states_differ: bool = False,
    ) -> None:
        self.patterns = patterns
        self.model = model or jc69()
        self.threads = available_threads() if threads is None else threads
        if self.threads < 1:
            raise BadArgument(f"{self.threads} threads: give at least 1.")
        alike = self.model.treats_states_alike and not states_differ
        self.pruning = Pruning(merge_relabelled(patterns) if alike else patterns)
        self._fixed: tuple[SubstitutionModel | PartitionedModel, ModelRates] | None = None

    def __call__(self, topologies: TopologyBatch, branch_lengths: Tensor) -> Tensor:
        """Log-likelihood of each tree, (batch,), from lengths (batch, 2n-3); -inf where it is impossible.

        Where a site is impossible it has no gradient, and the gradient is that of the other sites.
        """
        check_branch_lengths(topologies, branch_lengths, len(self.patterns.taxa))
        rates = self._fixed_rates()
        parameters = self._free_model.parameters if rates is None else ()
        values: Tensor = _LogLikelihoods(self, topologies, rates)(branch_lengths, *parameters)
        return values

    def evaluate(
        self, topologies: TopologyBatch, branch_lengths: Tensor, rates: ModelRates | None = None
    ) -> Evaluation:
        """Log-likelihoods and their derivatives, not recorded by torch's autograd.

        rates: a model for each tree, for whose parameters there are derivatives too, in place of the model.
        """
        check_branch_lengths(topologies, branch_lengths, len(self.patterns.taxa))
        return self._evaluate(topologies, branch_lengths, rates, gradient=True)

    def values(self, topologies: TopologyBatch, branch_lengths: Tensor, rates: ModelRates) -> FloatArray:
        """Log-likelihoods, (batch,), of trees with a model for each."""
        check_branch_lengths(topologies, branch_lengths, len(self.patterns.taxa))
        return self._evaluate(topologies, branch_lengths, rates, gradient=False).sums

    def of_sites(self, topologies: TopologyBatch, branch_lengths: Tensor) -> FloatArray:
        """Log-likelihood of every site of the alignment, in its order, (batch, sites)."""
        check_branch_lengths(topologies, branch_lengths, len(self.patterns.taxa))
        found = self._evaluate(topologies, branch_lengths, gradient=False)
        return found.of_patterns[:, self.pruning.patterns.pattern_of_site]

    def _evaluate(
        self,
        topologies: TopologyBatch,
        branch_lengths: Tensor,
        rates: ModelRates | None = None,
        *,
        gradient: bool,
    ) -> Evaluation:
        used = rates or self._fixed_rates() or self.rates(*self._free_model.parameters)
        return self.pruning.evaluate(
            topologies,
            plain_values(branch_lengths),
            used.tables,
            gradient=gradient,
            full=gradient and rates is not None,
            threads=self.threads,
        )

    def _fixed_rates(self) -> ModelRates | None:
        """What the kernel needs of a model without free parameters, made once."""
        if self._fixed is None or self._fixed[0] is not self.model:
            if not self.model.is_fixed:
                return None
            models = self.model.parts if isinstance(self.model, PartitionedModel) else (self.model,)
            self._fixed = self.model, fixed_rates(models)
        return self._fixed[1]

    @property
    def _free_model(self) -> SubstitutionModel:
        """The model, some of whose parameters have gradients."""
        assert isinstance(self.model, SubstitutionModel)
        return self.model

    def rates(
        self, exchangeabilities: Tensor, frequencies: Tensor, shape: Tensor | None, invariant: Tensor | None
    ) -> ModelRates:
        """What the kernel needs of the model with these parameters."""
        parameters = Parameters(
            plain_values(exchangeabilities)[None, None],
            plain_values(frequencies)[None, None],
            None if shape is None else plain_values(shape).reshape(1, 1),
            np.zeros((1, 1)) if invariant is None else plain_values(invariant).reshape(1, 1),
            np.ones((1, 1)),
        )
        rates = self._free_model.site_rates
        return ModelRates(parameters, categories=rates.categories, method=rates.method)


@final
class _LogLikelihoods(Operation):
    """Log-likelihoods from lengths and, where the model has free parameters, from these: one kernel call for all."""

    def __init__(self, likelihood: TreeLikelihood, topologies: TopologyBatch, rates: ModelRates | None) -> None:
        self.likelihood = likelihood
        self.topologies = topologies
        self.fixed_rates = rates

    def values(self, wanted: tuple[bool, ...], lengths: Tensor, *parameters: Tensor) -> Tensor:
        """The log-likelihoods, (batch,)."""
        self.rates = self.fixed_rates or self.likelihood.rates(*parameters)
        found = self.likelihood.pruning.evaluate(
            self.topologies,
            lengths.detach().numpy(),
            self.rates.tables,
            gradient=any(wanted),
            full=any(wanted[1:]),
            threads=self.likelihood.threads,
        )
        self.derivatives = found.derivatives
        return torch.from_numpy(found.sums)

    def gradients(self, wanted: tuple[bool, ...], gradient: Tensor) -> tuple[Tensor | None, ...]:
        """The gradients of the lengths and of the parameters."""
        of_lengths = gradient[:, None] * torch.from_numpy(self.derivatives.lengths)
        if not any(wanted[1:]):
            return of_lengths, *(None for _ in wanted[1:])
        of_parameters = self.rates.gradients(self.derivatives, gradient.numpy())
        return of_lengths, *(
            torch.as_tensor(found[0, 0], dtype=torch.float64) if is_wanted and found is not None else None
            for found, is_wanted in zip(of_parameters[:4], wanted[1:], strict=True)
        )


def check_branch_lengths(topologies: TopologyBatch, branch_lengths: Tensor, taxon_count: int) -> None:
    """Raise unless there is one finite length >= 0 for every branch of trees on that many taxa."""
    if topologies.taxon_count != taxon_count:
        raise BadArgument(f"trees on {topologies.taxon_count} taxa for an alignment of {taxon_count}.")
    check_shape(topologies, branch_lengths)
    lengths = plain_values(branch_lengths)
    if not (lengths.min(initial=0.0) >= 0 and lengths.max(initial=0.0) < np.inf):  # nan is neither
        tree, branch = np.argwhere(~((lengths >= 0) & (lengths < np.inf)))[0]
        raise BadArgument(
            f"tree {tree + 1}, branch {branch}: length {lengths[tree, branch]:g}. "
            "Lengths must be finite and not negative."
        )


def check_shape(topologies: TopologyBatch, branch_lengths: Tensor) -> None:
    """Raise unless there is one length for every branch, in single or double precision."""
    check_tensors(branch_lengths)
    expected = (len(topologies), topologies.branch_count)
    if tuple(branch_lengths.shape) != expected:
        raise BadArgument(f"branch lengths of shape {tuple(branch_lengths.shape)}: {expected} is needed.")
