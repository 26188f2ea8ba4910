"""One run over several processes: the run of one, whatever their number, and what happens if one of them is gone."""

import csv
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

from support.command_line import complaint
from support.messages import assert_says
from support.ranks import at_step, end_of, free_port, start_ranks
from support.waiting import LIMIT

STEPS = 40
ARGUMENTS = (
    *("primates", "--trees", "primates", "--model", "JC", "--steps", str(STEPS), "--particles", "10", "--seed", "3"),
    *("--branches", "split"),  # in double precision; in single precision rounding differs, and training amplifies it
    *("--repeats", "2", "--samples", "50", "--threads", "1", "--checkpoint-every", "10steps", "--plain"),
    *("--set", "evaluation.chains=6", "--set", "evaluation.reports=10", "--set", "training.refit=1.0"),
)
DIE = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
STAND_INS = {
    "scontrol": "#!/bin/bash\necho 127.0.0.1\n",
    "srun": """#!/bin/bash
while [[ $1 == --* ]]; do shift; done
for ((task = 1; task < SLURM_NTASKS; task++)); do SLURM_PROCID=$task "$@" & done
SLURM_PROCID=0 "$@" && wait
""",
}
Outcome = list[tuple[int, str, str]]


@pytest.fixture
def start(tmp_path) -> Callable[..., Outcome]:
    """Run a command in so many processes, and wait for them."""

    def run(size: int, out: str, *more: str, code: Mapping[int, str] | None = None) -> Outcome:
        ranks: list[subprocess.Popen] = start_ranks(size, [*ARGUMENTS, "--out", out, *more], tmp_path, code)
        return end_of(ranks)

    return run


def history(directory: Path) -> np.ndarray:
    """All columns but the seconds."""
    with (directory / "history.csv").open() as stream:
        rows = [*csv.DictReader(stream)]
    return np.array([[float(row[name]) for name in row if name != "seconds"] for row in rows])


def assert_same_run(one: Path, other: Path) -> None:
    """Up to the order of sums."""
    assert len(history(one)) == 10
    np.testing.assert_allclose(history(other), history(one), rtol=1e-9)
    estimates = [
        [summary[name]["mean"] for name in ("elbo", "lower_bound", "log_marginal_likelihood")]
        for summary in (json.loads((path / "summary.json").read_text()) for path in (one, other))
    ]
    np.testing.assert_allclose(estimates[1], estimates[0], rtol=1e-9)


def test_any_number_of_processes_gives_the_same_run_and_rank_0_alone_speaks(start, tmp_path):
    for size in (1, 2, 3):
        (code, output, errors), *others = start(size, f"of-{size}")
        assert code == 0, errors
        assert "log marginal likelihood" in output
        assert (f"{size} processes share out the 10 particles" in errors) == (size > 1)
        assert others == [(0, "", "")] * (size - 1)
    assert_same_run(tmp_path / "of-1", tmp_path / "of-2")
    assert_same_run(tmp_path / "of-1", tmp_path / "of-3")


def test_a_killed_rank_ends_the_others_with_a_line_and_the_run_resumes_on_another_number(start, tmp_path):
    code = {2: at_step(25, DIE)}
    leader, other, killed = start(3, "many", code=code)
    assert killed[0] == -signal.SIGKILL
    assert leader[0] == 2
    (line,) = complaints(leader[2])
    assert_says(line, "rank 2 is gone … saved at step 25 … --resume")
    assert other[1:] == ("", "")

    leader, *others = start(2, "many", "--resume", code={0: at_step(32, DIE)})
    assert leader[0] == -signal.SIGKILL
    for code_of, output, errors in others:
        assert (code_of, output) == (1, "")
        assert_says(complaints(errors)[0], "rank 1: rank 0 is gone")
        assert len(errors.splitlines()) == 1

    assert start(1, "many", "--resume")[0][0] == 0
    start(1, "alone")
    assert_same_run(tmp_path / "alone", tmp_path / "many")


def test_a_rank_that_fails_says_why_through_rank_0(start):
    leader, other = start(2, "fails", code={1: at_step(12, 'raise ValueError("a bug\\nof two lines")')})
    assert leader[0] == 2
    (line,) = complaints(leader[2])
    assert_says(line, "rank 1: ValueError: a bug of two lines … saved at step 12 … --resume")
    assert other == (1, "", "")


@pytest.mark.parametrize("asked", [0, 1])
def test_a_request_to_stop_any_rank_stops_all_with_a_checkpoint(start, asked):
    stop = "import os, signal; os.kill(os.getpid(), signal.SIGTERM)"
    code = {asked: at_step(15, stop)}
    if asked:  # the relay must come before the last step
        code[1] += "\nfrom phloem.runs import meeting\nmeeting.RELAY_SECONDS = 0.0"
        code[0] = at_step(20, "import time; time.sleep(1)")
    leader, other = start(2, "stopped", code=code)
    assert leader[0] == 130
    (line,) = complaints(leader[2])
    assert re.search(r"stopped, saved at step (1|2)\d\..*--resume", line)
    assert other == (0, "", "")


def test_more_processes_than_particles_are_refused(start):
    leader, *others = start(3, "few", "--particles", "2")
    assert leader[0] == 2
    (line,) = complaints(leader[2])
    assert_says(line, "--particles 2 … 3 processes")
    assert others == [(0, "", "")] * 2


def test_several_runs_are_shared_out_one_after_the_other(start, tmp_path):
    assert [code for code, _, _ in start(2, "runs", "--runs", "2", "--branches", "edge")] == [0, 0]
    assert start(1, "alone", "--seed", "4", "--set", "evaluation.chains=0", "--branches", "edge")[0][0] == 0
    np.testing.assert_allclose(history(tmp_path / "runs" / "run-2"), history(tmp_path / "alone"), rtol=1e-6)


@pytest.mark.slow
def test_the_documented_slurm_script_runs_with_a_stand_in_for_slurm(tmp_path):
    """Which starts tasks as Slurm does: all with the same command, each with its number."""
    page = (Path(__file__).parents[2] / "docs" / "many-processes.md").read_text()
    (script,) = re.findall(r"^```bash\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    command = "phloem infer dna.fasta --out run --particles 100 --resume"
    assert command in script
    ours = shlex.join([sys.executable, "-m", "phloem", "infer", *ARGUMENTS, "--out", "run", "--resume"])
    (tmp_path / "job.sh").write_text(script.replace(command, ours))
    for name, text in STAND_INS.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    own = {"SLURM_JOB_NODELIST": "node", "SLURM_NTASKS": "2", "SLURM_CPUS_PER_TASK": "1"}
    job = {"SLURM_JOB_ID": str(free_port() - 20_000), "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "job.sh"],
        cwd=tmp_path,
        env={**os.environ, **own, **job},
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )
    assert done.returncode == 0, done.stderr
    assert "2 processes share out" in done.stderr
    assert done.stdout.count("files in run:") == 1


def test_a_process_whose_launcher_says_half_is_told_what_is_missing(monkeypatch, capsys):
    from phloem.cli import main

    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.delenv("RANK", raising=False)
    assert main.run(["infer", "primates", "--out", "never"]) == main.BAD_INPUT
    assert_says(complaint(capsys), "WORLD_SIZE is 2 … RANK is not set")
    assert not Path("never").exists()


def complaints(errors: str) -> list[str]:
    """The last line of a run, which says why it ended. A traceback would be more."""
    assert "Traceback" not in errors
    return [line for line in errors.splitlines() if line.startswith("phloem: ")][-1:]
