"""Estimates from importance samples: what each is of, and that batches change nothing."""

import dataclasses
import math

import numpy as np
import pytest
import torch

from phloem.config import EvaluationConfig
from phloem.errors import FileProblem, TaxonMismatch
from phloem.inference import evaluation
from phloem.inference.draws import DrawCollector
from phloem.inference.evaluation import draw_log_weights, evaluate
from phloem.random_streams import RandomStream
from phloem.target.likelihood import TreeLikelihood
from phloem.target.posterior import TreePosterior
from phloem.variational.joint import read_parameters, write_parameters
from support.small_posteriors import example

STREAM = RandomStream(3, "evaluation")


def log_mean(values: np.ndarray) -> float:
    return float(torch.logsumexp(torch.from_numpy(values), 0)) - math.log(len(values))


def test_three_estimates_a_repeat_from_the_same_draws(monkeypatch):
    """By hand: 3 repeats of 7 draws, in groups of 2 that leave one out."""
    rows = np.random.default_rng(1).normal(scale=3, size=(3, 7))
    monkeypatch.setattr(evaluation, "draw_log_weights", lambda *_, stream, keep, ranks: rows[stream.step])
    model, target = example("split")
    found = evaluate(model, target, EvaluationConfig(samples=7, repeats=3), particles=2, stream=STREAM)
    elbos = [row.mean() for row in rows]
    bounds = [np.mean([log_mean(row[start : start + 2]) for start in (0, 2, 4)]) for row in rows]
    marginals = [log_mean(row) for row in rows]
    for estimated, values in zip(found, (elbos, bounds, marginals), strict=True):
        assert estimated == pytest.approx((np.mean(values), np.std(values, ddof=1)))


def test_one_repeat_has_no_deviation_and_few_samples_are_one_group():
    model, target = example("split")
    found = evaluate(model, target, EvaluationConfig(samples=4, repeats=1), particles=10, stream=STREAM)
    assert found.elbo.std is None
    assert found.lower_bound == found.log_marginal_likelihood


def test_a_target_of_other_taxa_is_refused():
    model, target = example("split")
    patterns = target.likelihood.patterns
    renamed = TreePosterior(TreeLikelihood(dataclasses.replace(patterns, taxa=patterns.taxa[::-1])))
    with pytest.raises(TaxonMismatch):
        evaluate(model, renamed, EvaluationConfig(samples=2, repeats=1), particles=2, stream=STREAM)


def test_repeats_are_told_one_by_one():
    model, target = example("split")
    seen = []
    evaluate(model, target, EvaluationConfig(samples=2, repeats=3), particles=2, stream=STREAM, progress=seen.append)
    assert seen == [1, 2, 3]


@pytest.mark.parametrize("branches", ["psp", "edge"])
def test_a_batch_of_draws_is_its_draws_one_by_one(branches):
    model, target = example(branches)
    whole = draw_log_weights(model, target, 30, stream=STREAM.at(4))
    single = [draw_log_weights(model, target, 1, stream=STREAM.at(4, particle))[0] for particle in range(30)]
    np.testing.assert_allclose(whole, single, rtol=1e-12)
    assert len(set(whole.tolist())) == 30


def test_parameters_come_back_from_their_file(tmp_path):
    model, target = example("edge")
    path = tmp_path / "parameters.safetensors"
    write_parameters(model, path)
    before = draw_log_weights(model, target, 5, stream=STREAM)
    other, _ = example("edge")
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.zero_()
    read_parameters(other, path)
    np.testing.assert_array_equal(draw_log_weights(other, target, 5, stream=STREAM), before)
    write_parameters(other, tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == path.read_bytes()


def test_files_that_hold_other_things_are_refused(tmp_path):
    model, _ = example("edge")
    path = tmp_path / "parameters.safetensors"
    write_parameters(example("psp")[0], path)
    with pytest.raises(FileProblem, match="another model"):
        read_parameters(model, path)
    path.write_bytes(b"nothing of the kind")
    with pytest.raises(FileProblem, match="not a parameter file"):
        read_parameters(model, path)
    with torch.no_grad():
        other = example("edge")[0]
        other.network.logits[0] = float("nan")
    write_parameters(other, path)
    with pytest.raises(FileProblem, match="not finite"):
        read_parameters(model, path)
    write_parameters(model, path)
    path.write_bytes(path.read_bytes()[:-7])
    with pytest.raises(FileProblem, match="not a parameter file"):
        read_parameters(model, path)


def test_many_draws_are_made_a_few_at_a_time(monkeypatch):
    model, target = example("edge")
    together, one_by_one = DrawCollector(), DrawCollector()
    whole = draw_log_weights(model, target, 23, stream=STREAM.at(2, 5), keep=together)
    monkeypatch.setattr(evaluation, "CHUNK_NODES", 40)  # four trees of ten nodes
    sizes = []
    draw = evaluation.draw_particles
    monkeypatch.setattr(
        evaluation, "draw_particles", lambda *parts, **options: sizes.append(parts[2]) or draw(*parts, **options)
    )
    parts = draw_log_weights(model, target, 23, stream=STREAM.at(2, 5), keep=one_by_one)
    np.testing.assert_allclose(parts, whole, rtol=1e-12)
    assert sizes == [4, 4, 4, 4, 4, 3]
    found, expected = (kept.draws(model.network.support.taxa) for kept in (one_by_one, together))
    np.testing.assert_array_equal(found.topologies.parent, expected.topologies.parent)
    np.testing.assert_array_equal(found.group, expected.group)
    np.testing.assert_allclose(found.branch_lengths, expected.branch_lengths, rtol=1e-6)
    np.testing.assert_allclose(found.log_weights, whole, rtol=1e-12)
