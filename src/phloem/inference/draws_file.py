"""Draws as a safetensors file: arrays, the taxa's names, and nothing that a reader would have to run."""

import json
from pathlib import Path

import numpy as np
import safetensors.numpy

from phloem.errors import FileProblem
from phloem.files import atomic_write, read_bytes
from phloem.inference.draws import Draws
from phloem.trees.topology import TopologyBatch

TYPES = {
    "parent": np.int32,  # (topologies, 2n-2)
    "group": np.int32,
    "branch_lengths": np.float32,
    "log_joint": np.float64,
    "log_q_topology": np.float64,
    "log_q_branches": np.float64,
}


def write_draws(draws: Draws, path: Path) -> None:
    """Write draws; the same ones give the same bytes."""
    arrays = {name: getattr(draws, name) for name in TYPES if name != "parent"}
    arrays["parent"] = draws.topologies.parent
    content = safetensors.numpy.save(
        {name: np.asarray(arrays[name], order="C") for name in TYPES}, {"taxa": json.dumps(draws.taxa)}
    )
    with atomic_write(path) as stream:
        stream.write(content)


def read_draws(path: Path) -> Draws:
    """The draws of a file."""
    content = read_bytes(path)
    try:
        arrays = safetensors.numpy.load(content)
        header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
        taxa = tuple(json.loads(header["__metadata__"]["taxa"]))
        if any(arrays[name].dtype != dtype for name, dtype in TYPES.items()):
            raise ValueError("an array has another type")
        topologies = TopologyBatch.from_parents(arrays.pop("parent"))
        draws = Draws(taxa, topologies, **arrays)
        if not 0 <= draws.group.min() <= draws.group.max() < len(topologies):
            raise ValueError("a draw has no topology")
        if draws.branch_lengths.shape[1:] != (topologies.branch_count,):
            raise ValueError("lengths do not fit the trees")
        if not (np.isfinite(draws.branch_lengths).all() and (draws.branch_lengths >= 0).all()):
            raise ValueError("a length is not one")
        if np.isnan(draws.log_weights).any():
            raise ValueError("a weight is no number")
    except Exception:  # damaged bytes fail in a dozen ways
        raise FileProblem(f"{path}: is damaged, or no file of draws. Make it again with --resume.") from None
    return draws
