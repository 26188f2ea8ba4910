"""The graph networks as one would write them first: gather neighbours to padded edges, plain torch, autograd."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from phloem.features import TreeGraph, dirichlet_features
from phloem.trees import TopologyBatch


class NaiveConvolution(nn.Module):
    """One convolution of the code's form; the weights are made when their number of inputs is known."""

    def __init__(self, name: str, inputs: int, width: int) -> None:
        super().__init__()
        self.name = name
        self.width = width
        doubled = {"edge": 2 * inputs, "ggnn": width}.get(name, inputs)
        self.first = nn.Linear(doubled, width, bias=name != "ggnn")
        self.second = nn.Linear(inputs, width, bias=False) if name == "sage" else None
        self.epsilon = nn.Parameter(torch.zeros(1)) if name == "gin" else None
        self.gru = nn.GRUCell(width, width) if name == "ggnn" else None

    def forward(self, states: Tensor, neighbors: Tensor, padding: Tensor) -> Tensor:
        """New states, (nodes, width)."""
        if self.gru is not None:
            states = F.pad(states, (0, self.width - states.shape[1]))
        around = states[neighbors]  # (nodes, 3, channels)
        degrees = (~padding).sum(1)
        if self.name == "edge":
            own = states[:, None].expand_as(around)
            messages = F.elu(self.first(torch.cat([own, around - own], dim=2)))
            return F.elu(messages.masked_fill(padding, -torch.inf).amax(1))
        if self.name == "gcn":
            scaled = around / (1 + degrees).sqrt()[neighbors]
            total = scaled.masked_fill(padding, 0).sum(1) + states / (1 + degrees).sqrt()
            return F.elu(self.first(total / (1 + degrees).sqrt()))
        total = around.masked_fill(padding, 0).sum(1)
        if self.epsilon is not None:
            return F.elu(self.first((1 + self.epsilon) * states + total))
        if self.second is not None:
            return F.elu(self.first(states) + self.second(total / degrees))
        assert self.gru is not None
        messages = self.first(states)[neighbors].masked_fill(padding, 0).sum(1)
        updated: Tensor = self.gru(messages, states)
        return updated


class NaiveBranchNetwork(nn.Module):
    """Raw features to two numbers a branch."""

    def __init__(self, name: str, taxa: int, width: int = 100, depth: int = 2) -> None:
        super().__init__()
        sizes = [taxa] + (0 if name == "mlp" else depth) * [width]
        self.convolutions = nn.ModuleList(NaiveConvolution(name, inputs, width) for inputs in sizes[:-1])
        self.node_mlp = nn.Sequential(nn.Linear(sizes[-1], width), nn.ELU(), nn.Linear(width, width), nn.ELU())
        self.readout = nn.Sequential(nn.Linear(width, width), nn.ELU(), nn.Linear(width, 2))

    def forward(self, topologies: TopologyBatch) -> Tensor:
        """Two numbers a branch, (branches, 2)."""
        graph = TreeGraph.of_topologies(topologies)
        neighbors, padding = graph.neighbor_index, graph.padding[:, :, None]
        states = torch.from_numpy(dirichlet_features(topologies)).float().reshape(graph.node_count, -1)
        for convolution in self.convolutions:
            states = convolution(states, neighbors, padding)
        states = self.node_mlp(states)
        ends = torch.from_numpy(graph.branches).long()
        edges = torch.maximum(states[ends[:, 0]], states[ends[:, 1]])
        numbers: Tensor = self.readout(edges)
        return numbers
