"""Trained posteriors against the truth: exact ones of a few taxa, and MrBayes."""

import subprocess
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch

from phloem.config import EvaluationConfig, InferConfig, preset
from phloem.data.patterns import compress
from phloem.data.reading import find_alignment, find_trees, read_alignment
from phloem.inference.draws import DrawCollector
from phloem.inference.evaluation import draw_log_weights, evaluate
from phloem.inference.particles import Particles, draw_particles
from phloem.inference.training import Training
from phloem.random_streams import RandomStream
from phloem.target.likelihood import TreeLikelihood
from phloem.target.posterior import TreePosterior
from phloem.tasks.run_files import build_model
from phloem.trees.generation import all_topologies
from phloem.trees.reading import read_trees
from phloem.trees.sample import TreeSample, pool
from phloem.trees.splits import SplitFrequencies, split_frequencies, split_table
from phloem.trees.topology import TopologyBatch
from phloem.variational.joint import JointModel
from phloem.variational.sbn import collect_support, support_of
from reference.exact_posterior import exact_posterior
from support.small_posteriors import evolved


def trained(
    target: TreePosterior, topologies: TopologyBatch, branches: str, family: str, steps: int, **changes
) -> JointModel:
    support = support_of(target.likelihood.patterns.taxa, topologies)
    config = InferConfig(
        branches=branches, family=family, width=16, training=preset("standard", steps=steps, **changes)
    )
    model = build_model(support, config, None)
    training = Training(model, target, config.training, seed=config.seed)
    for _ in range(steps):
        training.step()
    training.finish()
    return model


def weighted_draws(model: JointModel, target: TreePosterior, count: int) -> tuple[Particles, np.ndarray]:
    """Draws and their normalised importance weights."""
    with torch.no_grad():
        draws = draw_particles(model, target, count, stream=RandomStream(8, "check"))
    log_weights = draws.log_weights()
    weights = np.exp(log_weights - log_weights.max())
    return draws, weights / weights.sum()


def clade_errors(exact: SplitFrequencies, model: JointModel, target: TreePosterior, count: int) -> np.ndarray:
    """Clade probabilities of so many weighted draws minus the exact ones, for all clades that there are."""
    collector = DrawCollector()
    draw_log_weights(model, target, count, stream=RandomStream(9, "check"), keep=collector)
    found = split_frequencies(collector.draws(exact.taxa).weighted().topology_sample())
    table = split_table([exact, found]).frequencies
    return table[:, 1] - table[:, 0]


@cache
def exact_of_all_topologies(taxa: int) -> tuple[np.ndarray, float, float]:
    """It takes longer than a training, so that tests of as many taxa share it."""
    return exact_posterior(all_topologies(taxa), compress(evolved(taxa, 50, seed=3)), samples=60_000, seed=1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("taxa", "branches", "family", "estimator"),
    [(5, "edge", "lognormal", "vimco"), (5, "psp", "warped", "rws"), (6, "edge", "warped", "vimco")],
)
def test_the_importance_corrected_posterior_is_the_exact_one(taxa, branches, family, estimator):
    everything = all_topologies(taxa)
    patterns = compress(evolved(taxa, 50, seed=3))
    exact, log_marginal_likelihood, error = exact_of_all_topologies(taxa)
    assert 0.1 < exact.max() < 0.9  # a posterior that is not one tree
    target = TreePosterior(TreeLikelihood(patterns))
    model = trained(target, everything, branches, family, steps=3000, estimator=estimator)

    clades = split_frequencies(TreeSample(target.likelihood.patterns.taxa, everything, exact, None))
    errors = [np.abs(clade_errors(clades, model, target, count)).max() for count in (400, 40_000)]
    assert errors[1] < 0.015  # the integration has its own error, of about 0.01
    assert errors[1] < errors[0]  # the more draws, the nearer

    draws, weights = weighted_draws(model, target, 40_000)
    number = {row.tobytes(): place for place, row in enumerate(everything.parent)}
    found = np.bincount([number[row.tobytes()] for row in draws.topologies.parent], weights, minlength=len(everything))
    assert np.abs(found - exact).max() < 0.012
    with torch.no_grad():
        uncorrected = model.network.log_prob(everything).exp().numpy()
    assert np.abs(uncorrected - exact).sum() < 0.3  # Q(τ) itself is near, before any correction

    config = EvaluationConfig(samples=1000, repeats=40)
    found = evaluate(model, target, config, particles=10, stream=RandomStream(1, "check"))
    assert found.elbo.mean < found.lower_bound.mean < log_marginal_likelihood + 4 * error
    own_error = found.log_marginal_likelihood.std / config.repeats**0.5
    assert found.log_marginal_likelihood.mean == pytest.approx(
        log_marginal_likelihood, abs=4 * (error + own_error) + 0.01
    )


def run_mrbayes(program: str, folder: Path, generations: int) -> TreeSample:
    """The second half of two chains under Jukes–Cantor with Exponential(10) branch lengths."""
    rows = [line.split("\n", 1) for line in find_alignment("primates").read_text().split(">")[1:]]
    matrix = "\n".join(f"{name.split()[0]} {sequence.replace(chr(10), '')}" for name, sequence in rows)
    sites = len(rows[0][1].replace("\n", ""))
    (folder / "run.nex").write_text(
        f"#NEXUS\nbegin data;\ndimensions ntax={len(rows)} nchar={sites};\nformat datatype=dna missing=? gap=-;\n"
        f"matrix\n{matrix}\n;\nend;\nbegin mrbayes;\nset autoclose=yes nowarn=yes seed=1 swapseed=1 usebeagle=yes "
        "beagledevice=cpu beaglesse=yes;\nlset nst=1 rates=equal;\nprset statefreqpr=fixed(equal) "
        f"brlenspr=unconstrained:exp(10);\nmcmc ngen={generations} nruns=2 nchains=1 samplefreq=50 "
        f"printfreq={generations} diagnfreq={generations} filename=run;\nend;\n"
    )
    subprocess.run([program, "run.nex"], cwd=folder, check=True, capture_output=True, timeout=900)
    taxa = read_alignment("primates").taxa
    return pool([read_trees(folder / f"run.run{run}.t", taxa=taxa, burnin=0.2) for run in (1, 2)])


@pytest.mark.slow
def test_clade_probabilities_of_the_primates_are_those_of_mrbayes(mrbayes, tmp_path):
    reference = split_frequencies(run_mrbayes(mrbayes, tmp_path, generations=300_000))
    alignment = read_alignment("primates")
    trees = read_trees(find_trees("primates"), taxa=alignment.taxa)
    config = InferConfig(training=preset("quick", steps=5000))
    target = TreePosterior(TreeLikelihood(compress(alignment)))
    model = build_model(collect_support([trees], credible=config.support.credible), config, None)
    training = Training(model, target, config.training, seed=1)
    for _ in range(config.training.steps):
        training.step()
    draws, weights = weighted_draws(model, target, 20_000)
    found = split_frequencies(TreeSample(alignment.taxa, draws.topologies, weights, None))

    ours = {row.tobytes(): share for row, share in zip(found.members, found.frequencies, strict=True)}
    theirs = {row.tobytes(): share for row, share in zip(reference.members, reference.frequencies, strict=True)}
    assert any(0.02 < share < 0.98 for share in theirs.values())  # there is something to get wrong
    for split in ours.keys() | theirs.keys():
        assert ours.get(split, 0.0) == pytest.approx(theirs.get(split, 0.0), abs=0.02)
