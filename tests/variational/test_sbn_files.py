"""Support and network files: the same bytes, the same distribution; anything damaged is refused."""

from contextlib import suppress

import numpy as np
import pytest
import torch

from phloem.errors import FileProblem
from phloem.random_streams import RandomStream
from phloem.trees.generation import all_topologies, nni_neighbors, random_topologies
from phloem.trees.sample import TreeSample
from phloem.trees.topology import TopologyBatch
from phloem.variational.sbn import (
    SubsplitNetwork,
    closed_support,
    read_network,
    read_support,
    support_of,
    write_network,
    write_support,
)


def example(taxa: int = 70) -> SubsplitNetwork:
    tree = random_topologies(taxa, 1, stream=RandomStream(1, "tree"))
    topologies = TopologyBatch.concatenate([tree, nni_neighbors(tree)])
    support = support_of(tuple(f"taxon {number} é" for number in range(taxa)), topologies)
    return SubsplitNetwork(support, torch.from_numpy(np.random.default_rng(1).normal(size=support.parameter_count)))


def closed_example(taxa: int = 70) -> SubsplitNetwork:
    topologies = example(taxa).sample(30, stream=RandomStream(1, "trees"))
    sample = TreeSample(tuple(f"taxon {number}" for number in range(taxa)), topologies, np.ones(30), None).distinct()
    support = closed_support(sample, most_entries=6 * taxa)
    assert support.splits_left_out > 0
    return SubsplitNetwork(support, torch.from_numpy(np.random.default_rng(1).normal(size=support.parameter_count)))


@pytest.mark.parametrize("example", [example, closed_example])
def test_a_network_comes_back_as_it_was(tmp_path, example):
    network = example()
    write_network(network, tmp_path / "network.npz")
    again = read_network(tmp_path / "network.npz")
    assert again.support.taxa == network.support.taxa
    draw = network.draw(20, stream=RandomStream(3, "draw"))
    other = again.draw(20, stream=RandomStream(3, "draw"))
    np.testing.assert_array_equal(draw.topologies.parent, other.topologies.parent)
    assert torch.equal(draw.log_prob, other.log_prob)
    np.testing.assert_array_equal(draw.indices.entries, other.indices.entries)
    np.testing.assert_array_equal(draw.indices.subsplits, other.indices.subsplits)


@pytest.mark.parametrize("example", [example, closed_example])
def test_a_support_comes_back_and_gives_the_same_bytes(tmp_path, example):
    support = example().support
    first, second = tmp_path / "first.npz", tmp_path / "second.npz"
    write_support(support, first)
    again = read_support(first)
    write_support(again, second)
    assert first.read_bytes() == second.read_bytes()
    assert again.topology_count == support.topology_count
    assert again.parameter_count == support.parameter_count
    assert (again.closed, again.splits_left_out) == (support.closed, support.splits_left_out)


def test_files_from_before_there_were_closed_supports_are_read(tmp_path):
    write_support(example().support, tmp_path / "new.npz")
    with np.load(tmp_path / "new.npz") as arrays:
        np.savez(tmp_path / "old.npz", **{name: arrays[name] for name in arrays if name != "splits_left_out"})
    assert read_support(tmp_path / "old.npz").splits_left_out == 0


def test_a_support_of_one_tree_comes_back_without_parameters(tmp_path):
    support = support_of(tuple("abcdef"), all_topologies(6)[:1])
    write_support(support, tmp_path / "one.npz")
    assert read_support(tmp_path / "one.npz").parameter_count == 0
    write_network(SubsplitNetwork(support), tmp_path / "network.npz")
    assert read_network(tmp_path / "network.npz").log_prob(all_topologies(6)[:1]).item() == pytest.approx(0, abs=1e-14)


def swap(array):
    return array[:, ::-1].copy()


def put(index, value):
    def change(array):
        array = array.copy()
        array[index] = value
        return array

    return change


def check_refused(network, path, part, change, message):
    """A file of the network with one part changed is an error that says so."""
    write_network(network, path)
    with np.load(path) as arrays:
        parts = dict(arrays)
    parts[part] = change(parts[part])
    np.savez(path, **parts)
    with pytest.raises(FileProblem, match=rf"network\.npz: .*{message}.* Make it again"):
        read_network(path)


