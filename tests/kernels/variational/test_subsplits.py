"""Numbers for pairs of words, against a dictionary."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from phloem.kernels.jit import kernel
from phloem.kernels.variational.subsplits import find_all, find_or_add, make_index, open_index

words = st.one_of(st.integers(0, 5), st.integers(0, 2**64 - 1), st.integers(0, 7).map(lambda n: n << 32))
pair_lists = st.lists(st.tuples(words, words), max_size=60)


@kernel
def add_all(index, pairs, numbers):
    opened = open_index(index)
    count = 0
    for row in range(len(pairs)):
        numbers[row] = find_or_add(opened, count, pairs[row, 0], pairs[row, 1])
        if numbers[row] == count:
            count += 1
    return count


def as_words(pairs):
    return np.array(pairs, np.uint64).reshape(-1, 2)


@given(pair_lists, pair_lists)
def test_pairs_are_numbered_in_order_and_found_again(pairs, others):
    expected = {}
    for pair in pairs:
        expected.setdefault(pair, len(expected))
    index = make_index(np.empty((0, 2), np.uint64), len(pairs))
    numbers = np.empty(len(pairs), np.int64)
    assert add_all(index, as_words(pairs), numbers) == len(expected)
    assert numbers.tolist() == [expected[pair] for pair in pairs]
    assert find_all(index, as_words(others)).tolist() == [expected.get(pair, -1) for pair in others]


@given(pair_lists)
def test_an_index_of_given_pairs_numbers_them_by_row(pairs):
    distinct = list(dict.fromkeys(pairs))
    index = make_index(as_words(distinct))
    assert find_all(index, as_words(distinct)).tolist() == list(range(len(distinct)))
    assert len(index.slots) >= 2 * len(distinct)
