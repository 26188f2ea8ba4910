"""The likelihood engine against sums over all states, finite differences and IQ-TREE."""

import re
import subprocess

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from phloem.data.alignment import Alignment
from phloem.data.patterns import compress
from phloem.data.reading import read_alignment
from phloem.errors import BadArgument
from phloem.random_streams import RandomStream
from phloem.target.likelihood import TreeLikelihood
from phloem.target.substitution import (
    SiteRates,
    SubstitutionModel,
    discrete_gamma,
    f81,
    gtr,
    hky85,
    jc69,
    k80,
    sym,
    tn93,
)
from phloem.trees.generation import all_topologies, random_topologies
from phloem.trees.topology import TopologyBatch
from phloem.trees.writing import format_newick
from reference import torch_pruning
from reference.brute_force import rate_matrix, site_likelihood

FREQUENCIES = [0.35, 0.15, 0.2, 0.3]
EXCHANGEABILITIES = [1.1, 2.7, 0.6, 0.9, 3.3, 1.0]


def scalar(value: float) -> torch.Tensor:
    return torch.tensor(value, dtype=torch.float64)


GAMMA = SiteRates(scalar(0.4), 3)
INVARIANT = SiteRates(None, invariant=scalar(0.3))
BOTH = SiteRates(scalar(0.7), 4, "median", scalar(0.2))
MODELS = {
    "JC69": jc69(),
    "K80": k80(2.5),
    "F81": f81(FREQUENCIES),
    "HKY85": hky85(3.0, FREQUENCIES),
    "TN93": tn93(2.0, 4.0, FREQUENCIES),
    "SYM": sym(EXCHANGEABILITIES),
    "GTR": gtr(EXCHANGEABILITIES, FREQUENCIES),
    "JC69+G": jc69(GAMMA),
    "JC69+I": jc69(INVARIANT),
    "HKY85+G": hky85(3.0, FREQUENCIES, GAMMA),
    "GTR+I+G": gtr(EXCHANGEABILITIES, FREQUENCIES, BOTH),
    "JC69+I+G": jc69(BOTH),
    "TN93+G9": tn93(2.0, 4.0, FREQUENCIES, SiteRates(scalar(0.5), 9)),
}


def random_alignment(taxa: int, sites: int, seed: int, symbols: str = "ACGT") -> Alignment:
    random = np.random.default_rng(seed)
    rows = ["".join(random.choice(list(symbols), sites)) for _ in range(taxa)]
    return Alignment.from_sequences([f"t{number}" for number in range(taxa)], rows)


def random_lengths(topologies: TopologyBatch, seed: int, scale: float = 0.2) -> torch.Tensor:
    random = np.random.default_rng(seed)
    return torch.tensor(random.exponential(scale, (len(topologies), topologies.branch_count)))


def brute_force(
    model: SubstitutionModel, alignment: Alignment, topologies: TopologyBatch, lengths: torch.Tensor
) -> np.ndarray:
    """Log-likelihood of every site of every tree."""
    frequencies = model.frequencies.numpy()
    matrix = rate_matrix(model.exchangeabilities.numpy(), frequencies)
    rates = model.site_rates
    invariant = 0.0 if rates.invariant is None else rates.invariant.item()
    values = np.ones(1)
    if rates.shape is not None:
        values = discrete_gamma(rates.shape.item(), rates.categories, rates.method)
    weights = np.full(len(values), (1 - invariant) / len(values))
    tips = compress(alignment).tip_partials[:, compress(alignment).pattern_of_site]
    return np.log(
        [
            [
                site_likelihood(
                    parent, row, tips[:, site], matrix, frequencies, values / (1 - invariant), weights, invariant
                )
                for site in range(alignment.site_count)
            ]
            for parent, row in zip(topologies.parent, lengths.numpy(), strict=True)
        ]
    )


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("taxa", [3, 4, 6])
def test_sites_are_sums_over_all_interior_states(name, taxa):
    alignment = random_alignment(taxa, 7, seed=taxa, symbols="AACCGGTTRYN-")
    topologies = all_topologies(taxa)[:2]
    lengths = random_lengths(topologies, seed=1)
    likelihood = TreeLikelihood(compress(alignment), MODELS[name])
    expected = brute_force(MODELS[name], alignment, topologies, lengths)
    np.testing.assert_allclose(likelihood.of_sites(topologies, lengths), expected, rtol=1e-10)
    np.testing.assert_allclose(likelihood(topologies, lengths).numpy(), expected.sum(axis=1), rtol=1e-10)


