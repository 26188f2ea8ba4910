"""Trees drawn from Q with the parts of their weights, and their file."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray

from phloem.arrays import BoolArray, FloatArray, IntArray, LongArray
from phloem.errors import BadArgument, FileProblem, TaxonMismatch
from phloem.inference.diagnostics import smooth
from phloem.inference.particles import Particles
from phloem.storage.files import atomic_write, read_bytes
from phloem.trees.sample import GroupedTrees, TreeSample
from phloem.trees.topology import TopologyBatch

MOST_NODES = 20_000_000  # of the draws kept: all 100,000 for up to 100 taxa, within a limit of memory
TYPES = {
    "parent": np.int32,  # (topologies, 2n-2)
    "group": np.int32,
    "branch_lengths": np.float32,
    "log_joint": np.float64,
    "log_q_topology": np.float64,
    "log_q_branches": np.float64,
}
USUAL_COUNT = 1000  # trees of a sample
NO_COORDINATES: FloatArray = np.empty((0, 0))
# In the file of draws that were annealed, or have trees of chains among them; and where model parameters are inferred.
ANNEALED, THETA = "annealed", "theta"


@dataclass(frozen=True, slots=True, eq=False)
class TopologyEstimates:
    """The distinct topologies of weighted draws, most probable first, with standard errors; arrays are (topologies,).

    Probabilities are those of smoothed weights, evidence is that of the weights as they are: summed up, it is the
    marginal likelihood.
    """

    trees: TreeSample  # with their probabilities as weights
    error: FloatArray  # of the probability
    log_evidence: FloatArray  # log p(Y, τ)
    log_evidence_error: FloatArray

    def __len__(self) -> int:
        return len(self.trees)

    def first(self, count: int) -> "TopologyEstimates":
        """The most probable ones."""
        columns = (self.error, self.log_evidence, self.log_evidence_error)
        return TopologyEstimates(self.trees[:count], *(column[:count] for column in columns))


@dataclass(frozen=True, slots=True, eq=False)
class Draws:
    """Independent trees from Q, or moved from there to the posterior; each distinct topology is stored once, in order.

    A tree from Q has the weight p/Q. One that was moved has the weight that annealing gave it, whatever its p/Q is, and
    trees of chains that stand for what Q cannot generate have their share.
    """

    taxa: tuple[str, ...]
    topologies: TopologyBatch
    group: IntArray  # (draws,)  which of the topologies each draw has
    branch_lengths: NDArray[np.float32]  # (draws, 2n-3)
    log_joint: FloatArray  # (draws,)  log p(Y, τ, q, θ)
    log_q_topology: FloatArray  # (draws,)
    log_q_branches: FloatArray  # (draws,)  log Q(q, θ given τ)
    annealed: FloatArray | None = None  # (draws,)  log weights, if any of the trees were moved or added
    # (draws, dimension)  of the model's parameters, where some are inferred
    theta: FloatArray = field(default_factory=lambda: NO_COORDINATES)

    def __post_init__(self) -> None:
        if not len(self.group):
            raise BadArgument("draws: nothing was drawn.")
        if self.theta is NO_COORDINATES:
            object.__setattr__(self, "theta", np.empty((len(self.group), 0)))
        rows: list[NDArray[Any]] = [self.branch_lengths, self.log_joint, self.log_q_topology, self.log_q_branches]
        rows.append(self.theta)
        if self.annealed is not None:
            rows.append(self.annealed)
        if len(self.taxa) != self.topologies.taxon_count or any(len(row) != len(self.group) for row in rows):
            raise BadArgument("draws: taxa, topologies, lengths and logarithms differ in size.")

    def __len__(self) -> int:
        return len(self.group)

    @property
    def log_weights(self) -> FloatArray:
        """log p(Y, τ, q) - log Q(τ, q), or what annealing made of it, (draws,)."""
        if self.annealed is not None:
            return self.annealed
        return np.asarray(self.log_joint - self.log_q_topology - self.log_q_branches)

    @property
    def is_from_q(self) -> BoolArray:
        """Which trees are from Q, (draws,): all but those that stand for what Q cannot generate."""
        return np.asarray(self.log_q_topology > -np.inf)

    @property
    def own_log_weights(self) -> FloatArray:
        """Log weights of trees from Q, which say how good they are."""
        return self.log_weights[self.is_from_q]

    @property
    def own(self) -> "Draws":
        """Those from Q alone."""
        if self.is_from_q.all():
            return self
        collector = DrawCollector(most_nodes=np.iinfo(np.int64).max)
        collector.extend(self, self.is_from_q)
        return collector.draws(self.taxa)

    def weighted(self) -> GroupedTrees:
        """A weighted sample of the posterior: the draws with normalised weights, the largest of Q's smoothed."""
        log_weights = self.log_weights.copy()
        log_weights[self.is_from_q] = smooth(self.own_log_weights)
        weights = shares(log_weights)
        return GroupedTrees(self.taxa, self.topologies, self.group, weights, self.branch_lengths.astype(np.float64))

    def topology_estimates(self) -> TopologyEstimates:
        """Probability and evidence of each distinct topology."""
        trees = self.weighted()
        order = np.argsort(-trees.topology_weights(), kind="stable")
        columns = (trees.topology_errors(), *self._log_means(self.group, len(self.topologies)))
        return TopologyEstimates(trees.topology_sample(), *(column[order] for column in columns))

    def log_evidence_of_others(self, topologies: TopologyBatch) -> tuple[float, float]:
        """log p(Y, τ) summed over all topologies that were drawn and are not among these, and its standard error."""
        listed = {row.tobytes() for row in topologies.parent}
        is_other = np.array([row.tobytes() not in listed for row in self.topologies.parent])
        (_, log_mean), (_, error) = self._log_means(is_other[self.group].astype(np.int32), 2)
        return (float(log_mean), float(error)) if np.isfinite(log_mean) else (-math.inf, 0.0)

    def _log_means(self, group: IntArray, groups: int) -> tuple[FloatArray, FloatArray]:
        """log (1/S) Σ wᵢ 1[i is in the group] and its standard error, (groups,), for S trees from Q.

        -inf and nan where there is no weight.
        """
        log_weights, count = self.log_weights, int(self.is_from_q.sum())
        largest = np.full(groups, -np.inf)
        np.maximum.at(largest, group, log_weights)
        weights = np.exp(log_weights - np.where(np.isfinite(largest), largest, 0.0)[group])
        total, squares = (np.bincount(group, each, minlength=groups) for each in (weights, weights**2))
        with np.errstate(divide="ignore", invalid="ignore"):
            log_mean = largest + np.log(total) - np.log(count)
            error = np.sqrt(np.maximum(squares / total**2 - 1 / count, 0.0))
        return log_mean, error


