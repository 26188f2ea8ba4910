"""Traces: text that is known, what pandas reads of it, and numbers as they were."""

import io

import numpy as np
import pandas
import pytest

from phloem.errors import BadArgument
from phloem.tasks.exports import format_trace


def test_a_trace_is_a_title_the_names_and_a_numbered_row_a_tree():
    columns = {"likelihood": np.array([-5.25, -1e4, 0.0]), "topology": np.array([3, 1, 12_345_678_901])}
    assert format_trace(columns, "phloem 1") == (
        "# phloem 1\nstate\tlikelihood\ttopology\n0\t-5.25\t3\n1\t-10000\t1\n2\t0\t12345678901\n"
    )


def test_pandas_reads_ten_digits_and_every_whole_number():
    random = np.random.default_rng(1)
    columns = {
        "posterior": random.normal(-7000, 5, 200),
        "tiny": random.random(200) * 1e-12,
        "topology": random.integers(1, 10**12, 200),
    }
    found = pandas.read_csv(io.StringIO(format_trace(columns, "a title")), sep="\t", comment="#")
    assert list(found.columns) == ["state", *columns]
    assert found["state"].tolist() == list(range(200))
    for name in ("posterior", "tiny"):
        np.testing.assert_allclose(found[name], columns[name], rtol=1e-9)
    assert found["topology"].tolist() == columns["topology"].tolist()


def test_a_trace_has_a_line_for_each_comment():
    lines = format_trace({"x": np.array([1.5])}, "one", "two").splitlines()
    assert lines == ["# one", "# two", "state\tx", "0\t1.5"]


def test_the_title_stays_on_its_line():
    assert format_trace({"x": np.array([1.5])}, " two\nlines\t here ").splitlines()[:2] == [
        "# two lines here",
        "state\tx",
    ]


@pytest.mark.parametrize("columns", [{}, {"x": np.zeros(2), "y": np.zeros(3)}])
def test_columns_must_be_there_and_of_the_same_length(columns):
    with pytest.raises(BadArgument, match="one or more columns of the same length"):
        format_trace(columns, "title")
