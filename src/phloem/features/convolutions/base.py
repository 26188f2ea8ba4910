"""What a graph convolution is."""

import math
from abc import ABC, abstractmethod
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from phloem.errors import BadArgument
from phloem.features.fused import Step, run
from phloem.features.graph import TreeGraph
from phloem.features.states import NodeStates

Aggregation = Literal["sum", "mean", "max"]


class Convolution(nn.Module, ABC):
    """One round of message passing, activation included: new states for all nodes from their own and their neighbours'.

    It must not depend on how nodes are numbered, and must ignore the padding of the neighbour table.
    """

    @abstractmethod
    def forward(self, states: NodeStates, graph: TreeGraph) -> Tensor:
        """New states, (nodes, outputs)."""

    def steps(self) -> list[Step] | None:
        """The fused steps that it is made of, which a network runs in one chain with others; None if there are none."""
        return None


class FusedConvolution(Convolution, ABC):
    """A convolution that is made of fused steps."""

    @abstractmethod
    def steps(self) -> list[Step]:
        """The fused steps that it is made of."""

    def forward(self, states: NodeStates, graph: TreeGraph) -> Tensor:
        """New states, (nodes, outputs)."""
        return run(self.steps(), states, graph)


def check_aggregation(aggregation: str, where: str) -> None:
    """Raise unless it is one that there is."""
    if aggregation not in get_args(Aggregation):
        raise BadArgument(f"{where}: aggregation {aggregation}. Choose sum, mean or max.")


def new_weight(rows: int, inputs: int, fan_in: int | None = None) -> nn.Parameter:
    """A matrix (rows, inputs) of uniform numbers within ±1/√fan_in, as torch's linear layers begin."""
    bound = 1 / math.sqrt(fan_in or inputs)
    return nn.Parameter(torch.empty(rows, inputs).uniform_(-bound, bound))


def new_bias(outputs: int, fan_in: int) -> nn.Parameter:
    """A vector of uniform numbers within ±1/√fan_in, as torch's linear layers begin."""
    return nn.Parameter(new_weight(1, outputs, fan_in).detach()[0])
