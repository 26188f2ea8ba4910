"""Convolutions, families, priors and estimators that a user brings: what is refused, and runs with them."""

from functools import partial

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812

import phloem
from phloem.cli import main
from phloem.config import InferConfig
from phloem.errors import BadArgument
from phloem.features.convolutions import Convolution, GcnConvolution
from phloem.inference.particles import Estimate, rws, vimco
from phloem.target.priors import TreePrior
from phloem.tasks.own_parts import NOTHING_OWN, OwnParts, check_convolution, check_estimator, check_family, check_prior
from phloem.trees.generation import random_topologies
from phloem.trees.sample import TreeSample
from phloem.variational.families import BranchDistribution, BranchSample, Lognormal
from support.messages import saying

TAXA = tuple("abcdef")
SETTINGS = {
    "progress": False,
    "model": {"name": "JC"},
    "width": 5,
    "training": {"steps": 6, "particles": 3},
    "evaluation": {"samples": 20, "repeats": 2, "reports": 2, "report_samples": 10},
}


class Summing(Convolution):
    """W · Σ_u h_u + b, by torch."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.linear = torch.nn.Linear(inputs, outputs)

    def forward(self, states, graph):
        values = graph.gather(states.linear(self.linear.weight)).masked_fill(graph.padding[:, :, None], 0)
        return F.elu(values.sum(1) + self.linear.bias)


class Exponential(BranchDistribution):
    """Independent exponentials with a mean of exp(θ - 2)."""

    parameters_per_branch = 1

    def __init__(self, parameters, _topologies):
        self.log_mean = parameters[:, :, 0].double() - 2

    def sample(self, *, stream, path_only=False):
        uniform = torch.from_numpy(stream.generator().random(tuple(self.log_mean.shape)))
        lengths = -torch.log1p(-uniform) * self.log_mean.exp()
        fixed = Exponential.__new__(Exponential)
        fixed.log_mean = self.log_mean.detach() if path_only else self.log_mean
        return BranchSample(lengths, fixed.log_prob(lengths))

    def log_prob(self, lengths):
        return -(self.log_mean + lengths * torch.exp(-self.log_mean)).sum(1)


def halved(log_weights):
    return vimco(log_weights)._replace(lower_bound=vimco(log_weights).lower_bound / 2)


class Twice(TreePrior):
    """Twice the usual prior's logarithm: any callable object is a prior."""

    def __call__(self, topologies, branch_lengths):
        return 2 * TreePrior.__call__(self, topologies, branch_lengths)


OWN = OwnParts(Summing, Exponential, Twice(), halved)


def problem():
    random = np.random.default_rng(1)
    alignment = phloem.data.Alignment(TAXA, (1 << random.integers(0, 4, (6, 30))).astype(np.uint8))
    topologies = random_topologies(6, 5, stream=phloem.RandomStream(1, "trees"))
    return alignment, TreeSample(TAXA, topologies, np.ones(5), None)


@pytest.mark.parametrize("convolution", [Summing, GcnConvolution, partial(GcnConvolution), lambda i, o: Summing(i, o)])
def test_convolutions_that_keep_the_contract(convolution):
    check_convolution(convolution)


def broken(forward):
    return type("Broken", (Summing,), {"forward": forward})


def numbered(self, states, graph):
    return Summing.forward(self, states, graph) * torch.arange(graph.node_count)[:, None]


def padded(self, states, graph):
    return F.elu(graph.gather(states.linear(self.linear.weight)).sum(1) + self.linear.bias)


@pytest.mark.parametrize(
    ("convolution", "facts"),
    [
        ("gcn", "a name goes into branches"),
        (Summing(6, 4), "class"),
        (7, "class"),
        (torch.nn.Linear, "makes a Linear … Convolution"),
        (lambda inputs: Summing(inputs, 3), "(inputs, outputs): TypeError"),
        (broken(lambda self, states, graph: states.dense()), "(30, 6) … not (30, 4)"),
        (broken(lambda self, states, graph: Summing.forward(self, states, graph).double()), "float64"),
        (broken(lambda self, states, graph: Summing.forward(self, states, graph).detach()), "parameters"),
        (broken(lambda self, states, graph: Summing.forward(self, states, graph).numpy()), "RuntimeError"),
        (broken(lambda self, states, graph: None), "NoneType"),
        (broken(lambda self, states, graph: Summing.forward(self, states, graph) / 0), "not finite"),
        (broken(numbered), "numbered"),
        (broken(padded), "padding"),
    ],
)
def test_a_convolution_that_breaks_the_contract_is_refused(convolution, facts):
    with pytest.raises(BadArgument, match=saying(facts)):
        check_convolution(convolution)


