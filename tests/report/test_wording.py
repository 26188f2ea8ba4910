"""Numbers and names as text."""

import math

import numpy as np
import pytest

from phloem.report.wording import (
    brief,
    decimals,
    duration,
    error_bar,
    interval,
    length,
    percent,
    powers_of_ten,
    short_name,
    spread,
    text_width,
)

THIN = "\N{NARROW NO-BREAK SPACE}"


@pytest.mark.parametrize(
    ("share", "text"),
    [(1.0, "100"), (0.99951, ">99.9"), (0.5, "50"), (0.1234, "12.3"), (0.0001, "<0.1"), (0.0, "0")],
)
def test_shares_are_never_rounded_to_certainty(share, text):
    assert percent(share) == f"{text}{THIN}%"


@pytest.mark.parametrize(
    ("deviations", "places"),
    [([0.31], 2), ([0.31, 0.0123], 3), ([7.0], 2), ([1e-9], 6), ([0.0, math.nan], 4), ([], 4)],
)
def test_decimals_show_two_digits_of_the_smallest_deviation(deviations, places):
    assert decimals(deviations) == places


def test_a_share_that_is_certain_has_no_error_bar():
    assert error_bar(0.0123) == f"±{THIN}1.2{THIN}%"
    assert error_bar(1e-5) == f"±{THIN}<0.1{THIN}%"
    assert error_bar(0.0) == ""


def test_numbers_that_are_not_known_are_dashes():
    assert percent(math.nan) == length(math.nan) == interval(0.1, math.nan) == "–"
    assert length(0.00012) == "1.2e\N{MINUS SIGN}04"


def test_long_names_keep_both_ends_and_long_lists_their_beginning():
    name = "Genus_species_subspecies_isolate_from_somewhere_KX1234567"
    assert len(short_name(name)) == 34
    assert short_name(name).startswith("Genus_species")
    assert short_name(name).endswith("KX1234567")
    assert brief(["a", "b", "c", "d", "e"]) == "a, b, c and 2 more"
    assert brief(["a", "b"]) == "a, b"
    assert text_width("WWW") > text_width("lll")


def test_powers_of_ten_are_digits_where_these_can_be_read():
    assert powers_of_ten([-3, 0, 3]) == ["0.001", "1", "1,000"]
    assert powers_of_ten([-12, -6, 0]) == ["10⁻¹²", "10⁻⁶", "10⁰"]


def test_deviations_have_the_decimals_of_their_mean():
    assert spread(0.0029, 0.00017) == "0.0002"
    assert spread(1.2, 0.00001) == "<0.0001"
    assert spread(0.0005, 0.00017) == "1.7e−04"
    assert spread(0.5, np.nan) == "–"


def test_durations_are_short():
    words = [duration(seconds).replace("\N{NARROW NO-BREAK SPACE}", " ") for seconds in (0.25, 42, 720, 12_600, np.nan)]
    assert words == ["0.2 s", "42 s", "12 min", "3.5 h", "–"]
