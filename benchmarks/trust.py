"""How often is "good" said of a run that is wrong? Runs that are spoiled on purpose, against MrBayes.

    python benchmarks/trust.py --work DIR [--sets NAME …] [--spoil NAME …] [--results FILE]
    python benchmarks/trust.py --work DIR --finished RUNS [--sets NAME …] [--results FILE]
    python benchmarks/trust.py [--results FILE]

Data sets: simulated ones of 8 to 30 taxa, the primates, DS1 to DS10 (DIR/DSn.fasta). The truth is a run of MrBayes of
four chains, DIR/NAME.t, made if it is not there; for DS1 to DS4 it is the ten long runs in PHLOEM_DATA. Each run of the
preset `quick` is spoiled in one way:

    none     not at all: 4,000 steps, the most frequent 95 % of ten replicates of bootstrap trees together
    steps-n  training ends after n steps
    few      the support is that of ten bootstrap topologies
    half     half of the bootstrap's topologies are taken out of the support
    mode     all trees that have the clade that is most in doubt are taken out

Every run adds a line of JSON to the results: the largest difference of a clade's probability from the truth, and what
each diagnostic said. With --finished, runs that there are, RUNS/NAME, add a line each. Without a directory to work in
it prints how verdicts and errors agree.
"""

import argparse
import gzip
import json
import os
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import phloem
from phloem.data.alignment import STATES, Alignment
from phloem.data.reading import read_alignment
from phloem.inference.chain_check import ChainCheck
from phloem.inference.diagnostics import pareto_shape, unseen_share
from phloem.inference.trust import LEVELS
from phloem.tasks.evaluate import read_reference
from phloem.tasks.posterior import Posterior
from phloem.trees.sample import TreeSample, pool
from phloem.trees.splits import SplitFrequencies, nontrivial_splits, split_deviation, split_frequencies
from simulated import simulate

# Taxa, sites, mean length of a branch.
SIMULATED = {
    "sim-8": (8, 200, 0.03),
    "sim-10": (10, 100, 0.05),
    "sim-12": (12, 500, 0.02),
    "sim-14": (14, 1000, 0.01),
    "sim-16": (16, 300, 0.05),
    "sim-18": (18, 200, 0.1),
    "sim-20": (20, 1000, 0.03),
    "sim-22": (22, 400, 0.02),
    "sim-24": (24, 200, 0.03),
    "sim-26": (26, 1000, 0.01),
    "sim-28": (28, 500, 0.1),
    "sim-30": (30, 300, 0.02),
}
DATA_SETS = (*SIMULATED, "primates", *(f"DS{number}" for number in range(1, 11)))
SPOILS = ("none", "steps-100", "steps-400", "steps-1500", "few", "half", "mode")
FINISHED = "finished"  # in place of a way of spoiling
FEW = 10
GENERATIONS, EVERY = 500_000, 100  # of MrBayes, and from one of its trees to the next
BURNIN = 0.25
WRONG = 0.05  # a difference of a clade's probability that matters
OF_CHAINS = ("Outside the support", "Clades by chains")
RESULTS = Path(__file__).parent / "trust.jsonl"


def alignment_of(name: str, work: Path) -> Alignment:
    """The data."""
    if name in SIMULATED:
        return simulate(*SIMULATED[name], seed=1 + list(SIMULATED).index(name))
    return read_alignment(work / f"{name}.fasta" if name.startswith("DS") else name)


def truth_of(name: str, alignment: Alignment, work: Path) -> TreeSample:
    """MrBayes' trees: of long runs in PHLOEM_DATA for DS1 to DS4, where one run misses modes, else of one run."""
    long_runs = Path(os.environ.get("PHLOEM_DATA", "")) / "mrbayes" / name
    if long_runs.is_dir():
        return pool(read_reference([long_runs], taxa=alignment.taxa))
    path = work / f"{name}.t"
    if not path.exists():
        (work / f"{name}.nex").write_text(mrbayes_file(alignment, name))
        with (work / f"{name}.out").open("w") as out:
            subprocess.run(["mb", f"{name}.nex"], cwd=work, stdout=out, check=True)
    return phloem.read_trees(path, taxa=alignment.taxa, burnin=BURNIN)


