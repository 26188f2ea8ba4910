"""Draws: kept as they were made, each topology once, in memory and in a file."""

import json
from dataclasses import replace

import numpy as np
import pytest
import safetensors.numpy
import torch

from phloem.errors import BadArgument, FileProblem, TaxonMismatch
from phloem.inference.diagnostics import smooth
from phloem.inference.draws import TYPES, DrawCollector, Draws, join, read_draws, shares, write_draws
from phloem.inference.particles import draw_particles
from phloem.random_streams import RandomStream
from phloem.trees.generation import all_topologies
from support.small_posteriors import example

STREAM = RandomStream(8, "draws")


@pytest.fixture(scope="module")
def model_and_target():
    return example("psp")


def particles(model_and_target, count, step=0):
    with torch.no_grad():
        return draw_particles(*model_and_target, count, stream=STREAM.at(step))


@pytest.fixture(scope="module")
def draws(model_and_target) -> Draws:
    collector = DrawCollector()
    for step in range(3):
        collector.add(particles(model_and_target, 40, step))
    assert collector.topology_count == len(collector.draws(model_and_target[0].network.support.taxa).topologies)
    return collector.draws(model_and_target[0].network.support.taxa)


def test_all_that_was_drawn_is_kept(model_and_target, draws):
    parts = [particles(model_and_target, 40, step) for step in range(3)]
    parents = np.concatenate([part.topologies.parent for part in parts])
    np.testing.assert_array_equal(draws.topologies.parent[draws.group], parents)
    np.testing.assert_allclose(draws.branch_lengths, np.concatenate([part.lengths for part in parts]), rtol=1e-6)
    np.testing.assert_array_equal(draws.log_weights, np.concatenate([part.log_weights() for part in parts]))
    assert len(draws) == 120
    assert len(draws.topologies) == len({row.tobytes() for row in parents}) > 5
    assert (np.diff(np.unique(draws.group, return_index=True)[1]) > 0).all(), "numbered as they first appear"


def test_annealed_draws_have_weights_of_their_own(model_and_target, draws, tmp_path):
    taxa = model_and_target[0].network.support.taxa
    moved = particles(model_and_target, 30, 5)
    collector = DrawCollector(most_nodes=20 * moved.topologies.node_count)
    collector.add(moved, np.arange(30.0))
    annealed = collector.draws(taxa)
    np.testing.assert_array_equal(annealed.log_weights, np.arange(20.0))
    np.testing.assert_array_equal(annealed.log_joint, moved.log_joint[:20])
    write_draws(annealed, tmp_path / "draws")
    again = read_draws(tmp_path / "draws")
    np.testing.assert_array_equal(again.log_weights, np.arange(20.0))
    both = join([draws, annealed])
    np.testing.assert_array_equal(both.log_weights, np.concatenate([draws.log_weights, annealed.log_weights]))
    assert join([draws, draws]).annealed is None
    with pytest.raises(BadArgument, match="differ in size"):
        replace(draws, annealed=np.zeros(3))


def test_errors_and_evidence_are_those_of_loops_over_draws(draws):
    found, trees = draws.topology_estimates(), draws.weighted()
    largest = draws.log_weights.max()
    raw = np.exp(draws.log_weights - largest)
    assert (np.diff(found.trees.weights) <= 0).all()
    for number, parent in enumerate(found.trees.topologies.parent):
        here = [bool((draws.topologies.parent[group] == parent).all()) for group in draws.group]
        p = sum(weight for weight, is_here in zip(trees.weights, here, strict=True) if is_here)
        variance = sum(w**2 * (is_here - p) ** 2 for w, is_here in zip(trees.weights, here, strict=True))
        assert found.trees.weights[number] == pytest.approx(p)
        assert found.error[number] == pytest.approx(np.sqrt(variance))
        parts = raw * here
        assert found.log_evidence[number] == pytest.approx(largest + np.log(parts.mean()))
        expected = parts.std() / np.sqrt(len(parts)) / parts.mean()
        assert found.log_evidence_error[number] == pytest.approx(expected)
    few = found.first(2)
    assert len(few) == len(few.error) == len(few.log_evidence) == len(few.log_evidence_error) == 2


def test_all_other_topologies_have_evidence_together(draws):
    some = draws.topologies[[0, 3]]
    parts = np.exp(draws.log_weights - draws.log_weights.max()) * ~np.isin(draws.group, [0, 3])
    log_evidence, error = draws.log_evidence_of_others(some)
    assert log_evidence == pytest.approx(draws.log_weights.max() + np.log(parts.mean()))
    assert error == pytest.approx(parts.std() / np.sqrt(len(parts)) / parts.mean())
    assert draws.log_evidence_of_others(draws.topologies) == (-np.inf, 0.0)


