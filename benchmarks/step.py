"""How long is a training step, where does its time go, and how near is it to its bare matrix products?

Needs PHLOEM_DATA. These are first steps, where all ten topologies differ; later ones are faster.

    python benchmarks/step.py --closures ALIGNMENT [--run RUN]

compares steps and memory with a support of pairs and with a closed one, of the same bootstrap trees and, if the
directory of a run is given, with that run's support and Q(τ); then closed supports of up to 50,000 clades.

    python benchmarks/step.py --closures ALIGNMENT --against SOURCES

compares steps and memory of another version with this one's, on closed supports of up to a million entries, made of
trees of exploring chains, bootstrap trees and some neighbours.
"""

import argparse
import math
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from functools import cache
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

import phloem
from features import products
from likelihood import memory, start_of_peak
from phloem import RandomStream
from phloem.config import EvaluationConfig, InferConfig, ModelConfig, TrainingConfig
from phloem.data.patterns import compress
from phloem.data.reading import read_alignment
from phloem.inference.evaluation import draw_log_weights
from phloem.inference.exploration import explore
from phloem.inference.laplace import ParameterStart
from phloem.inference.particles import Particles, doubly_reparameterized, vimco
from phloem.inference.training import Training
from phloem.target.likelihood import TreeLikelihood
from phloem.target.posterior import TreePosterior
from phloem.tasks.infer import infer
from phloem.tasks.run_files import build_model, build_target
from phloem.tasks.support import read_samples
from phloem.trees.generation import nni_neighbors, random_topologies
from phloem.trees.sample import TreeSample, merge
from phloem.trees.splits import distinct_splits
from phloem.variational.families import FAMILIES
from phloem.variational.fitting import first_network
from phloem.variational.joint import JointModel, build_branch_model
from phloem.variational.sbn import (
    SubsplitNetwork,
    SubsplitSupport,
    closed_support,
    collect_support,
    count_entries,
    frequent_topologies,
    read_network,
    support_of,
    write_network,
)
from rival import Rival
from timing import Row, best_times, milliseconds, show, warm

PARTICLES = 10
VARIANTS = ("split", "psp", "mlp", "gcn", "gin", "sage", "ggnn", "edge")
STAGES = ("topologies", "lengths", "likelihood", "estimator", "backward", "adam")
EDGE_GOAL = 1.6  # times its products
FAMILY_GOAL = 1.06  # times a step with lognormals
MODEL_GOAL = 1.25  # times a step whose model is fixed
GOAL_SECONDS = {"edge": 3.2e-3, "split": 0.9e-3, "psp": 0.9e-3}
CLOSURE_GOAL = 1.3  # times a step with pairs
ENTRY_COUNTS = (50_000, 300_000, 720_000, 1_000_000)
CLADE_COUNTS = (1_000, 5_000, 20_000, 50_000)
FIRST_TREES = 200
UNSEEN = 1e-9  # of a tree, for the entries that none of the trees uses from which steps draw
EVALUATION_GOAL_SECONDS, START_GOAL_SECONDS, MEMORY_GOAL_MEGABYTES = 0.5, 10.0, 600


@cache
def problem(name: str) -> tuple[TreePosterior, SubsplitSupport]:
    """A benchmark's target and the support of its bootstrap trees."""
    data = Path(os.environ["PHLOEM_DATA"])
    alignment = read_alignment(data / "alignments" / f"{name}.fasta")
    samples = read_samples([data / "ufboot" / name], taxa=alignment.taxa)
    return TreePosterior(TreeLikelihood(compress(alignment), threads=1)), collect_support(samples, credible=0.95)


@cache
def training_of(name: str, variant: str, family: str = "warped") -> Training:
    """A training that stays where it is: the topologies of its steps are as different as at the beginning."""
    torch.manual_seed(1)
    target, support = problem(name)
    model = JointModel(SubsplitNetwork(support), build_branch_model(variant, support, family=FAMILIES[family]))
    training = Training(model, target, TrainingConfig(steps=10**9, rate=1e-9, refit=0.0), seed=1)
    for _ in range(100):  # by then nearly all clades have been met
        training.step()
    return training


def step_turn(name: str, variant: str) -> float:
    """Seconds of a step, after one that warms the caches."""
    return warm(training_of(name, variant).step)()


