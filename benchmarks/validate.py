"""Is the posterior right? Simulation-based calibration, on data sets whose truth is drawn from the priors.

    python benchmarks/validate.py [--studies JC GTR control fifty] [--sets N] [--seconds S] [--results DIR]

Every data set has a tree, branch lengths and model parameters from the priors of `phloem infer`, and is given to it.
If all posteriors are right, the posterior probability below the true value of any quantity is uniform over data sets,
and of the clades with a probability p a share p is true; `calibration.py` has the statistics. Studies:

    JC, GTR    5 to 8 taxa with 100 to 300 sites under JC and GTR+G4, 200 data sets each
    control    5 and 6 taxa with 100 sites under JC, 60 data sets, in runs with a wrong prior: they have to be found out
    fifty      50 taxa with 300 sites under JC, 50 data sets

A data set adds a line to DIR/validation-STUDY.jsonl when it is finished, whatever its verdict, for to choose by what
was found would spoil the calibration. What is in the file is not run again: remove it to validate another version of
phloem. Studies take turns in one process, so that what is there after --seconds is of all of them;
`write_validation.py` makes the page.
"""

import argparse
import json
import resource
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

import phloem
from calibration import CREDIBLE, clade_counts, clade_probabilities, credible_set, rank
from phloem.arrays import BoolArray, FloatArray, IntArray
from phloem.config.infer import USUAL_RATE
from phloem.errors import PhloemError
from phloem.random_streams import RandomStream
from phloem.storage.files import write_text
from phloem.target.posterior import TreePosterior
from phloem.tasks.posterior import Posterior
from phloem.tasks.simulate import Simulated
from phloem.trees.sample import GroupedTrees
from phloem.trees.splits import distinct_splits
from phloem.trees.topology import TopologyBatch

RESULTS = Path(__file__).parent / "results"
DIGITS = 5
# Less than `phloem infer --preset quick` does, as many data sets say more than long runs.
STEPS = 2_000  # of training
REPEATS = 20  # of 1,000 draws


class Study(NamedTuple):
    """Data sets of a kind, by number from 0; taxa and sites take turns."""

    name: str
    model: str
    taxa: tuple[int, ...]
    sites: tuple[int, ...]
    sets: int
    first_seed: int  # no two data sets share a tree
    prior_rate: float = USUAL_RATE  # on branch lengths, of runs; that of data is the usual one

    @property
    def is_right(self) -> bool:
        """Whether runs have the prior that data are from."""
        return self.prior_rate == USUAL_RATE

    @property
    def is_small(self) -> bool:
        """Whether posteriors have few enough topologies for a credible set of them to say anything."""
        return max(self.taxa) <= 8

    def seed(self, number: int) -> int:
        """Of a data set, and of its run."""
        return self.first_seed + number


STUDIES = {
    study.name: study
    for study in (
        Study("JC", "JC", (5, 6, 7, 8), (100, 200, 300), 200, 10_000),
        Study("GTR", "GTR+G4", (5, 6, 7, 8), (100, 200, 300), 200, 20_000),
        Study("control", "JC", (5, 6), (100,), 60, 40_000, prior_rate=2 * USUAL_RATE),
        Study("fifty", "JC", (50,), (300,), 50, 30_000),
    )
}


def simulated(study: Study, number: int) -> Simulated:
    """A data set."""
    taxa, sites = (choices[number % len(choices)] for choices in (study.taxa, study.sites))
    return phloem.simulate(taxa, sites, model={"name": study.model}, seed=study.seed(number))


def inferred(study: Study, number: int, data: Simulated) -> Posterior:
    """What a user gets, with the preset `quick`, but fewer steps and draws."""
    return phloem.infer(
        data.alignment,
        preset="quick",
        model={"name": study.model},
        prior_rate=study.prior_rate,
        training={"steps": STEPS},
        evaluation={"repeats": REPEATS},
        seed=study.seed(number),
        progress=False,
        threads=1,
    )


