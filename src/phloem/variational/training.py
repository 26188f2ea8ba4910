"""Training of a subsplit network whose steps cost what their trees touch, however large its tables are.

Ten trees ask for a few hundred of some ten thousand tables. Only these are normalised, only they have gradients, and
Adam moves only them. What Adam would have done to the others, as a gradient leaves a momentum that fades over the next
steps, is done when they are next asked for (`kernels/variational/step_tables.py`): results are those of an Adam that
moves all of them at every step, up to rounding.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from phloem.arrays import AnyArray, FloatArray, LongArray
from phloem.errors import BadArgument
from phloem.kernels.training import DECAY, SQUARE_DECAY
from phloem.kernels.variational import sbn as kernels
from phloem.kernels.variational.step_tables import (
    ASKED,
    DRAW,
    LANES,
    MEMORY,
    STEP,
    StepTables,
    addresses,
    advance_all,
    ask_entries,
    ask_tables,
    clear_gradient,
    differentiate,
    move,
)
from phloem.random_streams import RandomStream
from phloem.trees.topology import TopologyBatch
from phloem.variational.sbn import (
    SubsplitIndices,
    SubsplitNetwork,
    Tables,
    log_rootings,
    normalize_tables,
    sample_topologies,
)


class TableAdam:
    """Adam (Kingma & Ba 2015) for a network's logits, each step with its own learning rate; the network's `Trainer`.

    The gradient is that of the last draw, where its `backward` was called. One that is not finite moves nothing.
    """

    def __init__(self, network: SubsplitNetwork) -> None:
        self._support = network.support
        self._logits = network.logits
        if not self._logits.is_contiguous():
            raise BadArgument("training: the logits of the subsplit network are not contiguous. Copy them.")
        count, tables = self._support.parameter_count, self._support.free_tables
        self._mean, self._square = np.zeros(count), np.zeros(count)
        self._counters = np.array([0, 0, 0, tables, count], np.int64)
        self._table_steps = np.zeros(tables, np.int64)
        self._recent = np.zeros((MEMORY, 2))
        self._tables: StepTables | None = None  # a network that is held needs none
        self._has_gradient = False
        network.train_with(self)

    def __getstate__(self) -> dict[str, Any]:
        """For copies, which have other memory."""
        return {**self.__dict__, "_tables": None, "_has_gradient": False}

    def state(self) -> dict[str, AnyArray]:
        """What the next steps depend on besides the logits: the optimiser's own memory, not a copy."""
        if self._tables is not None:
            self._tables.series[...] = -1.0  # sums of rates that may be replaced now
        return {
            "mean": self._mean,
            "square": self._square,
            "step_counts": self._counters[STEP : STEP + 1],
            "table_steps": self._table_steps,
            "recent": self._recent,
        }

    def clear_gradients(self) -> None:
        """Clear the gradient of the last step."""
        if self._has_gradient:
            clear_gradient(self._places())
            self._has_gradient = False
        self._logits.grad = None

    def sample_scored(self, count: int, *, stream: RandomStream) -> tuple[TopologyBatch, "_Scores", SubsplitIndices]:
        """Sampled topologies, and log-probabilities that are still to be computed, as long as this is the last draw."""
        self.clear_gradients()
        self._counters[DRAW] += 1
        self._counters[ASKED] = 0
        topologies = sample_topologies(self._support, count, stream, self._normalized(), self._places())
        indices = self._support.indices(topologies)
        return topologies, _Scores(self, indices, int(self._counters[DRAW])), indices

    def log_prob(self, indices: SubsplitIndices) -> tuple[FloatArray, FloatArray]:
        """The log-probabilities of topologies of the last draw, (batch,), and the shares of their rootings."""
        ask_entries(self._places(), indices.splits, indices.entries)
        log_prob, shares = kernels.sum_rootings(log_rootings(indices, self._normalized()))
        return log_prob, shares

    def add_gradient(self, indices: SubsplitIndices, shares: FloatArray, weights: FloatArray) -> None:
        """Add to the logits' gradient that of a weighted sum of log-probabilities of the last draw."""
        gradient = self._working().gradient
        kernels.count_entries(indices.neighbors, indices.splits, indices.entries, shares, weights, gradient)
        differentiate(self._places())
        self._logits.grad = torch.from_numpy(gradient)
        self._has_gradient = True

    def take_shared_gradient(self) -> None:
        """Let the next step move the tables, too, that only others asked for who have added to the gradient."""
        if self._has_gradient:
            tables = self._working()
            ask_tables(self._places(), np.unique(tables.table_of[np.flatnonzero(tables.gradient)]))

    def is_last(self, draw: int) -> bool:
        """Whether no topologies were drawn since then."""
        return bool(self._counters[DRAW] == draw)

    def step(self, rate: float) -> bool:
        """Move the logits if they have a gradient; returns whether it was finite."""
        if not self._has_gradient:
            return True
        moved: bool = move(self._places(), rate)
        torch.autograd.graph.increment_version([self._logits])  # torch does not see the kernel's writes
        return moved

    def catch_up(self) -> None:
        """Bring all tables up to date."""
        if (self._table_steps < self._counters[STEP]).any():
            advance_all(self._places())
            torch.autograd.graph.increment_version([self._logits])

    def _normalized(self) -> Tables:
        """The tables that this draw asked for, among others that are of no use."""
        tables = self._working()
        return Tables(tables.probabilities, tables.log_probabilities)

    def _places(self) -> LongArray:
        """Where the tables are in memory."""
        self._working()
        self._addresses[0] = self._logits.data_ptr()
        return self._addresses

    def _working(self) -> StepTables:
        """The tables, as far as they are up to date; the logits may have moved in memory."""
        if self._tables is not None:
            return self._tables
        support = self._support
        uniform = normalize_tables(support, torch.zeros_like(self._logits))
        sizes = np.diff(support.free_starts)
        self._tables = StepTables(
            logits=self._logits.detach().numpy(),
            mean=self._mean,
            square=self._square,
            gradient=np.zeros(support.parameter_count),
            probabilities=uniform.probabilities,
            log_probabilities=uniform.log_probabilities,
            log_sums=np.zeros(len(sizes)),
            recent=self._recent,
            powers=np.array([DECAY, np.sqrt(SQUARE_DECAY)]) ** np.arange(MEMORY + 1)[:, None],
            series=np.full((MEMORY, 11), -1.0),
            lanes=np.empty(LANES),
            starts=support.free_starts,
            table_steps=self._table_steps,
            drawn=np.zeros(len(sizes), np.int64),
            counters=self._counters,
            table_of=np.repeat(np.arange(len(sizes), dtype=np.int32), sizes),
            asked=np.zeros(len(sizes), np.int32),
        )
        self._addresses = addresses(self._tables)
        return self._tables


class _Scores:
    """Log-probabilities of the topologies of a draw."""

    def __init__(self, adam: TableAdam, indices: SubsplitIndices, draw: int) -> None:
        self._adam = adam
        self._indices = indices
        self._draw = draw
        self._shares: FloatArray | None = None

    def values(self) -> Tensor:
        """The log-probabilities, (batch,)."""
        self._check()
        values, self._shares = self._adam.log_prob(self._indices)
        return torch.from_numpy(values)

    def backward(self, output_gradient: Tensor) -> None:
        """From the gradient of the log-probabilities to that of the logits."""
        self._check()
        if self._shares is None:
            self.values()
        assert self._shares is not None
        self._adam.add_gradient(self._indices, self._shares, output_gradient.contiguous().numpy())

    def _check(self) -> None:
        if not self._adam.is_last(self._draw):
            raise BadArgument("training: other topologies were drawn since. Ask for log-probabilities before that.")