def stage_times(training: Training, rounds: int) -> np.ndarray:
    """Seconds of each stage, the best of some rounds: the step's own parts, called one by one."""
    model, target, adams = training.model, training.target, training._adams().values()
    best = np.full(len(STAGES), np.inf)
    for number in range(rounds):
        marks = [time.perf_counter()]
        stream = RandomStream(1, "benchmark", number)
        topologies, scoring, indices = model.network.sample_scored(PARTICLES, stream=stream.named("topology"))
        log_q_topology = scoring.values()
        marks.append(time.perf_counter())
        sampling = model.branches.sampling(topologies, indices, stream=stream.named("lengths"), path_only=True)
        assert sampling is not None
        lengths, log_q_branches = sampling.values()
        marks.append(time.perf_counter())
        log_joint, slopes = target.log_joint_by_hand(topologies, lengths, 0.5)
        marks.append(time.perf_counter())
        theta = torch.empty(PARTICLES, 0)  # nothing of the model is inferred
        particles = Particles(topologies, lengths, log_joint, log_q_topology, log_q_branches, theta)
        by_joint, by_topology, by_branches = (
            torch.from_numpy(-factor) for factor in doubly_reparameterized(vimco(particles.log_weights()))[1:]
        )
        marks.append(time.perf_counter())
        for adam in adams:
            adam.clear_gradients()
        scoring.backward(by_topology)
        sampling.backward(by_joint[:, None] * slopes.lengths, by_branches)
        marks.append(time.perf_counter())
        for adam in adams:
            adam.step(1e-9)  # so small that the topologies stay as different as they are
        marks.append(time.perf_counter())
        best = np.minimum(best, np.diff(marks))
    return best


def benchmark(name: str, variants: tuple[str, ...], rounds: int) -> None:
    _, support = problem(name)
    taxa = len(support.taxa)
    table = Table(title=f"{name}: {taxa} taxa, {PARTICLES} particles, one core", title_justify="left", box=None)
    for heading in ("", "ms a step", "goal", "products", "ratio", "goal", *STAGES):
        table.add_column(heading, justify="right" if heading else "left")
    for variant in variants:
        training = training_of(name, variant)
        tasks = {"step": training.step}
        if variant not in ("split", "psp"):
            tasks["products"] = products(variant, taxa)
        times = best_times(tasks, rounds)
        stages = stage_times(training, 2 * rounds)
        goal = GOAL_SECONDS.get(variant) if name == "DS1" else None
        row = [variant, milliseconds(times["step"]), _verdict(times["step"], goal, "{:.1f}", 1000)]
        if "products" in times:
            ratio = times["step"] / times["products"]
            bound = EDGE_GOAL if (name, variant) == ("DS1", "edge") else None
            row += [milliseconds(times["products"]), f"{ratio:.2f}", _verdict(ratio, bound, "{:.1f}", 1)]
        else:
            row += ["", "", ""]
        table.add_row(*row, *(f"{share:.0%}" for share in stages / stages.sum()))
    Console(width=150, highlight=False).print(table, "")


def _verdict(value: float, goal: float | None, form: str, factor: float) -> str:
    return "" if goal is None else form.format(factor * goal) + (" met" if value <= goal else " MISSED")


def compare(sources: Path, rounds: int) -> None:
    """Steps of this version and of another one, in turns."""
    other = Rival(sources, "step")
    table = Table(title=f"Steps of {sources} and of this version", title_justify="left", box=None)
    for heading in ("", "", "ms before", "ms now", "ratio", "median of rounds"):
        table.add_column(heading, justify="right" if heading else "left")
    for name, variants in (("DS1", VARIANTS), ("DS4", ("edge",)), ("DS8", ("edge",))):
        for variant in variants:
            turns = [(other.call("step_turn", name, variant), step_turn(name, variant)) for _ in range(rounds)]
            seconds = np.array(turns)
            before, now = seconds.min(axis=0)
            typical = np.median(seconds[:, 1] / seconds[:, 0])
            row = name, variant, milliseconds(before), milliseconds(now), f"{now / before:.2f}", f"{typical:.2f}"
            table.add_row(*row)
    Console(width=130, highlight=False).print(table, "")


def compare_families(name: str, rounds: int) -> None:
    """Steps of EDGE with each family, in turns."""
    tasks = {family: training_of(name, "edge", family=family).step for family in ("warped", "lognormal")}
    times = best_times(tasks, rounds)
    ratio = times["warped"] / times["lognormal"]
    verdict = _verdict(ratio, FAMILY_GOAL, "{:.2f}", 1)
    milliseconds_of = ", ".join(f"{family} {milliseconds(seconds)} ms" for family, seconds in times.items())
    print(f"{name}, EDGE, by family: {milliseconds_of}; ratio {ratio:.3f}, goal {verdict}\n")


