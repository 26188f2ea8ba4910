"""Training that leaves most tables for later, against one that moves all of them at every step."""

import copy
import math

import numpy as np
import pytest
import torch

from phloem.errors import BadArgument
from phloem.inference.training import Adam
from phloem.kernels.variational.step_tables import MEMORY
from phloem.random_streams import RandomStream
from phloem.trees.generation import random_topologies
from phloem.trees.sample import TreeSample
from phloem.variational.sbn import SubsplitNetwork, SubsplitSupport, closed_support, support_of
from phloem.variational.training import TableAdam

TREES = random_topologies(12, 40, stream=RandomStream(4, "trees"))
TAXA = tuple(f"t{number}" for number in range(12))
PAIRS = support_of(TAXA, TREES)
CLOSED = closed_support(TreeSample(TAXA, TREES, np.ones(len(TREES)), None))


def network_on(support: SubsplitSupport, seed: int = 1) -> SubsplitNetwork:
    logits = np.random.default_rng(seed).normal(0, 1.5, support.parameter_count)
    return SubsplitNetwork(support, torch.from_numpy(logits))


def rate_at(step: int) -> float:
    """Stairs and a cosine, and two steps at which nothing moves."""
    return 0.0 if step in (50, 51) else 0.03 * 0.7 ** (step // 90) * (1 + math.cos(math.pi * step / 700)) / 2


def weights_at(step: int, count: int) -> torch.Tensor:
    weights = np.random.default_rng(step).normal(size=count) * 10.0 ** (step % 5 - 3)
    if step % 97 == 13:
        weights[0] = math.nan
    return torch.from_numpy(weights)


def lazy_step(network: SubsplitNetwork, adam: TableAdam, step: int, count: int) -> tuple[torch.Tensor, bool]:
    _, scores, _ = network.sample_scored(count, stream=RandomStream(7, "steps", step))
    log_prob = scores.values()
    scores.backward(weights_at(step, count))
    return log_prob, adam.step(rate_at(step))


def dense_step(network: SubsplitNetwork, adam: Adam, step: int, count: int) -> tuple[torch.Tensor, bool]:
    adam.clear_gradients()
    log_prob = network.draw(count, stream=RandomStream(7, "steps", step)).log_prob
    log_prob.backward(weights_at(step, count))
    return log_prob.detach(), adam.step(rate_at(step))


@pytest.mark.parametrize("support", [PAIRS, CLOSED], ids=["pairs", "closed"])
@pytest.mark.parametrize("count", [1, 10])
def test_hundreds_of_steps_are_those_of_an_adam_that_moves_all_tables(support, count):
    network, twin = network_on(support), network_on(support)
    adam, dense = TableAdam(network), Adam(twin.parameters())
    longest = 0
    for step in range(1, 701):
        found, moved = lazy_step(network, adam, step, count)
        expected, expected_moved = dense_step(twin, dense, step, count)
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
        assert moved == expected_moved == (step % 97 != 13)
        longest = max(longest, int((adam.state()["step_counts"] - adam.state()["table_steps"]).max()))
    assert 10 < longest <= MEMORY
    torch.testing.assert_close(network.logits, twin.logits, rtol=1e-12, atol=1e-12)
    for name in ("mean", "square"):
        np.testing.assert_allclose(adam.state()[name], dense.state()[name], rtol=1e-11, atol=1e-300)
    assert adam.state()["step_counts"] == dense.state()["step_counts"]
    assert not torch.equal(network.logits, network_on(support).logits)


@pytest.mark.parametrize("last", [0, 1, 2, 15, 16, 100, 319, 2500, 100_000])
@pytest.mark.parametrize("missed", [1, 2, 30, MEMORY - 1, MEMORY])
def test_missed_steps_are_those_of_a_loop(last, missed):
    """Moments of all sizes, far below Adam's ε and far above it."""
    network = network_on(CLOSED)
    adam = TableAdam(network)
    state = adam.state()
    random = np.random.default_rng(missed)
    size = 10.0 ** random.uniform(-14, 3, len(state["mean"]))
    state["mean"][:], state["square"][:] = size * random.normal(size=len(size)), size**2
    state["table_steps"][:], state["step_counts"][:] = last, last + missed
    logits, mean, square = network._parameters["logits"].detach().numpy().copy(), state["mean"] + 0, state["square"] + 0
    for step in range(last + 1, last + missed + 1):
        rate = 0.03 / (1 + step / 1000)
        scale, root = rate / (1 - 0.9**step), 1 / math.sqrt(1 - 0.999**step)
        state["recent"][step % MEMORY] = scale, root
        mean, square = 0.9 * mean, 0.999 * square
        logits -= scale * mean / (root * np.sqrt(square) + 1e-8)
    network.catch_up()
    np.testing.assert_allclose(network.logits.detach().numpy(), logits, rtol=0, atol=1e-13)
    np.testing.assert_allclose(state["mean"], mean, rtol=1e-11, atol=1e-300)
    np.testing.assert_allclose(state["square"], square, rtol=1e-11)


def some_steps(network: SubsplitNetwork, adam: TableAdam, first: int, end: int) -> None:
    for step in range(first, end):
        lazy_step(network, adam, step, 2)


READS = {
    "logits": lambda network: network.logits.detach(),
    "tables": lambda network: torch.from_numpy(network.tables().probabilities),
    "log_prob": lambda network: network.log_prob(TREES).detach(),
    "draw": lambda network: network.draw(30, stream=RandomStream(2, "draw")).log_prob.detach(),
    "state_dict": lambda network: network.state_dict()["logits"],
    "hold": lambda network: torch.from_numpy((network.hold(), network.tables().log_probabilities)[1]),
    "copy": lambda network: copy.deepcopy(network).logits.detach(),
    "another trainer": lambda network: (TableAdam(network), network._parameters["logits"])[1].detach(),
}


@pytest.mark.parametrize("read", READS.values(), ids=READS.keys())
def test_whoever_reads_a_network_in_training_finds_it_up_to_date(read):
    network, twin = network_on(CLOSED), network_on(CLOSED)
    adam, dense = TableAdam(network), Adam(twin.parameters())
    some_steps(network, adam, 1, 40)
    for step in range(1, 40):
        dense_step(twin, dense, step, 2)
    behind = network._parameters["logits"].detach()
    assert (adam.state()["table_steps"] < adam.state()["step_counts"]).any()
    assert not torch.allclose(behind, twin.logits, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(read(network), read(twin), rtol=1e-12, atol=1e-12)


def test_a_step_writes_to_the_tables_that_its_trees_use_and_to_no_others():
    network = network_on(CLOSED)
    adam = TableAdam(network)
    before = network.logits.detach().clone()
    _, scores, indices = network.sample_scored(2, stream=RandomStream(1, "draw"))
    scores.backward(torch.ones(2, dtype=torch.float64))
    adam.step(0.1)
    used = np.concatenate([indices.splits.ravel(), indices.entries.ravel()])
    starts = CLOSED.free_starts
    tables = np.unique(np.searchsorted(starts, used[(used >= 0) & (used < starts[-1])], side="right") - 1)
    assert len(tables) < CLOSED.free_tables / 2
    moved = np.add.reduceat(network._parameters["logits"].detach().numpy() != before.numpy(), starts[:-1]) > 0
    assert set(np.flatnonzero(moved)) <= set(tables)
    assert set(np.flatnonzero(adam.state()["table_steps"])) == set(tables)


def whole_state(network: SubsplitNetwork, adam: TableAdam) -> dict[str, np.ndarray]:
    return {"logits": network._parameters["logits"].detach().numpy(), **adam.state()}


@pytest.mark.parametrize("saved_at", [1, 30, 315, 321, 330])
def test_what_continues_from_a_state_is_the_same_to_the_last_bit(saved_at):
    """Though tables are behind in it, and whatever the training that continues had done before."""
    network, other_network = network_on(CLOSED), network_on(CLOSED, seed=2)
    adam, other = TableAdam(network), TableAdam(other_network)
    for step in range(1, saved_at):
        lazy_step(other_network, other, step + 7, 2)  # at other rates
    other_network.catch_up()
    some_steps(network, adam, 1, saved_at)
    saved = {name: array.copy() for name, array in whole_state(network, adam).items()}
    some_steps(network, adam, saved_at, 360)
    for name, array in whole_state(other_network, other).items():
        array[...] = saved[name]
    some_steps(other_network, other, saved_at, 360)
    unsaved_network = network_on(CLOSED)
    unsaved = TableAdam(unsaved_network)
    some_steps(unsaved_network, unsaved, 1, 360)
    for name, array in whole_state(unsaved_network, unsaved).items():
        assert np.array_equal(array, whole_state(network, adam)[name]), name
        assert np.array_equal(array, whole_state(other_network, other)[name]), name
    assert torch.equal(network.logits, other_network.logits)


def test_a_copy_trains_on_its_own_memory():
    network = network_on(CLOSED)
    adam = TableAdam(network)
    some_steps(network, adam, 1, 20)
    other_network, other = copy.deepcopy((network, adam))
    some_steps(other_network, other, 20, 40)
    kept = network._parameters["logits"].detach().clone()
    some_steps(network, adam, 20, 40)
    assert torch.equal(network.logits, other_network.logits)
    assert not torch.equal(network.logits, kept)


def test_impossible_entries_stay_impossible_and_a_table_of_them_is_uniform():
    starts = CLOSED.free_starts
    networks = network_on(CLOSED), network_on(CLOSED)
    for network in networks:
        with torch.no_grad():
            network.logits[1] = -torch.inf
            network.logits[starts[1] : starts[2]] = -torch.inf
    network, twin = networks
    TableAdam(network)
    stream = RandomStream(3, "draw")
    topologies, scores, indices = network.sample_scored(2000, stream=stream)
    expected = twin.draw(2000, stream=stream)
    assert np.array_equal(topologies.parent, expected.topologies.parent)
    torch.testing.assert_close(scores.values(), expected.log_prob.detach(), rtol=1e-12, atol=1e-12)
    assert ((indices.entries >= starts[1]) & (indices.entries < starts[2])).any()


def test_scores_are_those_of_the_last_draw():
    network = network_on(CLOSED)
    adam = TableAdam(network)
    _, scores, _ = network.sample_scored(2, stream=RandomStream(1, "draw"))
    scores.values()
    network.sample_scored(2, stream=RandomStream(2, "draw"))
    with pytest.raises(BadArgument, match="other topologies were drawn since"):
        scores.backward(torch.ones(2, dtype=torch.float64))
    assert adam.step(0.1)  # there is no gradient
    assert torch.equal(network.logits, network_on(CLOSED).logits)


def test_logits_that_are_not_contiguous_are_refused():
    logits = torch.zeros(2 * CLOSED.parameter_count, dtype=torch.float64)[::2]
    with pytest.raises(BadArgument, match="not contiguous"):
        TableAdam(SubsplitNetwork(CLOSED, logits))


def test_torch_sees_that_logits_have_changed():
    network = network_on(CLOSED)
    adam = TableAdam(network)
    value = (network.logits**2).sum()
    lazy_step(network, adam, 1, 2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        value.backward()
