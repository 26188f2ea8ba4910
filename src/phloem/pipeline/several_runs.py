"""Several runs at the same time, each in a process of its own."""

import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from queue import SimpleQueue
from threading import Thread
from typing import IO

from phloem.display.news import News
from phloem.errors import PhloemError, ProgramProblem
from phloem.pipeline.completion import Progress, RunOptions
from phloem.pipeline.posterior import is_finished
from phloem.pipeline.run_directory import RunDirectory
from phloem.pipeline.worker import INTERRUPTED, decode_event, encode_task

STOP_SECONDS = 30.0  # for a checkpoint to be written on a slow disk


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
            [sys.executable, "-P", "-m", "phloem.pipeline.worker", encode_task(run.path, number, options)],
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
