"""Work for the processes of `phloem.runs.pool`, which tests have fail, die or hang."""

import os
import signal
import time
from pathlib import Path

from phloem.errors import BadArgument
from phloem.interrupts import held
from phloem.runs.events import News, Notice


def do(task, progress):
    """What the task's `what` says; a task that dies once leaves a file, by which it knows the second time."""
    what, folder = task["what"], Path(task["folder"])
    with (folder / "log").open("a") as log:
        log.write(f"{task['name']} {os.getpid()}\n")
    progress(News(1, "training", 0.5, 3))
    progress(Notice("a hint", urgent=False))
    print("what a library prints")
    if what == "notice":
        progress(Notice("look out"))
    elif what == "fail":
        raise BadArgument("no luck. Try again.")
    elif what == "break":
        raise ValueError("a bug")
    elif what == "no memory":
        raise MemoryError
    elif what == "die" or (what == "die once" and not (folder / task["name"]).exists()):
        (folder / task["name"]).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    elif what == "stop once" and not (folder / task["name"]).exists():
        (folder / task["name"]).touch()
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(60)
    elif what == "wait":
        try:
            (folder / f"{task['name']} waits").touch()
            while True:
                time.sleep(60)
        except KeyboardInterrupt:
            with held():
                (folder / f"{task['name']} stopped").touch()
            raise
    return {"name": task["name"], "process": os.getpid()}
