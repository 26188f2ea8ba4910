"""A finished run as an object: estimates, topologies, clades, history, and the trained model itself."""

import json
import shutil
import tempfile
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from phloem.config import InferConfig, read_config
from phloem.data.alignment import Alignment
from phloem.errors import FileProblem, PhloemError
from phloem.inference.draws import Draws, join, read_draws
from phloem.inference.evaluation import Estimated, Evaluation
from phloem.inference.trust import Trust
from phloem.report.text import describe_posterior
from phloem.runs.directory import CONFIG, LOCK
from phloem.runs.history import Report, read_history
from phloem.storage.files import cannot_write, read_bytes, write_text
from phloem.target.posterior import TreePosterior
from phloem.tasks.models import build_model, build_target, restore_training
from phloem.tasks.results import read_clades, read_topologies, read_trust
from phloem.tasks.run_directory import DRAWS, Checkpoint, RunDirectory
from phloem.trees.branch_lengths import SplitLengths, split_lengths
from phloem.trees.consensus import SummaryTree
from phloem.trees.sample import GroupedTrees, TreeSample
from phloem.trees.splits import SplitFrequencies
from phloem.variational.joint import JointModel, read_parameters


@dataclass(frozen=True, eq=False, repr=False)
class Posterior:
    """What a run directory says of the posterior. `print` shows it; `save` copies its directory.

    With several runs, topologies and clades are those of all runs mixed by their marginal likelihoods; the model and
    the history are those of the best run. `runs` has each of them, or nothing for a single run.
    """

    directory: Path
    config: InferConfig
    summary: dict[str, Any]
    topologies: TreeSample  # the most probable first, with their probabilities
    clades: SplitFrequencies  # every split that was seen, with its probability
    runs: "tuple[Posterior, ...]"
    home: "TemporaryHome | None" = None  # of the directory, if it goes when this does
    kept: Draws | None = None  # that are in no file: of a run that is not finished, or made anew

    @property
    def taxa(self) -> tuple[str, ...]:
        return self.topologies.taxa

    @property
    def is_finished(self) -> bool:
        """Whether training has ended; otherwise this is what the last checkpoint has."""
        return bool(self.summary["finished"])

    @property
    def trust(self) -> Trust:
        """How far the numbers can be trusted, and why."""
        return read_trust(self.summary)

    @cached_property
    def draws(self) -> Draws:
        """The trees that the numbers are from, of all runs, with the logarithms that their weights are made of."""
        if self.kept is not None:
            return self.kept
        return join([run.draws for run in self.runs]) if self.runs else read_draws(self.directory / DRAWS)

    @cached_property
    def trees(self) -> GroupedTrees:
        """The draws with their weights: a sample of the posterior."""
        return self.draws.weighted()

    @cached_property
    def branch_lengths(self) -> SplitLengths:
        """Every branch that was seen, with the mean of its length and the interval that holds 95 %."""
        return split_lengths(self.trees)

    @property
    def log_marginal_likelihood(self) -> Estimated:
        """By importance sampling: the mean over repeats, and their standard deviation."""
        return Estimated(**self.summary["log_marginal_likelihood"])

    @property
    def elbo(self) -> Estimated:
        """The evidence lower bound."""
        return Estimated(**self.summary["elbo"])

    @property
    def lower_bound(self) -> Estimated:
        """The bound of as many draws as training had particles."""
        return Estimated(**self.summary["lower_bound"])

    @property
    def best_run(self) -> "Posterior":
        """The run with the highest marginal likelihood; the posterior itself if it is one run."""
        return self.runs[self.summary["best_run"] - 1] if self.runs else self

    @cached_property
    def history(self) -> list[Report]:
        """The reports of the training."""
        return read_history(self.best_run.directory / "history.csv", Report)

    @property
    def source(self) -> str:
        """The alignment as the user named it."""
        return self._checkpoint.source

    @cached_property
    def alignment(self) -> Alignment:
        """The alignment, from the checkpoint."""
        return self._checkpoint.patterns.alignment

    @cached_property
    def target(self) -> TreePosterior:
        """p(Y, τ, q)."""
        return build_target(self._checkpoint.patterns, self.config)

    @cached_property
    def model(self) -> JointModel:
        """Q(τ, q), trained."""
        best = self.best_run
        if not best.is_finished:
            return restore_training(self._checkpoint, self.target).model
        model = build_model(self._checkpoint.support, best.config)
        read_parameters(model, best.directory / "parameters.safetensors")
        return model

    def save(self, path: str | Path) -> "Posterior":
        """Copy the run to another directory, a new one."""
        path = Path(path)
        try:
            shutil.copytree(self.directory, path, ignore=shutil.ignore_patterns(LOCK))
        except FileExistsError:
            raise FileProblem(f"{path}: exists already. Name a new directory.") from None
        except (OSError, shutil.Error) as problem:
            raise cannot_write(path, problem) from None
        return load_posterior(path)

    def sample(self, count: int | None = None, *, seed: int = 1, weighted: bool = False) -> TreeSample:
        """Posterior trees with branch lengths, all alike or each with its weight; 1,000 if there are so many draws."""
        from phloem.tasks.exports import sample_posterior  # which knows posteriors itself

        return sample_posterior(self, count, seed=seed, weighted=weighted).trees

    def summary_trees(
        self, *, threshold: float = 0.5, outgroup: Sequence[str] = (), midpoint: bool = False
    ) -> dict[str, SummaryTree]:
        """The majority-rule, the extended and the most credible tree, by name, with supports and branch lengths.

        outgroup, midpoint: where to hang them for display.
        """
        from phloem.tasks.exports import TreeDisplay, summary_trees

        return summary_trees(self, TreeDisplay(threshold, outgroup, midpoint))

    def consensus(self, threshold: float = 0.5, *, outgroup: Sequence[str] = (), midpoint: bool = False) -> SummaryTree:
        """The tree of all clades that are more probable than the threshold."""
        return self.summary_trees(threshold=threshold, outgroup=outgroup, midpoint=midpoint)["majority_rule"]

    def report(
        self, path: str | Path, *, threshold: float = 0.5, outgroup: Sequence[str] = (), midpoint: bool = False
    ) -> None:
        """Write the report, one HTML file."""
        from phloem.tasks.exports import render

        consensus = self.consensus(threshold, outgroup=outgroup, midpoint=midpoint)
        write_text(Path(path), render(self, consensus, threshold))

    def describe(self, width: int = 80) -> list[str]:
        """Lines for a terminal: the evidence, the best topologies, clade supports on a tree."""
        return list(describe_posterior(self.summary, self.topologies, self.clades, width=width))

    def __str__(self) -> str:
        return "\n".join(self.describe())

    def __repr__(self) -> str:
        mean, std = self.log_marginal_likelihood
        return f"<Posterior of {len(self.taxa)} taxa, log marginal likelihood {mean:.2f} ± {std or 0:.2f}>"

    def _repr_pretty_(self, printer: Any, _cycle: bool) -> None:
        """What a notebook shows."""
        printer.text(str(self))

    @cached_property
    def _checkpoint(self) -> Checkpoint:
        run = RunDirectory(self.best_run.directory)
        found, problems = run.checkpoints.newest()
        if found is None:
            raise FileProblem(problems[0] if problems else f"{run.path}: has no checkpoint. It cannot be used further.")
        return found


