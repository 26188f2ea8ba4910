"""From a config to its noise and its base."""

import numpy as np
import pytest

from energy.small_densities import config_of, sample_of, target
from phloem.energy import noise_choice
from phloem.energy.noise import ListedNoise, SubsplitNoise, UniformNoise
from phloem.energy.noise_choice import choose_base, choose_noise, with_neighbors
from phloem.trees.generation import all_topologies, nni_neighbors
from phloem.variational.fitting import fit_network


def as_dictionary(sample) -> dict[bytes, float]:
    rows = [row.tobytes() for row in sample.topologies.parent]
    assert len(set(rows)) == len(rows)
    return dict(zip(rows, sample.weights.tolist(), strict=True))


def test_neighbours_get_a_share_of_their_trees_weight():
    topologies = all_topologies(6)
    sample = sample_of(topologies[[3, 8, 3, 40, 7]], [1, 2, 4, 1, 0])
    expected: dict[bytes, float] = {}
    for place, weight in ((3, 5 / 8), (8, 2 / 8), (40, 1 / 8)):
        tree = topologies[place]
        expected[tree.parent.tobytes()] = expected.get(tree.parent.tobytes(), 0) + 0.9 * weight
        for row in nni_neighbors(tree).parent:
            expected[row.tobytes()] = expected.get(row.tobytes(), 0) + 0.1 * weight / 6
    found = as_dictionary(with_neighbors(sample, 0.1))
    assert found == pytest.approx(expected)
    assert sum(found.values()) == pytest.approx(1)


def test_where_they_would_be_too_many_the_most_frequent_trees_have_neighbours():
    topologies = all_topologies(6)
    sample = sample_of(topologies[[3, 8, 40]], [1, 3, 2])
    expected = {topologies[place].parent.tobytes(): 0.9 * weight / 6 for place, weight in ((3, 1), (8, 3), (40, 2))}
    for place, weight in ((8, 3 / 5), (40, 2 / 5)):
        for row in nni_neighbors(topologies[place]).parent:
            expected[row.tobytes()] = expected.get(row.tobytes(), 0) + 0.1 * weight / 6
    assert as_dictionary(with_neighbors(sample, 0.1, most=12)) == pytest.approx(expected)
    assert as_dictionary(with_neighbors(sample, 0.1, most=17)) == pytest.approx(expected)
    assert len(with_neighbors(sample, 0.1, most=1)) == 3 + len(
        {row.tobytes() for row in nni_neighbors(topologies[8]).parent}
        - {row.tobytes() for row in sample.topologies.parent}
    )


def test_three_taxa_have_no_neighbours():
    sample = sample_of(all_topologies(3), [2.0])
    assert as_dictionary(with_neighbors(sample, 0.1)) == {sample.topologies.parent[0].tobytes(): 1.0}


def test_the_config_names_the_noise():
    sample = target(6)[20:30]
    assert isinstance(choose_noise(sample, config_of(noise="uniform")), UniformNoise)
    listed = choose_noise(sample, config_of(noise="listed"))
    assert isinstance(listed, ListedNoise)
    assert listed.listed.equal(sample.topologies).all()
    noise = choose_noise(sample, config_of(noise="sbn", uniform_share=0.3))
    assert isinstance(noise, SubsplitNoise)
    assert noise.uniform_share == 0.3
    fitted = fit_network(with_neighbors(sample, noise_choice.NEIGHBOR_SHARE), tolerance=1e-8).network
    expected = 0.7 * np.exp(fitted.log_prob(sample.topologies).detach().numpy()) + 0.3 / 105
    np.testing.assert_allclose(np.exp(noise.log_prob(sample.topologies)), expected, rtol=0.02)


@pytest.mark.parametrize("kind", ["uniform", "listed", "sbn"])
def test_the_base_is_the_noise_unless_a_networks_is_to_be_uniform(kind):
    sample = target(5)
    for base in ("noise", "uniform"):
        config = config_of(noise=kind, base=base)
        noise = choose_noise(sample, config)
        found = choose_base(noise, config)
        if kind == "sbn" and base == "uniform":
            assert isinstance(found, UniformNoise)
            assert found.taxon_count == 5
        else:
            assert found is noise
