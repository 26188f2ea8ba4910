"""Draws from a density are as frequent as its probabilities say, whichever way they are drawn."""

import numpy as np
import pytest

from phloem.energy import sampling
from phloem.energy.density import TreeDensity
from phloem.energy.sampling import sample_density
from phloem.errors import BadArgument
from phloem.random_streams import RandomStream
from phloem.trees.generation import all_topologies, random_topologies
from phloem.trees.topology import TopologyBatch
from support.small_densities import density_of, fit_of, sample_of, target, trained, training_of

STREAM = RandomStream(5, "sample")


def probabilities(density: TreeDensity) -> np.ndarray:
    return np.exp(density.log_prob(all_topologies(len(density.taxa))))


@pytest.mark.parametrize("method", ["exact", "importance", "mcmc"])
@pytest.mark.parametrize(("noise", "base"), [("uniform", "noise"), ("sbn", "noise"), ("sbn", "uniform")])
def test_draws_of_five_taxa_match_the_densitys_probabilities(method, noise, base):
    density = trained(5, noise, base)
    draws = sample_density(density, 6000, stream=STREAM, method=method)
    assert draws.method == method
    assert len(draws.topologies) == 6000
    assert fit_of(draws.topologies, all_topologies(5), probabilities(density)) > 1e-4


@pytest.mark.parametrize("noise", ["uniform", "sbn"])
@pytest.mark.parametrize("method", ["exact", "mcmc"])
def test_draws_of_eight_taxa_match_the_densitys_probabilities(method, noise, monkeypatch):
    density = trained(8, noise)
    monkeypatch.setattr(sampling, "CHAINS", 2000)  # one draw of each, so that draws are independent
    draws = sample_density(density, 2000, stream=STREAM, method=method)
    chances = probabilities(density)
    assert (chances * 2000 >= 10).sum() > 15  # enough cells for the test to say something
    assert fit_of(draws.topologies, all_topologies(8), chances) > 1e-4


@pytest.mark.parametrize("interchange", [True, False])
def test_either_move_alone_keeps_the_density(interchange):
    density = trained(5, "sbn", "uniform")
    topologies = all_topologies(5)
    first = sample_density(density, 20_000, stream=STREAM, method="exact").topologies
    log_model, log_noise = density.unnormalized.log_density(first), density.noise.log_prob(first)
    state = sampling._State(first.parent.copy(), log_model.copy(), log_noise.copy())
    moved = 0
    for step in range(3):
        moved += sampling._propose(density, state, interchange, STREAM.at(step))
    after = TopologyBatch.from_canonical(state.parent.copy())
    assert 5000 < moved < 60_000
    assert not after.equal(first).all()
    assert fit_of(after, topologies, probabilities(density)) > 1e-4
    np.testing.assert_allclose(state.log_model, density.unnormalized.log_density(after), atol=1e-5)
    np.testing.assert_allclose(state.log_noise, density.noise.log_prob(after))


def test_chains_of_four_taxa_match_too():
    density = trained(4)
    draws = sample_density(density, 6000, stream=STREAM, method="mcmc")
    assert fit_of(draws.topologies, all_topologies(4), probabilities(density)) > 1e-4


def test_listed_densities_draw_from_their_list():
    density = trained(5, "listed")
    assert (
        fit_of(sample_density(density, 5000, stream=STREAM).topologies, all_topologies(5), probabilities(density))
        > 1e-4
    )
    draws = sample_density(density, 5000, stream=STREAM, method="importance")
    assert fit_of(draws.topologies, all_topologies(5), probabilities(density)) > 1e-4


@pytest.mark.parametrize("method", ["exact", "importance", "mcmc"])
def test_a_seed_gives_the_same_draws_and_another_seed_others(method):
    density = trained(5)
    one, again, other, elsewhere = (
        sample_density(density, 130, stream=stream, method=method).topologies.parent
        for stream in (STREAM, STREAM, RandomStream(6, "sample"), RandomStream(5, "other"))
    )
    np.testing.assert_array_equal(one, again)
    assert not np.array_equal(one, other)
    assert not np.array_equal(one, elsewhere)


@pytest.mark.parametrize("method", ["auto", "exact", "importance", "mcmc"])
@pytest.mark.parametrize("count", [1, 3, 65])
def test_as_many_trees_as_were_asked_for(method, count):
    told: list[float] = []
    draws = sample_density(trained(5, "sbn"), count, stream=STREAM, method=method, progress=told.append)
    assert len(draws.topologies) == count
    assert told == sorted(told)
    assert told[-1] == 1


def test_single_draws_over_many_seeds_match_the_probabilities(monkeypatch):
    density = trained(5)
    monkeypatch.setattr(sampling, "BURNIN", 10)
    drawn = [
        sample_density(density, 1, stream=RandomStream(seed, "one"), method="mcmc").topologies.parent
        for seed in range(150)
    ]
    batch = TopologyBatch.from_canonical(np.concatenate(drawn))
    assert fit_of(batch, all_topologies(5), probabilities(density), least=5) > 1e-4


