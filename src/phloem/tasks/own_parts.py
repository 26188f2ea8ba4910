"""Parts of an inference that users bring themselves: a convolution, a family of lengths, a prior, an estimator.

Each is tried on a small example before anything is computed, so that what is missing is said at once. A run directory
holds their names; the objects themselves must be given again to resume it.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from phloem.config import InferConfig
from phloem.errors import BadArgument
from phloem.features.convolutions import CONVOLUTIONS, Convolution
from phloem.features.layers import DenseStates, RawStates, TreeGraph
from phloem.inference.particles import Estimate, Estimator
from phloem.random_streams import RandomStream
from phloem.target.posterior import Prior
from phloem.trees.generation import random_topologies
from phloem.variational.families import BranchDistribution, BranchSample

TAXA, TREES, CHANNELS = 6, 3, 4  # of the example
ROUNDING = 1e-4  # relative, in single precision
MODEL = "model "  # in the settings of a run whose whole model is its user's own


class OwnParts(NamedTuple):
    """What a run has of its user's own. None stands for phloem's, as the settings say."""

    convolution: Callable[[int, int], Convolution] | None = None
    family: type[BranchDistribution] | None = None
    prior: Prior | None = None
    estimator: Estimator | None = None

    def names(self) -> str | None:
        """What is whose own, as in `own = "convolution Attention, prior Gamma"` of the settings; None for nothing."""
        given = [f"{part} {name_of(value)}" for part, value in self._asdict().items() if value is not None]
        return ", ".join(given) or None

    def recorded(self, config: InferConfig) -> InferConfig:
        """The settings with the names of these parts, each of which has been tried.

        Raise if the settings name others: those of the run that is to be resumed.
        """
        if config.own is not None and config.own != self.names():
            raise _missing(config.own)
        if self.convolution is not None:
            if config.branches not in CONVOLUTIONS:
                raise BadArgument(f"convolution: {config.branches} has none. Leave out branches={config.branches!r}.")
            check_convolution(self.convolution)
        if self.family is not None:
            check_family(self.family)
        if self.prior is not None:
            check_prior(self.prior)
        if self.estimator is not None:
            check_estimator(self.estimator, config.training.particles)
        return replace(config, own=self.names())

    def require(self, config: InferConfig, *parts: str) -> None:
        """Raise if the settings name a part of its user's own that is not here."""
        if any(name.partition(" ")[0] in parts for name in names_in(config)) and config.own != self.names():
            raise _missing(str(config.own))


def names_in(config: InferConfig) -> list[str]:
    """What is the user's own, a part each."""
    return (config.own or "").split(", ")


def branches_of(config: InferConfig) -> str:
    """The model of branch lengths, or what of it is the user's own."""
    parts = [name for name in names_in(config) if name.partition(" ")[0] in ("model", "convolution", "family")]
    return f"own {', '.join(parts)}" if parts else config.branches


def family_of(config: InferConfig) -> str:
    """The family of branch lengths, where it is one of phloem's; else nothing."""
    own = any(name.partition(" ")[0] in ("model", "family") for name in names_in(config))
    return "" if own else config.family


def _missing(own: str) -> BadArgument:
    if own.startswith(MODEL):
        return BadArgument(
            f"the run is of objects that no file holds ({own}). Use phloem.posterior_of with them again."
        )
    given = ", ".join(f"{part}={name}" for part, _, name in (name.partition(" ") for name in own.split(", ")))
    return BadArgument(
        f"the run was made with objects that no file holds ({own}). Give them again in Python: "
        f"phloem.infer(None, out=…, resume=True, {given})."
    )


NOTHING_OWN = OwnParts()


def name_of(part: Any) -> str:
    """What a part is called: its own name, or that of its class."""
    while isinstance(part, partial):
        part = part.func
    name = part if isinstance(part, str) else str(getattr(part, "__name__", None) or type(part).__name__)
    return name.replace(",", "").replace(" ", "")


def _example() -> Any:
    return random_topologies(TAXA, TREES, stream=RandomStream(1, "example"))


def check_convolution(convolution: Any) -> None:
    """Raise unless it makes convolutions from numbers of inputs and outputs, which treat all nodes alike."""
    what = f"convolution {name_of(convolution)}"
    if isinstance(convolution, str | nn.Module) or not callable(convolution):
        raise BadArgument(f"{what}: give a class, or a function of (inputs, outputs); a name goes into branches=….")
    topologies = _example()
    graph = TreeGraph.of_topologies(topologies)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        layer = _tried(what, "called with (inputs, outputs)", lambda: convolution(TAXA, CHANNELS))
        if not isinstance(layer, Convolution):
            raise BadArgument(f"{what}: makes a {type(layer).__name__}, not a phloem.features.Convolution.")
        states = RawStates(topologies, torch.float32)
        result = _tried(what, "given states and a graph", lambda: layer(states, graph))
        _check_shape(what, result, (graph.node_count, CHANNELS), torch.float32)
        if list(layer.parameters()) and not result.requires_grad:
            raise BadArgument(f"{what}: its result does not depend on its parameters. Use no detach, no no_grad.")
        order = np.random.default_rng(1).permutation(graph.node_count)
        again = _tried(what, "given renumbered nodes", lambda: layer(*_renumbered(states.dense(), graph, order)))
    if not torch.allclose(again, result[order], rtol=ROUNDING, atol=ROUNDING):
        raise BadArgument(f"{what}: depends on how nodes are numbered, or reads the padding of the neighbours.")


