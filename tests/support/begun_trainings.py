"""Trainings on six taxa that have begun, and their checkpoints."""

import dataclasses

from phloem.config import InferConfig
from phloem.inference.training import Report, Training
from phloem.runs.checkpoints import Checkpoint
from phloem.runs.history import History
from phloem.tasks.run_files import InferCheckpoint, RunInputs
from support.small_posteriors import PLAIN, example


def begun(branches: str = "edge", steps: int = 40) -> tuple[Training, History[Report]]:
    """A training on six taxa before its first step."""
    model, target = example(branches)
    return Training(model, target, dataclasses.replace(PLAIN, steps=steps), seed=5), History(Report)


def checkpoint_of(training: Training, history: History[Report]) -> InferCheckpoint:
    """What would be saved now."""
    inputs = RunInputs(
        source="dna.fasta",
        patterns=training.target.likelihood.patterns,
        support=training.model.network.support,
    )
    return Checkpoint(InferConfig(seed=5), inputs, training.state(), history)
