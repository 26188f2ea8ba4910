"""How fast are likelihoods with all gradients, against BEAGLE and torchtree? How do they grow, and how do threads help?

    python benchmarks/likelihood.py                     models, threads and growth
    python benchmarks/likelihood.py models threads      two of them
    python benchmarks/likelihood.py large               growth up to 100 taxa with 100,000 patterns
    python benchmarks/likelihood.py --against PATH      beside another version, whose sources are in the folder PATH

Times on one core are those of the processor, which a busy machine disturbs less than the clock on the wall; both are
the same on an idle one. Rows of BEAGLE and of torchtree are left out where these are not installed (`beagle.py` says
which BEAGLE).
"""

import argparse
import ctypes
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from itertools import count
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

import beagle
import phloem
from phloem import RandomStream
from phloem.data import Alignment, SitePatterns, compress, read_alignment
from phloem.models import SiteRates, SubstitutionModel, TreeLikelihood, gtr, hky85, jc69
from phloem.trees import TopologyBatch, random_topologies, read_trees
from rival import Rival
from timing import Row, Task, Turn, best_turns, milliseconds, show, show_table, verdict, warm

TREES = 10
SIZES = {"DS1": (27, 934), "DS7": (59, 1037), "DS8": (64, 406)}  # taxa and patterns
MODELS = ("JC69", "HKY85", "GTR+Γ4")
# Purines and pyrimidines differ in frequency: else HKY85 has equal eigenvalues, and torch's eigh no gradient.
FREQUENCIES, KAPPA, SHAPE = (0.3, 0.25, 0.18, 0.27), 2.0, 0.5
EXCHANGEABILITIES = (1.0, 2.0, 1.0, 1.2, 2.5, 0.9)

GOALS_FOR = "GTR+Γ4"  # the goals beside other programs
GOAL_SECONDS = {("DS1", "JC69"): 0.45e-3, ("DS1", "HKY85"): 0.5e-3}  # of ten trees, with branch gradients
# At most this share of the time of BEAGLE's likelihood without gradients.
BRANCHES_GOAL, PARAMETERS_GOAL = 0.6, 0.9
# At least as many times the time of ours for the same gradients.
BEAGLE_GOAL, TORCHTREE_BRANCHES_GOAL, TORCHTREE_PARAMETERS_GOAL = 12, 60, 45
THREADS_GOAL = 1.6  # times as fast with two

ROUNDS = 200
GROWTH_SIZES = ((30, 1000), (30, 10_000), (30, 100_000), (100, 1000), (100, 10_000), (300, 1000), (1000, 1000))
LARGE_SIZES = ((100, 1000), (100, 10_000), (100, 100_000))
GROWTH_SECONDS = 0.6  # for the warm and for the cold runs of a size, each


def random_trees(taxa: int, trees: int = TREES, number: int = 0) -> tuple[TopologyBatch, Tensor]:
    topologies = random_topologies(taxa, trees, stream=RandomStream(1, "benchmark", number))
    lengths = np.random.default_rng(number).exponential(0.1, (trees, topologies.branch_count))
    return topologies, torch.tensor(lengths, requires_grad=True)


def independent_columns(taxa: int, patterns: int) -> SitePatterns:
    """Random columns, all different in effect: no two clades of a tree look alike at two sites."""
    random = np.random.default_rng(1)
    return _distinct(1 << random.integers(0, 4, (taxa, patterns), np.uint8), patterns)


