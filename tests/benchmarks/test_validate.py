"""What validation looks at is right, and it goes on where it was."""

import json

import numpy as np
import pytest
import torch

import validate
from calibration import uniformity
from phloem.config import InferConfig, ModelConfig
from phloem.data.patterns import compress
from phloem.errors import BadArgument
from phloem.models import SiteRates, TreeLikelihood, gtr
from phloem.random_streams import RandomStream
from phloem.tasks.run_files import build_target
from phloem.trees.generation import random_topologies
from phloem.trees.sample import GroupedTrees

SETS = 200


def walked(parent: list[int]) -> set[int]:
    """The branches between taxa 0 and 1: those above exactly one of them."""
    above = []
    for node in (0, 1):
        own = set()
        while parent[node] >= 0:
            own.add(node)
            node = parent[node]
        above.append(own)
    return above[0] ^ above[1]


@pytest.mark.parametrize("taxa", [3, 5, 8, 50])
def test_the_path_between_two_taxa_is_what_is_above_one_of_them(taxa):
    topologies = random_topologies(taxa, 30, stream=RandomStream(taxa, "paths"))
    found = validate.between_first_two(topologies)
    for row, parent in zip(found, topologies.parent.tolist(), strict=True):
        assert set(np.flatnonzero(row)) == walked(parent)


def test_quantities_of_trees_are_sums_and_extremes_of_branches():
    topologies = random_topologies(5, 3, stream=RandomStream(1, "quantities"))
    group = np.array([2, 0, 1, 2], np.int32)
    lengths = np.random.default_rng(1).exponential(size=(4, 7))
    found = validate.tree_values(topologies, group, lengths)
    for tree, own in enumerate(lengths.tolist()):
        path = walked(topologies.parent[group[tree]].tolist())
        expected = [
            sum(own),
            own[0],
            own[1],
            sum(own[one] for one in path),
            own[5] + own[6],
            max(own[5:]),
            min(own[5:]),
        ]
        assert [values[tree] for values in found.values()] == pytest.approx(expected)


def weighted_topologies(seed: int, random: np.random.Generator) -> GroupedTrees:
    """A made-up posterior of eight topologies."""
    topologies = random_topologies(6, 8, stream=RandomStream(seed, "posterior"))
    weights = random.dirichlet(np.full(8, 0.4))
    return GroupedTrees(tuple("abcdef"), topologies, np.arange(8, dtype=np.int32), weights, np.ones((8, 9)))


@pytest.mark.parametrize("is_right", [True, False])
def test_ranks_of_topologies_are_uniform_where_truths_are_from_the_posterior_and_only_there(is_right):
    random = np.random.default_rng(2)
    found = []
    for seed in range(SETS):
        trees = weighted_topologies(seed, random)
        truth = random.choice(8, p=trees.weights if is_right else None)
        found.append(validate.topology_results(trees, trees.topologies[[truth]], random))
    for name in ("topology", "clade support"):
        assert uniformity([one["ranks"][name] for one in found]).leaves_band != is_right
    for share in (0.5, 0.8):
        covered = np.mean([one["ranks"]["topology"] < share for one in found])
        assert (abs(covered - share) < 0.08) == is_right


def test_a_topology_that_was_never_drawn_is_beyond_all_others():
    trees = weighted_topologies(1, np.random.default_rng(1))
    other = random_topologies(6, 1, stream=RandomStream(99, "truth"))
    assert not (trees.topologies.parent == other.parent).all(axis=1).any()
    found = validate.topology_results(trees, other, np.random.default_rng(1))
    assert found["probability"] == 0
    assert found["ranks"]["topology"] == 1
    assert not any(has_truth for _, _, has_truth in found["credible"].values())


def test_the_likelihood_at_the_truth_is_that_of_the_true_model():
    study = validate.STUDIES["GTR"]
    data = validate.simulated(study, 1)
    patterns = compress(data.alignment)
    target = build_target(patterns, InferConfig(model=ModelConfig("GTR+G4")), 1)
    (true,) = data.models
    model = gtr(true["exchangeabilities"], true["frequencies"], site_rates=SiteRates(shape=true["alpha"], categories=4))
    lengths = torch.from_numpy(np.array(data.tree.branch_lengths))
    expected = float(TreeLikelihood(patterns, model)(data.tree.topologies, lengths)[0])
    assert validate.true_log_likelihood(target, data) == pytest.approx(expected, rel=1e-9)


@pytest.mark.slow
def test_a_data_set_gives_a_line_with_the_rank_of_everything():
    study = validate.STUDIES["GTR"]
    line = json.loads(json.dumps(validate.outcome(study, 0)))
    assert (line["taxa"], line["sites"], line["seed"]) == (5, 100, 20_000)
    names = {"tree length", "branch of t1", "path from t1 to t2", "alpha", "pi(T)", "r(G<->T)", "log likelihood"}
    assert names | {"topology", "clade support"} <= set(line["ranks"])
    assert all(0 <= one <= 1 for one in line["ranks"].values())
    assert 1 <= line["effective"] <= line["draws"]
    assert sum(line["clades"][name][1] for name in line["clades"] if not name.endswith("5-1")) == pytest.approx(
        2, abs=1e-3
    )


def test_a_data_set_without_a_posterior_is_a_line_too(monkeypatch):
    def refuse(*_):
        raise BadArgument("too few of anything")

    monkeypatch.setattr(validate, "inferred", refuse)
    line = validate.outcome(validate.STUDIES["JC"], 3)
    assert line["failed"] == "too few of anything"
    assert line["number"] == 3


def test_what_is_finished_is_not_run_again(monkeypatch, tmp_path, capsys):
    """Interrupted in the middle, begun again, begun once more with nothing left."""
    ran = []

    def outcome(study, number):
        if len(ran) == 3:
            ran.append("interrupted")
            raise KeyboardInterrupt
        ran.append((study.name, number))
        return {"number": number, "taxa": 5, "sites": 9, "failed": "of course"}

    monkeypatch.setattr(validate, "outcome", outcome)
    arguments = ["--results", str(tmp_path), "--sets", "2"]
    with pytest.raises(KeyboardInterrupt):
        validate.main(arguments)
    assert {path.name: len(validate.read_lines(path)) for path in tmp_path.glob("*.jsonl")} == {
        f"validation-{name}.jsonl": 1 for name in ("JC", "GTR", "control")
    }
    validate.main(arguments)
    validate.main(arguments)
    ran.remove("interrupted")
    small_in_turn = [(name, number) for number in (0, 1) for name in ("JC", "GTR", "control")]
    assert ran == [*small_in_turn, ("fifty", 0), ("fifty", 1)]
    assert capsys.readouterr().out.count("of course") == 8


def test_no_time_is_no_data_set(monkeypatch, tmp_path):
    monkeypatch.setattr(validate, "outcome", None)
    validate.main(["--results", str(tmp_path), "--seconds", "-1"])
    assert list(tmp_path.iterdir()) == []


def test_no_two_data_sets_share_a_seed_but_those_of_short_training():
    studies = [study for name, study in validate.STUDIES.items() if name != "short"]
    seeds = [study.seed(number) for study in studies for number in range(study.sets)]
    assert len(set(seeds)) == len(seeds)


def test_numbers_have_few_digits_and_the_rest_is_as_it_was():
    line = {"a": [0.1234567, 3, True, None], "b": {"c": "text", "d": 123456.7}}
    assert validate.rounded(line) == {"a": [0.12346, 3, True, None], "b": {"c": "text", "d": 123460.0}}
