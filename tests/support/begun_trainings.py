"""Trainings on six taxa that have begun, and their checkpoints."""

import dataclasses

from inference.test_training import PLAIN, example
from phloem.config import InferConfig, to_toml
from phloem.inference.training import Training
from phloem.runs.history import History
from phloem.tasks.run_files import Checkpoint


def begun(branches: str = "edge", steps: int = 40) -> tuple[Training, History]:
    """A training on six taxa before its first step."""
    model, target = example(branches)
    return Training(model, target, dataclasses.replace(PLAIN, steps=steps), seed=5), History()


def checkpoint_of(training: Training, history: History) -> Checkpoint:
    """What would be saved now."""
    return Checkpoint(
        source="dna.fasta",
        config=to_toml(InferConfig(seed=5)),
        patterns=training.target.likelihood.patterns,
        support=training.model.network.support,
        training=training.state(),
        history=history,
    )
