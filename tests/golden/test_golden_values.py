"""The command line finds what it found before the source tree was reorganised.

Byte for byte is for `record.py compare`, on one machine; here another processor's rounding is allowed for.
"""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from golden.record import FAST_CASES, Case, data_folder, measure

KNOWN: dict[str, dict[str, dict[str, Any]]] = json.loads(
    Path(__file__).with_name("values.json").read_text(encoding="utf-8")
)["values"]

# How well another processor agrees with numbers of each kind, relatively and absolutely.
TOLERANCES = {
    "computed": {"rel": 1e-6, "abs": 1e-9},  # no random numbers, or too few steps to matter
    "early": {"rel": 1e-4, "abs": 0.0},  # the first steps of training, before rounding adds up
    "trained": {"rel": 1e-3, "abs": 1e-3},
    "probabilities": {"rel": 0.0, "abs": 0.03},  # by importance sampling from few draws
}


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    """A folder to record in, and whether it has the benchmark data."""
    folder = tmp_path_factory.mktemp("golden")
    with data_folder(folder) as has_data:
        yield folder, has_data


@pytest.mark.parametrize("case", FAST_CASES, ids=lambda case: case.name)
def test_values_are_those_from_before_the_reorganisation(case: Case, recording):
    folder, has_data = recording
    if case.data and not has_data:
        pytest.skip("PHLOEM_DATA is not set: it names the folder of benchmark data")
    found, known = measure(case, sys.executable, folder / case.name), KNOWN[case.name]
    assert found.keys() == known.keys()
    assert found.get("exact") == known.get("exact")
    for kind in known.keys() - {"exact"}:
        assert found[kind] == pytest.approx(known[kind], **TOLERANCES[kind]), kind


def test_every_fast_case_has_known_values_and_no_other_has():
    assert list(KNOWN) == [case.name for case in FAST_CASES]
