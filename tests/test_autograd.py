"""Gradients written by hand: first derivatives in every way torch has for them, anything else refused in a line."""

import gc
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor

from phloem.data.alignment import Alignment
from phloem.data.patterns import compress
from phloem.energy.model import EnergyModel
from phloem.errors import BadArgument
from phloem.features.convolutions import CONVOLUTIONS, BranchReadout, NodeFeatures
from phloem.features.layers import DenseStates, RawStates, TreeGraph
from phloem.inference.particles import draw_particles
from phloem.random_streams import RandomStream
from phloem.target.likelihood import TreeLikelihood
from phloem.target.posterior import TreePosterior
from phloem.target.substitution import SiteRates, gtr, hky85
from phloem.trees.generation import all_topologies, random_topologies
from phloem.variational.families import Lognormal
from phloem.variational.joint import BranchModel, GraphModel, JointModel, PspModel
from phloem.variational.sbn import SubsplitNetwork, support_of

TAXA = tuple("abcde")
TOPOLOGIES = random_topologies(5, 3, stream=RandomStream(1, "trees"))
GRAPH = TreeGraph.of_topologies(TOPOLOGIES)
STREAM = RandomStream(1, "lengths")
RATES = [1.1, 2.7, 0.6, 0.9, 3.3, 1.0]
SHARES = [0.35, 0.15, 0.2, 0.3]


def values(*shape: int, low: float = 0.05, high: float = 0.5) -> Tensor:
    return torch.from_numpy(np.random.default_rng(sum(shape)).uniform(low, high, shape))


PATTERNS = compress(Alignment(TAXA, np.random.default_rng(1).choice([1, 2, 4, 8], (5, 40)).astype(np.uint8)))
SUPPORT = support_of(TAXA, all_topologies(5))
LENGTHS = values(3, 7)


def of_module(module: torch.nn.Module, call: Callable[..., Tensor], *inputs: Tensor) -> "Case":
    """The function of a module's parameters, and of some inputs."""
    module = module.double()
    parameters = {name: parameter.detach() for name, parameter in module.named_parameters()}

    def function(*tensors: Tensor) -> Tensor:
        given = dict(zip(parameters, tensors[len(inputs) :], strict=True))
        return torch.func.functional_call(
            _Calling(module, call), {f"module.{n}": t for n, t in given.items()}, tensors[: len(inputs)]
        )

    return Case(function, (*inputs, *parameters.values()))


# Torch's own forward mode says so when it is first used.
pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")


class _Calling(torch.nn.Module):
    def __init__(self, module: torch.nn.Module, call: Callable[..., Tensor]) -> None:
        super().__init__()
        self.module = module
        self.call = call

    def forward(self, *inputs: Tensor) -> Tensor:
        return self.call(self.module, *inputs)


class Case(NamedTuple):
    """A function of phloem's that is a row of numbers, and where to differentiate it."""

    function: Callable[..., Tensor]
    inputs: tuple[Tensor, ...]


def draw_lengths(parameters: Tensor, path_only: bool) -> Tensor:
    lengths, log_prob = Lognormal(parameters).sample(stream=STREAM, path_only=path_only)
    return torch.cat([lengths.ravel(), log_prob])


def draw_lengths_at_once(model: BranchModel) -> Tensor:
    repeated = TOPOLOGIES[[0, 1, 0]]
    sampling = model.sampling(repeated, SUPPORT.indices(repeated), stream=STREAM, path_only=False)
    assert sampling is not None
    lengths, log_prob = sampling.recorded()
    return torch.cat([lengths.ravel(), log_prob])


def likelihood_of(kappa: Tensor, frequencies: Tensor, shape: Tensor, invariant: Tensor, lengths: Tensor) -> Tensor:
    model = hky85(kappa, frequencies / frequencies.sum(), SiteRates(shape, 3, invariant=invariant))
    return TreeLikelihood(PATTERNS, model)(TOPOLOGIES, lengths)


def weigh(model: JointModel) -> Tensor:
    particles = draw_particles(model, TreePosterior(TreeLikelihood(PATTERNS)), 3, stream=STREAM)
    assert np.isfinite(particles.log_weights()).all()
    return particles.log_joint - particles.log_q_topology - particles.log_q_branches


def scalars(*numbers: float) -> tuple[Tensor, ...]:
    return tuple(torch.tensor(number, dtype=torch.float64) for number in numbers)