def compare_models(name: str, rounds: int) -> None:
    """Steps of EDGE under GTR+G4 whose parameters are inferred, and fixed, in turns."""
    target, support = problem(name)
    patterns = target.likelihood.patterns
    given = {"rates": (1.0, 3.0, 0.7, 0.9, 4.0, 1.0), "frequencies": (0.25, 0.2, 0.28, 0.27), "alpha": 0.4}
    trainings = {}
    for what, config in (("inferred", ModelConfig("GTR+G4")), ("fixed", ModelConfig("GTR+G4", **given))):
        settings = InferConfig(model=config, training=TrainingConfig(steps=10**9, rate=1e-9, refit=0.0))
        own = build_target(patterns, settings, 1)
        start = ParameterStart(own.parameters.start(), 0.1 * np.eye(own.dimension)) if own.parameters else None
        trainings[what] = Training(build_model(support, settings, start), own, settings.training, seed=1)
        for _ in range(100):
            trainings[what].step()
    times = best_times({what: training.step for what, training in trainings.items()}, rounds)
    ratio = times["inferred"] / times["fixed"]
    verdict = _verdict(ratio, MODEL_GOAL, "{:.2f}", 1)
    milliseconds_of = ", ".join(f"{what} {milliseconds(seconds)} ms" for what, seconds in times.items())
    print(f"{name}, EDGE, GTR+G4: {milliseconds_of}; ratio {ratio:.3f}, goal {verdict}\n")


Start = Callable[[], SubsplitNetwork]


def benchmark_closures(path: Path, run: Path | None, rounds: int) -> None:
    """Steps and memory with pairs and with closed supports, and how both grow with the number of clades."""
    alignment = read_alignment(path)
    target = TreePosterior(TreeLikelihood(compress(alignment), threads=1))
    trees = frequent_topologies(phloem.bootstrap(alignment, method="embedded", threads=1), credible=0.95)
    starts: dict[str, Start] = {
        "pairs": lambda: first_network(support_of(trees.taxa, trees.topologies), trees),
        "closed": lambda: first_network(closed_support(trees), trees),
    }
    if run is not None:
        starts["closed, of the run"] = lambda: phloem.load_posterior(run).model.network
    table(
        f"{path.stem}: steps of EDGE by support, {PARTICLES} particles, one core", starts, target, rounds, CLOSURE_GOAL
    )
    grown: dict[str, Start] = {}
    for clades in CLADE_COUNTS:
        grown[f"about {clades:,} clades"] = lambda clades=clades: network_of(trees, clades)
    table("Growth: bootstrap trees and, for more clades, random ones; steps draw the same trees", grown, target, rounds)


def table(title: str, starts: dict[str, Start], target: TreePosterior, rounds: int, goal: float = math.inf) -> None:
    """Steps with each network, in turns, and the memory that each takes. Ratios are to the first, trained or held."""
    megabytes = {name: memory_of(start, target) for name, start in starts.items()}
    trainings = {
        (name, is_held): still_training(start(), target, is_held)
        for name, start in starts.items()
        for is_held in (False, True)
    }
    turns = {case: warm(training.step, time.process_time) for case, training in trainings.items()}
    seconds = np.array([[turn() for turn in turns.values()] for _ in range(rounds)])
    shown = Table(title=title, title_justify="left", box=None)
    for heading in ("", "clades", "entries", "Q(τ)", "ms a step", "ratio", "median", "MB: start", "training"):
        shown.add_column(heading, justify="right" if heading else "left")
    for number, ((name, is_held), training) in enumerate(trainings.items()):
        support = training.model.network.support
        first = number % 2
        ratio = seconds[:, number].min() / seconds[:, first].min()
        median = np.median(seconds[:, number] / seconds[:, first])
        verdict = "" if goal == math.inf or number < 2 else " met" if median <= goal else " MISSED"
        sizes = [f"{len(support.clades):,}", f"{support.entry_count:,}"]
        times = [milliseconds(seconds[:, number].min()), f"{ratio:.2f}", f"{median:.2f}{verdict}"]
        shown.add_row(
            name, *sizes, "held" if is_held else "trained", *times, *(f"{part:.0f}" for part in megabytes[name])
        )
    Console(width=150, highlight=False).print(shown, "")