def _renumbered(states: Tensor, graph: TreeGraph, order: Any) -> tuple[DenseStates, TreeGraph]:
    """The same graph with node order[i] as node i, of one tree: its trees are mixed."""
    place = np.argsort(order).astype(np.int32)
    neighbors = np.where(graph.neighbors < 0, -1, place[graph.neighbors])[order]
    starts = np.array([0, graph.node_count], np.int32)
    return DenseStates(states[order]), TreeGraph(np.ascontiguousarray(neighbors), place[graph.branches], starts)


def check_family(family: Any) -> None:
    """Raise unless it is a class of distributions whose samples have the density that it says."""
    what = f"family {name_of(family)}"
    if not (isinstance(family, type) and issubclass(family, BranchDistribution)):
        raise BadArgument(f"{what}: give a subclass of phloem.variational.BranchDistribution.")
    count = getattr(family, "parameters_per_branch", None)
    if not isinstance(count, int) or count < 1:
        raise BadArgument(f"{what}: parameters_per_branch is {count}. Say how many numbers a branch needs.")
    branches, stream, topologies = 2 * TAXA - 3, RandomStream(1, "example"), _example()
    parameters = torch.zeros(TREES, branches, count, dtype=torch.float64, requires_grad=True)
    distribution = _tried(
        what, f"made from zeros (trees, branches, {count}) and topologies", lambda: family(parameters, topologies)
    )
    sample = _tried(what, "sampled", lambda: distribution.sample(stream=stream))
    path = _tried(what, "sampled with path_only=True", lambda: distribution.sample(stream=stream, path_only=True))
    for drawn in (sample, path):
        if not (isinstance(drawn, tuple) and len(drawn) == len(BranchSample._fields)):
            raise BadArgument(f"{what}: sample must return a phloem.variational.BranchSample.")
        _check_shape(f"{what}, lengths", drawn[0], (TREES, branches), torch.float64)
        _check_shape(f"{what}, log_prob", drawn[1], (TREES,), torch.float64)
        if not (drawn[0] >= 0).all():
            raise BadArgument(f"{what}: some lengths are negative.")
        if not (drawn[0].requires_grad and drawn[1].requires_grad):
            raise BadArgument(f"{what}: lengths and log_prob must be differentiable in the parameters.")
    if not (torch.equal(sample[0], path[0])):
        raise BadArgument(f"{what}: two samples of one stream differ. Draw all random numbers from the stream.")
    density = _tried(what, "asked for log_prob", lambda: distribution.log_prob(sample[0].detach()))
    _check_shape(f"{what}, log_prob of lengths", density, (TREES,), torch.float64)
    if not torch.allclose(density, sample[1], rtol=ROUNDING, atol=ROUNDING):
        raise BadArgument(
            f"{what}: log_prob of a sample is {density[0].item():g}, but sample says {sample[1][0].item():g}."
        )


def check_prior(prior: Any) -> None:
    """Raise unless it gives a differentiable log-density for each tree."""
    what = f"prior {name_of(prior)}"
    if not callable(prior) or isinstance(prior, type):
        raise BadArgument(f"{what}: give an object that is called with (topologies, branch_lengths).")
    topologies = _example()
    lengths = torch.full((TREES, topologies.branch_count), 0.1, dtype=torch.float64, requires_grad=True)
    result = _tried(what, "called with (topologies, branch_lengths)", lambda: prior(topologies, lengths))
    _check_shape(what, result, (TREES,), torch.float64)


def check_estimator(estimator: Any, particles: int) -> None:
    """Raise unless it turns log weights into a bound and three factors a particle."""
    what = f"estimator {name_of(estimator)}"
    if not callable(estimator):
        raise BadArgument(f"{what}: give a function of the log weights, (particles,).")
    log_weights = np.linspace(-3.0, 0.0, particles)
    result = _tried(what, "called with log weights", lambda: estimator(log_weights))
    if not isinstance(result, Estimate):
        raise BadArgument(f"{what}: returns a {type(result).__name__}, not a phloem.inference.Estimate.")
    if not isinstance(result.lower_bound, float):
        raise BadArgument(f"{what}: lower_bound is a {type(result.lower_bound).__name__}, not a float.")
    for name, factors in zip(Estimate._fields[1:], result[1:], strict=True):
        if not isinstance(factors, np.ndarray) or factors.shape != (particles,) or factors.dtype != np.float64:
            raise BadArgument(f"{what}: {name} must be an array of {particles} numbers in double precision.")


def _tried(what: str, how: str, call: Callable[[], Any]) -> Any:
    """The result of a user's code on the example; its error is named with the part that it comes from."""
    try:
        return call()
    except Exception as problem:
        raise BadArgument(f"{what}, {how}: {type(problem).__name__}: {problem}") from problem


def _check_shape(what: str, result: Any, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    if not isinstance(result, Tensor):
        raise BadArgument(f"{what}: is a {type(result).__name__}, not a torch tensor.")
    if tuple(result.shape) != shape or result.dtype != dtype:
        raise BadArgument(f"{what}: is {tuple(result.shape)} in {result.dtype}, not {shape} in {dtype}.")
    if not torch.isfinite(result).all():
        raise BadArgument(f"{what}: is not finite.")
