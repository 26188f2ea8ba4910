"""A training step of whichever phloem is on the path, built and timed at the request of another process.

A request is a line on standard input, its answer a line on standard output:

    build DS1 edge    →  ready
    time              →  seconds of a step, after one that warms the caches

`step.py --against` talks to this script, so that two versions take turns on one clock.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

from phloem.config import InferConfig, TrainingConfig
from phloem.data.patterns import compress
from phloem.data.reading import read_alignment
from phloem.inference.training import Training
from phloem.target.likelihood import TreeLikelihood
from phloem.target.posterior import TreePosterior
from phloem.tasks.run_files import build_model
from phloem.tasks.support import read_samples
from phloem.variational.sbn import SubsplitSupport, collect_support


def problem(name: str, data: Path) -> tuple[TreePosterior, SubsplitSupport]:
    """A benchmark's target and the support of its bootstrap trees."""
    alignment = read_alignment(data / "alignments" / f"{name}.fasta")
    samples = read_samples([data / "ufboot" / name], taxa=alignment.taxa)
    return TreePosterior(TreeLikelihood(compress(alignment), threads=1)), collect_support(samples, credible=0.95)


def build_training(target: TreePosterior, support: SubsplitSupport, variant: str) -> Training:
    """A training that stays where it is: the topologies of its steps are as different as at the beginning."""
    torch.manual_seed(1)
    model = build_model(support, InferConfig(branches=variant))
    return Training(model, target, TrainingConfig(steps=10**9, rate=1e-9), seed=1)


def time_second(task: Callable[[], object]) -> float:
    """Seconds of a task, the second time."""
    task()
    start = time.perf_counter()
    task()
    return time.perf_counter() - start


class OtherVersion:
    """The steps of the phloem whose sources are at `sources`, in a process of its own."""

    def __init__(self, sources: Path) -> None:
        if not (sources / "phloem" / "__init__.py").is_file():
            sys.exit(f"{sources}: no phloem here. Name the folder that holds it, such as checkout/src.")
        environment = {**os.environ, "PYTHONPATH": str(sources.resolve())}
        command = [sys.executable, __file__]
        self._process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def build(self, name: str, variant: str) -> None:
        """Have the step of a data set and a variant ready."""
        self._ask(f"build {name} {variant}")

    def seconds(self) -> float:
        """Seconds of one step."""
        return float(self._ask("time"))

    def _ask(self, request: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(request + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline().strip()
        if not answer:
            sys.exit(f"the other version ended at the request: {request}")
        return answer


def answer_requests() -> None:
    data = Path(os.environ["PHLOEM_DATA"])
    torch.set_num_threads(1)
    problems = {}
    for line in sys.stdin:
        request, *words = line.split()
        if request == "build":
            name, variant = words
            if name not in problems:
                problems[name] = problem(name, data)
            training = build_training(*problems[name], variant)
            for _ in range(5):
                training.step()
            print("ready", flush=True)
        else:
            print(time_second(training.step), flush=True)


if __name__ == "__main__":
    answer_requests()
