"""How the ranks of a run tell each other of draws: requests and results as parcels, and a model's parameters."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch

from phloem.arrays import AnyArray
from phloem.inference.particles import Particles
from phloem.random_streams import RandomStream
from phloem.runs.ranks import Parcel, Ranks, Task
from phloem.trees.topology import TopologyBatch
from phloem.variational.joint import JointModel

# What rank 0 tells the others besides tasks: to take a training step, and the parameters of its model.
STEP, PARAMETERS = "step", "parameters"
COLUMNS = Particles._fields[1:]  # which are tensors


class DrawPart(NamedTuple):
    """Some of the trees to draw from Q."""

    stream: RandomStream  # at the first of them
    trees: int


def stream_values(stream: RandomStream) -> dict[str, Any]:
    """A stream as JSON can hold it."""
    return {"seed": stream.seed, "purpose": stream.purpose, "step": stream.step, "particle": stream.particle}


def stream_from(values: Mapping[str, Any]) -> RandomStream:
    """The stream."""
    return RandomStream(values["seed"], values["purpose"], values["step"], values["particle"])


def particle_arrays(particles: Particles) -> dict[str, AnyArray]:
    """Particles without their gradients."""
    columns = {name: getattr(particles, name).detach().numpy() for name in COLUMNS}
    return {"parent": particles.topologies.parent, **columns}


def particles_from(arrays: Mapping[str, AnyArray]) -> Particles:
    """The particles."""
    topologies = TopologyBatch.from_canonical(arrays["parent"])
    return Particles(topologies, *(torch.from_numpy(arrays[name]) for name in COLUMNS))


DRAWING: Task[DrawPart, Particles] = Task(
    "draw",
    pack_request=lambda part: Parcel({**stream_values(part.stream), "trees": part.trees}),
    unpack_request=lambda parcel: DrawPart(stream_from(parcel.values), parcel.values["trees"]),
    pack_result=lambda particles: Parcel(arrays=particle_arrays(particles)),
    unpack_result=lambda parcel: particles_from(parcel.arrays),
)


def share_parameters(model: JointModel, ranks: Ranks) -> None:
    """Give all ranks the parameters of rank 0.

    Every step moves them alike, but for processors that round differently; these stay together by this.
    """
    if ranks.size > 1:
        parameters = {name: tensor.detach().numpy() for name, tensor in model.state_dict().items()}
        ranks.tell(PARAMETERS, Parcel(arrays=parameters))


def take_parameters(model: JointModel, parcel: Parcel) -> None:
    """Take the parameters that another rank gave."""
    model.network.release()
    model.load_state_dict({name: torch.from_numpy(np.asarray(array)) for name, array in parcel.arrays.items()})
