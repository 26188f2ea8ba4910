"""Contents of a report without a run: trees around a random one, with lengths and weights."""

from dataclasses import replace
from typing import Any

import numpy as np

from phloem.data.patterns import AlignmentSummary
from phloem.inference.evaluation import Estimated, Evaluation
from phloem.inference.parameter_estimates import ParameterEstimate
from phloem.inference.summary import CredibleSet
from phloem.inference.training import Report
from phloem.inference.trust import Finding, Trust
from phloem.random_streams import RandomStream
from phloem.report.contents import ReportContents
from phloem.target.free_parameters import FREQUENCY_NAMES, RATE_NAMES
from phloem.trees.branch_lengths import split_lengths
from phloem.trees.consensus import majority_rule, summary_tree
from phloem.trees.generation import nni_neighbors, random_topologies
from phloem.trees.sample import GroupedTrees, TreeSample
from phloem.trees.splits import split_frequencies
from phloem.trees.topology import TopologyBatch

TRUST = Trust(
    "usable",
    (
        Finding("Pareto k̂", "0.43", "good", "The weights are even enough."),
        Finding("Agreement of runs", "0.021", "usable", "The runs nearly agree."),
    ),
    "Train longer.",
)
PROVENANCE = {
    "alignment": {"source": "primates.fasta", "sha256": "0123abcd"},
    "trees": [],
    "seed": 7,
    "versions": {"python": "3.11.7", "phloem": "0.1.0"},
    "system": "Linux",
    "sessions": [{"began": "2026-01-02T03:04:05+00:00", "command": "phloem infer primates.fasta"}],
}


def made_up_trees(taxa: tuple[str, ...], *, distinct: int = 12, draws: int = 300, seed: int = 1) -> GroupedTrees:
    """Weighted trees: half of them have one topology, the others are a few interchanges away."""
    random = np.random.default_rng(seed)
    batch = random_topologies(len(taxa), 1, stream=RandomStream(seed, "made-up trees"))
    while len(batch) < distinct:
        neighbors = nni_neighbors(batch[int(random.integers(len(batch)))])
        batch = TopologyBatch.concatenate([batch, neighbors[int(random.integers(len(neighbors)))]])
    which = np.where(random.random(draws) < 0.5, 0, random.integers(0, len(batch), draws))
    lengths = random.gamma(1.5, 0.04, batch.branch_count) * random.lognormal(0, 0.2, (draws, batch.branch_count))
    return GroupedTrees.from_sample(TreeSample(taxa, batch[which], random.random(draws), lengths))


def made_up_contents(taxa: tuple[str, ...] | int, trees: GroupedTrees | None = None, **changes: Any) -> ReportContents:
    """A report on names, or on so many taxa."""
    if isinstance(taxa, int):
        taxa = tuple(f"Taxon_{number:03}" for number in range(taxa))
    trees = trees or made_up_trees(taxa)
    topologies = trees.topology_sample()
    splits = split_lengths(trees)
    cumulative = np.cumsum(topologies.weights)
    picked = np.random.default_rng(2).choice(len(trees), 60, p=trees.weights)
    contents = ReportContents(
        title="primates",
        alignment=AlignmentSummary(len(taxa), 898, 413, 0.003, 377, 0, (), ()),
        model="JC69",
        priors={"topologies": "all alike", "branch lengths": "exponential with rate 10"},
        parameters=(),
        parameter_values={},
        branches="edge",
        family="warped",
        runs=1,
        steps_done=40_000,
        steps=40_000,
        is_finished=True,
        evaluation=Evaluation(Estimated(-6489.53, 0.046), Estimated(-6489.16, 0.026), Estimated(-6489.11, 0.053)),
        samples=1000,
        repeats=100,
        likelihood_error=0.0053,
        annealed=None,
        check=None,
        particles=10,
        trust=TRUST,
        consensus=summary_tree(majority_rule(split_frequencies(topologies)), splits),
        threshold=0.5,
        topologies=topologies,
        topology_errors=trees.topology_errors()[np.argsort(-trees.topology_weights(), kind="stable")],
        credible=[
            CredibleSet(share, int(np.searchsorted(cumulative, share - 1e-9)) + 1) for share in (0.5, 0.9, 0.95, 0.99)
        ],
        splits=splits,
        trees=trees,
        cloud=trees.select(picked.astype(np.int32)),
        histories=[made_up_history()],
        provenance=PROVENANCE,
    )
    return replace(contents, **changes)


def with_parameters(contents: ReportContents) -> ReportContents:
    """The same where all parameters of GTR+G4 are inferred."""
    random, names = np.random.default_rng(3), (*RATE_NAMES, *FREQUENCY_NAMES, "alpha")
    values = {name: random.gamma(20.0, 0.01, len(contents.trees)) for name in names}
    estimates = [ParameterEstimate(name, 0.2, 0.04, 0.19, 0.12, 0.28, -0.5) for name in names]
    return replace(contents, parameters=estimates, parameter_values=values)


def made_up_history(offset: float = 0.0) -> list[Report]:
    """A training that is tempered for its first half."""
    return [
        Report(step, step / 10, min(1.0, step / 20_000), -6489.2 * min(1.0, step / 20_000) + offset, -6489.5, 9, 0)
        for step in range(400, 40_001, 400)
    ]
