"""A model that was trained elsewhere, as a posterior."""

import numpy as np
import pytest
import torch

import phloem
from phloem.config import EvaluationConfig, InferConfig, ModelConfig
from phloem.errors import BadArgument, FileProblem, TaxonMismatch
from phloem.inference.evaluation import evaluate
from phloem.inference.training import Report
from phloem.random_streams import RandomStream
from phloem.target.likelihood import TreeLikelihood
from phloem.target.posterior import TreePosterior
from phloem.target.priors import TreePrior
from phloem.target.substitution import SiteRates, SubstitutionModel, describe_model, gtr, hky85, jc69, k80, sym, tn93
from phloem.tasks.own_model import posterior_of
from phloem.tasks.posterior import sample_posterior
from phloem.tasks.run_files import build_target
from phloem.variational.joint import JointModel, build_branch_model
from phloem.variational.parameters import ParameterModel
from support.messages import saying
from support.small_posteriors import example

FEW = EvaluationConfig(samples=60, repeats=3, anneal=0, chains=4)
HISTORY = [Report(step, float(step), 1.0, -300.0, -310.0 + step, 5, 0) for step in (10, 20)]
SHARES = [0.35, 0.15, 0.2, 0.3]
RATES = [1.1, 2.7, 0.6, 0.9, 3.3, 1.0]


def scalar(value: float) -> torch.Tensor:
    return torch.tensor(value, dtype=torch.float64)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    model, target = example("edge")
    target = TreePosterior(TreeLikelihood(target.likelihood.patterns, hky85(3.0, SHARES)), TreePrior(7.0))
    path = tmp_path_factory.mktemp("own") / "run"
    posterior = posterior_of(
        model, target, history=HISTORY, particles=5, evaluation=FEW, seed=3, source="mine", out=path
    )
    return posterior, model, target


def test_it_says_what_the_model_says(made):
    posterior, model, target = made
    expected = evaluate(model, target, FEW, particles=5, stream=RandomStream(3, "evaluation"))
    assert posterior.summary.evaluation == expected
    assert len(posterior.draws) == FEW.samples * FEW.repeats
    assert posterior.model is model
    assert posterior.target is target
    assert posterior.history == HISTORY
    assert posterior.summary.steps == 20
    assert posterior.trust.findings
    assert posterior.source == "mine"


def test_it_can_be_printed_reported_plotted_and_summarised(made, tmp_path):
    posterior, *_ = made
    assert "log marginal likelihood" in str(posterior)
    posterior.report(tmp_path / "report.html")
    report = (tmp_path / "report.html").read_text()
    assert "HKY85" in report
    assert "own model JointModel" in report
    phloem.plot.save(phloem.plot.tree(posterior.consensus()), tmp_path / "tree.pdf")
    phloem.plot.save(phloem.plot.training([posterior.history]), tmp_path / "training.pdf")


def test_its_files_are_those_of_a_run(made, tmp_path):
    posterior, _, target = made
    saved = posterior.save(tmp_path / "copy")
    assert saved.log_marginal_likelihood == posterior.log_marginal_likelihood
    assert saved.history == HISTORY
    assert saved.alignment.taxa == posterior.taxa
    assert saved.target.likelihood.model.describe() == target.likelihood.model.describe()
    one, two = sample_posterior(saved, 20), sample_posterior(posterior, 20)
    np.testing.assert_array_equal(one.log_prior, two.log_prior)
    lengths = torch.tensor(one.trees.branch_lengths)
    np.testing.assert_allclose(one.log_prior, TreePrior(7.0)(one.trees.topologies, lengths))
    saved.report(tmp_path / "report.html")
    with pytest.raises(BadArgument, match=saying("model JointModel … posterior_of")):
        _ = saved.model
    with pytest.raises(BadArgument, match=saying("model JointModel … posterior_of")):
        phloem.infer(None, out=saved.directory, resume=True, progress=False)