@pytest.mark.parametrize("name", ["JC69", "HKY85", "GTR", "HKY85+G"])
def test_values_and_gradients_are_those_of_torch_autograd(name):
    model = MODELS[name]
    topologies = random_topologies(15, 4, stream=RandomStream(1, "x"))
    patterns = compress(random_alignment(15, 120, 2, "ACGTRN"))
    ours = random_lengths(topologies, 3).requires_grad_()
    theirs = ours.detach().clone().requires_grad_()
    value = TreeLikelihood(patterns, model)(topologies, ours)
    value.sum().backward()
    matrices = model.transition_matrices(theirs)
    expected = torch.stack(
        [
            torch_pruning.log_likelihood(
                parent.tolist(),
                matrices[tree],
                torch.tensor(patterns.tip_partials),
                model.frequencies,
                model.site_rates.weights(),
            )
            @ torch.tensor(patterns.counts)
            for tree, parent in enumerate(topologies.parent)
        ]
    )
    expected.sum().backward()
    torch.testing.assert_close(value, expected, rtol=1e-12, atol=1e-9)
    torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-9, atol=1e-8)


@pytest.mark.parametrize("name", MODELS)
def test_branch_gradients_by_finite_differences(name):
    topologies = random_topologies(7, 3, stream=RandomStream(1, "x"))
    likelihood = TreeLikelihood(compress(random_alignment(7, 90, 2, "ACGTN")), MODELS[name])
    lengths = random_lengths(topologies, 3).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: likelihood(topologies, x), lengths, eps=1e-6, atol=1e-5, rtol=1e-6)


@pytest.mark.parametrize(("categories", "method"), [(1, "mean"), (4, "mean"), (6, "median")])
def test_model_gradients_by_finite_differences(categories, method):
    topologies = random_topologies(6, 2, stream=RandomStream(1, "x"))
    patterns = compress(random_alignment(6, 60, 2, "AAACGTN"))

    def value(lengths, rates, frequencies, shape, invariant):
        model = gtr(rates, frequencies / frequencies.sum(), SiteRates(shape, categories, method, invariant))
        return TreeLikelihood(patterns, model)(topologies, lengths)

    parameters = [torch.tensor(values, dtype=torch.float64) for values in (EXCHANGEABILITIES, FREQUENCIES, 0.5, 0.15)]
    parameters.insert(0, random_lengths(topologies, 3))
    for parameter in parameters:
        parameter.requires_grad_()
    assert torch.autograd.gradcheck(value, parameters, eps=1e-6, atol=1e-5, rtol=1e-6)


def test_the_gradient_for_invariant_sites_is_there_when_there_are_none():
    topologies = random_topologies(5, 1, stream=RandomStream(1, "x"))
    patterns, lengths = compress(random_alignment(5, 60, 2, "AAAC")), random_lengths(topologies, 3)
    values = []
    for share in (0.0, 1e-6):
        invariant = scalar(share).requires_grad_()
        model = hky85(2.0, FREQUENCIES, SiteRates(scalar(0.5), 4, "mean", invariant))
        value = TreeLikelihood(patterns, model)(topologies, lengths).sum()
        value.backward()
        values.append((value.item(), invariant.grad.item()))
    assert values[0][1] == pytest.approx((values[1][0] - values[0][0]) / 1e-6, rel=1e-3)
    assert abs(values[0][1]) > 1


