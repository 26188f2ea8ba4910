"""How fast are likelihoods with all gradients, against plain PyTorch, torchtree and BEAGLE? Do they grow linearly?"""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

import beagle
from phloem import RandomStream
from phloem.data import Alignment, SitePatterns, compress, read_alignment
from phloem.models import SiteRates, TreeLikelihood, gtr, hky85
from phloem.trees import TopologyBatch, random_topologies
from timing import Row, best_times, show

TREES = 10
FREQUENCIES = [0.3, 0.2, 0.2, 0.3]


def simulated(taxa: int, sites: int) -> SitePatterns:
    """Independent random columns, all different in effect: as many patterns as sites."""
    random = np.random.default_rng(1)
    rows = ["".join(random.choice(list("ACGT"), sites)) for _ in range(taxa)]
    return compress(Alignment.from_sequences([f"t{number}" for number in range(taxa)], rows))


def benchmark_patterns(name: str, taxa: int, sites: int) -> SitePatterns:
    data = os.environ.get("PHLOEM_DATA")
    return compress(read_alignment(Path(data, "alignments", f"{name}.fasta"))) if data else simulated(taxa, sites)


def random_trees(taxa: int, trees: int = TREES) -> tuple[TopologyBatch, Tensor]:
    topologies = random_topologies(taxa, trees, stream=RandomStream(1, "benchmark"))
    lengths = np.random.default_rng(1).exponential(0.1, (trees, topologies.branch_count))
    return topologies, torch.tensor(lengths, requires_grad=True)


def with_gradient(likelihood: Callable[[], Tensor], lengths: Tensor) -> Callable[[], object]:
    def run() -> object:
        lengths.grad = None
        value = likelihood()
        value.sum().backward()
        return value

    return run


def jukes_cantor_matrices(lengths: Tensor) -> Tensor:
    stay = torch.exp(-4 / 3 * lengths)[..., None, None]
    return (1 - stay) / 4 + stay * torch.eye(4, dtype=lengths.dtype)


def plain_torch(topologies: TopologyBatch, lengths: Tensor, patterns: SitePatterns) -> Tensor:
    """Felsenstein's pruning as one would write it in PyTorch: a loop over nodes, gradients by autograd."""
    tips = torch.tensor(patterns.tip_partials)
    counts = torch.tensor(patterns.counts)
    matrices = jukes_cantor_matrices(lengths)
    values = []
    for tree, neighbors in enumerate(topologies.neighbors.tolist()):
        messages: list[Tensor] = [tips[leaf] @ matrices[tree, leaf].T for leaf in range(topologies.taxon_count)]
        for node in range(topologies.taxon_count, topologies.root):
            _, left, right = neighbors[node]
            messages.append((messages[left] * messages[right]) @ matrices[tree, node].T)
        first, left, right = neighbors[topologies.root]
        values.append((torch.log((messages[first] * messages[left] * messages[right]).mean(-1)) * counts).sum())
    return torch.stack(values)


def torchtree_likelihood(
    topologies: TopologyBatch, lengths: Tensor, patterns: SitePatterns
) -> Callable[[], Tensor] | None:
    """torchtree's pruning function on the same trees, rooted on taxon 0's branch; None where it is not installed."""
    try:
        from torchtree.evolution.tree_likelihood import calculate_treelikelihood_discrete
    except ImportError:
        return None
    tips = list(torch.tensor(patterns.tip_partials).transpose(1, 2).contiguous())
    counts, frequencies = torch.tensor(patterns.counts), torch.full((1, 4), 0.25, dtype=torch.float64)
    whole = torch.ones(1, 1, 1, dtype=torch.float64)
    inner = topologies.root
    orders = [
        [(node, *neighbors[node][1:]) for node in range(topologies.taxon_count, inner + 1)] + [(inner + 1, 0, inner)]
        for neighbors in topologies.neighbors.tolist()
    ]

    def run() -> Tensor:
        values = []
        for order, row in zip(orders, lengths, strict=True):
            matrices = jukes_cantor_matrices(torch.cat([row, torch.zeros(1, dtype=row.dtype)]))[:, None]
            partials = tips + [None] * (inner + 2 - len(tips))
            values.append(calculate_treelikelihood_discrete(partials, counts, order, matrices, frequencies, whole))
        return torch.stack(values).ravel()

    return run