def mrbayes_file(alignment: Alignment, name: str, *, generations: int = GENERATIONS, seed: int = 1) -> str:
    """A file that MrBayes runs: Jukes–Cantor, lengths with an exponential prior of rate 10."""
    letters = np.full(16, "?")
    for code, symbol in enumerate(STATES):
        letters[1 << code] = symbol
    rows = "\n".join(
        f"{taxon} {''.join(letters[states])}" for taxon, states in zip(alignment.taxa, alignment.states, strict=True)
    )
    return f"""#NEXUS
begin data;
dimensions ntax={len(alignment.taxa)} nchar={alignment.site_count};
format datatype=dna missing=? gap=-;
matrix
{rows}
;
end;
begin mrbayes;
set autoclose=yes nowarn=yes seed={seed} swapseed={seed} usebeagle=yes beagledevice=cpu beaglesse=yes;
lset nst=1;
prset statefreqpr=fixed(equal) brlenspr=unconstrained:exp(10.0);
mcmc nruns=1 nchains=4 ngen={generations} samplefreq={EVERY} printfreq=50000 diagnfreq=1000000000 filename={name};
quit;
end;
"""


def bootstrap_of(name: str, alignment: Alignment, work: Path) -> TreeSample:
    """Topologies for the support and how often each is among the trees that `phloem infer` makes."""
    path = work / f"{name}.boot.gz"
    if not path.exists():
        made = pool(phloem.bootstrap(alignment, threads=1))
        path.write_bytes(gzip.compress("\n".join(phloem.trees.format_newick(made.topologies, made.taxa)).encode()))
    return phloem.read_trees(path, taxa=alignment.taxa).distinct()


