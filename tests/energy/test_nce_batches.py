"""The trees of a step against a slow count of what was drawn."""

from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from phloem.energy.model import EnergyModel
from phloem.energy.nce import Batch, Batches, contrast
from phloem.energy.noise import ListedNoise, Noise, NoiseDraw, SubsplitNoise, UniformNoise
from phloem.errors import BadArgument
from phloem.random_streams import RandomStream
from phloem.trees.generation import all_topologies, random_topologies
from phloem.trees.sample import TreeSample
from phloem.trees.topology import TopologyBatch
from phloem.variational.fitting import fit_network
from support.nce_draws import drawn_by
from support.small_densities import NAMES, fit_of, sample_of, target


class Unlisted(Noise):
    """The draws of a noise that is a list, as trees."""

    def __init__(self, noise: Noise) -> None:
        self.taxon_count = noise.taxon_count
        self._noise = noise

    def draw(self, count: int, *, stream: RandomStream) -> NoiseDraw:
        topologies = self._noise.listed[self._noise.places(count, stream=stream)]
        return NoiseDraw(topologies, self._noise.log_prob(topologies))

    def log_prob(self, topologies: TopologyBatch) -> np.ndarray:
        return self._noise.log_prob(topologies)


def noise_of(kind: str, sample: TreeSample) -> Noise:
    if kind == "listed":
        return ListedNoise(sample.topologies)
    if kind == "sbn":
        return SubsplitNoise(fit_network(sample).network, 0.3)
    uniform = UniformNoise(len(sample.taxa))
    return Unlisted(uniform) if kind == "unlisted" else uniform


def rows_of(batch: Batch) -> list[bytes]:
    return [row.tobytes() for row in batch.topologies.parent]


@given(
    st.sampled_from(["uniform", "unlisted", "listed", "sbn"]),
    st.integers(4, 7),
    st.integers(1, 12),
    st.integers(1, 3),
    st.integers(0, 1000),
)
@settings(max_examples=40)
def test_a_batch_has_each_drawn_tree_once_with_its_shares(kind, taxa, size, ratio, seed):
    random = np.random.default_rng(seed)
    trees = random_topologies(taxa, 9, stream=RandomStream(seed, "trees")).distinct()[0]
    sample = sample_of(trees, random.exponential(size=len(trees)) * (np.arange(len(trees)) != 1))
    noise = noise_of(kind, sample)
    batches = Batches(sample, noise, size=size, ratio=ratio, seed=seed)
    step = int(random.integers(1, 1000))
    batch = batches.at(step)
    data, others = drawn_by(sample, noise, size=size, ratio=ratio, seed=seed, step=step)
    rows = rows_of(batch)
    assert len(set(rows)) == len(rows)
    assert set(rows) == {*data, *others}
    counts, noise_counts = Counter(data), Counter(others)
    np.testing.assert_allclose(batch.data, [counts[row] / size for row in rows])
    np.testing.assert_allclose(batch.noise, [noise_counts[row] / (size * ratio) for row in rows])
    np.testing.assert_allclose(batch.log_noise, noise.log_prob(batch.topologies), atol=1e-12)
    assert batch.states.node_count == batch.graph.node_count == len(rows) * (2 * taxa - 2)


def test_trees_on_their_own_have_the_same_loss_as_merged_ones():
    sample, seed, step = target(5), 3, 7
    noise = UniformNoise(5)
    model = EnergyModel(5, width=5)
    batch = Batches(sample, noise, size=30, ratio=2, seed=seed).at(step)
    with torch.no_grad():
        log_model = batch.log_noise - model.energy(batch.states, batch.graph).numpy()
    merged = contrast(log_model, batch.log_noise, batch.data, batch.noise, 2)
    data, others = drawn_by(sample, noise, size=30, ratio=2, seed=seed, step=step)
    assert len(batch.topologies) < 20
    rows = np.array([np.frombuffer(row, np.int32) for row in data + others])
    singles = TopologyBatch.from_canonical(rows)
    log_noise = noise.log_prob(singles)
    is_data = np.arange(90) < 30
    alone = contrast(log_noise - model.energies(singles), log_noise, is_data / 30, ~is_data / 60, 2)
    assert merged.loss == pytest.approx(alone.loss, rel=1e-5)