def make_cases() -> dict[str, Case]:
    torch.manual_seed(1)
    convolved = {
        name: of_module(make(4, 3), lambda layer, states: layer(DenseStates(states), GRAPH).ravel(), values(24, 4))
        for name, make in CONVOLUTIONS.items()
    }
    raw = RawStates(TOPOLOGIES, torch.float64)
    network = SubsplitNetwork(SUPPORT, values(SUPPORT.parameter_count))
    branches = PspModel(SUPPORT)
    torch.nn.init.normal_(branches.table)
    graph_model = GraphModel(5, "edge", depth=1, width=3)
    return {
        "Jukes–Cantor": Case(lambda q: TreeLikelihood(PATTERNS)(TOPOLOGIES, q), (LENGTHS,)),
        "GTR": Case(lambda q: TreeLikelihood(PATTERNS, gtr(RATES, SHARES))(TOPOLOGIES, q), (LENGTHS,)),
        "HKY+I+G": Case(likelihood_of, (*scalars(2.0), torch.tensor(SHARES).double(), *scalars(0.6, 0.2), LENGTHS)),
        "posterior": Case(lambda q: TreePosterior(TreeLikelihood(PATTERNS)).log_joint(TOPOLOGIES, q, 0.3), (LENGTHS,)),
        "transitions": Case(lambda t: gtr(RATES, SHARES).transition_matrices(t).ravel(), (values(2),)),
        "gamma rates": Case(lambda shape: SiteRates(shape).rates(), scalars(0.5)),
        "lognormal": Case(lambda p: draw_lengths(p, False), (values(3, 7, 2),)),
        "log-density": Case(lambda p, q: Lognormal(p).log_prob(q), (values(3, 7, 2), LENGTHS)),
        "subsplits": of_module(network, lambda net: net.log_prob(TOPOLOGIES)),
        "rooted": of_module(network, lambda net: net.log_prob_rooted(TOPOLOGIES, np.array([0, 3, 6]))),
        "table": of_module(branches, lambda model: model.branch_parameters(TOPOLOGIES).ravel()),
        "lengths by a table": of_module(branches, draw_lengths_at_once),
        "lengths by a network": of_module(graph_model, draw_lengths_at_once),
        "raw features": of_module(CONVOLUTIONS["sage"](5, 3), lambda layer: layer(raw, GRAPH).ravel()),
        "node features": of_module(
            NodeFeatures(5, "gin", depth=1, width=3), lambda features: features.of_topologies(TOPOLOGIES)[0].ravel()
        ),
        "read-out": of_module(BranchReadout(4, 2), lambda layer, x: layer(x, GRAPH).ravel(), values(24, 4)),
        "energy": of_module(EnergyModel(5, "gcn", depth=1, width=3), lambda model: model.energy(raw, GRAPH)),
        "joint": of_module(JointModel(network, graph_model), weigh),
        **convolved,
    }


CASES = make_cases()
every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


def total(case: Case) -> Callable[..., Tensor]:
    """One number with a gradient that is not constant even for a linear function."""
    return lambda *inputs: case.function(*inputs).square().sum()


def recorded(case: Case) -> tuple[Tensor, ...]:
    return tuple(tensor.clone().requires_grad_() for tensor in case.inputs)


def expected_gradients(case: Case) -> tuple[Tensor, ...]:
    inputs = recorded(case)
    return torch.autograd.grad(total(case)(*inputs), inputs)


def places(case: Case) -> tuple[int, ...]:
    return tuple(range(len(case.inputs)))


@every_case
def test_gradients_by_finite_differences(case):
    assert torch.autograd.gradcheck(case.function, recorded(case), eps=1e-6, atol=1e-4, rtol=1e-5)


@every_case
def test_torch_func_gives_the_same_first_derivatives(case):
    expected = expected_gradients(case)
    assert any(gradient.any() for gradient in expected)
    found, value = torch.func.grad_and_value(total(case), argnums=places(case))(*case.inputs)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(value, total(case)(*case.inputs), rtol=1e-12, atol=0)
    outputs, pull_back = torch.func.vjp(case.function, *case.inputs)
    torch.testing.assert_close(pull_back(2 * outputs), expected, rtol=1e-12, atol=1e-12)


@every_case
def test_jacobians_of_all_outputs(case):
    outputs = case.function(*case.inputs)
    found = torch.func.jacrev(case.function, argnums=places(case))(*case.inputs)
    by_rows = torch.autograd.functional.jacobian(case.function, case.inputs)
    assert [part.shape for part in found] == [(*outputs.shape, *tensor.shape) for tensor in case.inputs]
    torch.testing.assert_close(found, by_rows, rtol=1e-12, atol=1e-12)