def still_training(network: SubsplitNetwork, target: TreePosterior, is_held: bool) -> Training:
    """A training of the network that stays where it is."""
    model = build_model(network.support, InferConfig(), None)
    with torch.no_grad():
        model.network.logits.copy_(network.logits)
    config = TrainingConfig(steps=10**9, rate=1e-9, refit=0.0)
    training = Training(model, target, config, seed=1, held=is_held)
    for _ in range(100):
        training.step()
    return training


def network_of(trees: TreeSample, clades: int) -> SubsplitNetwork:
    """A closed support of so many clades, of trees and then of random ones, and a network near the first of the trees.

    The first trees have as many splits as the smallest of the supports.
    """
    first = trees[: _enough(trees, CLADE_COUNTS[0])]
    more = trees[: _enough(trees, clades)]
    if len(more) == len(trees):
        count = 2 * clades // len(trees.taxa)  # more than are needed, as a tree has n - 3 splits with two sides each
        random = random_topologies(len(trees.taxa), count, stream=RandomStream(1, "benchmark"))
        more = merge([trees, TreeSample(trees.taxa, random, np.ones(count), None)])
        more = more[: _enough(more, clades)]
    support = closed_support(more)
    network = SubsplitNetwork(support)
    indices = support.indices(first.topologies)
    rootings = indices.splits.shape[1]
    counts = count_entries(support, indices, np.full(indices.splits.shape, 1 / rootings), np.ones(len(first)))
    with torch.no_grad():
        network.logits.copy_(torch.from_numpy(counts[: support.parameter_count] + UNSEEN).log())
    return network


def _enough(trees: TreeSample, clades: int) -> int:
    """How many of the trees, from the first on, have so many clades, single taxa and all but these included."""
    _, numbers = distinct_splits(trees.topologies)
    known = 2 * (np.maximum.accumulate(numbers.max(axis=1)) + 1 + len(trees.taxa))
    return min(len(trees), int(np.searchsorted(known, clades)) + 1)


@cache
def target_of(path: str) -> TreePosterior:
    """The posterior of an alignment."""
    return TreePosterior(TreeLikelihood(compress(read_alignment(Path(path))), threads=1))


@cache
def turn_of(alignment: str, network: str) -> Callable[[], float]:
    """Steps of a training with a network from a file that stays where it is."""
    training = still_training(read_network(network), target_of(alignment), is_held=False)
    return warm(training.step, time.process_time)


def network_turn(alignment: str, network: str) -> float:
    """Seconds of the processor for a step, after one that warms the caches."""
    return turn_of(alignment, network)()


def network_memory(alignment: str, network: str) -> float:
    """The most megabytes that are added by training with a network from a file."""
    return memory_of(lambda: read_network(network), target_of(alignment))[1]


def compare_closures(path: Path, sources: Path, rounds: int) -> None:
    """Steps of another version and of this one, in turns, with pairs and with closed supports of several sizes."""
    target = target_of(str(path))
    trees = frequent_topologies(phloem.bootstrap(read_alignment(path), method="embedded", threads=1), credible=0.95)
    found = explore(target, [trees], chains=200, stream=RandomStream(1, "benchmark"))
    neighbors = nni_neighbors(found.trees.topologies[:FIRST_TREES])  # rare splits, for more entries than chains find
    more = merge([found.trees, trees, TreeSample(trees.taxa, neighbors, np.full(len(neighbors), UNSEEN), None)])
    other = Rival(sources, "step")
    shown = Table(title=f"{path.stem}: steps of {sources} and of this version", title_justify="left", box=None)
    for heading in (
        "",
        "entries",
        "ms before",
        "ms now",
        "ratio",
        "median",
        "to pairs: before",
        "now",
        "MB before",
        "now",
    ):
        shown.add_column(heading, justify="right" if heading else "left")
    with TemporaryDirectory() as folder:
        cases: dict[tuple[str, int], tuple[str, str]] = {}
        sizes = []
        for number, most in enumerate((0, *ENTRY_COUNTS)):
            support = closed_support(more, most_entries=most) if most else support_of(trees.taxa, trees.topologies)
            file = Path(folder) / f"{number}.npz"
            write_network(first_network(support, found.trees if most else trees), file)
            cases["closed" if most else "pairs", most] = str(path), str(file)
            sizes.append(support.entry_count)
        megabytes = [[other.call("network_memory", *case), network_memory(*case)] for case in cases.values()]
        turns = [
            [[other.call("network_turn", *case), network_turn(*case)] for case in cases.values()] for _ in range(rounds)
        ]
    seconds = np.array(turns)  # (rounds, cases, 2)
    best, pairs = seconds.min(axis=0), np.median(seconds / seconds[:, :1], axis=0)
    typical = np.median(seconds[:, :, 1] / seconds[:, :, 0], axis=0)
    for number, (what, _) in enumerate(cases):
        before, now = best[number]
        shown.add_row(
            what,
            f"{sizes[number]:,}",
            milliseconds(before),
            milliseconds(now),
            f"{now / before:.2f}",
            f"{typical[number]:.2f}",
            *(f"{ratio:.2f}" for ratio in pairs[number]),
            *(f"{part:.0f}" for part in megabytes[number]),
        )
    Console(width=150, highlight=False).print(shown, "")