def test_a_category_that_is_impossible_leaves_the_others_their_digits():
    """With a shape of 0.001 three of four categories hardly change: their likelihood of different tips is zero."""
    topologies = random_topologies(900, 1, stream=RandomStream(1, "x"))
    alignment = random_alignment(900, 3, 1)
    lengths = random_lengths(topologies, 2)
    rates = SiteRates(scalar(0.001), 4)
    found = TreeLikelihood(compress(alignment), jc69(rates)).of_sites(topologies, lengths)
    only = TreeLikelihood(compress(alignment)).of_sites(topologies, 4 * lengths) - np.log(4)
    assert rates.rates()[-1].item() == pytest.approx(4)
    np.testing.assert_allclose(found, only, rtol=1e-12)


@pytest.mark.parametrize("model", [k80(2.0), hky85(2.0, FREQUENCIES), jc69(GAMMA)])
def test_models_with_repeated_eigenvalues_have_gradients(model):
    base = model.exchangeabilities.clone().requires_grad_()
    topologies = random_topologies(5, 1, stream=RandomStream(1, "x"))
    patterns = compress(random_alignment(5, 40, 2))
    lengths = random_lengths(topologies, 3)

    def value(rates):
        return TreeLikelihood(patterns, SubstitutionModel("x", rates, model.frequencies, model.site_rates))(
            topologies, lengths
        )

    assert torch.autograd.gradcheck(value, base, eps=1e-6, atol=1e-5, rtol=1e-6)


def test_gradients_of_gradients_weights_count_per_tree():
    topologies = random_topologies(6, 3, stream=RandomStream(1, "x"))
    likelihood = TreeLikelihood(compress(random_alignment(6, 50, 2)))
    lengths = random_lengths(topologies, 3).requires_grad_()
    (likelihood(topologies, lengths) * torch.tensor([2.0, 0.0, -1.0])).sum().backward()
    weighted = lengths.grad.clone()
    lengths.grad = None
    likelihood(topologies, lengths).sum().backward()
    torch.testing.assert_close(weighted, lengths.grad * torch.tensor([[2.0], [0.0], [-1.0]]))


@given(st.integers(4, 12), st.integers(0, 2**32))
def test_the_place_of_the_root_does_not_matter(taxa, seed):
    """Renumbering the taxa hangs the same tree on another leaf."""
    random = np.random.default_rng(seed)
    alignment = random_alignment(taxa, 30, seed)
    topologies = random_topologies(taxa, 2, stream=RandomStream(seed, "x"))
    lengths = random_lengths(topologies, seed)
    leaves = random.permutation(taxa).astype(np.int32)
    moved, moved_lengths = topologies.with_leaves(leaves, lengths.numpy())
    order = np.argsort(leaves)
    shuffled = Alignment(tuple(alignment.taxa[index] for index in order), alignment.states[order])
    for model in (MODELS["JC69"], MODELS["GTR+I+G"]):
        one = TreeLikelihood(compress(alignment), model)(topologies, lengths)
        other = TreeLikelihood(compress(shuffled), model)(moved, torch.tensor(moved_lengths))
        torch.testing.assert_close(one, other, rtol=1e-11, atol=1e-9)


def test_merging_patterns_up_to_the_names_of_states_changes_nothing():
    """A model with free parameters cannot merge them."""
    topologies = random_topologies(30, 5, stream=RandomStream(1, "x"))
    patterns = compress(random_alignment(30, 300, 1, "ACGTRYN-"))
    nearly = SubstitutionModel(
        "x", torch.ones(6, dtype=torch.float64, requires_grad=True), torch.full((4,), 0.25).double()
    )
    assert jc69().treats_states_alike
    assert not nearly.treats_states_alike
    values, gradients = [], []
    for model in (jc69(), nearly):
        lengths = random_lengths(topologies, 2).requires_grad_()
        value = TreeLikelihood(patterns, model)(topologies, lengths)
        value.sum().backward()
        values.append(value.detach())
        gradients.append(lengths.grad)
    torch.testing.assert_close(values[0], values[1], rtol=1e-12, atol=1e-9)
    torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("name", ["JC69", "HKY85", "GTR+I+G"])