def altered(**changes):
    return type("Altered", (Exponential,), changes)


def sampling(change):
    return altered(sample=lambda self, **how: change(Exponential.sample(self, **how)))


@pytest.mark.parametrize("family", [Lognormal, Exponential])
def test_families_that_keep_the_contract(family):
    check_family(family)


@pytest.mark.parametrize(
    ("family", "facts"),
    [
        (Lognormal(torch.zeros(1, 9, 2)), "subclass"),
        (torch.distributions.LogNormal, "subclass"),
        (altered(parameters_per_branch=0), "parameters_per_branch is 0"),
        (altered(parameters_per_branch=None), "parameters_per_branch is None"),
        (sampling(lambda drawn: drawn.lengths), "BranchSample"),
        (sampling(lambda drawn: drawn._replace(lengths=-drawn.lengths)), "negative"),
        (sampling(lambda drawn: drawn._replace(lengths=drawn.lengths.detach())), "differentiable"),
        (sampling(lambda drawn: drawn._replace(lengths=drawn.lengths.float())), "float32"),
        (sampling(lambda drawn: drawn._replace(log_prob=drawn.log_prob.sum())), "()"),
        (sampling(lambda drawn: drawn._replace(lengths=drawn.lengths * torch.rand(()))), "stream"),
        (altered(log_prob=lambda self, lengths: Exponential.log_prob(self, lengths) / 0), "finite"),
        (altered(log_prob=lambda self, lengths: 1 / 0), "ZeroDivisionError"),
        (sampling(lambda drawn: drawn._replace(log_prob=drawn.log_prob + 1)), "but sample says"),
    ],
)
def test_a_family_that_breaks_the_contract_is_refused(family, facts):
    with pytest.raises(BadArgument, match=saying(facts)):
        check_family(family)


@pytest.mark.parametrize("prior", [TreePrior(), Twice(), lambda topologies, lengths: -lengths.sum(1)])
def test_priors_that_keep_the_contract(prior):
    check_prior(prior)


@pytest.mark.parametrize(
    ("prior", "facts"),
    [
        (TreePrior, "object"),
        (10.0, "object"),
        (lambda lengths: lengths.sum(1), "TypeError"),
        (lambda topologies, lengths: lengths.sum(), "() … not (3,)"),
        (lambda topologies, lengths: lengths.sum(1).float(), "float32"),
        (lambda topologies, lengths: lengths.sum(1).detach().numpy(), "ndarray"),
        (lambda topologies, lengths: lengths.sum(1) * torch.nan, "finite"),
    ],
)
def test_a_prior_that_breaks_the_contract_is_refused(prior, facts):
    with pytest.raises(BadArgument, match=saying(facts)):
        check_prior(prior)


@pytest.mark.parametrize("estimator", [vimco, rws, halved])
def test_estimators_that_keep_the_contract(estimator):
    check_estimator(estimator, 10)


@pytest.mark.parametrize(
    ("estimator", "facts"),
    [
        ("vimco", "function"),
        (lambda log_weights: tuple(vimco(log_weights)), "tuple … Estimate"),
        (lambda log_weights: vimco(log_weights)._replace(lower_bound=np.zeros(1)), "lower_bound … ndarray"),
        (lambda log_weights: vimco(log_weights)._replace(log_joint=log_weights[1:]), "log_joint … 10"),
        (lambda log_weights: vimco(log_weights)._replace(log_q_topology=[0.0] * 10), "log_q_topology"),
        (lambda log_weights: Estimate(*log_weights), "TypeError"),
    ],
)
def test_an_estimator_that_breaks_the_contract_is_refused(estimator, facts):
    with pytest.raises(BadArgument, match=saying(facts)):
        check_estimator(estimator, 10)


