"""Priors, tempering, and branch lengths of maximum likelihood."""

import math
import re
import subprocess

import numpy as np
import pytest
import torch
from scipy import stats

from phloem.data.alignment import Alignment
from phloem.data.patterns import compress
from phloem.data.reading import find_alignment, find_trees, read_alignment
from phloem.errors import BadArgument
from phloem.target.estimation import optimize_branch_lengths
from phloem.target.likelihood import TreeLikelihood
from phloem.target.posterior import TreePosterior
from phloem.target.priors import TreePrior
from phloem.target.substitution import SiteRates, hky85
from phloem.trees.generation import all_topologies
from phloem.trees.reading import read_trees
from phloem.trees.writing import format_newick


def test_the_prior_is_uniform_on_topologies_and_exponential_on_lengths():
    topologies = all_topologies(6)[:4]
    lengths = torch.rand(4, 9, dtype=torch.float64)
    expected = stats.expon.logpdf(lengths.numpy(), scale=1 / 7).sum(axis=1) - math.log(105)
    np.testing.assert_allclose(TreePrior(7.0)(topologies, lengths).numpy(), expected)


@pytest.mark.parametrize("rate", [0.0, -1.0, math.inf, math.nan])
def test_a_prior_needs_a_positive_rate(rate):
    with pytest.raises(BadArgument, match="branch-length prior"):
        TreePrior(rate)


@pytest.fixture
def posterior() -> TreePosterior:
    random = np.random.default_rng(1)
    rows = ["".join(random.choice(list("ACGT"), 40)) for _ in range(5)]
    return TreePosterior(TreeLikelihood(compress(Alignment.from_sequences("ABCDE", rows))))


def test_tempering_weighs_the_likelihood_alone(posterior):
    topologies, lengths = all_topologies(5), torch.full((15, 7), 0.1, dtype=torch.float64)
    cold = posterior.log_joint(topologies, lengths)
    prior = posterior.prior(topologies, lengths)
    torch.testing.assert_close(posterior.log_joint(topologies, lengths, 0.3), prior + 0.3 * (cold - prior))
    torch.testing.assert_close(
        posterior.log_joint(topologies, torch.zeros_like(lengths), 0.0),
        posterior.prior(topologies, torch.zeros_like(lengths)),
    )
    for bad in (-0.1, 1.1, math.nan):
        with pytest.raises(BadArgument, match="inverse temperature"):
            posterior.log_joint(topologies, lengths, bad)


def test_the_joint_has_gradients(posterior):
    topologies = all_topologies(5)[:3]
    lengths = torch.full((3, 7), 0.1, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: posterior.log_joint(topologies, x, 0.7), lengths, atol=1e-6)


def test_best_lengths_have_no_slope_and_no_better_neighbour():
    alignment = read_alignment("primates")
    topologies = read_trees(find_trees("primates"), taxa=alignment.taxa).topologies[:3]
    for model in (None, hky85(2.0, [0.3, 0.3, 0.1, 0.3], SiteRates(torch.tensor(0.5).double(), 4))):
        likelihood = TreeLikelihood(compress(alignment), model)
        best = optimize_branch_lengths(likelihood, topologies)
        assert best.converged.all()
        lengths = torch.tensor(best.branch_lengths, requires_grad=True)
        value = likelihood(topologies, lengths)
        value.sum().backward()
        np.testing.assert_allclose(value.detach().numpy(), best.log_likelihoods)
        slope = (lengths.grad * lengths).abs().max()
        assert slope < 0.02
        for factor in (0.97, 1.03):
            assert (likelihood(topologies, lengths.detach() * factor) < value).all()


def test_the_start_and_the_company_of_other_trees_do_not_matter():
    alignment = read_alignment("primates")
    topologies = read_trees(find_trees("primates"), taxa=alignment.taxa).topologies[:5]
    likelihood = TreeLikelihood(compress(alignment))
    together = optimize_branch_lengths(likelihood, topologies)
    start = np.random.default_rng(1).exponential(0.5, together.branch_lengths.shape)
    np.testing.assert_allclose(
        optimize_branch_lengths(likelihood, topologies, start).log_likelihoods, together.log_likelihoods, atol=1e-4
    )
    alone = optimize_branch_lengths(likelihood, topologies[2])
    np.testing.assert_allclose(alone.log_likelihoods, together.log_likelihoods[2:3], atol=1e-5)


def test_identical_sequences_get_branches_of_no_length():
    alignment = Alignment.from_sequences("ABCD", ["ACGTACGTAC", "ACGTACGTAC", "ACGTACGTTT", "ACGTACGAAT"])
    best = optimize_branch_lengths(TreeLikelihood(compress(alignment)), all_topologies(4))
    assert best.branch_lengths[:, :2].max() < 1e-4
    assert best.converged.all()


@pytest.mark.parametrize("index", [0, 5, 15])
def test_iqtree_finds_no_better_lengths(iqtree, tmp_path, index):
    alignment = read_alignment("primates")
    topologies = read_trees(find_trees("primates"), taxa=alignment.taxa).topologies[index]
    (tmp_path / "tree.nwk").write_text(format_newick(topologies, alignment.taxa)[0])
    command = [iqtree, "-s", str(find_alignment("primates")), "-te", "tree.nwk", "-m", "JC", "-pre", "out", "-nt", "1"]
    subprocess.run([*command, "-quiet"], cwd=tmp_path, check=True, capture_output=True)
    found = re.search(r"Log-likelihood of the tree: (\S+)", (tmp_path / "out.iqtree").read_text())
    assert found is not None
    best = optimize_branch_lengths(TreeLikelihood(compress(alignment)), topologies)
    assert best.log_likelihoods[0] >= float(found.group(1)) - 1e-3


@pytest.mark.parametrize("temperature", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("kind", ["ours", "own prior", "free parameters"])
def test_by_hand_is_the_same_as_by_autograd(temperature, kind):
    alignment = Alignment.from_sequences("ABCDEF", ["ACGTTA", "ACGTAA", "AGGTAA", "AGCTAC", "CGCTAC", "CGCTTC"])
    topologies = all_topologies(6)[:4]
    lengths = torch.tensor(np.random.default_rng(1).exponential(0.1, (4, 9)))
    kappa = torch.tensor(2.0, dtype=torch.float64, requires_grad=kind == "free parameters")
    likelihood = TreeLikelihood(compress(alignment), hky85(kappa, [0.3, 0.2, 0.2, 0.3]))
    own = TreePrior(7.0)
    prior = (lambda trees, values: own(trees, values)) if kind == "own prior" else own
    target = TreePosterior(likelihood, prior)
    recorded = lengths.clone().requires_grad_()
    expected = target.log_joint(topologies, recorded, temperature)
    gradient = torch.tensor([1.0, -2.0, 0.5, 3.0], dtype=torch.float64)
    expected.backward(gradient)
    found, slopes = target.log_joint_by_hand(topologies, lengths, temperature)
    assert not found.requires_grad
    torch.testing.assert_close(found, expected.detach(), rtol=0, atol=0)
    torch.testing.assert_close(gradient[:, None] * slopes.lengths, recorded.grad, rtol=1e-15, atol=1e-12)
    assert slopes.theta.shape == (4, 0)
