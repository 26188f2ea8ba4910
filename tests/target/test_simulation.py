"""Simulated sites: frequencies of all site patterns against likelihoods, ours and a plain one; draws from priors."""

from itertools import product

import numpy as np
import pytest
import torch
from scipy import stats

from phloem.config import ModelConfig
from phloem.data.alignment import Alignment
from phloem.data.patterns import compress
from phloem.errors import BadArgument
from phloem.random_streams import RandomStream
from phloem.target import simulation
from phloem.target.coordinates import Multipliers, Ratio, Shape, Share, Shares
from phloem.target.free_parameters import FreeParameters
from phloem.target.likelihood import TreeLikelihood
from phloem.target.priors import GammaDirichletPrior, LengthPrior, PriorTerms, TreePrior, UniformPrior
from phloem.target.rates import ModelRates, gamma_of, repeated, stacked
from phloem.target.simulation import simulate_states
from phloem.target.substitution import SiteRates, SubstitutionModel, gtr, hky85, jc69, k80, known_model, tn93
from phloem.trees.generation import all_topologies, random_topologies
from reference import brute_force

SITES = 200_000
LEAST_P = 1e-4  # of a test that fails by chance once in ten thousand seeds; seeds are fixed
FREQUENCIES = [0.4, 0.25, 0.05, 0.3]
MODELS = {
    "JC": jc69(),
    "K80+G3": k80(4.0, SiteRates(shape=0.4, categories=3)),
    "HKY+I": hky85(3.0, FREQUENCIES, SiteRates(invariant=0.3)),
    "TN93+G4, medians": tn93(2.0, 5.0, FREQUENCIES, SiteRates(shape=0.7, categories=4, method="median")),
    "GTR+I+G4": gtr([1, 3, 0.5, 0.7, 4, 1], FREQUENCIES, SiteRates(shape=0.5, categories=4, invariant=0.2)),
}


def rates_of(*models: SubstitutionModel, multipliers: tuple[float, ...] | None = None) -> ModelRates:
    parameters = repeated(stacked(models), 1)
    if multipliers is not None:
        parameters.multiplier[:] = multipliers
    categories, method = gamma_of(models)
    return ModelRates(parameters, categories=categories, method=method)


def tree_of(taxa: int, seed: int = 1):
    topology = random_topologies(taxa, 1, stream=RandomStream(seed, "test"))
    return topology, np.random.default_rng(seed).exponential(0.25, topology.branch_count)


def every_pattern(taxa: int) -> Alignment:
    columns = np.array(list(product(range(4), repeat=taxa))).T
    return Alignment(tuple(f"t{number}" for number in range(taxa)), (1 << columns).astype(np.uint8))


def counts_of(states: np.ndarray) -> np.ndarray:
    """How often each pattern occurs, in the order of `every_pattern`."""
    taxa = len(states)
    numbers = (states.astype(np.int64) * (4 ** np.arange(taxa))[::-1, None]).sum(axis=0)
    return np.bincount(numbers, minlength=4**taxa)


def assert_fit(counts: np.ndarray, probabilities: np.ndarray) -> None:
    """χ², with patterns of less than five sites together."""
    assert probabilities.sum() == pytest.approx(1, abs=1e-9)
    expected = probabilities * counts.sum()
    rare = expected < 5
    merged = [np.append(array[~rare], array[rare].sum()) for array in (counts, expected)]
    kept = merged[1] > 0
    assert stats.chisquare(merged[0][kept], merged[1][kept]).pvalue > LEAST_P


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("taxa", [4, 5])
def test_patterns_are_as_frequent_as_the_likelihood_says(name, taxa):
    topology, lengths = tree_of(taxa)
    states = simulate_states(
        topology, lengths, rates_of(MODELS[name]), np.zeros(SITES, np.int32), stream=RandomStream(1, name)
    )
    likelihood = TreeLikelihood(compress(every_pattern(taxa)), MODELS[name], threads=1)
    logs = likelihood.of_sites(topology, torch.from_numpy(lengths[None]))[0]
    assert_fit(counts_of(states), np.exp(logs))