def log_mean_weight(log_weights: FloatArray) -> float:
    """log (1/S) Σ wᵢ, which estimates the marginal likelihood."""
    greatest = float(log_weights.max())
    return greatest + math.log(float(np.exp(log_weights - greatest).mean())) if math.isfinite(greatest) else greatest


def shares(log_weights: FloatArray) -> FloatArray:
    """Weights that sum to one."""
    greatest = log_weights.max()
    if not np.isfinite(greatest):
        raise BadArgument("draws: all draws are impossible under the model. Train longer, or check the alignment.")
    weights = np.exp(log_weights - greatest)
    return np.asarray(weights / weights.sum())


def resample(weights: FloatArray, count: int, offset: float) -> LongArray:
    """Systematic resampling: draw i comes count·weight times, rounded up or down, which adds the least noise.

    weights: sum to one. offset: a random number from 0 up to 1.
    """
    ends = np.cumsum(weights)
    points = (np.arange(count) + offset) / count * ends[-1]
    return np.asarray(np.minimum(np.searchsorted(ends, points, side="right"), len(weights) - 1))


def shortest_decimals(lengths: NDArray[np.float32]) -> FloatArray:
    """The decimal numbers with the fewest digits that round to these, so that text of them is short."""
    return lengths.astype("U").astype(np.float64)


def join(parts: Sequence[Draws]) -> Draws:
    """The draws of several runs on the same taxa, joined.

    Whichever run a draw is from, its weight estimates p(Y) without bias. So all draws with their weights are a
    sample of the posterior, in which runs are weighted by their marginal likelihoods: one that lost a mode counts less.
    """
    collector = DrawCollector()
    for part in parts:
        if part.taxa != parts[0].taxa:
            raise TaxonMismatch(
                "draws: a run has other taxa, or has them in another order. Use runs on the same alignment."
            )
        collector.extend(part)
    return collector.draws(parts[0].taxa)