def evolved_columns(taxa: int, patterns: int, mean_length: float = 0.05) -> SitePatterns:
    """Columns that evolved under Jukes–Cantor on a random tree: clades look alike at many sites, as in real data."""
    random = np.random.default_rng(1)
    (tree,) = random_topologies(taxa, 1, stream=RandomStream(1, "simulation")).parent
    lengths = random.exponential(mean_length, len(tree) - 1)
    drawn = np.empty((taxa, 0), np.uint8)
    while True:
        states = np.empty((len(tree), 2 * patterns), np.uint8)
        states[-1] = random.integers(0, 4, states.shape[1])
        for node in reversed(range(len(tree) - 1)):  # parents are numbered above their children
            changed = random.random(states.shape[1]) < 0.75 * -np.expm1(-4 / 3 * lengths[node])
            states[node] = (states[tree[node]] + changed * random.integers(1, 4, states.shape[1])) % 4
        drawn = np.concatenate([drawn, np.uint8(1) << states[:taxa]], axis=1)
        found = _distinct(drawn, patterns)
        if len(found) == patterns:
            return found


def _distinct(columns: np.ndarray, patterns: int) -> SitePatterns:
    """The first so many distinct ones of the columns, each once, or fewer if there are not as many."""
    every = compress(Alignment(tuple(f"t{number}" for number in range(len(columns))), columns))
    return compress(Alignment(every.taxa, every.states[:, :patterns]))


COLUMNS = {"evolved": evolved_columns, "independent": independent_columns}


@cache
def alignment_patterns(data: str) -> SitePatterns:
    folder = os.environ.get("PHLOEM_DATA")
    if folder:
        return compress(read_alignment(Path(folder, "alignments", f"{data}.fasta")))
    return evolved_columns(*SIZES[data])


@cache
def alignment_trees(data: str) -> tuple[TopologyBatch, Tensor]:
    """Bootstrap trees, as training meets them, where there are any: random ones have fewer equal columns."""
    folder, taxa = os.environ.get("PHLOEM_DATA"), alignment_patterns(data).taxa
    if not folder:
        return random_trees(len(taxa))
    topologies = read_trees(sorted(Path(folder, "ufboot", data).iterdir())[0], taxa=taxa).topologies
    chosen = topologies[np.random.default_rng(1).choice(len(topologies), TREES, replace=False)]
    return chosen, random_trees(len(taxa))[1]


def build_model(name: str, *, free: bool = False) -> tuple[SubstitutionModel, dict[str, Tensor]]:
    """A model and its parameters. free: they require gradients."""

    def parameter(value: float | Sequence[float]) -> Tensor:
        return torch.tensor(value, dtype=torch.float64, requires_grad=free)

    if name == "JC69":
        return jc69(), {}
    if name == "HKY85":
        parameters = {"kappa": parameter([KAPPA]), "frequencies": parameter(FREQUENCIES)}
        return hky85(parameters["kappa"], parameters["frequencies"]), parameters
    parameters = {
        "exchangeabilities": parameter(EXCHANGEABILITIES),
        "frequencies": parameter(FREQUENCIES),
        "shape": parameter(SHAPE),
    }
    rates = SiteRates(parameters["shape"], 4)
    return gtr(parameters["exchangeabilities"], parameters["frequencies"], rates), parameters


class Evaluation:
    """Log-likelihoods with gradients of some tensors: values and gradients of one call, or a task to be timed."""

    def __init__(self, likelihood: Callable[[], Tensor], *wanted: Tensor) -> None:
        self.likelihood = likelihood
        self.wanted = wanted

    def __call__(self) -> Tensor:
        for tensor in self.wanted:
            tensor.grad = None
        values = self.likelihood()
        values.sum().backward()
        return values

    def results(self) -> list[np.ndarray]:
        values = self().detach().numpy()
        return [values, *(tensor.grad.numpy().copy() for tensor in self.wanted if tensor.grad is not None)]


# What phloem does, in calls that a rival takes too: another version of phloem answers the same ones.


@cache
def our_evaluation(data: str, model: str, *, free: bool = False, threads: int = 1) -> Evaluation:
    substitution, parameters = build_model(model, free=free)
    likelihood = TreeLikelihood(alignment_patterns(data), substitution, threads=threads)
    topologies, lengths = alignment_trees(data)
    return Evaluation(lambda: likelihood(topologies, lengths), lengths, *parameters.values() if free else ())


