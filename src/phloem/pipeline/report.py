"""A run to look at: the report, and the files for other programs."""

from collections.abc import Callable, Sequence
from pathlib import Path

from phloem.files import cannot_write
from phloem.pipeline.exports import TreeDisplay, write_exports
from phloem.pipeline.opening import open_posterior


def write_report(
    directory: Path,
    out: Path | None = None,
    *,
    threshold: float = 0.5,
    outgroup: Sequence[str] = (),
    midpoint: bool = False,
    figures: str | None = None,
    progress: Callable[[float], None] = lambda _: None,
) -> list[str]:
    """Write the report and all exports of a run; returns what was done, in lines."""
    folder = out or directory
    posterior = open_posterior(directory, progress=progress)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise cannot_write(folder, problem) from None
    write_exports(posterior, folder, TreeDisplay(threshold, outgroup, midpoint))
    lines = [] if posterior.is_finished else [f"not finished: this is step {posterior.summary['steps']:,}"]
    return [
        *lines,
        f"the report: {folder / 'report.html'}",
        f"for other programs: consensus.nex, posterior.nex and posterior.log in {folder}",
    ]
