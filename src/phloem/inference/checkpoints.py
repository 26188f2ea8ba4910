"""Checkpoints: all that a run of `phloem infer` needs to go on, in one sealed file."""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from phloem.checkpoint_folder import CheckpointFolder
from phloem.data.patterns import SitePatterns
from phloem.inference.history import History
from phloem.kernels.arrays import AnyArray
from phloem.sealed_files import making_sense, prefixed, read_sealed, without_prefix, write_sealed
from phloem.variational.support import SubsplitSupport
from phloem.variational.support_file import support_arrays, support_from

KIND = "infer"
FORMAT = "1"


@dataclass(frozen=True, slots=True, eq=False)
class Checkpoint:
    """A run at the end of a step."""

    source: str  # the alignment as the user named it
    config: str  # as TOML
    patterns: SitePatterns
    support: SubsplitSupport
    training: dict[str, AnyArray]
    history: History

    @property
    def step(self) -> int:
        return int(self.training["counters"][0])


def write_checkpoint(checkpoint: Checkpoint, path: Path) -> None:
    """Write a checkpoint; a reader finds all of it or nothing."""
    patterns, support = checkpoint.patterns, support_arrays(checkpoint.support)
    taxa = support.pop("taxa").tolist()
    arrays = {
        **prefixed("training", checkpoint.training),
        **prefixed("history", checkpoint.history.as_arrays()),
        **prefixed("support", support),
        "patterns.states": patterns.states,
        "patterns.counts": patterns.counts,
        "patterns.sites": patterns.pattern_of_site,
    }
    texts = {"source": checkpoint.source, "config": checkpoint.config, "taxa": json.dumps(taxa)}
    write_sealed(path, arrays, texts, kind=KIND, layout=FORMAT)


def read_checkpoint(path: Path) -> Checkpoint:
    """The checkpoint in a file; an error that says what is wrong with any other file."""
    arrays, texts = read_sealed(path, kind=KIND, layout=FORMAT)
    with making_sense(path):
        taxa = json.loads(texts["taxa"])
        return Checkpoint(
            source=texts["source"],
            config=texts["config"],
            patterns=SitePatterns(
                tuple(taxa), arrays["patterns.states"], arrays["patterns.counts"], arrays["patterns.sites"]
            ),
            support=support_from(path, {"taxa": np.array(taxa), **without_prefix("support", arrays)}),
            training=without_prefix("training", arrays),
            history=History.from_arrays(**without_prefix("history", arrays)),
        )


def checkpoint_folder(path: Path) -> CheckpointFolder[Checkpoint]:
    """The folder of such checkpoints."""
    return CheckpointFolder(path, read_checkpoint, write_checkpoint)