def branches_turn(data: str, model: str) -> float:
    """Seconds of ten trees with gradients of all branches."""
    return warm(our_evaluation(data, model), time.process_time)()


def threads_turn(data: str, model: str, threads: int) -> float:
    """The same on the clock on the wall, with so many threads."""
    return warm(our_evaluation(data, model, threads=threads))()


def parameters_turn(data: str, model: str) -> float:
    """Seconds of ten trees with gradients of all branches and of all of the model's parameters."""
    return warm(our_evaluation(data, model, free=True), time.process_time)()


def values_turn(data: str, model: str) -> float:
    """Seconds of ten trees without gradients."""
    return warm(_without_gradients(data, model), time.process_time)()


@cache
def _without_gradients(data: str, model: str) -> Task:
    likelihood = TreeLikelihood(alignment_patterns(data), build_model(model)[0], threads=1)
    topologies, lengths = alignment_trees(data)
    constant = lengths.detach()
    return lambda: likelihood(topologies, constant)


@cache
def _new_trees(data: str, model: str) -> tuple[TreeLikelihood, Iterator[int]]:
    return TreeLikelihood(alignment_patterns(data), build_model(model)[0], threads=1), count(1)


def new_trees_turn(data: str, model: str) -> float:
    """Seconds of ten random trees with gradients of all branches, other trees at every turn."""
    likelihood, numbers = _new_trees(data, model)
    topologies, lengths = random_trees(len(likelihood.patterns.taxa), TREES, next(numbers))
    task = Evaluation(lambda: likelihood(topologies, lengths), lengths)
    start = time.process_time()
    task()
    return time.process_time() - start


# Others.


def torchtree_evaluation(data: str, model: str, *, free: bool) -> Evaluation | None:
    """torchtree on the same trees, rooted on taxon 0's branch; None where it is not installed.

    It has no gamma distribution, so it is given our rates. All trees' transition matrices are made in one call,
    which is faster than a call for each tree.
    """
    try:
        from torchtree.core.parameter import Parameter
        from torchtree.evolution.substitution_model import GTR, HKY, JC69
        from torchtree.evolution.tree_likelihood import calculate_treelikelihood_discrete
    except ImportError:
        return None
    substitution, parameters = build_model(model, free=free)
    rates, frequencies = substitution.site_rates, substitution.frequencies
    given = {name: Parameter(None, tensor) for name, tensor in parameters.items()}
    theirs = {
        "JC69": lambda: JC69(None),
        "HKY85": lambda: HKY(None, given["kappa"], given["frequencies"]),
        "GTR+Γ4": lambda: GTR(None, given["exchangeabilities"], given["frequencies"]),
    }[model]()
    patterns, (topologies, lengths) = alignment_patterns(data), alignment_trees(data)
    tips = list(torch.tensor(patterns.tip_partials).transpose(1, 2).contiguous())
    counts, zeros = torch.tensor(patterns.counts), torch.zeros(len(topologies), 1, dtype=torch.float64)
    inner = topologies.root
    orders = [
        [(node, *neighbors[node][1:]) for node in range(len(tips), inner + 1)] + [(inner + 1, 0, inner)]
        for neighbors in topologies.neighbors.tolist()
    ]

    def run() -> Tensor:
        matrices = theirs.p_t(torch.cat([lengths, zeros], dim=1)[..., None] * rates.rates())
        shares = rates.weights()[:, None, None]
        values = []
        for order, of_tree in zip(orders, matrices, strict=True):
            partials = tips + [None] * (inner + 2 - len(tips))
            values.append(
                calculate_treelikelihood_discrete(partials, counts, order, of_tree, frequencies[None], shares)
            )
        return torch.cat(values)

    return Evaluation(run, lengths, *parameters.values() if free else ())


