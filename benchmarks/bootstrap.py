"""How long do bootstrap trees by the embedded search take, beside IQ-TREE's on the same core, and are they as good?

python benchmarks/bootstrap.py [DS1 DS2 …] [--counts 1000 10000] [--model GTR+G4]

Both programs estimate the parameters of the model, as they do in `phloem bootstrap --model`.
"""

import argparse
import os
import time
from pathlib import Path
from threading import Event

import numpy as np

from phloem.config.search import SearchConfig
from phloem.data import Alignment, read_alignment
from phloem.search.embedded import find_likelihood_tree
from phloem.search.iqtree import find_iqtree, ultrafast_bootstrap
from phloem.trees import TreeSample, split_frequencies

ALL = tuple(f"DS{number}" for number in range(1, 9))


def embedded(alignment: Alignment, count: int, model: str) -> tuple[float, TreeSample, float]:
    """Seconds, trees and the best log-likelihood of one search on one core."""
    start = time.perf_counter()
    found = find_likelihood_tree(alignment, SearchConfig(count=count, model=model, threads=1))
    return time.perf_counter() - start, found.bootstrap, found.log_likelihood


def iqtree(alignment: Alignment, count: int, model: str) -> tuple[float, TreeSample]:
    """Seconds and trees of IQ-TREE on one core."""
    start = time.perf_counter()
    trees = ultrafast_bootstrap(
        find_iqtree(),
        alignment,
        count=count,
        model=model,
        seed=1,
        timeout=3600.0,
        stop=Event(),
        report=lambda _share: None,
    )
    return time.perf_counter() - start, trees


def support_correlation(first: TreeSample, second: TreeSample) -> float:
    """Pearson's, of the split supports of two samples, over the splits that either has."""
    tables = []
    for sample in (first, second):
        found = split_frequencies(sample)
        rows = zip(found.members, found.frequencies, strict=True)
        tables.append({members.tobytes(): share for members, share in rows})
    splits = sorted(tables[0].keys() | tables[1].keys())
    values = np.array([[table.get(split, 0.0) for split in splits] for table in tables])
    return float(np.corrcoef(values)[0, 1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=["primates"])
    parser.add_argument("--counts", nargs="+", type=int, default=[1000])
    parser.add_argument("--model", default="JC")
    options = parser.parse_args()
    data = os.environ.get("PHLOEM_DATA")
    names = list(ALL) if options.names == ["all"] else options.names
    embedded(read_alignment("primates"), 10, options.model)  # compiles
    print(f"{options.model}\nalignment  trees  log-likelihood  correlation  embedded s  IQ-TREE s  ratio")
    for name in names:
        in_data = data is not None and name in ALL
        alignment = read_alignment(Path(data or ".") / "alignments" / f"{name}.fasta" if in_data else name)
        for count in options.counts:
            other_seconds, other = iqtree(alignment, count, options.model)
            seconds, trees, best = embedded(alignment, count, options.model)
            print(
                f"{name:9} {count:6,}  {best:14.3f}  {support_correlation(trees, other):11.3f}  {seconds:10.2f}  "
                f"{other_seconds:9.2f}  {seconds / other_seconds:5.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
