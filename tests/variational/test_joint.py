"""What holds for every branch-length model and family."""

import itertools

import numpy as np
import pytest
import torch
from scipy import integrate, stats

from phloem.config.infer import BRANCH_MODELS
from phloem.errors import BadArgument
from phloem.features.convolutions import GcnConvolution
from phloem.random_streams import RandomStream
from phloem.trees.generation import all_topologies, nni_neighbors, random_topologies
from phloem.trees.topology import TopologyBatch
from phloem.variational.families import LOCATION_OFFSET, BranchDistribution, BranchSample, Lognormal, Warped
from phloem.variational.joint import (
    BranchModel,
    DrawGradients,
    GraphModel,
    JointModel,
    PspModel,
    SplitModel,
    build_branch_model,
)
from phloem.variational.parameters import ParameterModel
from phloem.variational.sbn import SubsplitNetwork, support_of

TAXA = 6


def example_topologies() -> TopologyBatch:
    tree = random_topologies(TAXA, 1, stream=RandomStream(1, "tree"))
    return TopologyBatch.concatenate([tree, nni_neighbors(tree)])


SUPPORT = support_of(tuple("abcdef"), example_topologies())


def build(name: str, support=SUPPORT) -> BranchModel:
    """A model in double precision with parameters that are not all zero."""
    torch.manual_seed(5)
    model = build_branch_model(name, support, width=8).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, dtype=torch.float64))
    return model


@pytest.mark.parametrize("name", BRANCH_MODELS)
def test_densities_integrate_to_one(name):
    """On four taxa, five branches: each lognormal by quadrature, and the whole as their product."""
    topologies = all_topologies(4)[:1]
    distribution = build(name, support_of(tuple("abcd"), all_topologies(4)))(topologies)
    center = distribution.location.detach().exp()
    whole = distribution.log_prob(center).detach()

    def density_of_log(log_length: float, branch: int) -> float:
        lengths = center.clone()
        lengths[0, branch] = np.exp(log_length)
        return float(torch.exp(distribution.log_prob(lengths).detach() - whole + log_length))

    total = float(torch.exp(whole))
    for branch in range(5):
        middle, scale = float(center[0, branch].log()), float(distribution.log_scale[0, branch].detach().exp())
        total *= integrate.quad(density_of_log, middle - 9 * scale, middle + 9 * scale, args=(branch,), limit=200)[0]
    assert total == pytest.approx(1, abs=1e-8)


@pytest.mark.parametrize("name", BRANCH_MODELS)
def test_samples_have_the_log_prob_that_is_said(name):
    topologies = example_topologies()
    model = build(name)
    distribution = model(topologies)
    sample = distribution.sample(stream=RandomStream(1, "lengths"))
    assert sample.lengths.shape == (len(topologies), 2 * TAXA - 3)
    assert sample.lengths.dtype == torch.float64
    assert (sample.lengths > 0).all()
    torch.testing.assert_close(sample.log_prob, distribution.log_prob(sample.lengths))