@pytest.mark.parametrize("step", [1, 2, 30])
def test_listed_and_open_batches_agree(step):
    sample = target(6, concentration=0.05)
    torch.manual_seed(1)
    model = EnergyModel(6, width=5)
    found = []
    for noise in (UniformNoise(6), Unlisted(UniformNoise(6))):
        batch = Batches(sample, noise, size=25, ratio=3, seed=8).at(step)
        with torch.no_grad():
            energies = model.energy(batch.states, batch.graph).numpy()
        found.append(
            dict(zip(rows_of(batch), zip(batch.data, batch.noise, batch.log_noise, energies, strict=True), strict=True))
        )
    listed, opened = found
    assert listed.keys() == opened.keys()
    for row, values in listed.items():
        assert values == pytest.approx(opened[row], rel=1e-5, abs=1e-6)


def test_trees_of_weight_zero_are_never_drawn_and_others_by_their_weight():
    topologies = all_topologies(5)
    weights = np.array([0, 3, 0, 1, 2] + 10 * [0.0])
    for sample in (sample_of(topologies, weights), sample_of(topologies[:5], weights[:5])):
        batches = Batches(sample, UniformNoise(5), size=20_000, ratio=1, seed=1)
        batch = batches.at(4)
        counts = np.round(batch.data * 20_000).astype(int)
        drawn = batch.topologies[np.repeat(np.arange(len(counts)), counts)]
        assert fit_of(drawn, topologies, weights / 6) > 1e-4
        noise = batch.topologies[np.repeat(np.arange(len(counts)), np.round(batch.noise * 20_000).astype(int))]
        assert fit_of(noise, topologies, np.full(15, 1 / 15)) > 1e-4


def test_equal_trees_of_the_sample_count_together():
    topologies = all_topologies(5)
    twice = sample_of(topologies[[2, 4, 2]], [1, 2, 3])
    once = sample_of(topologies[[2, 4]], [4, 2])
    one, two = (Batches(sample, UniformNoise(5), size=50, ratio=1, seed=1).at(1) for sample in (twice, once))
    np.testing.assert_array_equal(one.topologies.parent, two.topologies.parent)
    np.testing.assert_array_equal(one.data, two.data)


@pytest.mark.parametrize("kind", ["uniform", "sbn"])
def test_a_batch_depends_on_the_seed_and_the_step_alone(kind):
    sample = target(6)
    noise = noise_of(kind, sample)

    def batch(seed: int, step: int, before: int = 0) -> Batch:
        batches = Batches(sample, noise, size=20, ratio=1, seed=seed)
        for number in range(before):
            batches.at(number)
        return batches.at(step)

    first, again = batch(1, 9), batch(1, 9, before=5)
    np.testing.assert_array_equal(first.topologies.parent, again.topologies.parent)
    np.testing.assert_array_equal(first.data, again.data)
    np.testing.assert_array_equal(first.noise, again.noise)
    for other in (batch(2, 9), batch(1, 10)):
        for part in ("data", "noise"):
            assert shares_of(first, part) != shares_of(other, part)


def shares_of(batch: Batch, part: str) -> dict[bytes, float]:
    return {row: share for row, share in zip(rows_of(batch), getattr(batch, part), strict=True) if share}


def test_data_that_the_noise_never_gives_are_refused():
    topologies = all_topologies(5)
    sample = TreeSample(tuple(NAMES[:5]), topologies, np.ones(15), None)
    with pytest.raises(BadArgument, match=r"probability zero under it\. Use another noise"):
        Batches(sample, ListedNoise(topologies[:10]), size=2, ratio=1, seed=1)
    weights = np.ones(15) * (np.arange(15) < 10)
    Batches(sample_of(topologies, weights), ListedNoise(topologies[:10]), size=2, ratio=1, seed=1)
