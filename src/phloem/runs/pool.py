"""Many tasks, shared out over worker processes that each do one after another.

What a process has loaded and compiled serves all of its tasks. Tasks go to a worker's standard input, one at a time,
and events come back, all of them lines of JSON. A task that fails does not end the others, nor does a worker that is
killed: another takes its place and its task, once. Like the workers of `several.py`, they stop on SIGTERM, and when
their standard input ends before they were told that there is nothing left to do.
"""

import importlib
import json
import os
import signal
import sys
import traceback
from collections import Counter, deque
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import suppress
from queue import SimpleQueue
from threading import Thread
from typing import Any, Final, Literal, NamedTuple

from phloem.errors import PhloemError
from phloem.interrupts import held, stoppable
from phloem.runs.events import News, Notice, Progress
from phloem.runs.several import DONE, FAILED, INTERRUPTED, Process, stopped_at_the_end

MOST_TRIES: Final = 2  # of a task whose worker was killed
END: Final = "null"  # what is sent to a worker that has nothing left to do

Work = Callable[[Mapping[str, Any], Progress], Mapping[str, Any]]  # what a worker does with a task


class Task(NamedTuple):
    """A task with a name of its own; its content is what JSON can hold."""

    name: str
    content: Mapping[str, Any]


class TaskEvent(NamedTuple):
    """What became of a task, or where it is."""

    name: str
    kind: Literal["begun", "news", "notice", "done", "failed", "lost"]
    text: str = ""  # of a notice, or what went wrong; of news the phase
    share: float = 0.0  # of the phase
    result: Mapping[str, Any] | None = None  # of a task that is done


def work_through(tasks: Sequence[Task], work: str, at_once: int) -> Generator[TaskEvent, None, None]:
    """Do the tasks by so many workers at once; every task ends in one event, `done` or `failed`.

    work: `module:function`, a `Work`. When this is closed, or interrupted, workers that are at work are stopped.
    """
    waiting, tries = deque(tasks), Counter[str]()
    lines: SimpleQueue[tuple[_Worker, str | None]] = SimpleQueue()
    started: list[_Worker] = []
    with stopped_at_the_end(started) as workers:
        while waiting or workers:
            while waiting and len(workers) < at_once:
                with held():  # a process that is not on the list would not be stopped
                    workers.append(_Worker("phloem.runs.pool", work, lines))
                yield workers[-1].give(waiting.popleft())
            worker, line = lines.get()
            task = worker.task
            if line is None:
                _, how = worker.how_it_ended()
                workers.remove(worker)
                worker.close()
                if task is not None:
                    tries[task.name] += 1
                    is_lost = tries[task.name] < MOST_TRIES
                    if is_lost:
                        waiting.appendleft(task)
                    yield TaskEvent(task.name, "lost" if is_lost else "failed", f"its process {how or 'ended'}.")
            elif task is not None:
                event, is_broken = decode_event(task.name, line)
                if event.kind in ("done", "failed"):
                    worker.task = None
                yield event
                if worker.task is None and not is_broken:
                    following = waiting.popleft() if waiting else None
                    begun = worker.give(following)
                    if following is not None:
                        yield begun


class _Worker(Process):
    """A process with the task that it has at present."""

    task: Task | None = None

    def give(self, task: Task | None) -> TaskEvent:
        """Send the next task; without one, the process ends."""
        self.task = task
        with suppress(OSError, ValueError):  # it is gone, which the end of its lines says as well
            assert self.process.stdin is not None
            self.process.stdin.write((END if task is None else json.dumps(task)) + "\n")
            self.process.stdin.flush()
        return TaskEvent("" if task is None else task.name, "begun")


def decode_event(name: str, line: str) -> tuple[TaskEvent, bool]:
    """What a worker's line says of its task, and whether the worker takes no other."""
    kind, *content = json.loads(line)
    if kind == "news":
        return TaskEvent(name, "news", *content), False
    if kind == "done":
        return TaskEvent(name, "done", result=content[0]), False
    return TaskEvent(name, "failed" if kind == "broken" else kind, content[0]), kind == "broken"


def serve(work: str) -> int:
    """Do the tasks that come, until there are no more; returns the exit code."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what libraries print is not for the other side
    tasks: SimpleQueue[str] = SimpleQueue()
    Thread(target=_listen, args=(tasks,), daemon=True).start()

    def send(*content: Any) -> None:
        with suppress(BrokenPipeError):  # no one listens any more: the end of the input says so as well
            out.write(json.dumps(content) + "\n")
            out.flush()

    def tell(event: Any) -> None:
        if isinstance(event, News):
            send("news", event.phase, event.share)
        elif isinstance(event, Notice) and event.urgent:
            send("notice", event.text)

    try:
        with stoppable():
            module, _, function = work.partition(":")
            do: Work = getattr(importlib.import_module(module), function)
            while (line := tasks.get()).strip() != END:
                _, content = json.loads(line)
                try:
                    result = do(content, tell)
                except PhloemError as problem:
                    send("failed", str(problem))
                    continue
                except Exception as problem:
                    if isinstance(problem, MemoryError):
                        send("broken", "not enough memory. Give fewer --jobs.")
                    else:
                        traceback.print_exc()
                        send("broken", f"{type(problem).__name__}: {problem}. This is a defect of phloem: report it.")
                    return FAILED  # whatever state this process is in, no other task shall have it
                send("done", result)
    except KeyboardInterrupt:
        return INTERRUPTED
    return DONE


def _listen(tasks: "SimpleQueue[str]") -> None:
    """Take tasks from the standard input; if it ends without the word, so does this process, with a checkpoint."""
    with os.fdopen(os.dup(0), encoding="utf-8") as stream:
        for line in stream:
            tasks.put(line)
            if line.strip() == END:
                return
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    code = serve(sys.argv[1])
    os._exit(code)  # at once: the thread that waits for tasks would keep Python from ending
