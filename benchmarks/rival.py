"""Another version of phloem, in a process of its own, so that old and new take turns on one clock.

A benchmark script offers functions whose arguments and results are plain (JSON), such as one that takes a turn and
returns its seconds. The rival is a process that imports the same script on other sources and calls them:

    before = Rival(Path("before/src"), "likelihood")
    best_turns({"now": partial(turn, "DS1"), "before": partial(before.call, "turn", "DS1")}, rounds=100)

Only one of the two processes works at a time: the other waits for a line on its pipe.
"""

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch


class Rival:
    """The functions of a benchmark script (its name, without .py) on the sources in a folder."""

    def __init__(self, sources: Path, script: str) -> None:
        self.sources = sources.resolve()
        if not (self.sources / "phloem").is_dir():
            sys.exit(f"{sources}: there is no folder phloem. Give the folder of sources, such as CHECKOUT/src.")
        paths = os.pathsep.join([str(self.sources), str(Path(__file__).parent)])
        self.process = subprocess.Popen(
            [sys.executable, __file__, script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": paths},
        )
        found = self._answer()
        if Path(found).parent.parent != self.sources:
            sys.exit(f"the rival found phloem at {found} rather than in {self.sources}.")

    def call(self, function: str, *arguments: object) -> Any:
        """What the script's function returns there."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps([function, *arguments]) + "\n")
        self.process.stdin.flush()
        return self._answer()

    def _answer(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"the rival on {self.sources} has ended; what it says of this stands above.")
        return json.loads(line)


def serve(script: str) -> None:
    """Answer calls, a line each, until the other side closes the pipe."""
    answers, sys.stdout = sys.stdout, sys.stderr  # what the script prints is no answer
    torch.set_num_threads(1)
    module = importlib.import_module(script)
    phloem = importlib.import_module("phloem")
    print(json.dumps(phloem.__file__), file=answers, flush=True)
    for line in sys.stdin:
        function, *arguments = json.loads(line)
        print(json.dumps(getattr(module, function)(*arguments)), file=answers, flush=True)


if __name__ == "__main__":
    serve(sys.argv[1])
