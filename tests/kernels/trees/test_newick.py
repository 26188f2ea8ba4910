"""Decimal numbers: the same double as Python's own reader."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phloem.kernels.trees.newick import parse_decimal


def parse(text: str) -> tuple[float, int]:
    buffer = np.frombuffer(text.encode(), np.uint8)
    value, stop = parse_decimal(buffer, 0, len(buffer))
    return value, stop


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_what_python_writes_comes_back_to_the_last_bit(number):
    text = repr(number)
    value, stop = parse(text)
    assert stop == len(text)
    if 1e-250 < abs(number) < 1e270 or number == 0:
        assert value == number
    else:  # two roundings beyond these sizes: the last bit may differ
        assert math.isclose(value, number, rel_tol=1e-15, abs_tol=1e-323)


@given(st.integers(0, 10**25), st.integers(-40, 40), st.booleans())
def test_any_digits_and_exponent_are_read_within_one_rounding(digits, exponent, capital):
    text = f"{digits}{'E' if capital else 'e'}{exponent:+d}"
    value, stop = parse(text)
    assert stop == len(text)
    assert math.isclose(value, float(text), rel_tol=2.3e-16)


@pytest.mark.parametrize(
    "text", ["0", "0.0", "00012", "5.", ".5", "-0.25", "+3", "1e5", "1E-5", "1e400", "1e-400", "0.1e1"]
)
def test_forms_of_numbers(text):
    value, stop = parse(text)
    assert stop == len(text)
    assert value == float(text)


@pytest.mark.parametrize("text", ["", "-", ".", "e5", "nan", "inf", "1e", "1e+", "abc", "-.", "+e1"])
def test_what_is_no_number_is_not_read(text):
    value, stop = parse(text)
    assert math.isnan(value)
    assert stop == 0


def test_reading_stops_after_the_number():
    assert parse("0.5,(") == (0.5, 3)
    assert parse("1.2.3") == (1.2, 3)
    assert parse("1-2") == (1.0, 1)


def test_the_buffer_end_is_respected():
    buffer = np.frombuffer(b"123456", np.uint8)
    assert parse_decimal(buffer, 1, 3) == (23.0, 3)


def test_digits_beyond_a_doubles_precision_and_absurd_exponents():
    assert parse("0." + "1234567890" * 3)[0] == float("0." + "1234567890" * 3)
    assert parse("1e" + "9" * 40)[0] == math.inf
    assert parse("1e-18446744073709551616")[0] == 0
    assert parse("0e999")[0] == 0
