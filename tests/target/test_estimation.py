"""Models estimated on a tree, against IQ-TREE, plain searches, and the truth behind simulated data."""

import re
import subprocess
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize, minimize_scalar

from phloem.config.model import MODEL_PARAMETERS, EstimatedModel, parse_estimated_model
from phloem.data.alignment import Alignment
from phloem.data.patterns import SitePatterns, compress
from phloem.data.reading import find_alignment, find_trees, read_alignment
from phloem.errors import BadArgument
from phloem.random_streams import RandomStream
from phloem.target.estimation import (
    INVARIANT,
    SHAPES,
    FittedModel,
    estimate_model,
    optimize_branch_lengths,
    start_model,
    typical_log_length,
)
from phloem.target.likelihood import TreeLikelihood
from phloem.target.substitution import SiteRates, gtr, hky85, jc69, k80
from phloem.trees.generation import random_topologies
from phloem.trees.reading import read_trees
from phloem.trees.topology import TopologyBatch
from phloem.trees.writing import format_newick
from reference.simulation import simulate
from support.strategies import topology_batches

PRIMATES = read_alignment("primates")
FREQUENCIES = [0.35, 0.15, 0.2, 0.3]
FORMS = ["JC", "F81", "K80", "HKY", "TN93", "SYM", "GTR", "JC+G4", "HKY+I", "GTR+G4", "GTR+I+G4"]


def form_of(words: str) -> EstimatedModel:
    return parse_estimated_model("--model", words)


def scalar(value: float) -> torch.Tensor:
    return torch.tensor(value, dtype=torch.float64)


def primate_tree() -> TopologyBatch:
    trees = read_trees(find_trees("primates"), taxa=PRIMATES.taxa).distinct()
    return trees.topologies[int(trees.weights.argmax())]


def fit(patterns: SitePatterns, topology: TopologyBatch, words: str, length: float = 0.1, **others) -> FittedModel:
    form = form_of(words)
    lengths = np.full((1, topology.branch_count), length)
    return estimate_model(patterns, topology, start_model(form, patterns), lengths, form=form, **others)


def small_data(seed: int = 3, model=None, sites: int = 400) -> tuple[SitePatterns, TopologyBatch]:
    """Five taxa along a tree with branches of ordinary lengths."""
    topology = random_topologies(5, 1, stream=RandomStream(seed, "x"))
    lengths = np.random.default_rng(seed).uniform(0.05, 0.3, 7)
    model = model or hky85(4.0, FREQUENCIES, SiteRates(scalar(0.6), 4, invariant=scalar(0.2)))
    return compress(simulate(topology, lengths, model, sites, seed)), topology


