"""Are ranks of the truth that leave their band chance? The same data sets by MrBayes, with the same priors.

    python benchmarks/ranks_by_mrbayes.py --work DIR [--study GTR] [--first 2] [--every 5] [--generations 1000000]

Ranks of phloem's posteriors are in the results of `validate.py`. If they are right, MrBayes finds the same ones but for
the error of its chain, whether or not they look uniform: differences show what hundreds of data sets would. One run of
two chains each, a fifth of it left out. Needs MrBayes.
"""

import argparse
import subprocess
from pathlib import Path

import numpy as np

import phloem
from calibration import rank
from phloem.arrays import FloatArray
from phloem.config import InferConfig, ModelConfig
from phloem.data.patterns import compress
from phloem.tasks.mrbayes_file import mrbayes_file
from phloem.tasks.run_files import build_target
from phloem.tasks.simulate import Simulated
from validate import RESULTS, STUDIES, Study, read_lines, results_file, simulated, tree_values

BURNIN = 0.2
TREES = 25_000  # of a chain
CHAINS = """begin mrbayes;
set autoclose=yes nowarn=yes seed={seed} swapseed={seed} usebeagle=no;
mcmc nruns=1 nchains=2 ngen={generations} samplefreq={every} printfreq=100000 diagnfreq=1000000000 filename={name};
quit;
end;
"""


def ranks_by_mrbayes(study: Study, number: int, data: Simulated, work: Path, generations: int) -> dict[str, float]:
    """Ranks of lengths and of model parameters, by a run of MrBayes that is made if it is not there."""
    name = f"{study.name}-{number}"
    if not (work / f"{name}.out").exists():
        patterns, config = compress(data.alignment), InferConfig(model=ModelConfig(study.model))
        text = mrbayes_file(patterns, config, build_target(patterns, config, 1)).text
        every = max(1, generations // TREES)
        chains = CHAINS.format(seed=number + 1, generations=generations, every=every, name=name)
        (work / f"{name}.nex").write_text(text + chains)
        done = subprocess.run(["mb", f"{name}.nex"], cwd=work, capture_output=True, text=True, check=True)
        (work / f"{name}.out").write_text(done.stdout)
    trees = phloem.read_trees(work / f"{name}.t", taxa=data.taxa, burnin=BURNIN)
    lengths, true_lengths = trees.branch_lengths, data.tree.branch_lengths
    assert lengths is not None
    assert true_lengths is not None
    values = tree_values(trees.topologies, np.arange(len(trees), dtype=np.int32), lengths)
    true = {key: float(own[0]) for key, own in true_values(data, true_lengths).items()}
    header, *rows = [line.split("\t") for line in (work / f"{name}.p").read_text().splitlines()[1:]]
    columns = dict(zip(header, np.array(rows, np.float64)[int(BURNIN * len(rows)) :].T, strict=True))
    values |= {key: columns[key] for key in data.parameters}
    true |= data.parameters
    return {key: rank(own, np.ones(len(own)), true[key], 0.5) for key, own in values.items()}


def true_values(data: Simulated, lengths: FloatArray) -> dict[str, FloatArray]:
    """Of the true tree."""
    return tree_values(data.tree.topologies, np.zeros(1, np.int32), lengths)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--study", choices=[study.name for study in STUDIES.values() if study.is_right], default="GTR")
    parser.add_argument("--first", type=int, default=2)
    parser.add_argument("--every", type=int, default=5)
    parser.add_argument("--generations", type=int, default=1_000_000)
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    study = STUDIES[options.study]
    lines = [line for line in read_lines(results_file(study.name, RESULTS)) if "ranks" in line]
    differences: dict[str, list[float]] = {}
    for line in lines[options.first :: options.every]:
        number = line["number"]
        found = ranks_by_mrbayes(study, number, simulated(study, number), options.work, options.generations)
        for key, value in found.items():
            differences.setdefault(key, []).append(line["ranks"][key] - value)
    count = len(differences["tree length"])
    print(f"{'rank by phloem less that by MrBayes':35}  mean   error  largest  of {count} data sets")
    for key, own in differences.items():
        error = np.std(own, ddof=1) / np.sqrt(len(own))
        print(f"{key:32}{np.mean(own):+9.4f}{error:8.4f}{np.abs(own).max():9.3f}")


if __name__ == "__main__":
    main()