def test_patterns_are_as_frequent_as_sums_over_all_states_say():
    """The matrix exponentials are scipy's, so that nothing is shared with what is tested."""
    topology, lengths = tree_of(4, seed=3)
    model = MODELS["GTR+I+G4"]
    states = simulate_states(topology, lengths, rates_of(model), np.zeros(SITES, np.int32), stream=RandomStream(2, "x"))
    matrix = brute_force.rate_matrix(np.array([1, 3, 0.5, 0.7, 4, 1]), np.array(FREQUENCIES))
    rates, weights = model.site_rates.rates().numpy(), model.site_rates.weights().numpy()
    probabilities = np.array(
        [
            brute_force.site_likelihood(
                topology.parent[0], lengths, np.eye(4)[list(tips)], matrix, np.array(FREQUENCIES), rates, weights, 0.0
            )
            + 0.2 * (FREQUENCIES[tips[0]] if len(set(tips)) == 1 else 0.0)
            for tips in product(range(4), repeat=4)
        ]
    )
    assert_fit(counts_of(states), probabilities)


def test_parts_have_their_own_models_and_rates():
    topology, lengths = tree_of(4)
    names, multipliers = ("JC", "GTR+I+G4"), (0.5, 2.0)
    part_of_site = np.random.default_rng(1).integers(0, 2, 2 * SITES).astype(np.int32)
    rates = rates_of(*(MODELS[name] for name in names), multipliers=multipliers)
    states = simulate_states(topology, lengths, rates, part_of_site, stream=RandomStream(5, "parts"))
    for part, (name, multiplier) in enumerate(zip(names, multipliers, strict=True)):
        likelihood = TreeLikelihood(compress(every_pattern(4)), MODELS[name], threads=1)
        logs = likelihood.of_sites(topology, torch.from_numpy(multiplier * lengths[None]))[0]
        assert_fit(counts_of(states[:, part_of_site == part]), np.exp(logs))


def test_blocks_have_random_numbers_of_their_own(monkeypatch):
    monkeypatch.setattr(simulation, "BLOCK", 500)
    topology, lengths = tree_of(5)
    part_of_site = np.repeat(np.array([0, 1], np.int32), 1000)
    rates = rates_of(MODELS["JC"], MODELS["JC"])
    blocks = simulate_states(topology, lengths, rates, part_of_site, stream=RandomStream(1, "x")).reshape(5, 4, 500)
    for one, other in ((0, 1), (0, 2), (1, 3), (2, 3)):
        assert (blocks[:, one] == blocks[:, other]).mean() < 0.5
    again = simulate_states(topology, lengths, rates, part_of_site, stream=RandomStream(1, "x")).reshape(5, 4, 500)
    np.testing.assert_array_equal(again, blocks)


def test_branches_of_no_length_change_nothing_and_long_ones_forget_all():
    topology = all_topologies(4)[:1]
    none, many = np.zeros(5), np.full(5, 1e9)
    zeros = np.zeros(1000, np.int32)
    states = simulate_states(topology, none, rates_of(MODELS["GTR+I+G4"]), zeros, stream=RandomStream(1, "x"))
    assert (states == states[0]).all()
    states = simulate_states(
        topology, many, rates_of(MODELS["JC"]), np.zeros(SITES, np.int32), stream=RandomStream(1, "x")
    )
    assert_fit(counts_of(states), np.full(256, 1 / 256))


@pytest.mark.parametrize("lengths", [np.full(5, -0.1), np.full(5, np.nan), np.zeros(4)])
def test_impossible_lengths_are_refused(lengths):
    with pytest.raises(BadArgument, match="simulation"):
        simulate_states(
            all_topologies(4)[:1], lengths, rates_of(jc69()), np.zeros(3, np.int32), stream=RandomStream(1, "x")
        )


COUNT = 4000


def assert_drawn(sample: np.ndarray, distribution) -> None:
    assert stats.kstest(sample, distribution.cdf).pvalue > LEAST_P


