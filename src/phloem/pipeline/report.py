"""A run to look at: the report, and the files for other programs."""

from collections.abc import Callable, Sequence
from pathlib import Path

from phloem.errors import BadArgument, quoted
from phloem.files import cannot_write
from phloem.pipeline.exports import TreeDisplay, make_exports
from phloem.pipeline.figures import check_figure_format, write_figures
from phloem.pipeline.opening import open_posterior


def write_report(
    directory: Path,
    out: Path | None = None,
    *,
    threshold: float = 0.5,
    outgroup: str = "",
    midpoint: bool = False,
    figures: str | None = None,
    progress: Callable[[float], None] = lambda _: None,
) -> list[str]:
    """Write the report and all exports of a run; returns what was done, in lines."""
    folder = out or directory
    if figures is not None:
        check_figure_format(figures)
    posterior = open_posterior(directory, progress=progress)
    exports = make_exports(posterior, TreeDisplay(threshold, named_taxa(outgroup, posterior.taxa), midpoint))
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise cannot_write(folder, problem) from None
    exports.write(folder)
    lines = [] if posterior.is_finished else [f"not finished: this is step {posterior.summary['steps']:,}"]
    lines += [
        f"the report: {folder / 'report.html'}",
        f"for other programs: consensus.nex, posterior.nex and posterior.log in {folder}",
    ]
    if figures is not None:
        paths = write_figures(posterior, exports.trees["majority_rule"], folder, figures)
        lines.append(f"figures: {', '.join(path.name for path in paths)}")
    return lines


def named_taxa(text: str, taxa: Sequence[str]) -> list[str]:
    """Names with commas between them, or one name that has commas itself."""
    if text in taxa:
        return [text]
    names = [name.strip() for name in text.split(",") if name.strip()]
    if text and not names:
        raise BadArgument(f"--outgroup {quoted(text)}: names no taxon. Give one or more, with commas between them.")
    return names
