"""Several runs at the same time, each in a process of its own that sends its news as lines of JSON.

A worker stops, with a checkpoint, on SIGTERM and when its standard input ends, as it does when the process that
started it is gone for whatever reason.
"""

import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import IO, Any, TypeVar

from phloem.errors import PhloemError, ProgramProblem, is_lack_of_memory
from phloem.interrupts import held, stoppable
from phloem.runs.checkpoints import CheckpointInterval
from phloem.runs.directory import RunDirectory
from phloem.runs.driver import RunOptions
from phloem.runs.events import News, Notice, Progress

DONE, FAILED, INTERRUPTED = 0, 2, 130
STOP_SECONDS = 30.0  # for all workers to write a checkpoint on a slow disk
LESS_MEMORY = "--threads 1 takes one run after another"
PATIENCE_SECONDS = 10.0  # for the worker of a killed session to end


def complete_runs(
    runs: Sequence[tuple[int, RunDirectory[Any, Any]]], complete: str, options: RunOptions, progress: Progress
) -> None:
    """Complete numbered runs from their checkpoints, as many at a time as there are cores for them.

    complete: `module:function` that completes one, given a path, the run's number, options, progress and how many
    seconds to wait for the directory. If one fails or the user stops, the others are stopped, each with a checkpoint.
    """
    waiting = list(runs)
    cores = options.threads or 1
    at_once = min(len(waiting), cores)
    own = options._replace(threads=max(1, cores // max(1, at_once)))
    started: list[_Worker] = []
    with stopped_at_the_end(started) as workers:
        lines: SimpleQueue[tuple[_Worker, str | None]] = SimpleQueue()
        while waiting or workers:
            while waiting and len(workers) < at_once:
                number, run = waiting.pop(0)
                with held():  # a process that is not on the list would not be stopped
                    workers.append(_Worker(number, run, encode_task(complete, run.path, number, own), lines))
            worker, line = lines.get()
            if line is None:
                worker.check_done()
                workers.remove(worker)
                worker.close()
                continue
            event = decode_event(line, worker.run.kind.report)
            if isinstance(event, PhloemError):
                raise ProgramProblem(f"run {worker.number}: {event}")
            progress(event)


class Process:
    """A process of phloem's that reads and writes lines, and the thread that listens to it."""

    def __init__(self, module: str, task: str, lines: "SimpleQueue[tuple[Any, str | None]]") -> None:
        """lines: where its lines go, each with this object; None after the last."""
        self._errors: IO[str] = tempfile.TemporaryFile("w+")  # noqa: SIM115  closed with the process
        self.process = subprocess.Popen(
            # -P: a file of the user's called numpy.py must not be imported.
            [sys.executable, "-P", "-m", module, task],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            encoding="utf-8",
            start_new_session=True,  # Ctrl-C is for us, who then tell the others
        )
        self._listener = Thread(target=self._listen, args=(lines,), daemon=True)
        self._listener.start()

    def _listen(self, lines: "SimpleQueue[tuple[Any, str | None]]") -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            lines.put((self, line))
        lines.put((self, None))

    def how_it_ended(self) -> tuple[int, str]:
        """The exit code of a process that has ended, or is about to, and what happened in words, if it was not good."""
        code = self.process.wait()
        self._errors.seek(0)
        last = (self._errors.read().strip().splitlines() or [""])[-1]
        return code, f"was killed (signal {-code})" if code < 0 else f"failed ({last})" if code else ""

    def stop(self) -> None:
        """Tell the process to end. One that is suspended (SIGSTOP, a debugger, a batch system) hears it when woken."""
        self.process.send_signal(signal.SIGTERM)
        if hasattr(signal, "SIGCONT"):
            self.process.send_signal(signal.SIGCONT)

    def close(self, patience: float = STOP_SECONDS) -> None:
        """Wait for the process, which is about to end or is told to, and let go of it."""
        try:
            self.process.wait(max(0.0, patience))
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._listener.join()
        for stream in (self.process.stdin, self.process.stdout, self._errors):
            if stream is not None:
                stream.close()


class _Worker(Process):
    """A process that completes one run."""

    def __init__(
        self, number: int, run: RunDirectory[Any, Any], task: str, lines: "SimpleQueue[tuple[Any, str | None]]"
    ) -> None:
        self.number = number
        self.run = run
        super().__init__("phloem.runs.several", task, lines)

    def check_done(self) -> None:
        """Raise unless the process has done its work."""
        code, how = self.how_it_ended()
        if code == INTERRUPTED:  # somebody has told this process alone to stop
            raise KeyboardInterrupt
        if code:
            if code == -getattr(signal, "SIGKILL", 0):  # as systems do where memory runs out
                how += f". If memory ran out: {LESS_MEMORY}"
            raise ProgramProblem(f"run {self.number} {how}. Resume it with --resume.")


Worker = TypeVar("Worker", bound=Process)


@contextmanager
def stopped_at_the_end(workers: list[Worker]) -> Iterator[list[Worker]]:
    """Workers that are added to a list; those that are still at work are stopped however this ends."""
    try:
        yield workers
    finally:
        for worker in workers:
            worker.stop()
        give_up = time.monotonic() + STOP_SECONDS
        for worker in workers:
            worker.close(give_up - time.monotonic())


def encode_task(complete: str, directory: Path, number: int, options: RunOptions) -> str:
    """What a worker is to do, as its one argument."""
    return json.dumps([complete, str(directory), number, options.threads, list(options.interval), options.tensorboard])


def encode_event(event: News | Notice) -> list[Any]:
    """An event as JSON can hold it."""
    return ["news", event] if isinstance(event, News) else ["notice", event.text]


def decode_event(line: str, report_type: type[Any]) -> News | Notice | PhloemError:
    """What a worker's line says."""
    kind, content = json.loads(line)
    if kind == "news":
        run, phase, share, step, report = content
        return News(run, phase, share, step, None if report is None else report_type.from_row(report))
    return Notice(content) if kind == "notice" else PhloemError(content)


def work(task: str) -> int:
    """Complete a run; returns the exit code."""
    complete, path, number, threads, interval, tensorboard = json.loads(task)
    module, _, function = complete.partition(":")
    options = RunOptions(threads, CheckpointInterval(*interval), tensorboard)
    Thread(target=_stop_when_orphaned, daemon=True).start()
    try:
        with stoppable():
            getattr(importlib.import_module(module), function)(
                Path(path), number, options, lambda event: _send(encode_event(event)), patience=PATIENCE_SECONDS
            )
    except PhloemError as problem:
        _send(["error", str(problem)])
        return FAILED
    except KeyboardInterrupt:
        return INTERRUPTED
    except (MemoryError, OSError, RuntimeError, ImportError) as problem:
        if not is_lack_of_memory(problem):
            raise
        _send(["error", f"memory ran out. Resume it with --resume where there is more; {LESS_MEMORY}."])
        return FAILED
    return DONE


def _send(content: list[Any]) -> None:
    with suppress(BrokenPipeError):  # no one listens any more: the end of the input says so as well
        sys.stdout.write(json.dumps(content) + "\n")
        sys.stdout.flush()


def _stop_when_orphaned() -> None:
    while os.read(0, 1024):  # not sys.stdin, whose lock Python needs to end
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    code = work(sys.argv[1])
    sys.stdout.flush()
    os._exit(code)  # at once: the thread that waits for the end of the input would keep Python from ending
