"""Ranks find what one process finds: gradients add up; draws, annealed trees and chains are the same."""

import dataclasses

import numpy as np
import pytest
import torch

from phloem.inference.annealing import AnnealingPath, anneal
from phloem.inference.chains import ChainStarts, ChainTrees, run_chains
from phloem.inference.draws import DrawCollector
from phloem.inference.evaluation import draw_log_weights
from phloem.inference.sharing import share_parameters, take_parameters
from phloem.inference.training import Training
from phloem.random_streams import RandomStream
from phloem.runs.ranks import ALONE, Parcel, Ranks
from phloem.trees.generation import random_topologies
from phloem.variational.families import Warped
from support.known_posteriors import known
from support.ranks import AllOfMany, OneOfMany
from support.small_posteriors import PLAIN, TAXA, evolved, example
from support.weighted_priors import INFERRED, target_of

STREAM = RandomStream(5, "shared")


def columns(draws: DrawCollector, taxa: tuple[str, ...]) -> dict[str, np.ndarray]:
    found = draws.draws(taxa)
    parts = {name: getattr(found, name) for name in ("group", "branch_lengths", "log_joint", "log_q_topology", "theta")}
    return {**parts, "parent": found.topologies.parent, "log_weights": found.log_weights}


def assert_equal(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> None:
    for name, array in one.items():
        np.testing.assert_allclose(other[name], array, rtol=1e-10, err_msg=name)


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("estimator", ["vimco", "rws"])
@pytest.mark.parametrize("doubly", [False, True])
@pytest.mark.parametrize("branches", ["split", "edge"])
@pytest.mark.parametrize("held", [False, True])
def test_the_gradients_of_all_ranks_add_up_to_those_of_one_process(held, branches, doubly, estimator, size):
    model, target = example(branches)
    config = dataclasses.replace(PLAIN, particles=5, doubly_reparameterized=doubly, estimator=estimator)

    def gradients(ranks: Ranks) -> tuple[float, torch.Tensor]:
        training = Training(model, target, config, seed=5, held=held)
        training.ranks = ranks
        bound = training.gradients(7, 0.3)
        return bound, torch.cat([one.grad.flatten() for one in model.parameters() if one.grad is not None])

    seen = []

    class Seeing(Ranks):
        def gathered(self, own, _count):
            seen.append(own)
            return own

    bound, whole = gradients(Seeing())
    parts = [gradients(OneOfMany(rank, size, seen)) for rank in range(size)]
    assert [part[0] for part in parts] == [bound] * size
    torch.testing.assert_close(sum(part[1] for part in parts), whole, rtol=1e-9, atol=1e-10)
    assert not torch.allclose(parts[0][1], whole)


def test_draws_are_those_of_one_process():
    model, target = example("edge")
    found = []
    for ranks, parts in ((ALONE, 0), (AllOfMany(3), 3)):
        kept = DrawCollector()
        log_weights = draw_log_weights(model, target, 10, stream=STREAM, keep=kept, ranks=ranks)
        found.append({**columns(kept, TAXA), "in_order": log_weights})
        assert getattr(ranks, "parts", 0) == parts
    assert_equal(*found)


def test_annealed_trees_are_those_of_one_process(monkeypatch):
    monkeypatch.setattr("phloem.inference.annealing.CHUNK_NODES", 100)
    model, target = known(5, Warped)
    path = AnnealingPath.even(4, angle=0.5, interchanges=1)
    found = []
    for ranks in (ALONE, AllOfMany(2)):
        kept = DrawCollector()
        log_weights = anneal(model, target, path, 30, stream=STREAM, keep=kept, ranks=ranks)
        found.append({**columns(kept, target.likelihood.patterns.taxa), "in_order": log_weights})
    assert ranks.parts == 3
    assert_equal(*found)


@pytest.mark.parametrize("name", ["JC", INFERRED])
def test_chains_are_those_of_one_process(name):
    target = target_of(evolved(6, 30, seed=2), name)
    topologies = random_topologies(6, 7, stream=STREAM)
    random = np.random.default_rng(1)
    theta, factor = random.standard_normal((7, target.dimension)), 0.1 * np.eye(target.dimension)
    starts = ChainStarts(topologies, np.full((7, topologies.branch_count), 0.05), 7, theta, factor)

    def run(ranks: Ranks) -> ChainTrees:
        return run_chains(target, TAXA, starts, 20, stream=STREAM, ranks=ranks)

    one, many = run(ALONE), run(AllOfMany(3))
    for column in ("branch_lengths", "log_joint", "theta"):
        np.testing.assert_allclose(getattr(many, column), getattr(one, column), rtol=1e-10)
    np.testing.assert_array_equal(many.topologies.parent, one.topologies.parent)
    counts = [
        (chains.interchanges, chains.regrafts, chains.rounds, chains.every, chains.starts) for chains in (one, many)
    ]
    assert counts[0] == counts[1]
    assert (one.theta[-1] != theta[-1]).all()


def test_parameters_are_those_of_rank_0():
    model, _ = example("split")
    other, _ = example("split")
    told = []

    class Telling(Ranks):
        size = 2

        def tell(self, name, parcel=None):
            told.append((name, parcel))

    share_parameters(model, ALONE)
    with torch.no_grad():
        model.network.logits += 1.0
        model.branches.table += 2.0
    share_parameters(model, Telling())
    ((_, parcel),) = told
    other.network.hold()
    take_parameters(other, Parcel(arrays={name: array.copy() for name, array in parcel.arrays.items()}))
    assert torch.equal(other.network.logits, model.network.logits)
    assert torch.equal(other.branches.table, model.branches.table)
    trees = model.network.sample(5, stream=STREAM)
    assert torch.equal(other.network.log_prob(trees), model.network.log_prob(trees))
