"""How fast are tree files read into distinct topologies? How much faster than DendroPy and Biopython?"""

import gzip
import io
import os
import tempfile
from pathlib import Path

import dendropy
from Bio import Phylo

from phloem import RandomStream
from phloem.trees import TreeSample, format_newick, pool, random_topologies, read_trees
from timing import Row, best_times, show

COMPARED = 300  # trees: the others take their time


def simulated_replicates(folder: Path) -> list[Path]:
    """Ten gzipped files of 10,000 trees of 27 taxa, where the real ones are not at hand."""
    taxa = [f"Simulated_species_{number:02d}" for number in range(27)]
    paths = []
    for replicate in range(10):
        trees = random_topologies(27, 10_000, stream=RandomStream(replicate, "benchmark"))
        paths.append(folder / f"rep_{replicate}.ufboot.gz")
        paths[-1].write_bytes(gzip.compress("\n".join(format_newick(trees, taxa)).encode(), 1))
    return paths


def read_distinct(paths: list[Path]) -> TreeSample:
    return pool([read_trees(path) for path in paths]).distinct()


def comparison_rows(path: Path, folder: Path) -> list[Row]:
    text = b"\n".join(gzip.decompress(path.read_bytes()).splitlines()[:COMPARED]).decode()
    small = folder / "small.nwk"
    small.write_text(text)
    seconds = best_times(
        {
            "phloem": lambda: read_trees(small),
            "DendroPy": lambda: dendropy.TreeList.get(data=text, schema="newick"),
            "Biopython": lambda: list(Phylo.parse(io.StringIO(text), "newick")),
        },
        3,
    )
    ours = seconds.pop("phloem")
    rows = [Row(f"{COMPARED} of these trees", ours)]
    return rows + [Row(f"  {name}", spent, note=f"{spent / ours:,.0f} times ours") for name, spent in seconds.items()]


def main(folder: Path) -> None:
    data = os.environ.get("PHLOEM_DATA")
    if data:
        paths = sorted(Path(data, "ufboot/DS1").glob("*.gz"))
        title = "Reading: DS1's bootstrap trees"
    else:
        paths = simulated_replicates(folder)
        title = "Reading: simulated bootstrap trees (PHLOEM_DATA is not set)"
    seconds = best_times({"ours": lambda: read_distinct(paths)}, 5)["ours"]
    trees = sum(len(read_trees(path)) for path in paths)
    note = f"{1e6 * seconds / trees:.1f} µs a tree, {len(read_distinct(paths)):,} distinct"
    rows = [Row(f"{trees:,} trees of 27 taxa in {len(paths)} .gz files", seconds, 3.0, note)]
    if data:
        posterior = Path(data, "mrbayes/DS1/rep_1.trprobs.gz")
        spent = best_times({"ours": lambda: read_distinct([posterior])}, 20)["ours"]
        rows.append(Row(f"{len(read_trees(posterior)):,} trees of a .trprobs.gz file", spent, 3.0))
    show(title, rows + comparison_rows(paths[0], folder))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(Path(folder))
