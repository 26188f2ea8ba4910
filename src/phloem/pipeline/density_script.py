"""`phloem.fit_density`: the whole of it in a script or a notebook."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from phloem.display.bar import progress_bar
from phloem.display.stderr import say
from phloem.energy.density import TreeDensity
from phloem.pipeline.density import DensityRequest, fit_density_run
from phloem.pipeline.saving import parse_interval
from phloem.trees.sample import TreeSample


def fit_density(
    trees: str | Path | TreeSample | Sequence[str | Path],
    preset: str | None = None,
    *,
    out: str | Path | None = None,
    burnin: int | float = 0,
    resume: bool = False,
    force: bool = False,
    checkpoint_every: str = "2m",
    progress: bool = True,
    **settings: Any,
) -> TreeDensity:
    """Fit a density to weighted trees: files, a bundled example's name, or a `TreeSample`.

    preset: `standard` unless said otherwise. settings: any of `DensityConfig` by its name, such as `seed=2`,
    `convolution="edge"` or `steps=1000`. out: the run directory; without one nothing stays on disk, and a fit that is
    stopped is lost. burnin, resume, force, checkpoint_every: as on the command line.
    """
    given = [trees] if isinstance(trees, str | Path) else trees
    with TemporaryDirectory() as home, progress_bar("density", quiet=not progress) as show:
        directory = Path(home) / "density" if out is None else Path(out)
        request = DensityRequest(given, directory, preset, settings, burnin, resume, force, "phloem.fit_density")
        interval = parse_interval(checkpoint_every)
        return fit_density_run(request, show, interval=interval, notice=lambda text: say(f"phloem: {text}"))
