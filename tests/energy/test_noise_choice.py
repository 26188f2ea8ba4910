"""From a config to its noise and its base."""

import numpy as np
import pytest

from phloem.energy.noise import ListedNoise, SubsplitNoise, UniformNoise, choose_base, choose_noise
from phloem.variational.fitting import fit_network
from support.small_densities import config_of, target


def test_the_config_names_the_noise():
    sample = target(6)[20:30]
    assert isinstance(choose_noise(sample, config_of(noise="uniform")), UniformNoise)
    listed = choose_noise(sample, config_of(noise="listed"))
    assert isinstance(listed, ListedNoise)
    assert listed.listed.equal(sample.topologies).all()
    noise = choose_noise(sample, config_of(noise="sbn", uniform_share=0.3))
    assert isinstance(noise, SubsplitNoise)
    assert noise.uniform_share == 0.3
    fitted = fit_network(sample, smoothing=1e-6).network
    expected = 0.7 * np.exp(fitted.log_prob(sample.topologies).detach().numpy()) + 0.3 / 105
    np.testing.assert_allclose(np.exp(noise.log_prob(sample.topologies)), expected, rtol=1e-12)


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
