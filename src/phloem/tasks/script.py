"""`phloem.infer`: the whole of it in a script or a notebook."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from phloem.config import InferConfig, resolve
from phloem.data.alignment import Alignment
from phloem.display.events import Event
from phloem.display.lines import choose_display
from phloem.runs.checkpoints import parse_interval
from phloem.tasks.infer import Interrupted, Request, run_inference
from phloem.tasks.posterior import Posterior, TemporaryHome
from phloem.tasks.training import RunOptions
from phloem.trees.sample import TreeSample

Trees = str | Path | TreeSample


def infer(
    alignment: str | Path | Alignment | None,
    trees: Trees | Sequence[Trees] | None = None,
    preset: str | None = None,
    *,
    out: str | Path | None = None,
    resume: bool = False,
    force: bool = False,
    config: InferConfig | None = None,
    threads: int | None = None,
    checkpoint_every: str = "2m",
    tensorboard: bool = False,
    progress: bool | Callable[[Event], None] = True,
    **settings: Any,
) -> Posterior:
    """Infer the posterior of an alignment: a file, a bundled example's name, or an `Alignment`.

    trees: for the support, files or samples; without any, as on the command line. preset: `standard` unless said
    otherwise. config: a whole configuration to start from. settings: any setting of the configuration by its name, such
    as `seed=2`, `runs=1` or `training={"steps": 1000}`. out: the run directory; without one the run is in a temporary
    directory, from where `Posterior.save` copies it. resume, force, threads, checkpoint_every, tensorboard: as on the
    command line. progress: whether to show it, or a function that is told. Interrupted runs can be gone on with:
    the message says how.
    """
    given = [] if trees is None else [trees] if isinstance(trees, Trees) else list(trees)
    home = TemporaryHome() if out is None else None
    request = Request(
        alignment,
        home.path / "run" if home else Path(str(out)),
        lambda base: resolve(base=config or base, preset=preset, settings=[settings]),
        given,
        resume,
        force,
        "phloem.infer",
        home,
    )
    options = RunOptions(threads, parse_interval(checkpoint_every), tensorboard)
    display: AbstractContextManager[Callable[[Event], None]]
    display = nullcontext(progress) if callable(progress) else choose_display(plain=False, quiet=not progress)
    try:
        with display as show:
            return run_inference(request, options, show)
    except Interrupted:
        if home:
            home.keep()
        raise
