"""Random numbers depend on their key and on nothing else."""

import numpy as np
import pytest

from phloem.errors import BadArgument
from phloem.random_streams import RandomStream


def first(stream: RandomStream) -> float:
    return float(stream.generator().random())


def test_a_key_gives_the_same_numbers_each_time():
    stream = RandomStream(1, "x", 5, 2)
    stream.generator().random(1000)
    np.testing.assert_array_equal(stream.generator().random(8), RandomStream(1, "x").at(5, 2).generator().random(8))


def test_every_part_of_the_key_counts():
    base = RandomStream(1, "x", 5, 2)
    others = [RandomStream(2, "x", 5, 2), RandomStream(1, "y", 5, 2), base.at(6, 2), base.at(5, 3), base.at(2, 5)]
    assert len({first(stream) for stream in [base, *others]}) == 6


def test_numbers_never_change():
    """Saved runs must go on with the numbers with which they began."""
    assert first(RandomStream(1, "x")) == 0.11672291030118553
    assert first(RandomStream(1, "x", 3, 7)) == 0.6247803667832709


def test_steps_do_not_overlap():
    long = RandomStream(1, "x").generator().random(10_000)
    following = RandomStream(1, "x").at(1).generator().random(100)
    assert not np.isin(following, long).any()


@pytest.mark.parametrize("key", [(-1, "x"), (1, "x", -1), (1, "x", 2**64), (1, "x", 0, -1)])
def test_keys_outside_their_range_are_refused(key):
    with pytest.raises(BadArgument, match="random stream"):
        RandomStream(*key)


def test_seed_and_purpose_do_not_run_together():
    assert first(RandomStream(1, "1x")) != first(RandomStream(11, "x"))
