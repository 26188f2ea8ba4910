"""Simulated data sets: reproducible, true to what was given, with the truth beside them."""

import json
import subprocess

import numpy as np
import pytest

import phloem
from phloem.config import InferConfig, ModelConfig, PartitionConfig
from phloem.data.hiding import Hidden
from phloem.data.partitions import read_partition
from phloem.data.reading import read_alignment
from phloem.errors import BadArgument, ConfigError
from phloem.tasks.simulate import SimulateRequest, run_simulation, simulate, simulate_data
from phloem.trees.reading import parse_newick, read_trees
from support.messages import saying


def request(model: str = "GTR+I+G4", *, seed: int = 1, partition: PartitionConfig | None = None, **options):
    config = InferConfig(model=ModelConfig(model), seed=seed, partition=partition or PartitionConfig())
    return SimulateRequest(config, **({"taxa": 6, "sites": 200} | options))


def only(made: SimulateRequest):
    (found,) = simulate_data(made)
    return found


def test_a_seed_gives_the_same_data_and_another_gives_others():
    one, same, other = only(request()), only(request()), only(request(seed=2))
    np.testing.assert_array_equal(one.symbols, same.symbols)
    assert one.as_json() == same.as_json()
    assert one.parameters != other.parameters
    assert one.as_json()["newick"] != other.as_json()["newick"]


def test_data_sets_differ_and_do_not_depend_on_how_many_there_are():
    many = list(simulate_data(request(replicates=3)))
    few = list(simulate_data(request(replicates=2)))
    assert [one.as_json() for one in many[:2]] == [one.as_json() for one in few]
    assert len({one.as_json()["newick"] for one in many}) == 3
    assert len({one.parameters["alpha"] for one in many}) == 3


def test_more_sites_or_gaps_have_the_same_tree_and_parameters():
    one, longer = only(request()), only(request(sites=300))
    gappy = only(request(hidden=Hidden(gaps=0.2)))
    assert one.parameters == longer.parameters == gappy.parameters
    assert one.tree.topologies.equal(longer.tree.topologies).all()
    np.testing.assert_array_equal(one.tree.branch_lengths, gappy.tree.branch_lengths)
    kept = gappy.symbols != ord("-")
    np.testing.assert_array_equal(one.symbols[kept], gappy.symbols[kept])
    assert gappy.as_json()["hidden"]["gaps"] == pytest.approx(1 - kept.mean())
    assert 0 < kept.mean() < 1


def test_what_is_given_is_kept_and_the_rest_is_drawn():
    model = ModelConfig("HKY+I+G4", kappa=(4.0,), frequencies=(0.1, 0.2, 0.3, 0.4), alpha=0.5)
    found = only(SimulateRequest(InferConfig(model=model), taxa=5, sites=50))
    (truth,) = found.models
    assert truth["exchangeabilities"][1] / truth["exchangeabilities"][0] == pytest.approx(4)
    assert truth["frequencies"] == [0.1, 0.2, 0.3, 0.4]
    assert (truth["alpha"], truth["gamma_categories"], truth["rate"]) == (0.5, 4, 1.0)
    assert found.parameters == {"pinvar": truth["invariant"]}


def test_a_model_without_anything_open_draws_nothing():
    assert only(request("JC")).parameters == {}


def test_frequencies_cannot_be_counted_before_there_are_data():
    with pytest.raises(ConfigError, match=saying("HKY+F: … no alignment yet … --frequencies")):
        only(request("HKY+F"))


def test_parts_by_lengths():
    partition = PartitionConfig(sites="90,30,60", models="GTR+G4,JC,HKY+I", link="frequencies")
    found = only(request(partition=partition, sites=None))
    assert found.symbols.shape == (6, 180)
    assert [part["model"] for part in found.models] == ["GTR+G4", "JC", "HKY+I"]
    assert found.models[0]["frequencies"] == found.models[2]["frequencies"] != found.models[1]["frequencies"]
    rates = np.array([part["rate"] for part in found.models])
    assert rates @ [90, 30, 60] / 180 == pytest.approx(1)
    assert {"pi(A){1,3}", "alpha{1}", "kappa{3}", "pinvar{3}", "m{2}"} < found.parameters.keys()
    assert found.parameters["m{2}"] == found.models[1]["rate"]


@pytest.mark.parametrize(("rates", "multipliers"), [("equal", None), ("inferred", (1.0, 2.0, 3.0))])
def test_rates_of_parts_can_be_equal_or_given(rates, multipliers):
    partition = PartitionConfig(sites="by-codon", rates=rates)
    found = only(request("JC", partition=partition, sites=300, multipliers=multipliers))
    expected = [1.0, 1.0, 1.0] if multipliers is None else [0.5, 1.0, 1.5]
    assert [part["rate"] for part in found.models] == pytest.approx(expected)
    assert found.parameters == {}


def test_parts_of_a_file(tmp_path):
    path = tmp_path / "genes.part"
    path.write_text("GTR+G4, gene1 = 1-100\nDNA, gene2 = 101-200\n")
    found = only(request("HKY+G4", partition=PartitionConfig(sites=str(path)), hidden=Hidden(genes=0.5)))
    assert [(part["part"], part["model"]) for part in found.models] == [("gene1", "GTR+G4"), ("gene2", "HKY+G4")]
    assert found.as_json()["hidden"]["missing_genes"] == pytest.approx(0.5)


def test_a_given_tree_is_the_true_tree(tmp_path):
    path = tmp_path / "x.nwk"
    path.write_text("(b:0.1,(a:0.2,d:0.3):0.05,c:0.4);\n")
    found = only(request(taxa=None, tree=path))
    assert found.taxa == read_trees(path).taxa
    assert found.prior is None
    assert found.tree.branch_lengths.sum() == pytest.approx(1.05)
    path.write_text("(b,(a,d),c);\n(a,(b,d),c);\n")
    one, two = simulate_data(request(taxa=None, tree=path, replicates=2))
    assert one.prior == "exponential with rate 10"
    assert not one.tree.topologies.equal(two.tree.topologies).any()