def against_others() -> list[Row]:
    patterns = benchmark_patterns("DS1", 27, 934)
    topologies, lengths = random_trees(27)
    ours = TreeLikelihood(patterns, threads=1)
    single = TreeLikelihood(patterns, threads=1, precision=np.float32)
    tasks: dict[str, Callable[[], object]] = {
        "phloem, all gradients": with_gradient(lambda: ours(topologies, lengths), lengths),
        "phloem, all gradients, float32": with_gradient(lambda: single(topologies, lengths), lengths),
        "phloem, no gradients": lambda: ours(topologies, lengths.detach()),
        "PyTorch autograd, all gradients": with_gradient(lambda: plain_torch(topologies, lengths, patterns), lengths),
    }
    expected = ours(topologies, lengths).detach().numpy()
    other = torchtree_likelihood(topologies, lengths, patterns)
    if other is not None:
        np.testing.assert_allclose(other().detach().numpy(), expected, rtol=1e-9)
        tasks["torchtree autograd, all gradients"] = with_gradient(other, lengths)
    library = beagle.load()
    if library is not None:
        engine = beagle.Beagle(library, patterns)
        prepared = beagle.prepare(topologies, lengths.detach().numpy())
        unambiguous = np.isin(patterns.states, [1, 2, 4, 8, 15]).all()
        if unambiguous:
            np.testing.assert_allclose(engine.log_likelihoods(topologies, *prepared), expected, rtol=1e-9)
        tasks["BEAGLE, no gradients"] = lambda: engine.log_likelihoods(topologies, *prepared)
    seconds = best_times(tasks, 150)
    base = seconds["phloem, all gradients"]
    goals = {
        "torchtree autograd, all gradients": "goal: 30 times or more",
        "BEAGLE, no gradients": "goal: 0.67 or more",
    }
    return [
        Row(name, spent, note=f"{spent / base:.2f} times ours {goals.get(name, '')}") for name, spent in seconds.items()
    ]


def other_models() -> list[Row]:
    patterns = benchmark_patterns("DS1", 27, 934)
    topologies, lengths = random_trees(27)
    gamma = SiteRates(torch.tensor(0.5, dtype=torch.float64), 4)
    models = {"HKY85": hky85(2.0, FREQUENCIES), "GTR+Γ4": gtr([1.0, 2.0, 1.0, 1.0, 2.0, 1.0], FREQUENCIES, gamma)}
    tasks = {}
    for name, model in models.items():
        likelihood = TreeLikelihood(patterns, model, threads=1)
        tasks[name] = with_gradient(lambda likelihood=likelihood: likelihood(topologies, lengths), lengths)
    return [Row(f"phloem, {name}, all gradients", spent) for name, spent in best_times(tasks, 20).items()]


def threads() -> list[Row]:
    patterns = benchmark_patterns("DS7", 59, 1037)
    topologies, lengths = random_trees(59)
    tasks = {}
    for count in (1, 2):
        likelihood = TreeLikelihood(patterns, threads=count)
        tasks[count] = with_gradient(lambda likelihood=likelihood: likelihood(topologies, lengths), lengths)
    seconds = best_times(tasks, 100)
    ratio = seconds[1] / seconds[2]
    return [
        Row("59 taxa (DS7), 1 thread", seconds[1]),
        Row("59 taxa (DS7), 2 threads", seconds[2], note=f"{ratio:.2f} times as fast (goal: 1.5)"),
    ]


def growth() -> list[Row]:
    rows = []
    for taxa, sites in ((10, 1000), (30, 1000), (100, 1000), (300, 1000), (1000, 1000), (100, 4000), (100, 16000)):
        likelihood = TreeLikelihood(simulated(taxa, sites), threads=1)
        topologies, lengths = random_trees(taxa, 1)
        task = with_gradient(
            lambda topologies=topologies, lengths=lengths, likelihood=likelihood: likelihood(topologies, lengths),
            lengths,
        )
        seconds = best_times({"ours": task}, 10)["ours"]
        count = len(likelihood.patterns)
        note = f"{1e9 * seconds / taxa / count:.2f} ns a taxon and pattern"
        rows.append(Row(f"1 tree of {taxa:,} taxa, {count:,} patterns", seconds, note=note))
    return rows


if __name__ == "__main__":
    torch.set_num_threads(1)
    data = "DS1" if os.environ.get("PHLOEM_DATA") else "simulated data of DS1's size"
    show(f"Likelihood of {TREES} trees, JC69, {data}, one core", against_others() + other_models())
    show("Threads", threads())
    show("Growth", growth())