def test_the_best_way_is_chosen_by_what_can_be_enumerated():
    assert sample_density(trained(5), 2, stream=STREAM).method == "exact"
    sample = sample_of(random_topologies(11, 3, stream=STREAM), [1, 1, 1])
    many = density_of(training_of(sample), sample, draws=20)
    assert sample_density(many, 2, stream=STREAM).method == "importance"
    with pytest.raises(BadArgument, match="--method exact: 11 taxa have too many topologies"):
        sample_density(many, 2, stream=STREAM, method="exact")


def test_what_cannot_be_drawn_is_refused():
    density = trained(5)
    with pytest.raises(BadArgument, match="--method gibbs: choose one of auto, exact, importance, mcmc"):
        sample_density(density, 2, stream=STREAM, method="gibbs")
    for count in (0, -3):
        with pytest.raises(BadArgument, match=f"{count} trees. Give at least 1"):
            sample_density(density, count, stream=STREAM)
    with pytest.raises(BadArgument, match=r"--method mcmc.* Use exact"):
        sample_density(trained(5, "listed"), 2, stream=STREAM, method="mcmc")


def test_the_pool_is_drawn_in_chunks_of_their_own(monkeypatch):
    density = trained(5)
    monkeypatch.setattr(sampling, "LEAST_POOL", 5000)
    monkeypatch.setattr(sampling, "CHUNK", 500)
    draws = sample_density(density, 100, stream=STREAM, method="importance")
    assert draws.quality["draws"] == 5000
    assert draws.quality["effective_draws"] < 5000
    assert sample_density(density, 400, stream=STREAM, method="importance").quality["draws"] == 8000
    assert fit_of(draws.topologies, all_topologies(5), probabilities(density), least=5) > 1e-4


def flat(taxa: int) -> TreeDensity:
    """All topologies alike, and no energies."""
    training = training_of(target(taxa))
    for parameter in training.density.model.readout.parameters():
        parameter.data.zero_()
    return density_of(training, target(taxa))


def test_chains_say_how_they_went():
    quality = sample_density(flat(6), 130, stream=STREAM, method="mcmc").quality
    assert quality["chains"] == 64
    assert quality["steps"] == 200 + 3 * 10
    assert quality["accepted_interchanges"] == quality["accepted_draws"] == 1
    assert quality["scale_reduction"] is None  # all energies are the same
    quality = sample_density(trained(5), 6400, stream=STREAM, method="mcmc").quality
    assert 0 < quality["accepted_draws"] < 1
    assert 0 < quality["accepted_interchanges"] < 1
    assert 0.98 < quality["scale_reduction"] < 1.1
    assert sample_density(trained(5), 1, stream=STREAM, method="mcmc").quality["scale_reduction"] is None


def test_accepted_shares_are_of_each_kind_of_step(monkeypatch):
    density = trained(5)
    proposed: list[tuple[bool, int]] = []
    propose = sampling._propose

    def watched(density, state, interchange, stream):
        moved = propose(density, state, interchange, stream)
        proposed.append((interchange, moved))
        return moved

    monkeypatch.setattr(sampling, "_propose", watched)
    monkeypatch.setattr(sampling, "BURNIN", 5)
    quality = sample_density(density, 50, stream=STREAM, method="mcmc").quality
    assert len(proposed) == 15 == quality["steps"]
    for name, interchange in (("accepted_interchanges", True), ("accepted_draws", False)):
        moved = [count for kind, count in proposed if kind == interchange]
        assert quality[name] == pytest.approx(sum(moved) / (50 * len(moved)))


def test_the_scale_reduction_is_the_usual_one():
    values = np.random.default_rng(1).normal(size=(20, 6)) + np.arange(6)
    within = np.mean([np.var(column, ddof=1) for column in values.T])
    between = 20 * np.var(values.mean(axis=0), ddof=1)
    expected = np.sqrt((19 / 20 * within + between / 20) / within)
    assert sampling._scale_reduction(values) == pytest.approx(expected)
    assert expected > 1.5


def test_draws_of_chains_that_stand_still_are_worth_one_a_chain():
    generator = np.random.default_rng(1)
    independent = generator.normal(size=(50, 400))
    assert sampling._effective_draws(independent) > 0.8 * independent.size
    still = np.repeat(generator.normal(size=(1, 400)), 50, axis=0)
    assert sampling._effective_draws(still) == pytest.approx(400, rel=0.01)
    blocks = np.repeat(generator.normal(size=(10, 400)), 5, axis=0)  # each value five times
    assert sampling._effective_draws(blocks) == pytest.approx(independent.size / 5, rel=0.2)
    assert sampling._effective_draws(np.ones((5, 4))) is None
    assert sampling._effective_draws(independent[:, :1]) is None
