"""Densities as files: a training at the end of a step, and a density that is trained."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from phloem.arrays import AnyArray
from phloem.config.density import COMMAND, DensityConfig, density_to_toml, read_density_config
from phloem.energy.density import Normalizer, TreeDensity
from phloem.energy.model import Unnormalized
from phloem.energy.noise import ListedNoise, Noise, SubsplitNoise, UniformNoise, choose_base
from phloem.energy.training import DensityHistory, new_model
from phloem.runs.checkpoints import CheckpointFolder
from phloem.storage.arrays import Sealed, making_sense, prefixed, read_sealed, without_prefix, write_sealed
from phloem.trees.sample import TreeSample
from phloem.trees.topology import TopologyBatch
from phloem.variational.sbn import SubsplitNetwork, support_arrays, support_from

FORMAT = "1"


@dataclass(frozen=True, slots=True, eq=False)
class DensityCheckpoint:
    """A training at the end of a step, with all that it needs to go on."""

    config: DensityConfig
    sample: TreeSample
    noise: Noise
    training: dict[str, AnyArray]
    history: DensityHistory

    @property
    def step(self) -> int:
        return int(self.training["counters"][0])


def density_checkpoints(path: Path) -> CheckpointFolder[DensityCheckpoint]:
    """The folder of a training's checkpoints."""
    return CheckpointFolder(path, read_density_checkpoint, write_density_checkpoint)


def write_density_checkpoint(checkpoint: DensityCheckpoint, path: Path) -> None:
    """Write a checkpoint; a reader finds all of it or nothing."""
    arrays = {
        **_shared_arrays(checkpoint.sample, checkpoint.noise),
        **prefixed("training", checkpoint.training),
        **prefixed("history", checkpoint.history.as_arrays()),
    }
    write_sealed(path, arrays, _texts(checkpoint.config, checkpoint.sample), kind=COMMAND, layout=FORMAT)


def read_density_checkpoint(path: Path) -> DensityCheckpoint:
    """The checkpoint in a file; an error that says what is wrong with any other file."""
    found = read_sealed(path, kind=COMMAND, layout=FORMAT)
    with making_sense(path):
        config, sample, noise = _shared_parts(path, found)
        return DensityCheckpoint(
            config,
            sample,
            noise,
            without_prefix("training", found.arrays),
            DensityHistory.from_arrays(**without_prefix("history", found.arrays)),
        )


def write_density(density: TreeDensity, path: Path) -> None:
    """Write a trained density: all that scoring and sampling need."""
    parameters = {name: tensor.numpy() for name, tensor in density.unnormalized.model.state_dict().items()}
    texts = _texts(density.config, density.sample) | {"normalizer": json.dumps(density.normalizer)}
    arrays = _shared_arrays(density.sample, density.noise) | prefixed("model", parameters)
    write_sealed(path, arrays, texts, kind=COMMAND, layout=FORMAT)


def read_density(path: Path) -> TreeDensity:
    """The density in a file."""
    found = read_sealed(path, kind=COMMAND, layout=FORMAT)
    with making_sense(path):
        config, sample, noise = _shared_parts(path, found)
        return TreeDensity(
            config,
            sample,
            trained(config, noise, without_prefix("model", found.arrays)),
            noise,
            Normalizer(*json.loads(found.texts["normalizer"])),
        )


def trained(config: DensityConfig, noise: Noise, parameters: dict[str, AnyArray]) -> Unnormalized:
    """The density with these parameters."""
    model = new_model(noise.taxon_count, config)
    model.load_state_dict({name: torch.from_numpy(array.copy()) for name, array in parameters.items()})
    return Unnormalized(model, choose_base(noise, config))


def _texts(config: DensityConfig, sample: TreeSample) -> dict[str, str]:
    return {"config": density_to_toml(config), "taxa": json.dumps(sample.taxa)}


def _shared_arrays(sample: TreeSample, noise: Noise) -> dict[str, AnyArray]:
    arrays: dict[str, Any] = {"sample.parent": sample.topologies.parent, "sample.weights": sample.weights}
    if isinstance(noise, SubsplitNoise):
        support = support_arrays(noise.network.support)
        del support["taxa"]
        arrays |= prefixed("noise", {**support, "logits": noise.network.logits.detach().numpy()})
    return arrays


def _shared_parts(path: Path, found: Sealed) -> tuple[DensityConfig, TreeSample, Noise]:
    config = read_density_config(found.texts["config"], str(path))
    taxa = tuple(json.loads(found.texts["taxa"]))
    topologies = TopologyBatch.from_parents(found.arrays["sample.parent"])
    sample = TreeSample(taxa, topologies, found.arrays["sample.weights"], None)
    if config.noise == "uniform":
        return config, sample, UniformNoise(len(taxa))
    if config.noise == "listed":
        return config, sample, ListedNoise(topologies)
    arrays = without_prefix("noise", found.arrays)
    support = support_from(path, {"taxa": np.array(taxa), **arrays})
    network = SubsplitNetwork(support, torch.from_numpy(arrays["logits"].copy()))
    return config, sample, SubsplitNoise(network, config.uniform_share)
