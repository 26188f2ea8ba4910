"""Parts of an alignment with models of their own, against the parts one by one."""

import numpy as np
import pytest
import torch

from phloem.config import ModelConfig
from phloem.data.alignment import Alignment
from phloem.data.partitions import SitePartition, by_codon
from phloem.data.patterns import compress
from phloem.errors import AlignmentError, BadArgument
from phloem.target.free_parameters import FreeParameters
from phloem.target.likelihood import TreeLikelihood
from phloem.target.partitioned import PartitionedModel
from phloem.target.posterior import TreePosterior
from phloem.target.substitution import build_model
from phloem.trees.generation import all_topologies
from support.models import with_numbers
from support.small_posteriors import evolved

ALIGNMENT = evolved(5, 90, seed=7)
NAMES = ("first", "second", "third")
PARTITION = SitePartition(NAMES, np.random.default_rng(3).integers(0, 3, 90).astype(np.int32), (None,) * 3)
PATTERNS = compress(ALIGNMENT, PARTITION)
TREES = all_topologies(5)[:4]
LENGTHS = torch.rand(4, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(1)) / 4 + 0.01


def target_of(models: tuple[str, str, str], *, linked: tuple[str, ...] = (), inferred_rates: bool = True):
    configs = [ModelConfig(name) for name in models]
    parts = tuple(build_model(config, patterns) for config, patterns in zip(configs, PATTERNS.parts, strict=True))
    sizes = PARTITION.sizes if inferred_rates else None
    parameters = FreeParameters.of(configs, parts, linked=linked, sizes=sizes)
    model = PartitionedModel(NAMES, parts)
    differ = parameters is not None and parameters.change_states
    return TreePosterior(TreeLikelihood(PATTERNS, model, threads=1, states_differ=differ), parameters=parameters)


def sites_of(part: int) -> Alignment:
    return Alignment(ALIGNMENT.taxa, ALIGNMENT.states[:, PARTITION.part_of_site == part])


def test_patterns_are_those_of_the_parts_one_after_the_other():
    assert PATTERNS.part_bounds.tolist()[0] == 0
    assert PATTERNS.part_bounds.tolist()[-1] == len(PATTERNS)
    np.testing.assert_array_equal(PATTERNS.alignment.states, ALIGNMENT.states)
    for part, patterns in enumerate(PATTERNS.parts):
        alone = compress(sites_of(part))
        np.testing.assert_array_equal(patterns.states, alone.states)
        np.testing.assert_array_equal(patterns.counts, alone.counts)
        np.testing.assert_array_equal(patterns.pattern_of_site, alone.pattern_of_site)
    whole = compress(ALIGNMENT)
    assert whole.parts == (whole,)
    with pytest.raises(AlignmentError, match="partition: of 90 sites, but the alignment has 3"):
        compress(Alignment(ALIGNMENT.taxa, ALIGNMENT.states[:, :3]), PARTITION)


@pytest.mark.parametrize("models", [("JC", "JC", "JC"), ("JC", "HKY+G4", "GTR+I+G4"), ("F81", "JC+I", "K80")])
@pytest.mark.parametrize("linked", [(), ("kappa", "frequencies", "alpha", "rates", "invariant")])
def test_the_likelihood_is_that_of_the_parts_with_lengths_times_their_rates(models, linked):
    target = target_of(models, linked=linked)
    assert target.parameters is not None
    theta = torch.from_numpy(np.random.default_rng(2).normal(0, 0.6, (4, target.dimension)))
    values = dict(zip(target.parameters.names, target.parameters.values(theta.numpy()).T, strict=True))
    rates = np.stack([values[f"m{{{part + 1}}}"] for part in range(3)])
    np.testing.assert_allclose((rates * PARTITION.sizes[:, None]).sum(axis=0) / 90, 1)
    found = target.log_likelihood(TREES, LENGTHS, theta).numpy()
    parameters = target.parameters.at(theta.numpy()).parameters
    for tree in range(4):
        total = 0.0
        for part, name in enumerate(models):
            config = ModelConfig(name)
            start = build_model(config, PATTERNS.parts[part])
            model = with_numbers(start, parameters, tree, part)
            alone = TreeLikelihood(compress(sites_of(part)), model, threads=1)
            total += alone(TREES[tree], LENGTHS[tree : tree + 1] * rates[part, tree]).item()
        assert found[tree] == pytest.approx(total, abs=1e-8)


