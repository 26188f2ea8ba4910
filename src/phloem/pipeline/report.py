"""A run to look at: the report, and the files for other programs."""

from collections.abc import Callable, Sequence
from pathlib import Path

from phloem.files import cannot_write
from phloem.pipeline.exports import TreeDisplay, write_exports
from phloem.pipeline.figures import check_figure_format, write_figures
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
    if figures is not None:
        check_figure_format(figures)
    posterior = open_posterior(directory, progress=progress)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise cannot_write(folder, problem) from None
    consensus = write_exports(posterior, folder, TreeDisplay(threshold, outgroup, midpoint))
    lines = [] if posterior.is_finished else [f"not finished: this is step {posterior.summary['steps']:,}"]
    lines += [
        f"the report: {folder / 'report.html'}",
        f"for other programs: consensus.nex, posterior.nex and posterior.log in {folder}",
    ]
    if figures is not None:
        paths = write_figures(posterior, consensus, folder, figures)
        lines.append(f"figures: {', '.join(path.name for path in paths)}")
    return lines