def check_same(name: str, found: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> None:
    """Values to 1e-10 and gradients to 1e-8 of their size, but for what is next to zero."""
    for number, (theirs, ours) in enumerate(zip(found, expected, strict=True)):
        tolerance = 1e-8 if number else 1e-10
        bound = 1e-3 * tolerance * np.abs(ours).max()
        np.testing.assert_allclose(theirs, ours, rtol=tolerance, atol=bound, err_msg=name)


def compare_models(data: str, model: str, others: "Others", seconds: float) -> list[Row]:
    """All programs on one alignment and one model, in turns, after their values are seen to be the same."""
    free = model != "JC69"
    turns: dict[str, Turn] = {"branches": partial(branches_turn, data, model)}
    if free:
        turns["parameters"] = partial(parameters_turn, data, model)
    turns["values"] = partial(values_turn, data, model)
    turns["new trees"] = partial(new_trees_turn, data, model)
    if others.before:
        call = others.before.call
        turns["branches, before"] = partial(call, "branches_turn", data, model)
        if free:
            turns["parameters, before"] = partial(call, "parameters_turn", data, model)
    expected = our_evaluation(data, model).results()
    engine = None
    if others.library:
        topologies, lengths = alignment_trees(data)
        engine = beagle.fastest(
            others.library, alignment_patterns(data), build_model(model)[0], topologies, lengths.detach().numpy()
        )
        others.implementations.add(engine.implementation)
        check_same("BEAGLE", [engine.log_likelihoods()], expected[:1])
        turns["BEAGLE"] = warm(engine.log_likelihoods, time.process_time)
        if engine.has_gradients:
            check_same("BEAGLE's gradients", engine.gradients(), expected)
            turns["BEAGLE, branches"] = warm(engine.gradients, time.process_time)
    for name, with_parameters in (("torchtree, branches", False), ("torchtree, parameters", True)):
        if with_parameters and not free:
            continue
        theirs = torchtree_evaluation(data, model, free=with_parameters)
        if theirs is not None:
            check_same(name, theirs.results(), our_evaluation(data, model, free=with_parameters).results())
            turns[name] = warm(theirs, time.process_time)
    times = best_turns(turns, ROUNDS, seconds)
    if engine is not None:
        engine.close()
    return _model_rows(data, model, times)


def _model_rows(data: str, model: str, times: dict[str, float]) -> list[Row]:
    """A line for each program, ours with its share of BEAGLE's time and others as multiples of ours."""

    def share(what: str, goal: float) -> str:
        if "BEAGLE" not in times:
            return ""
        value = times[what] / times["BEAGLE"]
        aim = f", goal {goal}: {verdict(value <= goal)}" if model == GOALS_FOR else ""
        return f"{value:.2f} of BEAGLE's likelihood{aim}"

    def multiple(what: str, ours: str, goal: float | None = None) -> str:
        value = times[what] / times[ours]
        aim = f", goal {goal}: {verdict(value >= goal)}" if goal and model == GOALS_FOR else ""
        return f"{value:.2f} times ours{aim}"

    notes = {
        "branches": ("phloem, branch gradients", partial(share, goal=BRANCHES_GOAL)),
        "branches, before": ("phloem before, branch gradients", partial(multiple, ours="branches")),
        "parameters": ("phloem, branches and parameters", partial(share, goal=PARAMETERS_GOAL)),
        "parameters, before": ("phloem before, branches and parameters", partial(multiple, ours="parameters")),
        "new trees": ("phloem, branch gradients, new trees", partial(multiple, ours="branches")),
        "values": ("phloem, no gradients", partial(multiple, ours="branches")),
        "BEAGLE": ("BEAGLE, no gradients", partial(multiple, ours="branches")),
        "BEAGLE, branches": ("BEAGLE, branch gradients", partial(multiple, ours="branches", goal=BEAGLE_GOAL)),
        "torchtree, branches": (
            "torchtree, branch gradients",
            partial(multiple, ours="branches", goal=TORCHTREE_BRANCHES_GOAL),
        ),
        "torchtree, parameters": (
            "torchtree, branches and parameters",
            partial(multiple, ours="parameters", goal=TORCHTREE_PARAMETERS_GOAL),
        ),
    }
    return [
        Row(
            f"{model}: {words}",
            times[what],
            GOAL_SECONDS.get((data, model)) if what == "branches" else None,
            note(what),
        )
        for what, (words, note) in notes.items()
        if what in times
    ]


class Others:
    """What phloem is compared with: BEAGLE, torchtree, and an earlier version of phloem."""

    def __init__(self, before: Path | None) -> None:
        self.before = None if before is None else Rival(before, "likelihood")
        self.library = beagle.load()
        self.implementations: set[str] = set()

    def describe(self) -> str:
        """Which phloem this was, and which of the others were there."""
        lines = [f"phloem of {Path(phloem.__file__).parent}."]
        if self.library is None:
            lines.append("BEAGLE is not installed: its rows are left out.")
        else:
            version = self.library.beagleGetVersion().decode()
            lines.append(f"BEAGLE {version}, one thread: {', '.join(sorted(self.implementations)) or 'not used'}.")
            if not hasattr(self.library, "beagleUpdatePrePartials"):
                lines.append("This BEAGLE has no gradients: that row is left out. Version 4 has them.")
        try:
            from torchtree import __version__

            lines.append(f"torchtree {__version__}.")
        except ImportError:
            lines.append("torchtree is not installed: its rows are left out.")
        if self.before is not None:
            lines.append(f"before: phloem of {self.before.sources}.")
        return "\n".join(lines)


def models(others: Others, seconds: float) -> None:
    for data in SIZES:
        rows = [row for model in MODELS for row in compare_models(data, model, others, seconds)]
        patterns = alignment_patterns(data)
        origin = data if "PHLOEM_DATA" in os.environ else f"simulated data of {data}'s size"
        show(f"{origin}: {len(patterns.taxa)} taxa, {len(patterns):,} patterns, {TREES} trees, one core", rows)


def threads(others: Others, seconds: float) -> None:
    rows = []
    for model in ("JC69", "GTR+Γ4"):
        turns: dict[str, Turn] = {str(number): partial(threads_turn, "DS7", model, number) for number in (1, 2)}
        if others.before:
            for number in (1, 2):
                turns[f"{number}, before"] = partial(others.before.call, "threads_turn", "DS7", model, number)
        times = best_turns(turns, ROUNDS, seconds)
        for name, spent in times.items():
            note = ""
            if name.startswith("2"):
                ratio = times[name.replace("2", "1")] / spent
                note = f"{ratio:.2f} times as fast" + (
                    f", goal {THREADS_GOAL}: {verdict(ratio >= THREADS_GOAL)}" if name == "2" else ""
                )
            rows.append(Row(f"{model}, threads: {name}", spent, note=note))
    show(f"Threads: DS7, {TREES} trees, branch gradients", rows)


@cache
def growth_patterns(columns: str, taxa: int, patterns: int) -> SitePatterns:
    return COLUMNS[columns](taxa, patterns)


def growth_case(model: str, columns: str, taxa: int, patterns: int) -> dict[str, float]:
    """Seconds of one tree with branch gradients, seen before (warm) and not (cold), and the most megabytes added.

    A copy of this process measures it, so that its memory tells of this case alone.
    """
    growth_patterns(columns, taxa, patterns)  # before the copy is made
    context = get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_measure, args=(model, columns, taxa, patterns, sender))
    process.start()
    sender.close()
    try:
        found: dict[str, float] = receiver.recv()
    except EOFError:
        sys.exit(f"{model}, {columns} columns, {taxa} taxa, {patterns} patterns: the process has ended.")
    process.join()
    return found