def spoiled(trees: TreeSample, spoil: str, truth: SplitFrequencies, seed: int) -> TreeSample:
    """The trees that are left for the support."""
    random = np.random.default_rng(seed)
    if spoil == "few":
        return trees[np.sort(random.permutation(len(trees))[:FEW])]
    if spoil == "half":
        return trees[np.sort(random.permutation(len(trees))[: max(1, len(trees) // 2)])]
    if spoil == "mode":
        split = truth.members[np.argmin(np.abs(truth.frequencies - 0.5))]
        has = (nontrivial_splits(trees.topologies) == split).all(axis=2).any(axis=1)
        return trees[~has] if has.any() and not has.all() else trees
    return trees


def diagnostics(posterior: Posterior, truth: TreeSample) -> dict[str, object]:
    """What the run says of itself, and what is true."""
    summary, log_weights = posterior.summary, posterior.draws.log_weights
    levels = [finding.level for finding in summary.trust.findings if finding.name not in OF_CHAINS]
    check = summary.check
    assert isinstance(check, ChainCheck)
    return {
        "error": split_deviation([posterior.clades, split_frequencies(truth)]).largest_difference,
        "verdict": summary.trust.level,
        "by_weights": max(levels, key=LEVELS.index),
        "effective": summary.draws.effective_sample_size,
        "draws": summary.draws.count,
        "pareto_shape": pareto_shape(log_weights),
        "unseen": unseen_share(log_weights),
        "annealed": summary.annealed is not None,
        "log_marginal_likelihood": summary.evaluation.log_marginal_likelihood.mean,
        "elbo": summary.evaluation.elbo.mean,
        "outside": check.outside.value,
        "outside_error": check.outside.error,
        "clade_difference": check.difference.value,
        "beyond_errors": check.difference.beyond_errors,
    }


def run(name: str, spoil: str, work: Path) -> dict[str, object]:
    """One run and what came of it."""
    alignment = alignment_of(name, work)
    truth = truth_of(name, alignment, work)
    trees = bootstrap_of(name, alignment, work)
    left = spoiled(trees, spoil, split_frequencies(truth), seed=1 + SPOILS.index(spoil))
    steps = int(spoil.removeprefix("steps-")) if spoil.startswith("steps-") else 4000
    begin = time.process_time()
    posterior = phloem.infer(
        alignment,
        left,
        preset="quick",
        model={"name": "JC"},
        training={"steps": steps},
        evaluation={"repeats": 20},
        progress=False,
        threads=1,
    )
    seconds = time.process_time() - begin
    found = diagnostics(posterior, truth)
    return {"data": name, "taxa": len(alignment.taxa), "spoil": spoil, "seconds": round(seconds, 1), **found}


def finished_run(name: str, work: Path, runs: Path) -> dict[str, object]:
    """What came of a run that there is."""
    alignment = alignment_of(name, work)
    found = diagnostics(phloem.load_posterior(runs / name), truth_of(name, alignment, work))
    return {"data": name, "taxa": len(alignment.taxa), "spoil": FINISHED, "seconds": None, **found}


def table(results: Path) -> None:
    """How verdicts and errors agree."""
    rows = [json.loads(line) for line in results.read_text().splitlines()]
    print(f"{len(rows)} runs; wrong: a clade's probability off by more than {WRONG}")
    for column in ("by_weights", "verdict"):
        print(f"\n{'by weights alone' if column == 'by_weights' else 'with chains':18}runs  wrong  largest  median")
        for level in LEVELS:
            errors = np.array([row["error"] for row in rows if row[column] == level])
            if len(errors):
                print(f"{level:18}{len(errors):4}{(errors > WRONG).sum():7}{errors.max():9.3f}{np.median(errors):8.3f}")
    wrong = np.array([row["error"] > WRONG for row in rows])
    print("\ndiagnostic          rank correlation with the error   right above wrong")
    for key, sign in (
        ("effective", -1),
        ("pareto_shape", 1),
        ("unseen", 1),
        ("outside", 1),
        ("clade_difference", 1),
        ("beyond_errors", 1),
    ):
        values = sign * np.array([row[key] if row[key] is not None else np.inf for row in rows], np.float64)
        print(f"{key:20}{_rank_correlation(values, [row['error'] for row in rows]):30.2f}{_area(values, wrong):20.2f}")
    for row in rows:
        if row["verdict"] == "good" and row["error"] > WRONG:
            print("good and wrong:", {key: row[key] for key in ("data", "spoil", "error", "effective", "outside")})


def _ranks(values: Sequence[float]) -> np.ndarray:
    ordered = np.sort(values)
    return (np.searchsorted(ordered, values, "left") + np.searchsorted(ordered, values, "right")) / 2


def _rank_correlation(one: np.ndarray, other: Sequence[float]) -> float:
    return float(np.corrcoef(_ranks(one), _ranks(other))[0, 1])


def _area(values: np.ndarray, wrong: np.ndarray) -> float:
    """The share of pairs of a wrong run and a right one in which the wrong one has the larger value."""
    bad, fine = values[wrong][:, None], values[~wrong][None]
    return float(((bad > fine) + 0.5 * (bad == fine)).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path)
    parser.add_argument("--sets", nargs="+", choices=DATA_SETS, default=DATA_SETS)
    parser.add_argument("--spoil", nargs="+", choices=SPOILS, default=SPOILS)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--finished", type=Path)
    options = parser.parse_args()
    if options.work:
        options.work.mkdir(exist_ok=True)
        done = options.results.read_text().splitlines() if options.results.exists() else []
        known = {(row["data"], row["spoil"]) for row in map(json.loads, done)}
        for name in options.sets:
            for spoil in [FINISHED] if options.finished else options.spoil:
                if (name, spoil) not in known:
                    row = (
                        finished_run(name, options.work, options.finished)
                        if options.finished
                        else run(name, spoil, options.work)
                    )
                    with options.results.open("a") as out:
                        out.write(json.dumps(row) + "\n")
                    print(f"{name:9}{spoil:11}{row['error']:8.3f}  {row['verdict']}", flush=True)
    else:
        table(options.results)


if __name__ == "__main__":
    main()
