"""Random numbers inside kernels are those of numpy's generator, bit for bit."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from phloem.kernels.philox import fill_normal, fill_uniform
from phloem.random_streams import RandomStream

counters = st.integers(0, 2**63 - 1)


@given(st.integers(0, 2**64), counters, counters, st.integers(0, 40))
def test_uniform_numbers_are_those_of_the_streams_generator(seed, step, particle, count):
    stream = RandomStream(seed, "test", step, particle)
    drawn = np.empty(count)
    fill_uniform(stream.key(), particle, step, drawn)
    np.testing.assert_array_equal(drawn, stream.generator().random(count))


@given(st.integers(0, 2**64), counters, counters, st.integers(0, 40))
def test_normal_numbers_are_box_and_mullers_of_the_uniform_ones(seed, step, particle, count):
    stream = RandomStream(seed, "test", step, particle)
    drawn = np.empty(count)
    fill_normal(stream.key(), particle, step, drawn)
    pairs = stream.generator().random((count // 2 + 1, 2))
    radius, angle = np.sqrt(-2 * np.log1p(-pairs[:, 0])), 2 * np.pi * pairs[:, 1]
    expected = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1).reshape(-1)[:count]
    np.testing.assert_allclose(drawn, expected, rtol=1e-12, atol=1e-14)