def test_results_do_not_depend_on_the_number_of_threads(name):
    topologies = random_topologies(20, 7, stream=RandomStream(1, "x"))
    patterns = compress(random_alignment(20, 700, 1))
    results = []
    for threads in (1, 2, 5):
        lengths = random_lengths(topologies, 2).requires_grad_()
        value = TreeLikelihood(patterns, MODELS[name], threads=threads)(topologies, lengths)
        value.sum().backward()
        results.append((value.detach().numpy().tobytes(), lengths.grad.numpy().tobytes()))
    assert results[0] == results[1] == results[2]


@pytest.mark.parametrize("name", ["JC69", "HKY85", "GTR+I+G", "TN93+G9"])
@pytest.mark.parametrize("length", [1e-9, 1e-4, 1.0, 100.0])
def test_a_thousand_taxa_neither_underflow_nor_lose_gradients(name, length):
    topologies = random_topologies(1000, 2, stream=RandomStream(1, "x"))
    likelihood = TreeLikelihood(compress(random_alignment(1000, 20, 1)), MODELS[name])
    lengths = torch.full((2, topologies.branch_count), length, dtype=torch.float64).requires_grad_()
    value = likelihood(topologies, lengths)
    value.sum().backward()
    assert torch.isfinite(value).all()
    assert torch.isfinite(lengths.grad).all()
    if length == 100.0 and name == "JC69":  # all sites are independent draws of 1000 states
        torch.testing.assert_close(value, torch.full((2,), -20 * 1000 * np.log(4.0), dtype=torch.float64))


def test_rescaled_likelihoods_are_right():
    """A caterpillar of 400 taxa against a plain pruning in logarithms."""
    taxa = 400
    topologies = random_topologies(taxa, 1, stream=RandomStream(3, "x"))
    alignment = random_alignment(taxa, 6, 1)
    lengths = random_lengths(topologies, 2)
    for model in (MODELS["JC69"], MODELS["GTR"]):
        found = TreeLikelihood(compress(alignment), model).of_sites(topologies, lengths)[0]
        matrices = model.transition_matrices(lengths)[0, :, 0].numpy()
        tips = (alignment.states[..., None] >> np.arange(4) & 1).astype(float)
        logs = np.zeros((2 * taxa - 2, 6, 4))
        for node in range(2 * taxa - 3):
            if node < taxa:
                message = np.log(tips[node] @ matrices[node].T)
            else:
                top = logs[node].max(axis=1, keepdims=True)
                message = np.log(np.exp(logs[node] - top) @ matrices[node].T) + top
            logs[topologies.parent[0, node]] += message
        root = logs[-1] + np.log(model.frequencies.numpy())
        expected = np.logaddexp.reduce(root, axis=1)
        np.testing.assert_allclose(found, expected, rtol=1e-11)
        assert expected.min() < np.log(2.0**-400)


def test_invariant_sites_carry_a_constant_column_that_no_change_could_explain():
    """With branches of length 100, 300 equal states are 10^-180 likely, far below the smallest power in use."""
    topologies = random_topologies(300, 1, stream=RandomStream(1, "x"))
    alignment = Alignment.from_sequences([f"t{number}" for number in range(300)], ["A"] * 300)
    lengths = torch.full((1, topologies.branch_count), 100.0, dtype=torch.float64, requires_grad=True)
    value = TreeLikelihood(compress(alignment), MODELS["GTR+I+G"])(topologies, lengths)
    assert value.item() == pytest.approx(np.log(0.2 * FREQUENCIES[0]))
    value.sum().backward()
    assert torch.isfinite(lengths.grad).all()


@pytest.mark.parametrize("name", ["JC69", "HKY85"])
def test_an_impossible_site_is_minus_infinity_and_the_others_keep_their_gradient(name):
    alignment = Alignment.from_sequences("ABCD", ["AAC", "AAG", "CAT", "CAA"])
    topologies = all_topologies(4)[:1]
    lengths = torch.zeros(1, 5, dtype=torch.float64, requires_grad=True)
    likelihood = TreeLikelihood(compress(alignment), MODELS[name])
    value = likelihood(topologies, lengths)
    assert value.item() == -np.inf
    value.sum().backward()
    assert torch.isfinite(lengths.grad).all()
    sites = likelihood.of_sites(topologies, lengths.detach())[0]
    assert np.isinf(sites[[0, 2]]).all()
    np.testing.assert_allclose(sites[1], np.log(MODELS[name].frequencies[0].item()))