@pytest.mark.parametrize("name", BRANCH_MODELS)
def test_gradients_of_samples_by_finite_differences(name):
    """Reparameterised: with the same random numbers, lengths and log-densities move with the parameters."""
    topologies = example_topologies()[:3]
    model = build(name)
    random = np.random.default_rng(2)
    length_weights = torch.from_numpy(random.normal(size=(3, 2 * TAXA - 3)))
    density_weights = torch.from_numpy(random.normal(size=3))
    fixed = torch.from_numpy(random.exponential(0.1, size=(3, 2 * TAXA - 3)))

    def value() -> torch.Tensor:
        distribution = model(topologies)
        sample = distribution.sample(stream=RandomStream(1, "lengths"))
        own = (sample.lengths * length_weights).sum() + sample.log_prob @ density_weights
        return own + distribution.log_prob(fixed) @ density_weights

    value().backward()
    step = 1e-6
    for parameter in model.parameters():
        flat, gradient = parameter.detach().reshape(-1), parameter.grad.reshape(-1)
        for place in random.integers(len(flat), size=4):
            with torch.no_grad():
                flat[place] += step
                above = value()
                flat[place] -= 2 * step
                below = value()
                flat[place] += step
            slope = float((above - below).detach()) / (2 * step)
            assert float(gradient[place]) == pytest.approx(slope, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("name", BRANCH_MODELS)
def test_equal_topologies_are_evaluated_once_and_give_the_same_parameters(name):
    topologies = example_topologies()
    repeated = topologies[[2, 0, 2, 2, 1, 0]]
    model = build(name)
    expected = model.branch_parameters(topologies).detach()[[2, 0, 2, 2, 1, 0]]
    torch.testing.assert_close(model.branch_parameters(repeated), expected)
    if isinstance(model, GraphModel):
        evaluated = []
        with pytest.MonkeyPatch.context() as patch:
            original = model.features.raw_states
            patch.setattr(model.features, "raw_states", lambda trees: evaluated.append(len(trees)) or original(trees))
            model.branch_parameters(repeated)
        assert evaluated == [3]
    weights = torch.randn(expected.shape, dtype=torch.float64)
    (model.branch_parameters(repeated) * weights).sum().backward()
    gradients = [parameter.grad.clone() for parameter in model.parameters()]
    model.zero_grad()
    for tree in range(6):
        (model.branch_parameters(repeated[tree]) * weights[tree]).sum().backward()
    for one, parameter in zip(gradients, model.parameters(), strict=True):
        torch.testing.assert_close(one, parameter.grad, rtol=1e-9, atol=1e-11)


class Wide(BranchDistribution):
    """A family of a user's own, in plain torch: lengths uniform within a factor."""

    parameters_per_branch = 1

    def __init__(self, parameters: torch.Tensor, _topologies: TopologyBatch) -> None:
        self.factor = 1 + parameters[:, :, 0].exp()

    def sample(self, *, stream: RandomStream, path_only: bool = False) -> BranchSample:
        trees, branches = self.factor.shape
        rows = [stream.at(stream.step, stream.particle + tree).generator().random(branches) for tree in range(trees)]
        lengths = torch.from_numpy(np.stack(rows)) * self.factor
        return BranchSample(lengths, self.log_prob(lengths))

    def log_prob(self, lengths: torch.Tensor) -> torch.Tensor:
        return -self.factor.log().sum(dim=1) + 0 * lengths.sum(dim=1)


@pytest.mark.parametrize("path_only", [False, True])
@pytest.mark.parametrize(
    ("name", "family"),
    [*((name, Lognormal) for name in (*BRANCH_MODELS, "edge-text")), ("split", Wide), ("edge", Wide), ("edge", Warped)],
)
def test_trees_drawn_by_hand_have_the_values_and_gradients_of_recorded_ones_to_the_last_bit(name, family, path_only):
    torch.manual_seed(2)
    branches = build_branch_model(name, SUPPORT, width=8, family=family).double()
    model = JointModel(SubsplitNetwork(SUPPORT, torch.randn(SUPPORT.parameter_count, dtype=torch.float64)), branches)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    stream = RandomStream(3, "draw", 4, 5)
    recorded = model.draw(12, stream=stream, path_only=path_only)
    assert len(recorded.topologies.distinct()[0]) < 12
    gradients = DrawGradients(*(torch.randn_like(tensor) for tensor in recorded[1:]))
    assert recorded.theta.shape == (12, 0)
    learned = ("lengths", "log_q_topology", "log_q_branches")
    torch.autograd.backward(
        [getattr(recorded, part) for part in learned], [getattr(gradients, part) for part in learned]
    )
    expected = [parameter.grad for parameter in model.parameters()]
    model.zero_grad()
    draw, pull_back = model.draw_by_hand(12, stream=stream, path_only=path_only)
    np.testing.assert_array_equal(draw.topologies.parent, recorded.topologies.parent)
    for one, other in zip(draw[1:], recorded[1:], strict=True):
        assert not one.requires_grad
        assert torch.equal(one, other)
    pull_back(gradients)
    for found, gradient in zip(model.parameters(), expected, strict=True):
        assert torch.equal(found.grad, gradient)


@pytest.mark.parametrize("dimension", [0, 2])
@pytest.mark.parametrize(("name", "family"), [("psp", Lognormal), ("edge", Wide), ("edge", Warped)])
def test_many_trees_go_through_the_branch_model_in_parts_with_the_same_lengths_and_gradients(
    name, family, dimension, monkeypatch
):
    torch.manual_seed(5)
    branches = build_branch_model(name, SUPPORT, width=8, family=family, dimension=dimension).double()
    model = JointModel(
        SubsplitNetwork(SUPPORT), branches, ParameterModel(np.zeros(2), np.eye(2)) if dimension else None
    )
    for parameter in branches.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    drawn, gradients, passes = [], [], []
    forward = type(branches).branch_parameters if family is Wide else type(branches).sampling
    name_of_forward = forward.__name__

    def counted(self, topologies, *arguments, **options):
        passes.append(len(topologies))
        return forward(self, topologies, *arguments, **options)

    monkeypatch.setattr(type(branches), name_of_forward, counted)
    for most_nodes in (10**6, 7 * (2 * TAXA - 2) + 1):
        monkeypatch.setattr("phloem.variational.joint.MOST_NODES", most_nodes)
        model.zero_grad()
        draw, pull_back = model.draw_by_hand(20, stream=RandomStream(3, "draw", 4, 5), path_only=True)
        by = torch.Generator().manual_seed(1)
        pull_back(DrawGradients(*(torch.randn(part.shape, generator=by, dtype=part.dtype) for part in draw[1:])))
        drawn.append(draw)
        gradients.append([parameter.grad for parameter in branches.parameters()])
    assert passes == [20, 7, 7, 6, 7, 7, 6]
    np.testing.assert_array_equal(drawn[0].topologies.parent, drawn[1].topologies.parent)
    for whole, parts in zip(drawn[0][1:], drawn[1][1:], strict=True):
        torch.testing.assert_close(parts, whole, rtol=1e-12, atol=1e-12)
    for whole, parts in zip(*gradients, strict=True):
        torch.testing.assert_close(parts, whole, rtol=1e-10, atol=1e-12)


def test_frozen_parameters_get_no_gradient_and_shared_ones_the_sum():
    model = JointModel(SubsplitNetwork(SUPPORT), build("edge"))
    features = model.branches.features
    features.second.weight = features.first.weight
    model.network.logits.requires_grad_(False)
    features.first.bias.requires_grad_(False)
    stream = RandomStream(1, "draw")
    recorded = model.draw(5, stream=stream)
    gradients = DrawGradients(*(torch.ones_like(tensor) for tensor in recorded[1:]))
    torch.autograd.backward([recorded.lengths, recorded.log_q_branches], [gradients.lengths, gradients.log_q_branches])
    expected = {name: parameter.grad for name, parameter in model.named_parameters()}
    model.zero_grad()
    model.draw_by_hand(5, stream=stream)[1](gradients)
    assert expected["network.logits"] is None
    assert expected["branches.features.first.bias"] is None
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(parameter.grad, expected[name], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", BRANCH_MODELS)
def test_drawn_trees_are_known_with_and_without_their_subsplit_indices(name):
    draw = SubsplitNetwork(SUPPORT).draw(30, stream=RandomStream(2, "draw"))
    model = build(name)
    assert model.knows(draw.topologies).all()
    assert model.knows(draw.topologies, draw.indices).all()
    torch.testing.assert_close(
        model.branch_parameters(draw.topologies), model.branch_parameters(draw.topologies, draw.indices)
    )


def test_trees_with_unknown_splits_are_named_and_can_be_skipped():
    everything = all_topologies(TAXA)
    split, psp = build("split"), build("psp")
    inside = SUPPORT.generates(everything)
    assert split.knows(everything).sum() >= psp.knows(everything).sum() >= inside.sum()
    assert psp.knows(everything[inside]).all()
    unknown = np.flatnonzero(~split.knows(everything))
    assert len(unknown) > 50
    known = int(np.flatnonzero(split.knows(everything))[0])
    with pytest.raises(BadArgument, match="tree 2 of 2 has a split or subsplit"):
        split.branch_parameters(everything[[known, unknown[0]]])
    assert build("edge").knows(everything).all()
    build("edge").branch_parameters(everything)
    with pytest.raises(BadArgument, match="trees on 7 taxa"):
        build("edge").knows(all_topologies(7)[:2])
    with pytest.raises(BadArgument, match="of 2 trees for 1 topologies"):
        split.branch_parameters(everything[[known]], SUPPORT.indices(everything[[known, known]]))


def test_a_tree_whose_splits_are_known_may_have_unknown_subsplits():
    everything = all_topologies(TAXA)
    some = support_of(tuple("abcdef"), everything[::5])
    splits, subsplits = SplitModel(some).knows(everything), PspModel(some).knows(everything)
    assert (splits & ~subsplits).sum() > 10
    assert not (subsplits & ~splits).any()
    assert subsplits[::5].all()


def test_branches_that_share_a_split_share_its_parameters_in_split_but_not_in_psp():
    topologies = example_topologies()
    indices = SUPPORT.indices(topologies)
    split, psp = build("split").branch_parameters(topologies), build("psp").branch_parameters(topologies)
    differs = False
    for (one, other), branch in itertools.product(itertools.combinations(range(len(topologies)), 2), range(TAXA)):
        for second in range(2 * TAXA - 3):
            if indices.splits[one, branch] == indices.splits[other, second]:
                assert torch.equal(split[one, branch], split[other, second])
                differs |= not torch.equal(psp[one, branch], psp[other, second])
    assert differs


@pytest.mark.parametrize("name", ["split", "psp"])
def test_every_row_of_a_table_has_its_gradient(name):
    topologies, model = example_topologies(), build(name)
    weights = torch.randn(len(topologies), 2 * TAXA - 3, 2, dtype=torch.float64)
    (model.branch_parameters(topologies) * weights).sum().backward()
    indices, expected = SUPPORT.indices(topologies), torch.zeros_like(model.table)
    expected.index_add_(0, torch.from_numpy(indices.splits).long().reshape(-1), weights.reshape(-1, 2))
    if name == "psp":
        for side in (0, 1):
            rows = torch.from_numpy(indices.subsplits[:, :, side]).long()
            expected.index_add_(0, rows[rows >= 0] + len(SUPPORT.splits), weights[rows >= 0])
    torch.testing.assert_close(model.table.grad, expected)


def test_psp_parameters_are_sums_over_the_split_and_the_primary_subsplits():
    topologies = example_topologies()[:2]
    indices, model = SUPPORT.indices(topologies), build("psp")
    parameters, table, offset = model.branch_parameters(topologies), model.table, len(SUPPORT.splits)
    for tree, branch in itertools.product(range(2), range(2 * TAXA - 3)):
        expected = table[indices.splits[tree, branch]].clone()
        expected += table[offset + indices.subsplits[tree, branch, 1]]
        if branch >= TAXA:
            expected += table[offset + indices.subsplits[tree, branch, 0]]
        torch.testing.assert_close(parameters[tree, branch], expected)


def test_tables_begin_at_zero_and_lengths_at_a_sensible_size():
    distribution = build_branch_model("psp", SUPPORT)(example_topologies())
    assert (distribution.location == LOCATION_OFFSET).all()
    assert (distribution.log_scale == 0).all()


def test_sampled_lengths_are_lognormal_and_depend_on_the_particle_alone():
    parameters = torch.tensor([[[0.7, -0.5], [-1.0, 0.2]]], dtype=torch.float64).repeat(20_000, 1, 1)
    stream = RandomStream(9, "lengths", step=4)
    lengths = Lognormal(parameters).sample(stream=stream).lengths
    for branch, (location, log_scale) in enumerate(parameters[0].tolist()):
        standard = (lengths[:, branch].log() - (location - 2)) / np.exp(log_scale)
        assert stats.kstest(standard.numpy(), "norm").pvalue > 1e-3
    assert abs(np.corrcoef(lengths.log().T.numpy())[0, 1]) < 0.03
    assert torch.equal(Lognormal(parameters[:5]).sample(stream=stream.at(4, 7)).lengths, lengths[7:12])
    assert not torch.equal(Lognormal(parameters[:5]).sample(stream=stream.at(5)).lengths, lengths[:5])


@pytest.mark.parametrize("name", BRANCH_MODELS)
def test_no_topologies_have_no_parameters(name):
    assert build(name).branch_parameters(example_topologies()[0:0]).shape == (0, 2 * TAXA - 3, 2)


def test_lengths_that_are_not_positive_are_impossible():
    lengths = torch.ones(3, 5, dtype=torch.float64)
    lengths[0, 2], lengths[1, 4] = 0, -1
    parameters = torch.zeros(3, 5, 2, dtype=torch.float64, requires_grad=True)
    values = Lognormal(parameters).log_prob(lengths)
    assert torch.isneginf(values).tolist() == [True, True, False]
    values[2].backward()
    assert torch.isfinite(parameters.grad).all()
    with pytest.raises(BadArgument, match=r"lengths of shape \(2, 5\) for \(3, 5\) branches"):
        Lognormal(parameters).log_prob(lengths[:2])


@pytest.mark.parametrize("path_only", [False, True])
def test_absurd_samples_are_finite_and_so_are_their_gradients(path_only):
    parameters = torch.full((2, 9, 2), 8.0, dtype=torch.float64, requires_grad=True)
    sample = Lognormal(parameters).sample(stream=RandomStream(1, "lengths"), path_only=path_only)
    assert (sample.lengths > 1e299).any()
    assert torch.isfinite(sample.lengths).all()
    sample.log_prob.sum().backward()
    assert torch.isfinite(parameters.grad).all()


def test_half_precision_is_refused():
    with pytest.raises(BadArgument, match="single or double"):
        GraphModel(TAXA, width=4).half().branch_parameters(example_topologies())


def test_models_by_name_and_of_ones_own():
    assert isinstance(build_branch_model("split", SUPPORT), SplitModel)
    assert isinstance(build_branch_model("psp", SUPPORT), PspModel)
    graph = build_branch_model("gin", SUPPORT, depth=3, width=5)
    assert isinstance(graph, GraphModel)
    assert len(graph.features.convolutions) == 3
    assert [type(layer).__name__ for layer in GraphModel(TAXA).features.convolutions] == ["EdgeConvolution"] * 2
    assert GraphModel(TAXA).features.width == 100
    assert GraphModel(TAXA, GcnConvolution).branch_parameters(example_topologies()).shape == (7, 9, 2)
    with pytest.raises(BadArgument, match="split, psp, mlp, gcn"):
        build_branch_model("lstm", SUPPORT)
    with pytest.raises(BadArgument, match=r"\(batch, branches, 2\)"):
        Lognormal(torch.zeros(3, 2))


@pytest.mark.parametrize("family", [Lognormal, Warped])
@pytest.mark.parametrize("model", [SplitModel, PspModel])
def test_tables_begin_at_a_length(model, family):
    """Whatever subsplits a branch has besides its split."""
    branches = model(SUPPORT, family)
    branches.begin_at(-5.0)
    lengths = branches(example_topologies()).sample(stream=RandomStream(2, "lengths")).lengths.detach()
    median = float(lengths.log().median())
    branches.begin_at(-2.0)  # where parameters of zero are
    assert not branches.table.any()
    again = branches(example_topologies()).sample(stream=RandomStream(2, "lengths")).lengths.detach()
    assert median == pytest.approx(float(again.log().median()) - 3.0, abs=1e-6)
