"""What is remembered from call to call, and how patterns are cut into blocks, shows in no result."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from phloem.data.alignment import Alignment
from phloem.data.patterns import compress
from phloem.random_streams import RandomStream
from phloem.target import pruning
from phloem.target.likelihood import TreeLikelihood
from phloem.target.substitution import SiteRates, SubstitutionModel, gtr, jc69
from phloem.trees.generation import random_topologies
from phloem.trees.topology import TopologyBatch

MODELS = {"JC69": jc69(), "GTR+G": gtr([1.0, 2.0, 1.5, 0.5, 3.0, 1.0], [0.4, 0.1, 0.2, 0.3], SiteRates(0.5, 4))}


def random_alignment(taxa: int, sites: int) -> Alignment:
    random = np.random.default_rng(1)
    rows = ["".join(random.choice(list("AAACGTN-"), sites)) for _ in range(taxa)]
    return Alignment.from_sequences([f"t{number}" for number in range(taxa)], rows)


def trees(taxa: int, count: int, seed: int = 1) -> tuple[TopologyBatch, torch.Tensor]:
    topologies = random_topologies(taxa, count, stream=RandomStream(seed, "x"))
    return topologies, torch.tensor(np.random.default_rng(seed).exponential(0.1, (count, topologies.branch_count)))


def results(likelihood: TreeLikelihood, topologies: TopologyBatch, lengths: torch.Tensor) -> tuple[np.ndarray, ...]:
    lengths = lengths.clone().requires_grad_()
    values = likelihood(topologies, lengths)
    values.sum().backward()
    return values.detach().numpy(), lengths.grad.numpy()


def as_bytes(arrays: tuple[np.ndarray, ...]) -> list[bytes]:
    return [array.tobytes() for array in arrays]


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_what_was_met_before_does_not_show(model: SubstitutionModel):
    patterns = compress(random_alignment(14, 200))
    topologies, lengths = trees(14, 12)
    fresh = results(TreeLikelihood(patterns, model), topologies, lengths)
    used = TreeLikelihood(patterns, model)
    for seed in range(2, 6):
        results(used, *trees(14, 30, seed))
    assert as_bytes(results(used, topologies, lengths)) == as_bytes(fresh)
    assert as_bytes(results(used, topologies, lengths)) == as_bytes(fresh)
    one_by_one = [results(used, topologies[tree], lengths[tree : tree + 1]) for tree in range(12)]
    assert as_bytes(tuple(map(np.concatenate, zip(*one_by_one, strict=True)))) == as_bytes(fresh)


@pytest.mark.parametrize("most", [1, 100_000])
def test_little_memory_changes_nothing(most, monkeypatch):
    patterns = compress(random_alignment(14, 200))
    topologies, lengths = trees(14, 40)
    expected = results(TreeLikelihood(patterns), topologies, lengths)
    monkeypatch.setattr(pruning, "MOST_BYTES", most)
    likelihood = TreeLikelihood(patterns)
    for _ in range(2):
        assert as_bytes(results(likelihood, topologies, lengths)) == as_bytes(expected)


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_blocks_change_only_the_order_of_sums(model: SubstitutionModel, monkeypatch):
    patterns = compress(random_alignment(9, 700))
    topologies, lengths = trees(9, 3)
    whole = results(TreeLikelihood(patterns, model), topologies, lengths)
    monkeypatch.setattr(pruning, "MOST_PATTERNS", 100)
    monkeypatch.setattr(pruning, "LEAST_PATTERNS", 100)
    for threads in (1, 2, 5):
        parts = results(TreeLikelihood(patterns, model, threads=threads), topologies, lengths)
        for part, expected in zip(parts, whole, strict=True):
            np.testing.assert_allclose(part, expected, rtol=1e-12, atol=1e-9)
        assert as_bytes(parts) == as_bytes(results(TreeLikelihood(patterns, model, threads=3), topologies, lengths))


def test_blocks_are_smaller_for_many_taxa():
    def sizes(taxa: int, sites: int) -> np.ndarray:
        return np.diff(pruning.ColumnClasses(compress(random_alignment(taxa, sites))).columns.bounds)

    assert sizes(5, 300).tolist() == [len(compress(random_alignment(5, 300)))]
    assert sizes(600, 1000).max() <= pruning.MOST_CELLS // 600
    assert sizes(30, 5000).max() <= pruning.MOST_PATTERNS


def test_threads_may_share_a_likelihood():
    likelihood = TreeLikelihood(compress(random_alignment(14, 100)), threads=2)
    batches = [trees(14, 6, seed) for seed in range(30)]
    expected = [as_bytes(results(TreeLikelihood(likelihood.patterns), *batch)) for batch in batches]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda batch: as_bytes(results(likelihood, *batch)), batches))
    assert found == expected