def iqtree_optimum(iqtree: str, folder, topology: TopologyBatch, form: EstimatedModel, frequencies) -> float:
    """What IQ-TREE finds with our frequencies: its own share ambiguous states out."""
    name, *others = str(form).replace("TN93", "TN").split("+")
    if "frequencies" in MODEL_PARAMETERS[form.name]:
        others.insert(0, "F{" + ",".join(f"{share:.12f}" for share in frequencies) + "}")
    (folder / "tree.nwk").write_text(format_newick(topology, PRIMATES.taxa)[0])
    command = [iqtree, "-s", str(find_alignment("primates")), "-te", "tree.nwk", "-m", "+".join([name, *others])]
    command += ["-me", "0.001", "-pre", "out", "-nt", "1", "-quiet", "-keep-ident"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    found = re.search(r"Log-likelihood of the tree: (\S+)", (folder / "out.iqtree").read_text())
    assert found is not None
    return float(found.group(1))


@pytest.mark.parametrize(
    "words", ["JC", "F81", "K80", "HKY", "TN", "SYM", "GTR", "HKY+I", "HKY+G4", "GTR+G4", "JC+I+G4", "GTR+I+G4"]
)
def test_the_primates_are_as_likely_as_iqtree_can_make_them(iqtree, tmp_path, words):
    patterns, topology = compress(PRIMATES), primate_tree()
    fitted = fit(patterns, topology, words)
    frequencies = start_model(form_of(words), patterns).frequencies.tolist()
    expected = iqtree_optimum(iqtree, tmp_path, topology, form_of(words), frequencies)
    assert fitted.converged
    # Its rates end at 100, which costs it up to 0.1 here.
    assert expected - 0.02 <= fitted.log_likelihood <= expected + 0.1


def test_a_nelder_mead_search_finds_nothing_better():
    patterns, topology = small_data()
    fitted = fit(patterns, topology, "HKY", tolerance=1e-5)

    def loss(logs: np.ndarray) -> float:
        model = hky85(float(np.exp(logs[7])), fitted.model.frequencies)
        return -TreeLikelihood(patterns, model, threads=1)(topology, torch.tensor(np.exp(logs[None, :7]))).item()

    options = {"adaptive": True, "maxiter": 1500, "maxfev": 1500, "xatol": 1e-3, "fatol": 1e-4}
    plain = minimize(loss, np.append(np.full(7, np.log(0.1)), np.log(2.0)), method="Nelder-Mead", options=options)
    assert -1e-5 <= fitted.log_likelihood + plain.fun < 0.01
    assert fitted.model.exchangeabilities[1].item() == pytest.approx(np.exp(plain.x[7]), rel=0.02)
    np.testing.assert_allclose(fitted.branch_lengths[0], np.exp(plain.x[:7]), rtol=0.05, atol=1e-3)


@pytest.mark.parametrize(
    ("words", "model_of", "found", "bounds"),
    [
        ("K80", k80, lambda model: model.exchangeabilities[4].item(), (0.5, 20.0)),
        ("JC+G4", lambda x: jc69(SiteRates(scalar(x))), lambda model: model.site_rates.shape.item(), (0.1, 10.0)),
        (
            "JC+I",
            lambda x: jc69(SiteRates(invariant=scalar(x))),
            lambda model: model.site_rates.invariant.item(),
            (0, 0.9),
        ),
    ],
)
def test_one_parameter_is_where_the_profile_over_it_is_highest(words, model_of, found, bounds):
    """The twin searches the parameter by itself, and the lengths anew for each of its values."""
    patterns, topology = small_data()

    def loss(value: float) -> float:
        likelihood = TreeLikelihood(patterns, model_of(value), threads=1)
        return -optimize_branch_lengths(likelihood, topology).log_likelihoods[0]

    profile = minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": 1e-3})
    fitted = fit(patterns, topology, words, tolerance=1e-5)
    assert fitted.log_likelihood == pytest.approx(-profile.fun, abs=1e-3)
    assert found(fitted.model) == pytest.approx(profile.x, rel=0.01, abs=2e-3)


def test_jukes_cantor_has_nothing_but_lengths():
    patterns, topology = compress(PRIMATES), primate_tree()
    fitted = fit(patterns, topology, "JC", tolerance=1e-5)
    expected = optimize_branch_lengths(TreeLikelihood(patterns, threads=1), topology)
    assert fitted.log_likelihood == pytest.approx(expected.log_likelihoods[0], abs=1e-4)
    np.testing.assert_allclose(fitted.branch_lengths, expected.branch_lengths, rtol=0.01, atol=1e-5)
    assert fitted.model.is_jukes_cantor


def test_estimates_are_near_the_truth_behind_simulated_data():
    exchangeabilities = [1.5, 5.0, 0.8, 1.2, 7.0, 1.0]
    truth = gtr(exchangeabilities, FREQUENCIES, SiteRates(scalar(0.5), 4))
    topology = random_topologies(8, 1, stream=RandomStream(1, "x"))
    lengths = np.random.default_rng(1).uniform(0.05, 0.4, topology.branch_count)
    patterns = compress(simulate(topology, lengths, truth, 20_000, 1))
    fitted = fit(patterns, topology, "GTR+G4")
    np.testing.assert_allclose(fitted.model.exchangeabilities, exchangeabilities, rtol=0.15)
    np.testing.assert_allclose(fitted.model.frequencies, FREQUENCIES, atol=0.01)
    assert fitted.model.site_rates.shape.item() == pytest.approx(0.5, rel=0.05)
    np.testing.assert_allclose(fitted.branch_lengths[0], lengths, rtol=0.15)
    at_truth = TreeLikelihood(patterns, truth, threads=1)(topology, torch.tensor(lengths[None])).item()
    assert 0 < fitted.log_likelihood - at_truth < 30  # half of a χ² with as many degrees as parameters


def test_invariant_sites_are_told_from_slow_ones():
    truth = jc69(SiteRates(invariant=scalar(0.4)))
    patterns, topology = small_data(model=truth, sites=20_000)
    fitted = fit(patterns, topology, "JC+I")
    assert fitted.model.site_rates.invariant.item() == pytest.approx(0.4, abs=0.03)


@pytest.mark.parametrize(
    "chain",
    [
        ["F81", "HKY", "TN93", "GTR", "GTR+G4", "GTR+I+G4"],
        ["JC", "K80", "SYM", "SYM+I", "SYM+I+G4"],
        ["JC", "JC+G4", "JC+I+G4"],
        ["JC+I", "JC+I+G4"],
    ],
)
def test_a_model_that_holds_another_is_at_least_as_likely(chain):
    patterns, topology = compress(PRIMATES), primate_tree()
    values = [fit(patterns, topology, words).log_likelihood for words in chain]
    assert (np.diff(values) > -2e-3).all()


@pytest.mark.parametrize("length", [0.0, 1e-9, 2.0, 60.0])
def test_lengths_that_start_where_there_is_no_slope_come_back(length):
    patterns, topology = compress(PRIMATES), primate_tree()
    usual = fit(patterns, topology, "HKY+G4")
    assert fit(patterns, topology, "HKY+G4", length).log_likelihood == pytest.approx(usual.log_likelihood, abs=0.01)


def test_the_first_step_changes_no_length_by_more_than_a_factor_e(monkeypatch):
    """Without curvature the gradient alone would lead to the limits, where nothing can be learned."""
    seen = []
    plain = TreeLikelihood.__call__

    def recorded(self, topologies, lengths):
        seen.append(np.log(lengths.detach().numpy()))
        return plain(self, topologies, lengths)

    monkeypatch.setattr(TreeLikelihood, "__call__", recorded)
    fit(compress(PRIMATES), primate_tree(), "HKY+G4")
    moved = next(step for step in (np.abs(logs - seen[0]).max() for logs in seen) if step > 1e-9)
    assert moved < 1.001


@st.composite
def starts(draw: st.DrawFn):
    """Data, a tree and a model with parameters from anywhere, the limits of the search included and exceeded."""
    topology = draw(topology_batches(least=3, most=7, trees=1))
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    symbols = draw(st.sampled_from(["ACGT", "AACCGGTT-NRY", "AC", "A", "-", "AAAAAAAG"]))
    sites = draw(st.sampled_from([1, 12]))
    rows = ["".join(random.choice(list(symbols), sites)) for _ in range(topology.taxon_count)]
    patterns = compress(Alignment.from_sequences([f"t{number}" for number in range(len(rows))], rows))
    form = form_of(draw(st.sampled_from(FORMS)))
    model = start_model(form, patterns)
    rates = model.site_rates
    if rates.shape is not None:
        rates = replace(rates, shape=scalar(draw(st.sampled_from([0.001, 0.02, 0.5, 100.0, 10_000.0]))))
    if rates.invariant is not None:
        rates = replace(rates, invariant=scalar(draw(st.sampled_from([0.0, 0.5, 0.99, 0.9999]))))
    exchangeabilities = model.exchangeabilities ** draw(st.floats(-20, 20))
    if form.name in ("SYM", "GTR"):
        exchangeabilities = torch.tensor(10.0 ** random.uniform(-6, 6, 6))
    lengths = random.choice([0.0, 1e-9, 1e-4, 0.1, 1.0, 300.0], (1, topology.branch_count))
    return patterns, topology, replace(model, exchangeabilities=exchangeabilities, site_rates=rates), lengths, form


@given(starts())
@settings(max_examples=30)
def test_what_comes_back_is_never_worse_and_is_what_it_says(start):
    patterns, topology, model, lengths, form = start
    before = TreeLikelihood(patterns, model, threads=1)(topology, torch.tensor(lengths)).item()
    fitted = estimate_model(patterns, topology, model, lengths, form=form)
    assert fitted.log_likelihood >= before
    assert fitted.converged
    after = TreeLikelihood(patterns, fitted.model, threads=1)(topology, torch.tensor(fitted.branch_lengths)).item()
    assert fitted.log_likelihood == pytest.approx(after, abs=1e-8, rel=1e-9)
    assert np.isfinite(after)
    assert fitted.model.name == model.name
    assert fitted.model.frequencies.tolist() == model.frequencies.tolist()
    tensors = [fitted.model.exchangeabilities, fitted.model.site_rates.shape, fitted.model.site_rates.invariant]
    assert not any(tensor.requires_grad for tensor in tensors if tensor is not None)


@pytest.mark.parametrize(
    "rows",
    [
        ["ACGTACGTAA"] * 4,
        ["AAAA"] * 4,
        ["ACGN", "ACGN", "ACG-", "ACRT"],
        ["ACGTAC", "ACGTAA", "ACCTAA", "------"],
        ["----"] * 4,
        ["A", "C", "G", "T"],
        ["ACGT", "ACGA", "AGGA"],
    ],
    ids=["identical", "one state", "no variable site", "a taxon of gaps", "all gaps", "one site", "three taxa"],
)
@pytest.mark.parametrize("words", ["JC", "HKY", "GTR+I+G4"])
def test_poor_data_gives_a_model_all_the_same(rows, words):
    patterns = compress(Alignment.from_sequences([f"t{number}" for number in range(len(rows))], rows))
    fitted = fit(patterns, random_topologies(len(rows), 1, stream=RandomStream(1, "x")), words)
    assert fitted.converged
    assert np.isfinite(fitted.log_likelihood)
    assert (fitted.branch_lengths >= 0).all()
    rates = fitted.model.site_rates
    assert rates.shape is None or 0.999 * SHAPES[0] <= rates.shape.item() <= 1.001 * SHAPES[1]
    assert rates.invariant is None or INVARIANT[0] <= rates.invariant.item() <= INVARIANT[1]


def test_the_same_comes_back_every_time_and_with_any_number_of_threads():
    patterns, topology = compress(PRIMATES), primate_tree()
    first, second, shared = (fit(patterns, topology, "GTR+G4", threads=threads) for threads in (1, 1, 2))
    for other in (second, shared):
        assert other.model.describe() == first.model.describe()
        np.testing.assert_array_equal(other.branch_lengths, first.branch_lengths)


@pytest.mark.parametrize("words", FORMS)
def test_the_start_is_counted_in_the_alignment_and_plain_otherwise(words):
    patterns = compress(Alignment.from_sequences("abc", ["AACCG", "AACRN", "A-GTT"]))
    model = start_model(form_of(words), patterns)
    takes = MODEL_PARAMETERS[form_of(words).name]
    counted = [5 / 12, 3 / 12, 2 / 12, 2 / 12] if "frequencies" in takes else [0.25] * 4
    assert model.frequencies.tolist() == pytest.approx(counted)
    kappa = 2 if "kappa" in takes else 1
    assert model.exchangeabilities.tolist() == [1, kappa, 1, 1, kappa, 1]
    assert model.site_rates.shape is None if "+G" not in words else model.site_rates.shape == 1
    assert model.site_rates.method == "mean"
    # Columns 1 and 2 can be explained by one state: half of two fifths.
    assert model.site_rates.invariant is None if "+I" not in words else model.site_rates.invariant == 0.2


@pytest.mark.parametrize(("symbol", "share"), [("A", 13 / 16), ("-", 1 / 4)])
def test_a_state_that_never_occurs_still_has_a_frequency(symbol, share):
    patterns = compress(Alignment.from_sequences("abc", [symbol * 4] * 3))
    frequencies = start_model(form_of("HKY"), patterns).frequencies.tolist()
    assert frequencies == pytest.approx([share, *[(1 - share) / 3] * 3])


def test_a_start_that_does_not_fit_is_refused():
    patterns, topology = small_data(sites=50)
    lengths = np.full((1, 7), 0.1)
    hky = start_model(form_of("HKY"), patterns)
    for words in ("GTR", "HKY+G4", "HKY+I"):
        with pytest.raises(BadArgument, match="Begin with start_model"):
            estimate_model(patterns, topology, hky, lengths, form=form_of(words))
    with pytest.raises(BadArgument, match="Begin with start_model"):
        estimate_model(patterns, topology, start_model(form_of("JC+G8"), patterns), lengths, form=form_of("JC+G4"))
    two = TopologyBatch.concatenate([topology, topology])
    with pytest.raises(BadArgument, match="2 trees: a model is estimated on one"):
        estimate_model(patterns, two, hky, np.full((2, 7), 0.1), form=form_of("HKY"))
    for bad in (np.full((1, 6), 0.1), np.full((1, 7), -0.1), np.full((1, 7), np.nan)):
        with pytest.raises(BadArgument, match="length"):
            estimate_model(patterns, topology, hky, bad, form=form_of("HKY"))


def test_the_typical_length_is_that_of_the_tree_behind_the_data():
    """Every branch is 0.05 long."""
    topology = random_topologies(8, 1, stream=RandomStream(3, "typical"))
    patterns = compress(simulate(topology, np.full(topology.branch_count, 0.05), jc69(), 20_000, 4))
    assert typical_log_length(TreeLikelihood(patterns, jc69()), topology) == pytest.approx(np.log(0.05), abs=0.05)


def test_where_nothing_changes_a_few_changes_are_the_typical_length():
    constant = compress(Alignment(tuple("abcde"), np.ones((5, 40), np.uint8)))
    topologies = random_topologies(5, 2, stream=RandomStream(1, "typical"))
    assert typical_log_length(TreeLikelihood(constant, jc69()), topologies) == pytest.approx(np.log(4 / 40))