@every_case
def test_gradients_within_an_outer_transform(case):
    """An outer variable that the inner function does not know, and one that scales what it gives."""

    def scaled(scale: Tensor) -> Tensor:
        gradients = torch.func.grad(total(case), argnums=places(case))(*case.inputs)
        return scale**2 * sum(gradient.sum() for gradient in gradients)

    (scale,) = scalars(1.5)
    expected = 3.0 * sum(gradient.sum() for gradient in expected_gradients(case))
    torch.testing.assert_close(torch.func.grad(scaled)(scale), expected)


SECOND = {
    "create_graph": lambda f, x: torch.autograd.grad(torch.autograd.grad(f(x), x, create_graph=True)[0].sum(), x),
    "grad of grad": lambda f, x: torch.func.grad(lambda y: torch.func.grad(f)(y).sum())(x.detach()),
    "hessian": lambda f, x: torch.func.hessian(f)(x.detach()),
    "jacrev of jacrev": lambda f, x: torch.func.jacrev(torch.func.jacrev(f))(x.detach()),
    "jacrev of jacfwd": lambda f, x: torch.func.jacrev(torch.func.jacfwd(f))(x.detach()),
    "autograd of func": lambda f, x: torch.autograd.grad(torch.func.grad(f)(x).sum(), x),
    "functional": lambda f, x: torch.autograd.functional.hessian(f, x),
}
OURS = [name for name in CASES if name != "log-density"]  # that one is made of torch's own operations
FIRST_OURS = {"edge-text": 2}  # and so is what comes after these inputs: torch can differentiate it twice


@pytest.mark.parametrize("way", SECOND.values(), ids=SECOND)
@pytest.mark.parametrize("name", OURS)
@pytest.mark.parametrize("reduced", [Tensor.sum, lambda values: values.square().sum()], ids=["sum", "squares"])
def test_second_derivatives_are_refused_instead_of_being_wrong(name, way, reduced):
    """Of a sum too, where the gradient that flows back is constant and only the operation itself is curved."""
    case = CASES[name]
    for place, tensor in enumerate(case.inputs[: FIRST_OURS.get(name)]):

        def function(x: Tensor, place: int = place) -> Tensor:
            return reduced(case.function(*case.inputs[:place], x, *case.inputs[place + 1 :]))

        with pytest.raises(BadArgument, match="not available") as problem:
            way(function, tensor.clone().requires_grad_())
        assert "\n" not in str(problem.value)


@pytest.mark.parametrize("name", sorted(set(OURS) - set(FIRST_OURS)))
def test_mixed_second_derivatives_are_refused(name):
    """With respect to the factor of a gradient and the inputs of the operation."""
    inputs = recorded(CASES[name])
    first = torch.autograd.grad(total(CASES[name])(*inputs), inputs[-1], create_graph=True)[0]
    with pytest.raises(BadArgument, match="second derivatives"):
        torch.autograd.grad(first.sum(), inputs[0])


@pytest.mark.parametrize("name", OURS)
def test_gradients_in_a_batch_of_torchs_old_kind_are_refused(name):
    case = CASES[name]
    with pytest.raises(BadArgument, match="jacrev"):
        torch.autograd.functional.jacobian(case.function, case.inputs, vectorize=True)


@pytest.mark.parametrize("name", OURS)
def test_forward_mode_and_vmap_are_refused_in_a_line(name):
    case = CASES[name]
    tangents = tuple(map(torch.ones_like, case.inputs))
    with pytest.raises(BadArgument, match="forward-mode"):
        torch.func.jvp(case.function, case.inputs, tangents)
    with pytest.raises(BadArgument, match="forward-mode"), torch.autograd.forward_ad.dual_level():
        case.function(*map(torch.autograd.forward_ad.make_dual, case.inputs, tangents))
    with pytest.raises(BadArgument, match="vmap"):
        torch.func.vmap(case.function)(*(torch.stack([tensor, tensor]) for tensor in case.inputs))


@every_case
def test_autocast_changes_nothing(case):
    expected = expected_gradients(case)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.testing.assert_close(expected_gradients(case), expected, rtol=0, atol=0)


def test_autocast_leaves_single_precision_as_it_is():
    torch.manual_seed(1)
    features = NodeFeatures(5, "edge", width=8)
    expected = torch.autograd.grad(features.of_topologies(TOPOLOGIES)[0].sum(), list(features.parameters()))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = torch.autograd.grad(features.of_topologies(TOPOLOGIES)[0].sum(), list(features.parameters()))
    torch.testing.assert_close(found, expected, rtol=0, atol=0)


@pytest.mark.parametrize("name", OURS)
def test_another_device_is_refused(name):
    case = CASES[name]
    with pytest.raises(BadArgument, match="meta"):
        case.function(*(tensor.to("meta") for tensor in case.inputs))


