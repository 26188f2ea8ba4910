"""Flip single bits in every file of a finished run: whoever reads it must refuse, notice, or find the same numbers.

    PYTHONPATH=tests python -m support.flip_bits RUN [--places 200] [--resume-every 40] [--seed 1]

RUN is a finished run of `phloem infer` or `phloem density fit`, and stays as it is: a copy is damaged. After each flip
all that phloem reads is read, and after some the run is resumed, which must make the file again. A line for each file
says how often it was refused or harmless; anything else is printed, and the exit code is 1.
"""

import argparse
import random
import shutil
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import phloem
from phloem.errors import PhloemError
from phloem.runs.directory import find_traces
from phloem.tasks.density import DensitySummary, density_run, load_density
from phloem.tasks.exports import make_exports
from phloem.tasks.opening import Drawing, open_posterior
from phloem.tasks.run_files import EXPORTS
from phloem.trees.writing import format_newick

PASSING = ("refused", "harmless")
NOT_RESULTS = (".lock", "tensorboard")  # nobody reads them


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--places", type=int, default=200)
    parser.add_argument("--resume-every", type=int, default=40, help="how many flips there are to a resumption")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    total: Counter[str] = Counter()
    for name, found in damage_run(given.run, given.places, given.resume_every, given.seed):
        print(f"{name}: " + ", ".join(f"{what} {count}" for what, count in sorted(found.items())), flush=True)
        total += found
    print("all: " + ", ".join(f"{what} {count:,}" for what, count in sorted(total.items())))
    return int(not set(total) <= {*PASSING, *(f"resumed, {what}" for what in PASSING)})


def damage_run(run: Path, places: int, resume_every: int, seed: int) -> Iterator[tuple[str, Counter[str]]]:
    """How each file's damages were taken, by the file's name."""
    is_density = "density fit" in find_traces(run, expected="density fit").values()
    read, resume = (read_density_run, resume_density) if is_density else (read_infer_run, resume_infer)
    names = sorted(str(path.relative_to(run)) for path in run.rglob("*") if path.is_file())
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        copy = Path(folder) / "run"
        shutil.copytree(run, copy)
        whole, results = read(copy), contents(copy)
        for name in names:
            if not any(part in NOT_RESULTS for part in Path(name).parts):
                yield name, damage_file(run, copy, name, places, resume_every, seed, read, resume, whole, results)


def damage_file(
    original: Path,
    run: Path,
    name: str,
    places: int,
    resume_every: int,
    seed: int,
    read: Callable[[Path], dict[str, Any]],
    resume: Callable[[Path], None],
    whole: dict[str, Any],
    results: dict[str, bytes],
) -> Counter[str]:
    """How often damage to one file of a copy of a run was refused, harmless, or worse."""
    path, found = run / name, Counter[str]()
    content = path.read_bytes()
    generator = random.Random(f"{seed} {name}")
    for number in range(places):
        bit = generator.randrange(8 * len(content))
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        found[taken(lambda: read(run), whole, f"{name}, bit {bit}")] += 1
        if number % resume_every == 0:
            found["resumed, " + taken(lambda: resumed(run, resume), results, f"{name}, bit {bit}, resumed")] += 1
            shutil.rmtree(run)
            shutil.copytree(original, run)
        path.write_bytes(content)
    return found


def taken(look: Callable[[], dict[str, Any]], expected: dict[str, Any], where: str) -> str:
    """Whether a look at a damaged run was refused, gave what it gives of the whole one, or something else."""
    try:
        found = look()
    except PhloemError:
        return "refused"
    except Exception as problem:
        print(f"{where}: {type(problem).__name__}: {problem}", flush=True)
        return "CRASHED"
    different = [name for name in expected if found.get(name) != expected[name]]
    if not different:
        return "harmless"
    print(f"{where}: another {', '.join(different)}", flush=True)
    return "WRONG"


def read_infer_run(run: Path) -> dict[str, Any]:
    """All numbers that can be had of a run of `phloem infer`."""
    posterior = phloem.load_posterior(run)
    exports = make_exports(posterior)
    again = open_posterior(run, drawing=Drawing(samples=20, repeats=1, seed=5))
    return {
        "summary": str(posterior.summary.as_json()),
        "text": str(posterior),
        "report": exports.report,
        "trees": format_newick(exports.sample.trees.topologies, posterior.taxa, exports.sample.trees.branch_lengths),
        "model": {name: tensor.numpy().tobytes() for name, tensor in posterior.model.state_dict().items()},
        "new draws": again.draws.log_weights.tobytes(),
        "config": posterior.config,
    }


def read_density_run(run: Path) -> dict[str, Any]:
    """All numbers that can be had of a run of `phloem density fit`."""
    density = load_density(run)
    density_run(run).checksums.check("history.csv")
    return {
        "summary": DensitySummary.read(run),
        "probabilities": density.log_prob(density.observed.topologies).tobytes(),
        "config": density.config,
    }


def resume_infer(run: Path) -> None:
    phloem.infer(None, out=run, resume=True, progress=False)
    for name in EXPORTS:  # a changed one stays, and the user gets a notice of it
        (run / name).unlink()
    phloem.infer(None, out=run, resume=True, progress=False)


def resume_density(run: Path) -> None:
    phloem.fit_density([], out=run, resume=True, progress=False)


def resumed(run: Path, resume: Callable[[Path], None]) -> dict[str, bytes]:
    """What is in a run's files after it was resumed."""
    resume(run)
    return contents(run)


def contents(run: Path) -> dict[str, bytes]:
    """All files but those that say when a run was worked on, and the report, which shows it."""
    changing = {"provenance.json", "SHA256SUMS", "report.html", *NOT_RESULTS}
    return {
        str(path.relative_to(run)): path.read_bytes()
        for path in sorted(run.rglob("*"))
        if path.is_file() and path.name not in changing and "checkpoints" not in path.parts
    }


if __name__ == "__main__":
    sys.exit(main())