def test_evidence_is_known_however_small_it_is(draws):
    small = replace(draws, log_joint=draws.log_joint - 1000.0 * (draws.group == 3))
    found, usual = (each.topology_estimates() for each in (small, draws))
    assert np.isfinite(found.log_evidence).all()
    lost = np.sort(usual.log_evidence).sum() - np.sort(found.log_evidence).sum()
    assert lost == pytest.approx(1000.0)


def test_errors_are_as_large_as_the_spread_of_repeats():
    """Topologies from a q with weights p/q that vary on top, as those of branch lengths do."""
    random = np.random.default_rng(3)
    topologies = all_topologies(5)
    p, q = (weights / weights.sum() for weights in np.exp(random.normal(size=(2, len(topologies)))))
    spread, count, log_z = 0.8, 2000, -30.0
    shares_found, errors, evidence, evidence_errors = [], [], [], []
    for _ in range(300):
        group = random.choice(len(topologies), count, p=q).astype(np.int32)
        log_weights = log_z + np.log(p / q)[group] + random.normal(-(spread**2) / 2, spread, count)
        some = Draws(
            tuple("abcde"), topologies, group, np.ones((count, 7), np.float32), log_weights, *np.zeros((2, count))
        )
        trees, found = some.weighted(), some.topology_estimates()
        place = np.argsort(np.argsort(-trees.topology_weights(), kind="stable"))
        shares_found.append(found.trees.weights[place])
        errors.append(found.error[place])
        evidence.append(found.log_evidence[place])
        evidence_errors.append(found.log_evidence_error[place])
    np.testing.assert_allclose(np.mean(errors, axis=0), np.std(shares_found, axis=0), rtol=0.2)
    np.testing.assert_allclose(np.mean(evidence_errors, axis=0), np.std(evidence, axis=0), rtol=0.2)
    np.testing.assert_allclose(
        np.mean(shares_found, axis=0), p, atol=0.01
    )  # smoothing takes a little from the heaviest
    np.testing.assert_allclose(np.exp(np.array(evidence) - log_z).mean(axis=0), p, rtol=0.06)


def test_weights_are_shares_by_topology_the_largest_first(draws):
    weights = np.exp(smooth(draws.log_weights) - draws.log_weights.max())
    expected: dict[bytes, float] = {}
    for number, weight in zip(draws.group, weights / weights.sum(), strict=True):
        parent = draws.topologies.parent[number].tobytes()
        expected[parent] = expected.get(parent, 0.0) + weight
    sample = draws.weighted().topology_sample()
    assert len(sample) == len(expected)
    for parent, weight in zip(sample.topologies.parent, sample.weights, strict=True):
        assert weight == pytest.approx(expected[parent.tobytes()], rel=1e-12)
    assert (np.diff(sample.weights) <= 0).all()


def test_no_more_draws_are_kept_than_fit(model_and_target):
    whole, part = DrawCollector(most_nodes=10 * 25 + 9), DrawCollector()  # 25 trees of ten nodes
    for step in range(3):
        whole.add(particles(model_and_target, 11, step))
    part.add(particles(model_and_target, 11, 0))
    part.add(particles(model_and_target, 11, 1))
    taxa = model_and_target[0].network.support.taxa
    assert model_and_target[0].network.support.taxa == taxa
    kept = whole.draws(taxa)
    assert len(kept) == 25
    np.testing.assert_array_equal(kept.log_weights[:22], part.draws(taxa).log_weights)


def test_joined_draws_are_those_of_each(model_and_target, draws):
    collector = DrawCollector()
    collector.add(particles(model_and_target, 30, 7))
    other = collector.draws(draws.taxa)
    both = join([draws, other])
    assert len(both) == 150
    np.testing.assert_array_equal(both.log_weights, np.concatenate([draws.log_weights, other.log_weights]))
    parents = np.concatenate([one.topologies.parent[one.group] for one in (draws, other)])
    np.testing.assert_array_equal(both.topologies.parent[both.group], parents)
    assert len(both.topologies) == len({row.tobytes() for row in parents})