def drawn(kind) -> np.ndarray:
    random = np.random.default_rng(11)
    return np.array([kind.draw(random) for _ in range(COUNT)])


def test_parameters_are_drawn_from_their_priors():
    kappa = drawn(Ratio("kappa"))[:, 0]
    assert_drawn(kappa / (1 + kappa), stats.uniform())
    assert_drawn(drawn(Shape("alpha"))[:, 0], stats.expon())
    assert_drawn(drawn(Share("pinvar"))[:, 0], stats.uniform())
    shares = drawn(Shares(("a", "b", "c", "d"), 0))
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    for column in shares.T:
        assert_drawn(column, stats.beta(1, 3))
    sizes = np.array([10, 30, 60])
    rates = drawn(Multipliers(("a", "b", "c"), sizes))
    np.testing.assert_allclose(rates @ sizes / 100, 1)
    for column, size in zip(rates.T, sizes, strict=True):
        assert_drawn(column * size / 100, stats.beta(1, 2))


def test_what_is_drawn_has_the_coordinates_prior():
    """Densities of coordinates and draws of parameters are two programs for one prior: the mean of the density's
    gradient over the draws is zero."""
    for kind in (Ratio("kappa"), Shape(), Share("pinvar"), Shares(("a", "b", "c", "d"), 1)):
        values = drawn(kind)
        coordinates = np.array([kind.coordinates(row) for row in values])
        logs, slopes = kind.log_prior(coordinates)
        errors = slopes.std(axis=0) / np.sqrt(COUNT)
        assert (np.abs(slopes.mean(axis=0)) < 4 * errors).all()
        assert np.isfinite(logs).all()


def test_linked_parameters_are_the_same_and_others_are_not():
    configs = [ModelConfig("HKY+G4"), ModelConfig("HKY+G4")]
    models = [known_model(ModelConfig("HKY", kappa=(1.0,), frequencies=(0.25,) * 4, gamma=4, alpha=1.0))] * 2
    free = FreeParameters.of(configs, models, linked=("kappa",), sizes=np.array([10, 20]))
    found = free.draw(np.random.default_rng(1))
    assert found.parameters.exchangeabilities[0, 0].tolist() == found.parameters.exchangeabilities[0, 1].tolist()
    assert found.parameters.shape[0, 0] != found.parameters.shape[0, 1]
    named = dict(zip(free.names, found.values[0], strict=True))
    assert named["kappa{all}"] == found.parameters.exchangeabilities[0, 0, 1]
    assert named["alpha{2}"] == found.parameters.shape[0, 1]
    assert named["m{2}"] == found.parameters.multiplier[0, 1]


BRANCHES = 7


@pytest.mark.parametrize("prior", [TreePrior(4.0), GammaDirichletPrior(2.0, 0.5), UniformPrior(3.0)])
def test_lengths_are_drawn_from_their_priors(prior):
    random = np.random.default_rng(5)
    lengths = np.array([prior.draw(BRANCHES, random) for _ in range(COUNT)])
    assert lengths.shape == (COUNT, BRANCHES)
    total = lengths.sum(axis=1)
    if isinstance(prior, GammaDirichletPrior):
        assert_drawn(total, stats.gamma(2.0, scale=2.0))
        assert_drawn(lengths[:, 3] / total, stats.beta(1, BRANCHES - 1))
    else:
        of_one = stats.expon(scale=0.25) if isinstance(prior, TreePrior) else stats.uniform(scale=3.0)
        assert_drawn(lengths[:, 3], of_one)
        assert abs(np.corrcoef(lengths[:, 0], lengths[:, 1])[0, 1]) < 4 / np.sqrt(COUNT)


def test_a_prior_that_knows_no_draws_says_so():
    class Own(LengthPrior):
        def terms(self, branches: int) -> PriorTerms:
            return PriorTerms(0.0, float(branches))

        def in_words(self) -> str:
            return "mine"

    with pytest.raises(BadArgument, match=r"Own: .* `draw`"):
        Own().draw(3, np.random.default_rng(1))