@pytest.mark.parametrize(
    ("part", "change", "message"),
    [
        ("taxa", lambda a: a[:3], "distinct names"),
        ("taxa", put(1, "taxon 0 é"), "distinct names"),
        ("taxa", lambda a: np.arange(70), "distinct names"),
        ("topology_count", lambda a: np.array(0), "topology_count"),
        ("topology_count", lambda a: np.array([3]), "topology_count"),
        ("topology_count", lambda a: np.array(1), "one topology"),
        ("taxa", lambda a: np.frombuffer(b"\xff\xff\xff\x7f" * 70, "<U1"), "distinct names"),
        ("clades", lambda a: a[:, :1].copy(), "sets of these taxa"),
        ("clades", lambda a: a.astype(np.int64), "sets of these taxa"),
        ("clades", put((3, 0), 0), "single taxa"),
        ("clades", put((90, 1), 2**63), "single taxa"),
        ("clades", lambda a: np.concatenate([a, a[80:81]]), "not distinct"),
        ("splits", swap, "wrong order"),
        ("splits", put((0, 1), 5), "complements"),
        ("splits", put((0, 0), -1), "out of range"),
        ("splits", lambda a: np.concatenate([a, a[:1]]), "not distinct"),
        ("subsplits", swap, "wrong order"),
        ("subsplits", put((0, 1), 10**6), "out of range"),
        ("subsplits", lambda a: a.astype(np.int64), "pairs of integers"),
        ("subsplits", lambda a: a[:0], "pairs of integers"),
        ("pairs", put((0, 1), -5), "out of range"),
        ("pairs", lambda a: np.concatenate([a, a[:1]]), "not distinct"),
        ("pairs", lambda a: a[:-40], "no table"),
        ("pairs", put((0, 0), -1), "out of range"),
        ("splits_left_out", lambda a: np.array(-1), "number of splits"),
        ("logits", lambda a: a[:-1], "do not fit"),
        ("logits", lambda a: a.astype(np.float32), "do not fit"),
        ("logits", put(4, np.nan), "not numbers"),
        ("logits", put(4, np.inf), "not numbers"),
        ("logits", lambda a: a - np.inf, "no possible entry"),
    ],
)
def test_parts_that_do_not_fit_are_refused(tmp_path, part, change, message):
    check_refused(example(), tmp_path / "network.npz", part, change, message)


@pytest.mark.parametrize(
    ("part", "change", "message"),
    [
        ("pairs", put((0, 0), 3), "out of range"),
        ("pairs", put((0, 0), -2), "out of range"),
        ("pairs", put((0, 1), 10**6), "out of range"),
        ("pairs", lambda a: np.concatenate([a, a[:1]]), "not distinct"),
        ("pairs", lambda a: a[:40], "no table"),
        ("splits_left_out", lambda a: np.array([1]), "number of splits"),
        ("splits_left_out", lambda a: np.array(1.0), "number of splits"),
    ],
)
def test_parts_of_a_closed_support_that_do_not_fit_are_refused(tmp_path, part, change, message):
    check_refused(closed_example(), tmp_path / "network.npz", part, change, message)


@pytest.mark.parametrize(
    "collect",
    [support_of, lambda taxa, trees: closed_support(TreeSample(taxa, trees, np.ones(len(trees)), None))],
    ids=["pairs", "clades"],
)
def test_random_damage_is_refused_or_gives_a_proper_distribution(tmp_path, collect):
    path = tmp_path / "network.npz"
    topologies = all_topologies(6)
    support = collect(tuple("abcdef"), topologies[::9])
    write_network(SubsplitNetwork(support), path)
    with np.load(path) as arrays:
        good = dict(arrays)
    random = np.random.default_rng(1)
    accepted = 0
    for _ in range(300):
        parts = {name: array.copy() for name, array in good.items()}
        name = random.choice(["clades", "splits", "subsplits", "pairs"])
        array = parts[name]
        array[tuple(random.integers(size) for size in array.shape)] = random.integers(0, 2 * len(good["clades"]))
        np.savez(path, **parts)
        try:
            network = read_network(path)
        except FileProblem:
            continue
        accepted += 1
        assert len(network.sample(20, stream=RandomStream(1, "draws"))) == 20
        assert network.log_prob(topologies).exp().sum().item() <= 1 + 1e-9
    assert accepted < 300


def test_damaged_bytes_are_refused_or_make_no_difference(tmp_path):
    path = tmp_path / "network.npz"
    write_network(example(8), path)
    whole = path.read_bytes()
    random = np.random.default_rng(2)
    for _ in range(1500):
        content = bytearray(whole)
        for place in random.integers(len(content), size=random.integers(1, 4)):
            content[place] = random.integers(256)
        path.write_bytes(content)
        with suppress(FileProblem):  # and nothing else
            read_network(path)


def test_files_that_are_no_supports_say_so(tmp_path):
    path = tmp_path / "other.npz"
    with pytest.raises(FileProblem, match="no such file"):
        read_support(path)
    path.write_text("not an archive")
    with pytest.raises(FileProblem, match=r"is not an \.npz file .* Make one with `phloem support --out`"):
        read_support(path)
    np.savez(path, taxa=np.array(list("abcd")))
    with pytest.raises(FileProblem, match="has no array `topology_count`"):
        read_support(path)
    write_support(example().support, path)
    with pytest.raises(FileProblem, match=r"has no array `logits`\. Make the file with `phloem sbn fit`"):
        read_network(path)