def is_finished(run: RunDirectory) -> bool:
    """Whether all results are there and can be read. Others are made again from the last checkpoint."""
    return run.has_results() and can_be_loaded(run)


def can_be_loaded(run: RunDirectory) -> bool:
    """Whether there is a posterior to be read."""
    try:
        load_posterior(run.path)
    except PhloemError:
        return False
    return True


class TemporaryHome:
    """A directory that is removed when no posterior needs it any more, at the latest when Python ends."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="phloem-"))
        self._remove = weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)

    def keep(self) -> None:
        """Leave the directory where it is, for good."""
        self._remove.detach()


def load_posterior(directory: str | Path) -> Posterior:
    """The posterior of a finished run."""
    return load_from(Path(directory), None)


def load_from(directory: Path, home: TemporaryHome | None) -> Posterior:
    """The posterior of a finished run in a directory that may be a temporary one."""
    run = RunDirectory(directory)
    run.check_holds_run()
    if not (run.path / "summary.json").exists():
        raise FileProblem(f"{directory}: the run is not finished. Go on with it: --resume.")
    for name in (CONFIG, "topologies.csv", "clades.csv"):
        if not (run.path / name).exists():
            raise FileProblem(f"{run.path / name}: is missing. Make it again: phloem infer --resume.")
    path = run.path / "summary.json"
    try:
        summary: dict[str, Any] = json.loads(read_bytes(path))
        taxa = tuple(summary["names"])
        for name in Evaluation._fields:
            Estimated(**summary[name])
        summary["evaluation"]["repeats"], summary["distinct_topologies"], summary["finished"], read_trust(summary)
    except (ValueError, KeyError, TypeError):
        raise FileProblem(f"{path}: is damaged, or no summary of this version. Make it again with --resume.") from None
    config_path = run.path / CONFIG
    children = run.children()
    if len(children) != summary.get("runs", 0):
        raise FileProblem(
            f"{directory}: has {len(children)} runs where its summary has {summary.get('runs', 0)}. Put them back, "
            "or make them again: phloem infer --resume."
        )
    runs = tuple(load_from(child.path, home) for child in children)
    for other in runs:
        if other.taxa != taxa:
            raise FileProblem(f"{other.directory}: is a run on other taxa than {directory}. Take it out of there.")
    return Posterior(
        directory=run.path,
        config=read_config(read_bytes(config_path).decode(errors="replace"), str(config_path)),
        summary=summary,
        topologies=read_topologies(run.path / "topologies.csv", taxa),
        clades=read_clades(run.path / "clades.csv", taxa),
        runs=runs,
        home=home,
    )
