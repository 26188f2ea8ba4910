"""What do many loci cost in one `phloem infer-many`, beside as many single runs? Is anything lost or run twice?

    python benchmarks/loci.py --work DIR [--loci 200] [--taxa 20] [--sites 500] [--jobs 2] [--singles 20] [--kill]
        [-- FLAGS of phloem infer]

Loci are simulated under HKY+G4 (`phloem simulate`), each on a tree of its own, and inferred with phloem's defaults
unless flags say otherwise. Single runs are of the first loci, one `phloem infer --threads 1` after the other, with the
seeds that infer-many gives them; their results must be the same bytes. The overhead is of processor time, of all
processes, for the same loci: wall-clock time says little on a busy machine. With --kill a worker is killed (signal 9)
when a fifth of the loci are done, and later the whole command; then the same command goes on. The sessions in
`provenance.json` tell what was run how often.
"""

import argparse
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

from phloem.runs.directory import read_provenance
from phloem.tasks.infer_many import seed_of

PHLOEM = [sys.executable, "-m", "phloem"]
COMPARED = ("topologies.csv", "clades.csv", "draws.safetensors")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--loci", type=int, default=200)
    parser.add_argument("--taxa", type=int, default=20)
    parser.add_argument("--sites", type=int, default=500)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--singles", type=int, default=20)
    parser.add_argument("--kill", action="store_true")
    parser.add_argument("flags", nargs="*")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    genes, out = options.work / "genes", options.work / "loci"
    if not genes.exists():
        sizes = ["--taxa", str(options.taxa), "--sites", str(options.sites), "--replicates", str(options.loci)]
        subprocess.run(
            [*PHLOEM, "simulate", "--out", str(genes / "g"), "--model", "HKY+G4", *sizes, "--quiet"], check=True
        )
    files = sorted(genes.glob("*.fasta"))
    command = [*PHLOEM, "infer-many", *map(str, files), "--out", str(out), "--jobs", str(options.jobs)]
    command += ["--threads", "1", "--plain", *options.flags]
    began, processor = time.monotonic(), spent()
    if options.kill:
        interrupted(command, out, len(files))
    subprocess.run(command, check=True)
    seconds, processor = time.monotonic() - began, spent() - processor
    print(f"{len(files)} loci, --jobs {options.jobs}: {seconds:.0f} s, {3600 * len(files) / seconds:.0f} loci an hour")
    sessions = [len(read_provenance(path)["sessions"]) for path in sorted(out.glob("runs/*/provenance.json"))]
    print(f"processor time {processor:.0f} s; {sum(sessions)} sessions of {len(sessions)} runs")

    singles = options.work / "singles"
    own = 0.0
    for path in files[: options.singles]:
        before = spent()
        seed = str(seed_of(1, path.stem))
        alone = [*PHLOEM, "infer", str(path), "--out", str(singles / path.stem), "--seed", seed, "--threads", "1"]
        subprocess.run([*alone, "--quiet", "--force", *options.flags], check=True)
        own += spent() - before
        for name in COMPARED:
            one, other = (folder / path.stem / name for folder in (singles, out / "runs"))
            assert one.read_bytes() == other.read_bytes(), f"{one} and {other} differ"
    count = min(options.singles, len(files))
    print(f"{count} single runs: {own:.0f} s of processor time, {own / count:.1f} each; the same bytes")
    if options.kill:  # what killed processes took is not known
        return
    ratio = processor / len(files) / (own / count)
    print(f"processor time of infer-many over that of single runs, a locus: {ratio:.3f}")


def interrupted(command: list[str], out: Path, loci: int) -> None:
    """Kill a worker when a fifth of the loci are done, and the command when two fifths are."""
    process = subprocess.Popen(command)
    for share, target in ((0.2, "worker"), (0.4, "command")):
        while len(list(out.glob("records/*.json"))) < share * loci and process.poll() is None:
            time.sleep(0.2)
        if process.poll() is not None:
            return
        children = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True).stdout.split()
        killed = int(children[0]) if target == "worker" else process.pid
        print(f"killing {target} {killed}", flush=True)
        os.kill(killed, signal.SIGKILL)
    process.wait()
    time.sleep(5)  # its workers hear that it is gone, and stop with checkpoints


def spent() -> float:
    """Processor time of all programs that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    main()
