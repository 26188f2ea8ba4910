"""Distances of two sequences, in closed form and by scipy."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.linalg import expm
from scipy.optimize import minimize_scalar

from phloem.data.patterns import compress
from phloem.kernels.search.distances import pair_distances
from phloem.kernels.search.partials import SHORTEST
from phloem.search.surface import Surface
from support.search_cases import MODELS, evolved, random_patterns


def distances_of(surface, tolerance=1e-8):
    return pair_distances(surface.rates, surface.tables, surface.tips, tolerance)


def only(patterns, kept):
    """Some of the patterns."""
    return replace(patterns, states=patterns.states[:, kept], counts=patterns.counts[kept])


def test_under_jukes_cantor_they_are_those_of_the_formula():
    alignment, _ = evolved(8, 300, 1)
    found = distances_of(Surface(compress(alignment), MODELS["JC"]))
    for first in range(8):
        for second in range(8):
            share = (alignment.states[first] != alignment.states[second]).mean()
            if first == second:
                assert found[first, second] == 0
            else:
                assert found[first, second] == pytest.approx(-0.75 * math.log(1 - 4 * share / 3), rel=1e-4)


@pytest.mark.parametrize("name", ["HKY", "GTR+G4", "GTR+I+G4"])
def test_under_other_models_they_are_the_most_likely_lengths(name):
    model = MODELS[name]
    patterns = compress(evolved(5, 300, 2, model)[0])
    found = distances_of(Surface(patterns, model))
    np.testing.assert_array_equal(found, found.T)
    tips, frequencies, matrix = patterns.tip_partials, model.frequencies.numpy(), model.rate_matrix().numpy()
    rates, shares = model.site_rates.rates().numpy(), model.site_rates.weights().numpy()
    constant = np.zeros(len(patterns))
    if model.site_rates.invariant is not None:
        constant = model.site_rates.invariant.item() * (tips.all(axis=0) @ frequencies)
    for first in range(5):
        for second in range(first):

            def loss(length, first=first, second=second):
                mixed = sum(share * expm(matrix * rate * length) for rate, share in zip(rates, shares, strict=True))
                likelihoods = np.einsum("ps,s,st,pt->p", tips[first], frequencies, mixed, tips[second])
                return -patterns.counts @ np.log(likelihoods + constant)

            best = minimize_scalar(loss, bounds=(1e-8, 20.0), method="bounded", options={"xatol": 1e-9}).x
            assert found[first, second] == pytest.approx(best, rel=1e-3, abs=1e-5)


def test_equal_sequences_have_none_and_gaps_say_nothing():
    patterns = random_patterns(4, 50, 3)
    states = patterns.states.copy()
    states[1] = states[0]
    states[3] = 15
    found = distances_of(Surface(replace(patterns, states=states), MODELS["JC"]))
    assert found[0, 1] == SHORTEST
    assert np.isfinite(found).all()
    with_gaps = random_patterns(3, 200, 4, "AAAACGT-")
    known = (with_gaps.states[:2] != 15).all(axis=0)
    without = only(with_gaps, known)
    values = [distances_of(Surface(part, MODELS["HKY"]))[0, 1] for part in (with_gaps, without)]
    assert values[0] == pytest.approx(values[1], rel=1e-5)
