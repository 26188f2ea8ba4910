"""Graph convolutions as their formulas say: a loop over nodes, a loop over neighbours, nothing shared."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from phloem.features.convolutions import (
    EdgeConvolution,
    GcnConvolution,
    GgnnConvolution,
    GinConvolution,
    SageConvolution,
)

REDUCE = {
    "sum": lambda messages: torch.stack(messages).sum(0),
    "mean": lambda messages: torch.stack(messages).mean(0),
    "max": lambda messages: torch.stack(messages).max(0).values,
}


def gcn(layer: GcnConvolution, states: Tensor, neighbors: list[list[int]]) -> Tensor:
    rows = []
    for node, around in enumerate(neighbors):
        total = sum(states[u] / (1 + len(neighbors[u])) ** 0.5 for u in [*around, node])
        rows.append(F.elu(layer.linear(total / (1 + len(around)) ** 0.5)))
    return torch.stack(rows)


def gin(layer: GinConvolution, states: Tensor, neighbors: list[list[int]]) -> Tensor:
    rows = []
    for node, around in enumerate(neighbors):
        own = states[node] if layer.epsilon is None else (1 + layer.epsilon) * states[node]
        value = layer.linear(own + sum(states[u] for u in around))
        rows.append(F.elu(value if layer.second is None else layer.second(F.elu(value))))
    return torch.stack(rows)


def sage(layer: SageConvolution, states: Tensor, neighbors: list[list[int]]) -> Tensor:
    own, other = layer.weight.chunk(2)
    rows = []
    for node, around in enumerate(neighbors):
        pooled = REDUCE[layer.aggregation]([states[u] for u in around])
        rows.append(F.elu(own @ states[node] + other @ pooled + layer.bias))
    return torch.stack(rows)


def ggnn(layer: GgnnConvolution, states: Tensor, neighbors: list[list[int]]) -> Tensor:
    if layer.projection is not None:
        states = layer.projection(states)
    padded = torch.cat([states, states.new_zeros(len(states), layer.outputs - states.shape[1])], dim=1)
    rows = []
    for node, around in enumerate(neighbors):
        message = sum(layer.message(padded[u]) for u in around)
        rows.append(layer.gru(message[None], padded[node][None])[0])
    return torch.stack(rows)


def edge(layer: EdgeConvolution, states: Tensor, neighbors: list[list[int]]) -> Tensor:
    weight = torch.cat(layer.weight.chunk(2), dim=1)  # (outputs, 2·inputs)
    rows = []
    for node, around in enumerate(neighbors):
        messages = []
        for u in around:
            message = F.elu(weight @ torch.cat([states[node], states[u] - states[node]]) + layer.bias)
            messages.append(message if layer.second is None else layer.second(message))
        rows.append(F.elu(REDUCE[layer.aggregation](messages)))
    return torch.stack(rows)


NAIVE = {
    GcnConvolution: gcn,
    GinConvolution: gin,
    SageConvolution: sage,
    GgnnConvolution: ggnn,
    EdgeConvolution: edge,
}