def tree_values(topologies: TopologyBatch, group: IntArray, lengths: FloatArray) -> dict[str, FloatArray]:
    """Quantities that every tree has, each (trees,).

    Which of them is looked at must not depend on the truth, so there is no "length of a true clade's branch".
    group: each tree's topology. lengths: (trees, 2n-3).
    """
    inner = lengths[:, topologies.taxon_count :]
    return {
        "tree length": lengths.sum(axis=1),
        "branch of t1": lengths[:, 0],
        "branch of t2": lengths[:, 1],
        "path from t1 to t2": (lengths * between_first_two(topologies)[group]).sum(axis=1),
        "inner branches together": inner.sum(axis=1),
        "longest inner branch": inner.max(axis=1),
        "shortest inner branch": inner.min(axis=1),
    }


def between_first_two(topologies: TopologyBatch) -> BoolArray:
    """The branches between taxa 0 and 1, (topologies, 2n-3): the root is taxon 0's neighbour."""
    rows = np.arange(len(topologies))
    found = np.zeros((len(topologies), topologies.node_count), np.bool_)
    found[:, 0] = True
    node = np.ones(len(topologies), np.int64)
    while (node != topologies.root).any():
        found[rows, node] = True
        node = np.where(node == topologies.root, node, topologies.parent[rows, node])
    return found[:, :-1]


def ranks_of_trees(trees: GroupedTrees, truth: Simulated, random: np.random.Generator) -> dict[str, float]:
    """Ranks of the quantities of the true tree among those of weighted trees."""
    lengths = truth.tree.branch_lengths
    assert lengths is not None
    found = tree_values(trees.topologies, trees.group, trees.branch_lengths)
    true = tree_values(truth.tree.topologies, np.zeros(1, np.int32), lengths)
    return {name: rank(values, trees.weights, float(true[name][0]), random.random()) for name, values in found.items()}


def topology_results(trees: GroupedTrees, truth: TopologyBatch, random: np.random.Generator) -> dict[str, Any]:
    """Where the true topology and its clades are among the posterior's.

    Ranks are those of the topology by its probability, the most probable first, and of the sum of the probabilities
    of a topology's clades, which there is for any number of taxa.
    """
    weights = trees.topology_weights()
    is_true = (trees.topologies.parent == truth.parent).all(axis=1)
    place = int(is_true.argmax()) if is_true.any() else None
    _, number = distinct_splits(TopologyBatch.concatenate([trees.topologies, truth]))
    clades, true_clades = number[:-1], number[-1]
    probabilities = clade_probabilities(clades, weights, true_clades)
    support = np.round(probabilities[number].sum(axis=1), 9)  # equal sums are equal numbers
    own = 0.0 if place is None else float(weights[place])
    sets = [credible_set(weights, share, place) for share in CREDIBLE]
    return {
        "ranks": {
            "topology": rank(-weights, weights, -own, random.random()),
            "clade support": rank(support[:-1], weights, float(support[-1]), random.random()),
        },
        "probability": own,
        "credible": {f"{share:g}": list(found) for share, found in zip(CREDIBLE, sets, strict=True)},
        "clades": {name: list(count) for name, count in clade_counts(clades, weights, true_clades).items()},
    }


def ranks_of_model(
    posterior: Posterior, trees: GroupedTrees, truth: Simulated, random: np.random.Generator
) -> dict[str, float]:
    """Ranks of the true parameters and of the likelihood at the truth, which sees most of what can be wrong."""
    weights = trees.weights
    ranks = {
        name: rank(values, weights, truth.parameters[name], random.random())
        for name, values in posterior.parameter_values.items()
    }
    target, draws = posterior.target, posterior.draws
    theta = torch.from_numpy(draws.theta)
    topologies, lengths = trees.topologies[trees.group], torch.from_numpy(np.array(trees.branch_lengths))
    with torch.no_grad():
        log_likelihood = draws.log_joint - target.log_prior(topologies, lengths, theta).numpy()
    at_truth = true_log_likelihood(target, truth)
    return {**ranks, "log likelihood": rank(log_likelihood, weights, at_truth, random.random())}