def test_a_convolution_needs_a_graph_model():
    with pytest.raises(BadArgument, match="branches='psp'"):
        OwnParts(Summing).recorded(InferConfig(branches="psp"))


def test_nothing_of_ones_own_leaves_the_settings_as_they_are():
    assert NOTHING_OWN.recorded(InferConfig()) == InferConfig()


@pytest.fixture(scope="module", params=[1, 2])
def run(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("own") / "run"
    alignment, trees = problem()
    posterior = phloem.infer(alignment, trees, out=path, runs=request.param, **OWN._asdict(), **SETTINGS)
    return path, posterior


def test_a_run_with_ones_own_parts_uses_them_and_says_so(run):
    path, posterior = run
    assert posterior.config.own == "convolution Summing, family Exponential, prior Twice, estimator halved"
    assert posterior.summary.branches == "own convolution Summing, family Exponential"
    assert posterior.config.own in (path / "config.toml").read_text()
    best = posterior.best_run
    assert isinstance(best.model.branches.features.convolutions[0], Summing)
    assert best.model.branches.family is Exponential
    assert isinstance(best.target.prior, Twice)
    sample = phloem.tasks.posterior.sample_posterior(posterior, 10)
    lengths = torch.tensor(sample.trees.branch_lengths)
    np.testing.assert_allclose(sample.log_prior, 2 * TreePrior()(sample.trees.topologies, lengths))
    np.testing.assert_allclose(
        sample.log_likelihood, best.target.likelihood(sample.trees.topologies, lengths), rtol=1e-4
    )


def test_such_a_run_is_resumed_with_its_objects_alone(run, capsys):
    path, posterior = run
    again = phloem.infer(None, out=path, resume=True, progress=False, **OWN._asdict())
    assert again.log_marginal_likelihood == posterior.log_marginal_likelihood
    assert len(again.sample(5)) == 5
    assert isinstance(again.model.branches.features.convolutions[0], Summing)
    for given in ({}, {"convolution": Summing}):
        with pytest.raises(BadArgument, match=saying("convolution=Summing, family=Exponential, prior=Twice")):
            phloem.infer(None, out=path, resume=True, progress=False, **given)
    assert main.run(["infer", "--resume", "--out", str(path)]) != 0
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert "convolution=Summing" in line


def test_files_of_such_a_run_say_all_but_what_needs_the_objects(run):
    path, posterior = run
    loaded = phloem.load_posterior(path)
    assert loaded.consensus().tree.parent.tolist() == posterior.consensus().tree.parent.tolist()
    for what in (lambda: loaded.model, lambda: loaded.target, lambda: loaded.sample(5)):
        with pytest.raises(BadArgument, match=saying("no file holds … phloem.infer")):
            what()


def test_a_run_that_stopped_is_resumed_to_the_same_end(run, tmp_path):
    """From its last checkpoint, with results made again."""
    _, posterior = run
    copy = posterior.save(tmp_path / "copy").directory
    for each in phloem.tasks.run_files.infer_run(copy).runs():
        for name in ("summary.json", "draws.safetensors"):
            (each.path / name).unlink()
    again = phloem.infer(None, out=copy, resume=True, progress=False, **OWN._asdict())
    assert again.log_marginal_likelihood == posterior.log_marginal_likelihood


def test_ones_own_estimator_trains(tmp_path):
    """An estimator that teaches nothing leaves the parameters where they began."""

    def idle(log_weights):
        zeros = np.zeros_like(log_weights)
        return Estimate(0.0, zeros, zeros, zeros)

    alignment, trees = problem()
    posterior = phloem.infer(alignment, trees, runs=1, branches="split", estimator=idle, **SETTINGS)
    assert (posterior.model.branches.table == posterior.model.branches.table[0]).all()
    trained = phloem.infer(alignment, trees, runs=1, branches="split", **SETTINGS)
    assert not (trained.model.branches.table == trained.model.branches.table[0]).all()