def test_bad_lengths_are_refused():
    topologies = all_topologies(4)
    likelihood = TreeLikelihood(compress(random_alignment(4, 5, 1)))
    good = torch.full((3, 5), 0.1, dtype=torch.float64)
    for place, value, what in [((1, 3), -0.1, "tree 2, branch 3: length -0.1"), ((2, 0), np.nan, "length nan")]:
        lengths = good.clone()
        lengths[place] = value
        with pytest.raises(BadArgument, match=what):
            likelihood(topologies, lengths)
    with pytest.raises(BadArgument, match=r"\(3, 5\) is needed"):
        likelihood(topologies, good[:2])
    with pytest.raises(BadArgument, match="trees on 5 taxa for an alignment of 4"):
        likelihood(all_topologies(5), good)
    with pytest.raises(BadArgument, match="0 threads"):
        TreeLikelihood(likelihood.patterns, threads=0)


IQTREE_MODELS = {
    "JC": jc69(),
    "HKY{2.5}+F{0.35,0.15,0.2,0.3}": hky85(2.5, FREQUENCIES),
    "GTR{1.1,2.7,0.6,0.9,3.3}+F{0.35,0.15,0.2,0.3}": gtr(EXCHANGEABILITIES, FREQUENCIES),
    "JC+G4{0.5}": jc69(SiteRates(scalar(0.5), 4)),
    "HKY{2.5}+F{0.35,0.15,0.2,0.3}+I{0.2}+G4{0.5}": hky85(
        2.5, FREQUENCIES, SiteRates(scalar(0.5), 4, "mean", scalar(0.2))
    ),
}


def iqtree_value(iqtree: str, folder, alignment_path, tree: str, model: str) -> float:
    (folder / "tree.nwk").write_text(tree)
    command = [iqtree, "-s", str(alignment_path), "-te", "tree.nwk", "-blfix", "-m", model, "-pre", "out"]
    subprocess.run(
        [*command, "-nt", "1", "-redo", "-quiet", "-keep-ident"], cwd=folder, check=True, capture_output=True
    )
    found = re.search(r"Log-likelihood of the tree: (\S+)", (folder / "out.iqtree").read_text())
    assert found is not None
    return float(found.group(1))


@pytest.mark.parametrize("name", IQTREE_MODELS)
def test_iqtree_agrees_on_the_primates(iqtree, tmp_path, name):
    from phloem.data.reading import find_alignment

    alignment = read_alignment("primates")
    topologies = random_topologies(12, 1, stream=RandomStream(5, "x"))
    lengths = random_lengths(topologies, 4, 0.1).round(decimals=6) + 1e-3
    tree = format_newick(topologies, alignment.taxa, lengths.numpy())[0]
    expected = iqtree_value(iqtree, tmp_path, find_alignment("primates"), tree, name)
    found = TreeLikelihood(compress(alignment), IQTREE_MODELS[name])(topologies, lengths).item()
    assert found == pytest.approx(expected, abs=1e-4)  # all the digits that it prints


@pytest.mark.parametrize("number", range(1, 9))
def test_iqtree_agrees_on_the_benchmark_alignments(iqtree, tmp_path, real_data, number):
    path = real_data / "alignments" / f"DS{number}.fasta"
    alignment = read_alignment(path)
    topologies = random_topologies(len(alignment.taxa), 1, stream=RandomStream(number, "x"))
    lengths = random_lengths(topologies, 4, 0.1).round(decimals=6) + 1e-3
    tree = format_newick(topologies, alignment.taxa, lengths.numpy())[0]
    for name in ("JC", "HKY{2.5}+F{0.35,0.15,0.2,0.3}+I{0.2}+G4{0.5}"):
        expected = iqtree_value(iqtree, tmp_path, path, tree, name)
        found = TreeLikelihood(compress(alignment), IQTREE_MODELS[name])(topologies, lengths).item()
        assert found == pytest.approx(expected, abs=1e-4)
