"""Amortisation gaps of a run on the credible topologies of a reference sample."""

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from phloem.arrays import FloatArray, LongArray
from phloem.errors import BadArgument
from phloem.inference.gap import AmortizationGaps, amortization_gaps
from phloem.random_streams import RandomStream
from phloem.storage.files import check_can_write, write_text
from phloem.tasks.opening import open_posterior, taxa_of
from phloem.tasks.posterior import Posterior
from phloem.tasks.run_files import build_target, infer_run
from phloem.tasks.support import list_tree_files, read_samples, refuse_overwriting
from phloem.threads import single_threaded_products
from phloem.trees.sample import TreeSample, credible_set_size, pool
from phloem.trees.writing import format_newick

COLUMNS = (
    "rank",
    "probability",
    "model_probability",
    "amortized_elbo",
    "amortized_error",
    "best_elbo",
    "best_error",
    "gap",
    "gap_error",
    "shortfall",
    "converged",
)
Progress = Callable[[float], None]


class GapAverage(NamedTuple):
    """A mean over trees with its standard error."""

    gap: float
    error: float


@dataclass(frozen=True, slots=True, eq=False)
class GapTable:
    """The gaps of the trees that the model knows, and which trees it does not know."""

    posterior: Posterior
    trees: TreeSample  # of the credible set, most probable first, with their probabilities in the reference
    known: LongArray  # places in `trees` of those that have a gap, in order
    gaps: AmortizationGaps  # of these
    model_probabilities: FloatArray  # (known,)  Q(τ) of the same run
    samples: int

    @property
    def average(self) -> GapAverage:
        """All trees alike."""
        return GapAverage(*self.gaps.average())

    @property
    def weighted_average(self) -> GapAverage:
        """By their probabilities in the reference."""
        return GapAverage(*self.gaps.average(self.trees.weights[self.known]))

    @property
    def unknown(self) -> LongArray:
        """Places in `trees` of those with a split or subsplit that the model's tables lack."""
        return np.setdiff1d(np.arange(len(self.trees)), self.known)

    def rows(self) -> list[dict[str, Any]]:
        """What there is to say of each tree that has a gap, by the names of COLUMNS."""
        found = self.gaps
        columns = [
            self.known + 1,
            self.trees.weights[self.known],
            self.model_probabilities,
            *(found.amortized, found.amortized_error, found.best, found.best_error, found.gap, found.gap_error),
            *(found.shortfall, found.converged),
        ]
        lists = [column.tolist() for column in columns]
        return [{name: values[tree] for name, values in zip(COLUMNS, lists, strict=True)} for tree in range(len(found))]

    def as_json(self) -> dict[str, Any]:
        """Plain lists and numbers; null where a bound is infinite, as JSON has no infinity."""
        newick = format_newick(self.trees.topologies, self.trees.taxa)
        rows = self.rows()
        return {
            "run": str(self.posterior.best_run.directory),
            "finished": self.posterior.is_finished,
            "samples": self.samples,
            "topologies": len(self.trees),
            "average": _finite(self.average._asdict()),
            "weighted_average": _finite(self.weighted_average._asdict()),
            "trees": [{**_finite(row), "newick": newick[row["rank"] - 1]} for row in rows],
            "outside": [
                {"rank": place + 1, "probability": float(self.trees.weights[place]), "newick": newick[place]}
                for place in self.unknown.tolist()
            ],
        }

    def as_csv(self) -> str:
        """A row a tree, in the order of the reference; trees that the model does not know have no numbers."""
        newick = format_newick(self.trees.topologies, self.trees.taxa)
        rows = {row["rank"]: row for row in self.rows()}
        text = io.StringIO()
        writer = csv.DictWriter(text, (*COLUMNS, "newick"), restval="", lineterminator="\n")
        writer.writeheader()
        for rank, (weight, tree) in enumerate(zip(self.trees.weights.tolist(), newick, strict=True), 1):
            writer.writerow({"rank": rank, "probability": weight, **rows.get(rank, {}), "newick": tree})
        return text.getvalue()


def measure_gaps(
    directory: str | Path,
    references: Sequence[str | Path],
    *,
    credible: float = 0.95,
    burnin: int | float = 0,
    samples: int = 5000,
    tolerance: float = 0.005,
    seed: int = 1,
    threads: int | None = None,
    out: Path | None = None,
    plot: Path | None = None,
    progress: Progress | None = None,
) -> GapTable:
    """Gaps on the most probable topologies of the reference that hold a share of `credible` of it.

    Each reference file counts the same; the burn-in is dropped from the start of each. Of several runs the best is
    looked at. out: a CSV file to write; plot: a figure.
    """
    wanted = [path for path in (out, plot) if path is not None]
    if len({path.resolve() for path in wanted}) < len(wanted):
        raise BadArgument("--out and --plot: name different files.")
    for path in wanted:
        refuse_overwriting(path, list_tree_files(references))
        infer_run(Path(directory)).refuse_overwriting(path)
        check_can_write(path)
    if plot is not None:
        from phloem.plot.style import check_format  # here so that a table need not wait for matplotlib

        check_format(plot)
    # What is wrong with the reference is known before the run is opened.
    trees = _credible_set(pool(read_samples(references, taxa=taxa_of(directory), burnin=burnin)), credible)
    posterior = open_posterior(directory, threads=threads)
    if posterior.target.dimension:
        raise BadArgument(
            f"{directory}: the run infers parameters of the model, and gaps are those of fixed ones. Name a run with "
            "a fixed model, such as --model JC."
        )
    branches, network = posterior.model.branches, posterior.model.network
    is_known = branches.knows(trees.topologies)
    if posterior.constraints is not None:
        is_known = is_known & posterior.constraints.hold(trees.topologies)
    known = np.flatnonzero(is_known)
    if not len(known):
        raise BadArgument(
            f"{directory}: no credible tree has all its splits and subsplits in the model's tables. "
            "Train with a support that has them, or with learnable features."
        )
    with single_threaded_products():
        gaps = amortization_gaps(
            branches,
            build_target(posterior.patterns, posterior.config, threads, constraints=posterior.constraints),
            trees.topologies[known],
            stream=RandomStream(seed, "gap"),
            samples=samples,
            tolerance=tolerance,
            progress=progress,
        )
    drawn = network.log_prob(trees.topologies[known]).detach().exp().numpy()
    table = GapTable(posterior, trees, known, gaps, drawn, samples)
    if out is not None:
        write_text(out, table.as_csv())
    if plot is not None:
        from phloem.plot.diagnostics import gaps as draw_gaps
        from phloem.plot.style import save

        save(draw_gaps(gaps, ranks=known + 1, weights=trees.weights[known]), plot)
    return table


def _credible_set(sample: TreeSample, share: float) -> TreeSample:
    """The fewest topologies that hold the share, the most probable first; none of probability zero."""
    distinct = sample.distinct().normalized()
    ordered = distinct[np.argsort(-distinct.weights, kind="stable")]
    return ordered[: min(credible_set_size(ordered.weights, share), int((ordered.weights > 0).sum()))]


def _finite(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value if np.isfinite(value) else None for name, value in row.items()}
