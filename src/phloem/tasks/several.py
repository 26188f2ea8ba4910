"""Several runs at the same time, each in a process of its own."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import IO, Any

from phloem.display.events import Event, News, Notice
from phloem.errors import PhloemError, ProgramProblem
from phloem.interrupts import stoppable
from phloem.runs.checkpoints import CheckpointInterval
from phloem.runs.directory import claimed
from phloem.runs.history import Report
from phloem.tasks.posterior import is_finished
from phloem.tasks.run_directory import RunDirectory
from phloem.tasks.training import Progress, RunOptions, complete_run

DONE, FAILED, INTERRUPTED = 0, 2, 130
PATIENCE_SECONDS = 10.0  # for the worker of a session that was killed to end
STOP_SECONDS = 30.0  # for a checkpoint to be written on a slow disk


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


def complete_runs(runs: Sequence[RunDirectory], options: RunOptions, progress: Progress) -> None:
    """Complete every run that is not finished, as many at a time as there are cores for them.

    If one fails or the user stops, the others are stopped, each with a checkpoint.
    """
    waiting = []
    for number, run in enumerate(runs, 1):
        if is_finished(run):
            progress(News(number, "done", 1.0))
        else:
            waiting.append((number, run))
    cores = options.threads or 1
    at_once = min(len(waiting), cores)
    own = options._replace(threads=max(1, cores // max(1, at_once)))
    with _stopped_at_the_end() as workers:
        lines: SimpleQueue[tuple[_Worker, str | None]] = SimpleQueue()
        while waiting or workers:
            while waiting and len(workers) < at_once:
                number, run = waiting.pop(0)
                workers.append(_Worker(number, run, own, lines))
            worker, line = lines.get()
            if line is None:
                worker.check_done()
                workers.remove(worker)
                worker.close()
                continue
            event = decode_event(line)
            if isinstance(event, PhloemError):
                raise ProgramProblem(f"run {worker.number}: {event}")
            progress(event)


class _Worker:
    """A process and the thread that listens to it."""

    def __init__(
        self, number: int, run: RunDirectory, options: RunOptions, lines: "SimpleQueue[tuple[_Worker, str | None]]"
    ) -> None:
        self.number = number
        self._errors: IO[str] = tempfile.TemporaryFile("w+")  # noqa: SIM115  closed with the worker
        self.process = subprocess.Popen(
            # -P: a file of the user's called numpy.py must not be imported.
            [sys.executable, "-P", "-m", "phloem.tasks.several", encode_task(run.path, number, options)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            encoding="utf-8",
            start_new_session=True,  # Ctrl-C is for us, who then tell the others
        )
        self._listener = Thread(target=self._listen, args=(lines,), daemon=True)
        self._listener.start()

    def _listen(self, lines: "SimpleQueue[tuple[_Worker, str | None]]") -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            lines.put((self, line))
        lines.put((self, None))

    def check_done(self) -> None:
        """Raise unless the process has done its work."""
        code = self.process.wait()
        self._errors.seek(0)
        last = (self._errors.read().strip().splitlines() or [""])[-1]
        if code == INTERRUPTED:  # somebody has told this process alone to stop
            raise KeyboardInterrupt
        if code:
            how = f"was killed (signal {-code})" if code < 0 else f"failed ({last})"
            raise ProgramProblem(f"run {self.number} {how}. Go on with --resume.")

    def close(self) -> None:
        """Wait for the process, which is about to end or is told to, and let go of it."""
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._listener.join()
        for stream in (self.process.stdin, self.process.stdout, self._errors):
            if stream is not None:
                stream.close()


@contextmanager
def _stopped_at_the_end() -> Iterator[list[_Worker]]:
    """Processes, of which those that are still there are stopped however this ends."""
    workers: list[_Worker] = []
    try:
        yield workers
    finally:
        for worker in workers:
            worker.process.send_signal(signal.SIGTERM)
        for worker in workers:
            worker.close()
