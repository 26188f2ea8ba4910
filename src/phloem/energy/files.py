"""Densities as files: what a density is made from, for checkpoints, and a trained density."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from phloem.arrays import AnyArray
from phloem.config.density import DENSITY, DensityConfig
from phloem.energy.density import Normalizer, TreeDensity
from phloem.energy.model import Unnormalized
from phloem.energy.noise import ListedNoise, Noise, SubsplitNoise, UniformNoise, choose_base
from phloem.energy.training import new_model
from phloem.storage.arrays import Sealed, making_sense, prefixed, read_sealed, without_prefix, write_sealed
from phloem.trees.sample import TreeSample
from phloem.trees.topology import TopologyBatch
from phloem.variational.sbn import SubsplitNetwork, support_arrays, support_from

FORMAT = "1"


class DensityInputs(NamedTuple):
    """What a density is fitted to, and what its trees are told apart from."""

    sample: TreeSample  # distinct topologies, with weights that sum to one
    noise: Noise


def pack_inputs(inputs: DensityInputs) -> Sealed:
    """The inputs as arrays and texts, for a checkpoint or a density's own file."""
    sample, noise = inputs
    arrays: dict[str, Any] = {"sample.parent": sample.topologies.parent, "sample.weights": sample.weights}
    if isinstance(noise, SubsplitNoise):
        support = support_arrays(noise.network.support)
        del support["taxa"]
        arrays |= prefixed("noise", {**support, "logits": noise.network.logits.detach().numpy()})
    return Sealed(arrays, {"taxa": json.dumps(sample.taxa)})


def unpack_inputs(found: Sealed, config: DensityConfig, path: Path) -> DensityInputs:
    """The inputs that `pack_inputs` was given; the settings say which kind of noise it was."""
    taxa = tuple(json.loads(found.texts["taxa"]))
    topologies = TopologyBatch.from_parents(found.arrays["sample.parent"])
    sample = TreeSample(taxa, topologies, found.arrays["sample.weights"], None)
    if config.noise == "uniform":
        return DensityInputs(sample, UniformNoise(len(taxa)))
    if config.noise == "listed":
        return DensityInputs(sample, ListedNoise(topologies))
    arrays = without_prefix("noise", found.arrays)
    support = support_from(path, {"taxa": np.array(taxa), **arrays})
    network = SubsplitNetwork(support, torch.from_numpy(arrays["logits"].copy()))
    return DensityInputs(sample, SubsplitNoise(network, config.uniform_share))


def write_density(density: TreeDensity, path: Path) -> None:
    """Write a trained density: all that scoring and sampling need."""
    arrays, texts = pack_inputs(DensityInputs(density.observed, density.noise))
    parameters = {name: tensor.numpy() for name, tensor in density.unnormalized.model.state_dict().items()}
    texts |= {"config": DENSITY.to_toml(density.config), "normalizer": json.dumps(density.normalizer)}
    write_sealed(path, arrays | prefixed("model", parameters), texts, kind=DENSITY.command, layout=FORMAT)


def read_density(path: Path) -> TreeDensity:
    """The density in a file."""
    found = read_sealed(path, kind=DENSITY.command, layout=FORMAT)
    with making_sense(path):
        config = DENSITY.read(found.texts["config"], str(path))
        sample, noise = unpack_inputs(found, config, path)
        density = trained(config, noise, without_prefix("model", found.arrays))
        return TreeDensity(config, sample, density, noise, Normalizer(*json.loads(found.texts["normalizer"])))


def trained(config: DensityConfig, noise: Noise, parameters: dict[str, AnyArray]) -> Unnormalized:
    """The density with these parameters."""
    model = new_model(noise.taxon_count, config)
    model.load_state_dict({name: torch.from_numpy(array.copy()) for name, array in parameters.items()})
    return Unnormalized(model, choose_base(noise, config))
