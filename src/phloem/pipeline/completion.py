"""From a checkpoint to a finished run: the steps that are left, the evaluation, the files."""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from phloem.config import read_config
from phloem.display.news import Event, News, Notice
from phloem.inference.checkpoints import Checkpoint
from phloem.inference.draws import DrawCollector
from phloem.inference.evaluation import evaluate
from phloem.inference.training import Report, StepInfo, Training, train
from phloem.pipeline.events import TrainingEvents
from phloem.pipeline.history_file import HistoryFile
from phloem.pipeline.model_building import build_model, build_target
from phloem.pipeline.results import Results, write_results
from phloem.pipeline.run_directory import RunDirectory
from phloem.pipeline.run_traces import CONFIG
from phloem.pipeline.saving import CheckpointInterval, Saver
from phloem.random_streams import RandomStream
from phloem.target.threads import single_threaded_products
from phloem.variational.support_file import write_support

NEWS_SECONDS = 0.2

Progress = Callable[[Event], None]


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