def test_yule_trees_have_a_height_if_one_is_given():
    tall = only(request("JC", topology="yule", height=0.5))
    lengths = tall.tree.branch_lengths[0]
    assert tall.prior is None
    assert lengths.max() < 1.0
    assert only(request("JC", topology="yule")).prior == "exponential with rate 10"
    assert only(request("JC", topology="yule", height=1.0)).tree.branch_lengths[0] == pytest.approx(2 * lengths)


@pytest.mark.parametrize(
    ("options", "facts"),
    [
        ({"taxa": 3}, "--taxa 3"),
        ({"sites": 0}, "--sites 0"),
        ({"topology": "star"}, "--topology 'star'"),
        ({"height": 1.0}, "--height: only Yule"),
        ({"height": -1.0, "topology": "yule"}, "--height -1"),
        ({"tree": "x.nwk"}, "--taxa and --tree"),
        ({"replicates": 0}, "--replicates 0"),
        ({"multipliers": (1.0, 2.0)}, "--multipliers: 2 numbers for 1 part"),
        ({"multipliers": (1.0, 2.0, -1.0), "sites": 300, "partition": PartitionConfig(sites="by-codon")}, "above 0"),
        ({"partition": PartitionConfig(sites="50,60")}, "--partition 50,60 … 110 sites"),
        ({"partition": PartitionConfig(sites="50,0"), "sites": None}, "--partition 50,0"),
        ({"partition": PartitionConfig(sites="by-codon")}, "200 sites are no whole number of codons"),
        (
            {"partition": PartitionConfig(sites="50,60", models="JC+G4,JC+G5"), "sites": None},
            "4 and 5 rate categories",
        ),
        ({"partition": PartitionConfig(sites="50,60", models="JC"), "sites": None}, "1 model for 2 parts"),
    ],
)
def test_mistakes_say_what_to_do(options, facts):
    with pytest.raises((BadArgument, ConfigError, phloem.PhloemError), match=saying(facts)):
        only(request("JC", **options))


def test_trees_that_do_not_fit_are_refused():
    for text, facts in (("(a:1,b:1,(c:1,d:-1):1);", "a negative one"), ("(a,b,(c,d));" * 2, "2 trees for 3 data sets")):
        sample = parse_newick(text)
        with pytest.raises(BadArgument, match=facts):
            list(simulate_data(request(taxa=None, tree=sample, replicates=3)))


def test_files_have_data_and_truth(tmp_path):
    made = request("HKY+G4", partition=PartitionConfig(sites="90,30"), sites=None, replicates=12)
    written = run_simulation(made, tmp_path / "in" / "sim", form="phylip", command="phloem simulate …")
    assert [files.alignment.name for files in written][::11] == ["sim-01.phy", "sim-12.phy"]
    files, found = written[4], list(simulate_data(made))[4]
    alignment = read_alignment(files.alignment)
    assert alignment.taxa == found.taxa
    np.testing.assert_array_equal(alignment.states, found.alignment.states)
    tree = read_trees(files.tree, taxa=alignment.taxa)
    assert tree.topologies.equal(found.tree.topologies).all()
    np.testing.assert_allclose(tree.branch_lengths, found.tree.branch_lengths)
    truth = json.loads(files.truth.read_text())
    assert (truth["seed"], truth["replicate"], truth["topology"]) == (1, 5, "uniform")
    assert truth["command"] == "phloem simulate …"
    assert truth["parameters"] == found.parameters
    partition = read_partition(files.parts, 120)
    assert partition.sizes.tolist() == [90, 30]
    assert partition.models == ("HKY+G4", "HKY+G4")


def test_from_python():
    found = simulate(5, 100, model={"name": "HKY"}, seed=3, gaps=0.1, partition={"sites": "40,60"})
    assert phloem.simulate is simulate
    assert found.alignment.states.shape == (5, 100)
    assert (found.alignment.states == 15).mean() == pytest.approx(found.as_json()["hidden"]["gaps"])
    with pytest.raises(ConfigError, match="unknown setting 'modl'"):
        simulate(5, 100, modl="JC")


def test_another_program_estimates_what_was_simulated(iqtree, tmp_path):
    """IQ-TREE's maximum-likelihood parameters on the true tree, from 50,000 sites."""
    model = ModelConfig("HKY+I+G4", kappa=(3.0,), frequencies=(0.4, 0.1, 0.2, 0.3), alpha=0.8, invariant=0.2)
    made = SimulateRequest(InferConfig(model=model), taxa=8, sites=50_000)
    (files,) = run_simulation(made, tmp_path / "x")
    options = ["-s", str(files.alignment), "-te", str(files.tree), "-m", "HKY+FO+I+G4", "-T", "1", "-redo"]
    subprocess.run([iqtree, *options], cwd=tmp_path, capture_output=True, check=True)
    report = files.alignment.with_suffix(".fasta.iqtree").read_text()
    found = {line.split(":")[0].strip(): line.split(":")[1].split()[0] for line in report.splitlines() if ": " in line}
    assert float(found["A-G"]) == pytest.approx(3.0, rel=0.05)
    assert float(found["Gamma shape alpha"]) == pytest.approx(0.8, rel=0.15)
    assert float(found["Proportion of invariable sites"]) == pytest.approx(0.2, abs=0.04)
    assert float(found["Total tree length (sum of branch lengths)"]) == pytest.approx(
        json.loads(files.truth.read_text())["tree_length"], rel=0.03
    )
