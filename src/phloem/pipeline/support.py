"""Trees → the support of a subsplit network, and how much of a reference it covers."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from phloem.files import check_can_write
from phloem.pipeline.tree_files import list_tree_files, read_samples, refuse_overwriting
from phloem.trees.sample import pool
from phloem.variational.collection import collect_support
from phloem.variational.support_file import write_support


class SupportSummary(NamedTuple):
    """What a support holds."""

    taxa: int
    replicates: int  # tree files
    trees: int  # in all of them
    topologies: int  # distinct ones that the support was collected from
    splits: int  # the trivial ones too
    tables: int  # conditional probability tables, that of the root splits included
    parameters: int  # entries of tables with more than one
    coverage: float | None  # share of the reference's weight on trees that the support can generate


def summarize_support(
    sources: Sequence[str | Path],
    *,
    credible: float,
    minimum_count: float = 0,
    burnin: int | float = 0,
    covers: Sequence[str | Path] = (),
    out: Path | None = None,
) -> SupportSummary:
    """Collect a support, compare it with a reference sample where one is given, and write it where `out` says.

    The burn-in is that of the sources; the reference is taken whole.
    """
    if out is not None:
        refuse_overwriting(out, list_tree_files([*sources, *covers]))
        check_can_write(out)
    samples = read_samples(sources, burnin=burnin)
    support = collect_support(samples, credible=credible, minimum_count=minimum_count)
    coverage = None
    if covers:
        reference = pool(read_samples(covers, taxa=support.taxa)).distinct()
        coverage = float(reference.weights[support.generates(reference.topologies)].sum())
    if out is not None:
        write_support(support, out)
    return SupportSummary(
        taxa=len(support.taxa),
        replicates=len(samples),
        trees=sum(map(len, samples)),
        topologies=support.topology_count,
        splits=len(support.splits),
        tables=support.table_count,
        parameters=support.parameter_count,
        coverage=coverage,
    )
