"""Subsplit networks as plain array files: a support's arrays and `logits`."""

from pathlib import Path

import numpy as np
import torch

from phloem.array_files import read_arrays, write_arrays
from phloem.variational.sbn import SubsplitNetwork
from phloem.variational.support_file import PARTS, damaged, support_arrays, support_from


def write_network(network: SubsplitNetwork, path: str | Path) -> None:
    """Write a network; the same network gives the same bytes. `read_support` reads the file too."""
    arrays = {**support_arrays(network.support), "logits": network.logits.detach().numpy()}
    write_arrays(Path(path), arrays)


def read_network(path: str | Path) -> SubsplitNetwork:
    """A network from its file."""
    path = Path(path)
    arrays = read_arrays(path, (*PARTS, "logits"), "phloem sbn fit")
    support = support_from(path, arrays)
    logits = arrays["logits"]
    if logits.shape != (support.parameter_count,) or logits.dtype != np.float64:
        raise damaged(path, "the logits do not fit the support")
    if np.isnan(logits).any() or np.isposinf(logits).any():
        raise damaged(path, "the logits are no numbers")
    if support.parameter_count and np.isneginf(np.maximum.reduceat(logits, support.free_starts[:-1])).any():
        raise damaged(path, "a table has no possible entry")
    return SubsplitNetwork(support, torch.from_numpy(logits))
