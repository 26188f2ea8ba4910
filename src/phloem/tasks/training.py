"""From a checkpoint to a finished run: the steps that are left, the evaluation, the files."""

import importlib.util
import time
from collections.abc import Callable
from dataclasses import replace
from types import TracebackType
from typing import Any, NamedTuple

from phloem.config import read_config
from phloem.display.events import Event, News, Notice
from phloem.errors import ProgramProblem
from phloem.inference.draws import DrawCollector
from phloem.inference.evaluation import evaluate
from phloem.inference.training import StepInfo, Training, train
from phloem.random_streams import RandomStream
from phloem.runs.checkpoints import CheckpointInterval, Saver
from phloem.runs.directory import CONFIG
from phloem.runs.history import HistoryFile, Report
from phloem.tasks.models import build_model, build_target
from phloem.tasks.results import Results, write_results
from phloem.tasks.run_directory import Checkpoint, RunDirectory
from phloem.threads import single_threaded_products
from phloem.variational.sbn import write_support

NEWS_SECONDS = 0.2
Progress = Callable[[Event], None]


class TrainingEvents:
    """Scalars below the run's directory `tensorboard`, if enabled; of those from before, later ones than `last` go."""

    def __init__(self, run: RunDirectory, last: int, *, enabled: bool) -> None:
        self._writer: Any = None
        if enabled:
            check_tensorboard()
            from torch.utils.tensorboard import SummaryWriter

            self._writer = SummaryWriter(str(run.tensorboard), purge_step=last + 1)

    def add(self, report: Report) -> None:
        """Write a report."""
        if self._writer is not None:
            for name, value in report._asdict().items():
                if name not in ("step", "seconds"):
                    self._writer.add_scalar(name, value, report.step)

    def __enter__(self) -> "TrainingEvents":
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _problem: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if self._writer is not None:
            self._writer.close()


def check_tensorboard() -> None:
    """Raise unless TensorBoard is installed: better before long work than in it."""
    if importlib.util.find_spec("tensorboard") is None:
        raise ProgramProblem("--tensorboard: TensorBoard is not installed. `pip install phloem[tensorboard]`.")


class RunOptions(NamedTuple):
    """What decides how a run goes, and not what it finds."""

    threads: int | None = None  # for the likelihood; all physical cores by default
    interval: CheckpointInterval = CheckpointInterval()
    tensorboard: bool = False


def complete_run(
    run: RunDirectory, checkpoint: Checkpoint, options: RunOptions, progress: Progress, *, number: int = 1
) -> None:
    """Train from the checkpoint on, evaluate, and write the results. `number` is that of the run among several."""
    config = read_config(checkpoint.config, str(run.path))
    target = build_target(checkpoint.patterns, config, options.threads)
    training = Training(build_model(checkpoint.support, config), target, config.training, seed=config.seed)
    training.restore(checkpoint.training)
    history = checkpoint.history
    history_file = HistoryFile(run.path / "history.csv", Report)
    saver = Saver(
        run.checkpoints,
        training,
        capture=lambda: replace(checkpoint, training=training.state()),
        interval=options.interval,
        notice=lambda text: progress(Notice(text)),
    )
    run.write(CONFIG, checkpoint.config)
    write_support(checkpoint.support, run.path / "support.npz")
    history_file.write_if_possible(history.reports)
    steps = config.training.steps
    next_news = 0.0

    def after_step(info: StepInfo) -> None:
        nonlocal next_news
        saver.after_step()
        if (now := time.monotonic()) >= next_news:
            next_news = now + NEWS_SECONDS
            progress(News(number, "training", info.step / steps, info.step))

    with (
        single_threaded_products(),
        TrainingEvents(run, history.last_step, enabled=options.tensorboard) as events,
    ):

        def after_report(report: Report) -> None:
            history_file.write_if_possible(history.reports)
            events.add(report)
            progress(News(number, "training", report.step / steps, report.step, report))

        before = history.reports[-1] if history.reports else None
        progress(News(number, "training", training.steps_done / steps, training.steps_done, before))
        with saver.saving_the_end():
            train(training, config.evaluation, history=history, progress=after_report, after_step=after_step)
        drawn = DrawCollector()
        repeats = config.evaluation.repeats
        progress(News(number, "evaluation", 0.0, training.steps_done))
        evaluation = evaluate(
            training.model,
            target,
            config.evaluation,
            particles=config.training.particles,
            stream=RandomStream(config.seed, "evaluation"),
            keep=drawn,
            progress=lambda repeat: progress(News(number, "evaluation", repeat / repeats, training.steps_done)),
        )
    draws = drawn.draws(checkpoint.support.taxa)
    write_results(run, Results(config, training, history, True, config.evaluation, evaluation, draws))
    progress(News(number, "done", 1.0, training.steps_done))