class DrawCollector:
    """Collects draws up to a total number of nodes; further draws are dropped."""

    def __init__(self, most_nodes: int = MOST_NODES) -> None:
        self._numbers: dict[bytes, int] = {}
        self._parents: list[IntArray] = []
        self._columns: list[tuple[NDArray[Any], ...]] = []
        self._nodes_left = most_nodes
        self._any_moved = False

    @property
    def topology_count(self) -> int:
        """Distinct topologies so far."""
        return len(self._parents)

    def add(self, particles: Particles, annealed: FloatArray | None = None) -> None:
        """Add particles, as far as there is room. annealed: their log weights, if they were moved."""
        each = particles.topologies.node_count + particles.theta.shape[1]
        count = min(len(particles.topologies), self._nodes_left // each)
        self._nodes_left -= count * each
        lengths, *logarithms, theta = (part.detach().numpy()[:count] for part in particles[1:])
        group = self._number(particles.topologies.parent[:count])
        log_weights = particles.log_weights() if annealed is None else annealed
        self._any_moved |= annealed is not None
        self._columns.append((group, lengths.astype(np.float32), *logarithms, log_weights[:count], theta))

    def extend(self, draws: Draws, chosen: BoolArray | slice = slice(None)) -> None:
        """Add draws that were collected before, all or some of them."""
        used, number = np.unique(draws.group[chosen], return_inverse=True)
        group = self._number(draws.topologies.parent[used])[number]
        self._any_moved |= draws.annealed is not None
        columns = (draws.branch_lengths, draws.log_joint, draws.log_q_topology, draws.log_q_branches)
        self._columns.append((group, *(column[chosen] for column in (*columns, draws.log_weights, draws.theta))))

    def draws(self, taxa: tuple[str, ...]) -> Draws:
        """The collected draws."""
        if not self._parents:
            raise BadArgument("draws: nothing was drawn.")
        columns = [np.concatenate(parts) for parts in zip(*self._columns, strict=True)]
        topologies = TopologyBatch.from_canonical(np.stack(self._parents))
        group, branch_lengths, log_joint, log_q_topology, log_q_branches, log_weights, theta = columns
        logarithms = (log_joint, log_q_topology, log_q_branches, log_weights if self._any_moved else None)
        return Draws(taxa, topologies, group, branch_lengths, *logarithms, theta)

    def _number(self, parents: IntArray) -> IntArray:
        """The topology number of each row; new topologies get the next number."""
        group = np.empty(len(parents), np.int32)
        for draw, parent in enumerate(parents):
            group[draw] = number = self._numbers.setdefault(parent.tobytes(), len(self._parents))
            if number == len(self._parents):
                self._parents.append(parent.copy())
        return group


def write_draws(draws: Draws, path: Path) -> None:
    """Write draws; equal draws give equal bytes."""
    arrays = {name: getattr(draws, name) for name in TYPES if name != "parent"}
    arrays["parent"] = draws.topologies.parent
    if draws.annealed is not None:
        arrays[ANNEALED] = draws.annealed
    if draws.theta.shape[1]:
        arrays[THETA] = draws.theta
    content = safetensors.numpy.save(
        {name: np.asarray(array, order="C") for name, array in arrays.items()}, {"taxa": json.dumps(draws.taxa)}
    )
    with atomic_write(path) as stream:
        stream.write(content)


def read_draws(path: Path) -> Draws:
    """Read draws from a file."""
    content = read_bytes(path)
    try:
        arrays = safetensors.numpy.load(content)
        header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
        taxa = tuple(json.loads(header["__metadata__"]["taxa"]))
        types = {**TYPES, **{name: np.float64 for name in (ANNEALED, THETA) if name in arrays}}
        if any(arrays[name].dtype != dtype for name, dtype in types.items()):
            raise ValueError("an array has another type")
        topologies = TopologyBatch.from_parents(arrays.pop("parent"))
        draws = Draws(taxa, topologies, **arrays)
        if not 0 <= draws.group.min() <= draws.group.max() < len(topologies):
            raise ValueError("a draw has no topology")
        if draws.branch_lengths.shape[1:] != (topologies.branch_count,):
            raise ValueError("lengths do not fit the trees")
        if not (np.isfinite(draws.branch_lengths).all() and (draws.branch_lengths >= 0).all()):
            raise ValueError("a length is negative or not finite")
        if draws.theta.ndim != 2 or not np.isfinite(draws.theta).all():
            raise ValueError("a model parameter is not finite")
        if np.isnan(draws.log_weights).any():
            raise ValueError("a weight is not a number")
    except Exception:  # damaged bytes fail in a dozen ways
        raise FileProblem(f"{path}: is damaged, or not a file of draws. Make it again with --resume.") from None
    return draws