@pytest.mark.parametrize("linked", [(), ("alpha",), ("kappa", "frequencies", "alpha", "invariant")])
@pytest.mark.parametrize("models", [("HKY+G4", "TN93+I+G4", "HKY"), ("JC", "GTR+G4", "SYM+I")])
def test_gradients_by_differences(models, linked):
    target = target_of(models, linked=linked)
    theta = torch.from_numpy(np.random.default_rng(5).normal(0, 0.6, (4, target.dimension)))
    _, slopes = target.log_joint_by_hand(TREES, LENGTHS, 0.7, theta=theta)
    step = 1e-5
    for column in range(target.dimension):
        moved = step * torch.eye(target.dimension, dtype=torch.float64)[column]
        above, below = (target.log_joint(TREES, LENGTHS, 0.7, theta=theta + sign * moved) for sign in (1, -1))
        torch.testing.assert_close(slopes.theta[:, column], (above - below) / (2 * step), rtol=1e-5, atol=1e-5)
    for branch in range(7):
        moved = step * torch.eye(7, dtype=torch.float64)[branch]
        above, below = (target.log_joint(TREES, LENGTHS + sign * moved, 0.7, theta=theta) for sign in (1, -1))
        torch.testing.assert_close(slopes.lengths[:, branch], (above - below) / (2 * step), rtol=1e-5, atol=1e-5)


def test_names_say_which_parts_have_a_parameter():
    names = target_of(("HKY+G4", "JC", "HKY+G4"), linked=("alpha",)).parameters.names
    assert names == (
        *("kappa{1}", "kappa{3}", *(f"pi({state}){{{part}}}" for part in (1, 3) for state in "ACGT")),
        *("alpha{1,3}", "m{1}", "m{2}", "m{3}"),
    )
    assert target_of(("JC+I", "JC+I", "JC+I"), linked=("invariant",)).parameters.names[0] == "pinvar{all}"
    two_ratios = target_of(("TN93", "HKY", "HKY"), linked=("kappa",)).parameters.names
    assert two_ratios[:3] == ("kappa{2,3}", "kappa(A<->G){1}", "kappa(C<->T){1}")


def test_equal_parts_with_equal_rates_are_the_whole():
    target = target_of(("JC", "JC", "JC"), inferred_rates=False)
    assert target.parameters is None
    whole = TreeLikelihood(compress(ALIGNMENT), threads=1)
    np.testing.assert_allclose(target.likelihood(TREES, LENGTHS), whole(TREES, LENGTHS))
    np.testing.assert_allclose(target.likelihood.of_sites(TREES, LENGTHS), whole.of_sites(TREES, LENGTHS))


def test_a_taxon_without_data_in_a_part_and_a_part_of_constant_sites():
    states = np.array(ALIGNMENT.states)
    states[2, 30:60] = 15
    states[:, 60:] = 1
    alignment = Alignment(ALIGNMENT.taxa, states)
    parts = np.repeat(np.arange(3, dtype=np.int32), 30)
    patterns = compress(alignment, SitePartition(NAMES, parts, (None,) * 3))
    configs = [ModelConfig("GTR+G4")] * 3
    models = tuple(build_model(configs[0], own) for own in patterns.parts)
    parameters = FreeParameters.of(configs, models, sizes=np.full(3, 30))
    likelihood = TreeLikelihood(patterns, PartitionedModel(NAMES, models), threads=1, states_differ=True)
    target = TreePosterior(likelihood, parameters=parameters)
    value, slopes = target.log_joint_by_hand(
        TREES, LENGTHS, 1.0, theta=torch.zeros(4, target.dimension, dtype=torch.float64)
    )
    assert torch.isfinite(value).all()
    assert torch.isfinite(slopes.theta).all()


def test_parts_have_equal_numbers_of_categories():
    models = tuple(build_model(ModelConfig(name), PATTERNS.parts[0]) for name in ("JC+G4", "JC+G8"))
    with pytest.raises(BadArgument, match="parts with 4 and 8 rate categories: give all of them the same number"):
        PartitionedModel(NAMES[:2], models)


def test_codon_positions():
    assert by_codon(6).part_of_site.tolist() == [0, 1, 2, 0, 1, 2]


@pytest.mark.parametrize("first", [1, 3, 20])
def test_parts_may_be_of_very_different_sizes(first):
    """Each part's tables must have room for its own columns, of which the first may have few."""
    alignment = Alignment(tuple("abcde"), (1 << np.random.default_rng(1).integers(0, 4, (5, 900))).astype(np.uint8))
    partition = SitePartition(("few", "many"), (np.arange(900) >= first).astype(np.int32), (None, None))
    patterns = compress(alignment, partition)
    parts = tuple(
        build_model(ModelConfig("GTR", rates=(1, 2, 1, 1, 3, 1)), own) for own in compress(alignment).parts * 2
    )
    found = TreeLikelihood(patterns, PartitionedModel(partition.names, parts), threads=1)
    whole = TreeLikelihood(compress(alignment), parts[0], threads=1)
    np.testing.assert_allclose(found(TREES, LENGTHS), whole(TREES, LENGTHS), rtol=1e-12)