def plain(topologies, lengths):
    return -3 * lengths.sum(1)


class Derived(TreePrior):
    def __call__(self, topologies, lengths):
        return plain(topologies, lengths)


@pytest.mark.parametrize(("prior", "name"), [(plain, "plain"), (Derived(), "Derived")])
def test_a_prior_of_ones_own_is_named_and_needed(prior, name, tmp_path):
    model, target = example("split")
    posterior = posterior_of(model, TreePosterior(target.likelihood, prior), evaluation=FEW)
    assert posterior.config.own == f"model JointModel, prior {name}"
    sample = sample_posterior(posterior, 20)
    np.testing.assert_allclose(sample.log_prior, -3 * sample.trees.branch_lengths.sum(1))
    with pytest.raises(BadArgument, match="no file holds"):
        posterior.save(tmp_path / "copy").sample(5)


def test_what_the_target_infers_of_its_model_is_known_to_the_files_too(tmp_path):
    """The model of lengths does not know the parameters, so that their Q is the whole of Q(θ)."""
    model, target = example("split")
    patterns = target.likelihood.patterns
    config = ModelConfig("HKY+G4", frequencies=tuple(SHARES))
    target = build_target(patterns, InferConfig(model=config))
    dimension = target.dimension
    parameters = ParameterModel(np.zeros(dimension), 0.2 * np.eye(dimension))
    branches = build_branch_model("split", model.network.support, width=7, dimension=dimension)
    posterior = posterior_of(JointModel(model.network, branches, parameters), target, evaluation=FEW)
    saved = posterior.save(tmp_path / "copy")
    assert list(saved.parameters) == ["kappa", "alpha"]
    assert saved.summary.model == "HKY+G4, frequencies 0.3500 0.1500 0.2000 0.3000; kappa and the shape are inferred"
    for name, values in sample_posterior(saved, 20).parameters.items():
        np.testing.assert_array_equal(values, sample_posterior(posterior, 20).parameters[name])
    saved.report(tmp_path / "report.html")


def test_a_run_that_exists_is_left_alone(made):
    posterior, model, target = made
    with pytest.raises(FileProblem):
        posterior_of(model, target, evaluation=FEW, out=posterior.directory)


def test_what_is_no_model_or_target_is_refused(made):
    _, model, target = made
    for wrong in ((model.branches, target), (model, target.likelihood)):
        with pytest.raises(BadArgument, match="is needed"):
            posterior_of(*wrong)
    other = phloem.data.Alignment(tuple("fedcba"), target.likelihood.patterns.alignment.states)
    with pytest.raises(TaxonMismatch):
        posterior_of(model, TreePosterior(TreeLikelihood(phloem.data.compress(other))))


@pytest.mark.parametrize(
    "model",
    [
        jc69(),
        jc69(SiteRates(scalar(0.5), 4, "median", scalar(0.2))),
        k80(2.0),
        hky85(2.0, SHARES),
        tn93(2.0, 3.0, SHARES, SiteRates(scalar(0.5), 8)),
        sym(RATES),
        gtr(RATES, SHARES, SiteRates(None, invariant=scalar(0.1))),
    ],
    ids=lambda model: model.in_words(),
)
def test_every_model_of_phloem_can_be_written_as_settings(model):
    patterns = example("split")[1].likelihood.patterns
    config = describe_model(model, patterns)
    assert phloem.target.substitution.build_model(config, patterns).describe() == model.describe()


@pytest.mark.parametrize("name", ["HKY85", "MINE"])
def test_another_model_cannot(name):
    patterns = example("split")[1].likelihood.patterns
    own = SubstitutionModel(name, torch.tensor(RATES).double(), torch.tensor(SHARES).double())
    assert describe_model(own, patterns) is None
    model, target = example("split")
    posterior = posterior_of(model, TreePosterior(TreeLikelihood(target.likelihood.patterns, own)), evaluation=FEW)
    assert posterior.config.own == f"model JointModel, substitution {name}"