def true_log_likelihood(target: TreePosterior, truth: Simulated) -> float:
    """At the true tree and parameters."""
    theta = None
    if target.parameters is not None:
        kinds = [one.kind for one in target.parameters.inferred]
        parts = [kind.coordinates(np.array([truth.parameters[name] for name in kind.names])) for kind in kinds]
        theta = torch.from_numpy(np.concatenate(parts)[None])
    lengths = truth.tree.branch_lengths
    assert lengths is not None
    with torch.no_grad():
        return float(target.log_likelihood(truth.tree.topologies, torch.from_numpy(np.array(lengths)), theta)[0])


def outcome(study: Study, number: int) -> dict[str, Any]:
    """The line of a data set."""
    data = simulated(study, number)
    line = {"number": number, "seed": study.seed(number), "taxa": len(data.taxa), "sites": data.symbols.shape[1]}
    begin = spent()
    try:
        posterior = inferred(study, number, data)
    except PhloemError as problem:  # a data set without a posterior is a result as well
        return {**line, "failed": str(problem)}
    seconds = spent() - begin
    random = RandomStream(study.seed(number), "validation").generator()
    trees, summary = posterior.trees, posterior.summary
    of_topology = topology_results(trees, data.tree.topologies, random)
    if not study.is_small:
        del of_topology["ranks"]["topology"], of_topology["credible"], of_topology["probability"]
    ranks = ranks_of_trees(trees, data, random) | ranks_of_model(posterior, trees, data, random)
    found = {
        "seconds": round(seconds, 1),
        "verdict": summary.trust.level,
        "draws": len(trees),
        "effective": 1 / float(trees.weights @ trees.weights),
        "pareto_shape": summary.draws.pareto_shape,
        "annealed": summary.annealed is not None,
        "outside": None if summary.check is None else summary.check.outside.value,
        "added": 0 if summary.check is None else summary.check.added,
        **of_topology,
        "ranks": {**ranks, **of_topology["ranks"]},
    }
    return {**line, **rounded(found)}


def rounded(value: Any) -> Any:
    """The same with numbers of a few digits."""
    if isinstance(value, dict):
        return {name: rounded(each) for name, each in value.items()}
    if isinstance(value, list):
        return [rounded(each) for each in value]
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


def spent() -> float:
    """Processor time of this process and of the programs that it has run."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def results_file(study: str, folder: Path) -> Path:
    """Where the lines of a study are."""
    return folder / f"validation-{study}.jsonl"


def read_lines(path: Path) -> list[dict[str, Any]]:
    """All data sets of a file that are finished, by number."""
    lines = map(json.loads, path.read_text(encoding="utf-8").splitlines()) if path.exists() else ()
    return sorted(lines, key=lambda line: line["number"])


def waiting(studies: list[Study], sets: int | None, folder: Path) -> Iterator[tuple[Study, int]]:
    """Data sets that are not finished: small ones first, studies in proportion to their sizes."""
    found = []
    for study in studies:
        done = {line["number"] for line in read_lines(results_file(study.name, folder))}
        count = study.sets if sets is None else sets
        found += [(not study.is_small, number / count, study, number) for number in range(count) if number not in done]
    for _, _, study, number in sorted(found, key=lambda each: each[:2]):
        yield study, number


def add_line(path: Path, line: dict[str, Any]) -> None:
    """Add a line; whoever is killed meanwhile leaves a whole file."""
    before = path.read_text(encoding="utf-8") if path.exists() else ""
    write_text(path, before + json.dumps(line) + "\n")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--studies", nargs="+", choices=STUDIES, default=list(STUDIES))
    parser.add_argument("--sets", type=int, help="data sets of each study")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="after which no data set is begun")
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args(arguments)
    options.results.mkdir(parents=True, exist_ok=True)
    begin = time.monotonic()
    for study, number in waiting([STUDIES[name] for name in options.studies], options.sets, options.results):
        if time.monotonic() - begin > options.seconds:
            break
        line = outcome(study, number)
        add_line(results_file(study.name, options.results), line)
        what = line.get("failed") or f"{line['verdict']}, {line['seconds']} s, {line['effective']:.0f} effective draws"
        print(f"{study.name:8}{number:5}{line['taxa']:4} taxa{line['sites']:5} sites  {what}", flush=True)


if __name__ == "__main__":
    main()
