"""A benchmark of one small data set, and cells that train for moments."""

import shutil
from pathlib import Path

from phloem.data.reading import find_alignment, load_alignment
from phloem.experiments.benchmark.alignments import DataSet, sequences_digest
from phloem.experiments.benchmark.cells import Setup, parse_changes
from phloem.experiments.benchmark.supports import Bootstrap
from phloem.experiments.benchmark.task import BenchmarkRequest

NAME = "P1"
SETUP = Setup(
    changes=parse_changes(
        ["evaluation.repeats=2", "evaluation.samples=50", "evaluation.reports=5", "training.refit=0"], steps=30
    )
)


def data_folder(folder: Path) -> Path:
    """The primates, under the benchmark's name."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(find_alignment("primates"), folder / f"{NAME}.fasta")
    return folder


def known() -> dict[str, DataSet]:
    alignment = load_alignment("primates").alignment
    return {NAME: DataSet(NAME, len(alignment.taxa), alignment.site_count, sequences_digest(alignment))}


def small_request(out: Path, data: Path | None, **changes) -> BenchmarkRequest:
    request = BenchmarkRequest(
        out,
        datasets=(NAME,),
        variants=("split", "mlp"),
        setup=SETUP,
        bootstrap=Bootstrap(1, 30, "embedded"),
        data=data,
        known=known(),
    )
    return request._replace(**changes)
