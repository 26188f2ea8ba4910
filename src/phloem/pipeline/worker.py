"""One of several runs, in a process of its own: goes on from its directory's checkpoint and writes news as lines.

It stops, with a checkpoint, on SIGTERM and when its standard input ends, which it does when the process that
began it is gone for whatever reason.
"""

import json
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Any

from phloem.display.news import Event, News, Notice
from phloem.errors import PhloemError
from phloem.inference.history import Report
from phloem.interrupts import stoppable
from phloem.pipeline.completion import RunOptions, complete_run
from phloem.pipeline.owned_directory import claimed
from phloem.pipeline.run_directory import RunDirectory
from phloem.pipeline.saving import CheckpointInterval

DONE, FAILED, INTERRUPTED = 0, 2, 130
PATIENCE_SECONDS = 10.0  # for the worker of a session that was killed to end


def encode_task(directory: Path, number: int, options: RunOptions) -> str:
    """What a worker is to do, as its one argument."""
    return json.dumps([str(directory), number, options.threads, list(options.interval), options.tensorboard])


def decode_event(line: str) -> Event | PhloemError:
    """What a worker's line says."""
    kind, content = json.loads(line)
    if kind == "news":
        run, phase, share, step, report = content
        return News(run, phase, share, step, None if report is None else Report.from_row(report))
    return Notice(content) if kind == "notice" else PhloemError(content)


def encode_event(event: Event) -> list[Any]:
    """The same, for `decode_event`."""
    return ["news", event] if isinstance(event, News) else ["notice", event[0]]


def work(task: str) -> int:
    """Complete a run; returns the exit code."""
    path, number, threads, interval, tensorboard = json.loads(task)
    options = RunOptions(threads, CheckpointInterval(*interval), tensorboard)
    Thread(target=_stop_when_orphaned, daemon=True).start()
    try:
        with stoppable(), claimed(RunDirectory(Path(path)), resume=True, patience=PATIENCE_SECONDS) as run:
            checkpoint, _ = run.checkpoints.newest()
            assert checkpoint is not None  # whoever began this process has just written or read it
            complete_run(run, checkpoint, options, lambda event: _print(encode_event(event)), number=number)
    except PhloemError as problem:
        _print(["error", str(problem)])
        return FAILED
    except KeyboardInterrupt:
        return INTERRUPTED
    return DONE


def _print(content: list[Any]) -> None:
    with suppress(BrokenPipeError):  # no one listens any more: the end of the input says so as well
        print(json.dumps(content), flush=True)


def _stop_when_orphaned() -> None:
    while os.read(0, 1024):  # not sys.stdin, whose lock Python needs to end
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    code = work(sys.argv[1])
    sys.stdout.flush()
    os._exit(code)  # at once: the thread that waits for the end of the input would keep Python from ending