def _measure(model: str, columns: str, taxa: int, patterns: int, sender: Connection) -> None:
    substitution = build_model(model)[0]
    _one_tree(TreeLikelihood(independent_columns(5, 20), substitution, threads=1), 0)()  # code is in memory from here
    before = start_of_peak()
    likelihood = TreeLikelihood(growth_patterns(columns, taxa, patterns), substitution, threads=1)
    cold = _least_seconds(lambda number: _one_tree(likelihood, number), 8)
    task = _one_tree(likelihood, 0)
    seconds = _least_seconds(lambda _: task, 50)
    sender.send({"warm": seconds, "cold": cold, "megabytes": memory("VmHWM") - before})


def _one_tree(likelihood: TreeLikelihood, number: int) -> Evaluation:
    topologies, lengths = random_trees(len(likelihood.patterns.taxa), 1, number)
    return Evaluation(lambda: likelihood(topologies, lengths), lengths)


def _least_seconds(prepare: Callable[[int], Evaluation], rounds: int) -> float:
    """The least time of a prepared task, after at least two and at most so many rounds."""
    seconds: list[float] = []
    while len(seconds) < 2 or (len(seconds) < rounds and sum(seconds) < GROWTH_SECONDS):
        task = prepare(len(seconds))
        start = time.process_time()
        task()
        seconds.append(time.process_time() - start)
    return min(seconds)