@every_case
def test_strides_do_not_matter(case):
    expected = expected_gradients(case)
    spread = [torch.stack([tensor, tensor], dim=-1)[..., 0].requires_grad_() for tensor in case.inputs]
    found = torch.autograd.grad(total(case)(*spread), spread)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


@every_case
def test_gradients_of_some_inputs_only(case):
    expected = expected_gradients(case)
    for place in places(case):
        inputs = [tensor.clone().requires_grad_(number == place) for number, tensor in enumerate(case.inputs)]
        (found,) = torch.autograd.grad(total(case)(*inputs), inputs[place])
        torch.testing.assert_close(found, expected[place], rtol=1e-12, atol=1e-12)


@every_case
def test_nothing_is_left_for_the_garbage_collector(case):
    """A result that holds on to itself would stay in memory for many steps."""
    inputs = recorded(case)
    total(case)(*inputs).backward()
    gc.collect()
    gc.disable()
    try:
        total(case)(*inputs).backward()
        assert not [found for found in map(type, _collected()) if issubclass(found, Tensor)]
    finally:
        gc.enable()


def _collected() -> list[object]:
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        gc.collect()
        return list(gc.garbage)
    finally:
        gc.set_debug(0)
        gc.garbage.clear()


def test_a_model_that_a_transform_differentiates_is_not_taken_for_jukes_cantor():
    """At κ = 1 the values are Jukes–Cantor's, but the derivative with respect to κ is not zero."""

    def nested(kappa: Tensor) -> Tensor:
        def inner(lengths: Tensor) -> Tensor:
            return TreeLikelihood(PATTERNS, hky85(kappa, [0.25] * 4))(TOPOLOGIES, lengths).sum()

        return torch.func.vjp(inner, LENGTHS)[0]

    (one,) = scalars(1.0)
    difference = (nested(one + 1e-6) - nested(one - 1e-6)) / 2e-6
    torch.testing.assert_close(torch.func.grad(nested)(one), difference, rtol=1e-6, atol=1e-6)


def test_inputs_that_change_before_the_gradient_is_taken_are_noticed():
    parameters = values(3, 7, 2).requires_grad_()
    lengths = Lognormal(parameters).sample(stream=STREAM).lengths
    lengths.detach().mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        lengths.sum().backward()


@pytest.mark.parametrize("name", ["Jukes–Cantor", "GTR", "posterior", "lognormal", "subsplits", "table", "gcn", "ggnn"])
def test_single_precision_is_nearly_the_same_and_keeps_its_kind(name):
    case = CASES[name]
    single = Case(case.function, tuple(tensor.float() for tensor in case.inputs))
    found = expected_gradients(single)
    assert all(gradient.dtype == torch.float32 for gradient in found)
    torch.testing.assert_close([g.double() for g in found], list(expected_gradients(case)), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", OURS)
@pytest.mark.parametrize(
    "wrong",
    [Tensor.half, Tensor.bfloat16, Tensor.long, Tensor.cdouble],
    ids=lambda method: method.__name__,
)
def test_what_kernels_cannot_read_is_refused(name, wrong):
    case = CASES[name]
    with pytest.raises(BadArgument, match=r"precision|dense|same dtype"):
        case.function(*map(wrong, case.inputs))


@pytest.mark.parametrize("name", ["Jukes–Cantor", "GTR", "posterior", "transitions", "lognormal"])
@pytest.mark.parametrize("wrong", [Tensor.to_sparse, Tensor.numpy, Tensor.tolist], ids=lambda method: method.__name__)
def test_what_is_no_dense_tensor_is_refused(name, wrong):
    case = CASES[name]
    with pytest.raises(BadArgument, match=r"dense|torch tensor"):
        case.function(*map(wrong, case.inputs))


@pytest.mark.parametrize("shape", [(7,), (1, 3, 7), (3, 6), (0, 7), (7, 3)])
def test_lengths_of_another_shape_are_refused(shape):
    target = TreePosterior(TreeLikelihood(PATTERNS))
    for function in (target.likelihood, target.prior, target.log_joint):
        with pytest.raises(BadArgument, match=r"\(3, 7\) is needed"):
            function(TOPOLOGIES, torch.ones(shape))


@pytest.mark.parametrize("name", CONVOLUTIONS)
@pytest.mark.parametrize("states", [torch.ones(24, 5), torch.ones(23, 4), torch.ones(24), torch.ones(24, 4).double()])
def test_states_of_another_shape_or_precision_are_refused(name, states):
    with pytest.raises(BadArgument):
        CONVOLUTIONS[name](4, 3)(DenseStates(states), GRAPH)