def memory_of(start: Start, target: TreePosterior) -> tuple[float, float]:
    """The most megabytes that making a network adds, and then training it: of a copy of this process, for it alone."""
    receiver, sender = get_context("fork").Pipe(duplex=False)
    process = get_context("fork").Process(target=_measure_memory, args=(start, target, sender))
    process.start()
    sender.close()
    found: tuple[float, float] = receiver.recv()
    process.join()
    return found


def _measure_memory(start: Start, target: TreePosterior, sender: Connection) -> None:
    torch.set_num_threads(1)
    before = start_of_peak()
    network = start()
    most = memory("VmHWM") - before
    start_of_peak()
    still_training(network, target, is_held=False)
    sender.send((most, memory("VmHWM") - before))


def benchmark_evaluation(data: Path, rounds: int) -> None:
    """1,000 importance samples, and how long it takes until a run's first step is done."""
    target, _ = problem("DS1")
    model = training_of("DS1", "edge").model
    stream = RandomStream(1, "benchmark")
    seconds = best_times({"samples": lambda: draw_log_weights(model, target, 1000, stream=stream)}, rounds)["samples"]
    command = [sys.executable, __file__, "--first-step", str(data)]
    subprocess.run(command, check=True)  # compiles what is not compiled yet
    start = time.perf_counter()
    subprocess.run(command, check=True)
    rows = [
        Row("1,000 importance samples, untrained", seconds, EVALUATION_GOAL_SECONDS),
        Row("start to first step, ten replicates", time.perf_counter() - start, START_GOAL_SECONDS),
    ]
    show("DS1, EDGE", rows)


def first_step(data: Path) -> None:
    """A run of one step and the least evaluation."""

    config = InferConfig(
        runs=1, model=ModelConfig("JC"), training=TrainingConfig(steps=1), evaluation=EvaluationConfig(1, 1, 1, 1)
    )
    infer(data / "alignments" / "DS1.fasta", data / "ufboot" / "DS1", config=config, progress=False)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--against", type=Path, help="sources of another version of phloem: only compare steps with it")
    parser.add_argument("--closures", type=Path, help="an alignment: only compare closed supports with pairs on it")
    parser.add_argument("--run", type=Path, help="with --closures: the directory of a run on a closed support")
    parser.add_argument("--first-step", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.first_step:
        first_step(options.first_step)
        sys.exit()
    if options.closures and options.against:
        torch.set_num_threads(1)
        compare_closures(options.closures, options.against, options.rounds)
        sys.exit()
    if options.closures:
        torch.set_num_threads(1)
        benchmark_closures(options.closures, options.run, options.rounds)
        sys.exit()
    if "PHLOEM_DATA" not in os.environ:
        print("step.py: left out, as PHLOEM_DATA is not set: it names the folder of benchmark data.")
        sys.exit()
    folder = Path(os.environ["PHLOEM_DATA"])
    torch.set_num_threads(1)
    if options.against:
        compare(options.against, options.rounds)
        sys.exit()
    benchmark("DS1", VARIANTS, options.rounds)
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"memory of this process by now: {megabytes:.0f} MB (goal {MEMORY_GOAL_MEGABYTES})\n")
    compare_families("DS1", options.rounds)
    compare_models("DS1", options.rounds)
    benchmark("DS4", ("edge",), options.rounds // 3)
    benchmark("DS8", ("edge",), options.rounds // 3)
    benchmark_evaluation(folder, max(3, options.rounds // 50))