def start_of_peak() -> float:
    """Megabytes in use, without what is free but was never given back. Linux counts the peak anew from here."""
    if sys.platform == "linux":
        ctypes.CDLL(None).malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5")
    return memory("VmRSS")


def memory(kind: str) -> float:
    """Megabytes as Linux knows them; not a number elsewhere."""
    if sys.platform != "linux":
        return float("nan")
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(kind))
    return float(line.split()[1]) / 1024


def growth(others: Others, _seconds: float, sizes: Sequence[tuple[int, int]] = GROWTH_SIZES) -> None:
    headings = ["taxa", "patterns", "warm ms", "ns", "cold ms", "ns ", "MB"]
    if others.before:
        headings += ["before: warm", "cold", "MB "]
    for model in ("JC69", "GTR+Γ4"):
        for columns in COLUMNS:
            lines = []
            for taxa, patterns in sizes:
                case = (model, columns, taxa, patterns)
                found = growth_case(*case)
                line = [f"{taxa:,}", f"{patterns:,}"]
                for kind in ("warm", "cold"):
                    line += [milliseconds(found[kind]), f"{1e9 * found[kind] / taxa / patterns:.2f}"]
                line.append(f"{found['megabytes']:.0f}")
                if others.before:
                    before = others.before.call("growth_case", *case)
                    line += [f"{before[kind] / found[kind]:.2f} times" for kind in ("warm", "cold")]
                    line.append(f"{before['megabytes']:.0f}")
                lines.append(tuple(line))
            show_table(
                f"Growth: {model}, {columns} columns, one tree with branch gradients; ns a taxon and pattern",
                dict.fromkeys(headings, "right"),
                lines,
            )


PARTS: dict[str, Callable[[Others, float], None]] = {
    "models": models,
    "threads": threads,
    "growth": growth,
    "large": partial(growth, sizes=LARGE_SIZES),
}
DEFAULT_PARTS = ("models", "threads", "growth")  # in less than three minutes

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="part", help=f"{', '.join(PARTS)}; all but large if none is named")
    parser.add_argument("--against", type=Path, metavar="PATH", help="folder of sources of another version of phloem")
    parser.add_argument("--seconds", type=float, default=1.5, help="for each of the things that take turns [1.5]")
    options = parser.parse_args()
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"no such part: {', '.join(unknown)}. There are {', '.join(PARTS)}.")
    torch.set_num_threads(1)
    rivals = Others(options.against)
    for part in options.parts or DEFAULT_PARTS:
        PARTS[part](rivals, options.seconds)
    print(rivals.describe())