def test_a_run_counts_as_its_marginal_likelihood_says(draws):
    """The same draws with weights e times as large are worth e times as much."""
    better = Draws(
        draws.taxa, draws.topologies, draws.group, draws.branch_lengths, draws.log_joint + 1, *draws_q(draws)
    )
    weights = shares(join([draws, better]).log_weights)
    assert weights[120:].sum() == pytest.approx(np.e / (1 + np.e))


def draws_q(draws):
    return draws.log_q_topology, draws.log_q_branches


def test_a_file_gives_them_back_and_the_same_draws_give_the_same_bytes(draws, tmp_path):
    write_draws(draws, tmp_path / "draws")
    again = read_draws(tmp_path / "draws")
    assert again.taxa == draws.taxa
    np.testing.assert_array_equal(again.topologies.parent, draws.topologies.parent)
    for name in ("group", "branch_lengths", "log_joint", "log_q_topology", "log_q_branches"):
        np.testing.assert_array_equal(getattr(again, name), getattr(draws, name))
    write_draws(again, tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "draws").read_bytes()


def test_damaged_files_are_refused_in_a_line(draws, tmp_path):
    path = tmp_path / "draws"
    write_draws(draws, path)
    whole = path.read_bytes()
    size = int.from_bytes(whole[:8], "little")
    header = json.loads(whole[8 : 8 + size])
    renamed = whole.replace(b'"group"', b'"grope"', 1)
    group = header["group"]["data_offsets"]
    first = 8 + size + group[0]
    lost = whole[:first] + (10**6).to_bytes(4, "little") + whole[first + 4 :]
    for content in (b"", b"nothing", whole[:-9], renamed, lost, whole.replace(b'"taxa"', b'"tax_"', 1)):
        path.write_bytes(content)
        with pytest.raises(FileProblem, match="not a file of draws"):
            read_draws(path)


def test_arrays_that_fit_no_trees_are_refused(draws, tmp_path):
    path = tmp_path / "draws"
    write_draws(draws, path)
    arrays, taxa = safetensors.numpy.load(path.read_bytes()), json.dumps(draws.taxa)
    assert read_draws(path).taxa == draws.taxa
    below, above, as_floats = (arrays["group"].copy() for _ in range(3))
    below[3], above[3] = -1, len(arrays["parent"])
    looped = arrays["parent"].copy()
    looped[0, 0] = 0
    for change in (
        {"group": below},
        {"group": above},
        {"group": as_floats.astype(np.float64)},
        {"log_joint": arrays["log_joint"].astype(np.float32)},
        {"branch_lengths": arrays["branch_lengths"][:, 1:].copy()},
        {"branch_lengths": arrays["branch_lengths"][1:].copy()},
        {"parent": looped},
    ):
        path.write_bytes(safetensors.numpy.save(arrays | change, {"taxa": taxa}))
        with pytest.raises(FileProblem, match="not a file of draws"):
            read_draws(path)


def test_columns_of_other_lengths_are_refused(draws):
    for name in ("branch_lengths", "log_joint", "log_q_topology", "log_q_branches"):
        with pytest.raises(BadArgument, match="differ in size"):
            replace(draws, **{name: getattr(draws, name)[1:]})
    nothing = {name: getattr(draws, name)[:0] for name in TYPES if name != "parent"}
    with pytest.raises(BadArgument, match="nothing was drawn"):
        replace(draws, **nothing)


def test_numbers_that_no_draw_has_are_damage(draws, tmp_path):
    path = tmp_path / "draws"
    for name, value in (
        ("branch_lengths", -1),
        ("branch_lengths", np.nan),
        ("branch_lengths", np.inf),
        ("log_joint", np.nan),
    ):
        column = getattr(draws, name).copy()
        column.flat[7] = value
        write_draws(replace(draws, **{name: column}), path)
        with pytest.raises(FileProblem, match="draws: is damaged"):
            read_draws(path)


def test_runs_on_other_taxa_are_not_joined(draws):
    with pytest.raises(TaxonMismatch, match="other taxa"):
        join([draws, replace(draws, taxa=draws.taxa[::-1])])


def test_nothing_drawn_and_nothing_possible_are_errors(draws):
    with pytest.raises(BadArgument, match="nothing was drawn"):
        DrawCollector().draws(draws.taxa)
    with pytest.raises(BadArgument, match="draws are impossible"):
        shares(np.full(4, -np.inf))
    with pytest.raises(BadArgument, match="differ in size"):
        Draws(draws.taxa[1:], draws.topologies, draws.group, draws.branch_lengths, draws.log_joint, *draws_q(draws))
