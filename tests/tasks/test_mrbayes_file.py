"""Files for MrBayes: read back they are the same settings, and MrBayes finds the same densities with them."""

import csv
import subprocess
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from phloem.config import InferConfig, ModelConfig
from phloem.config.infer import INFER
from phloem.config.model import MODEL_PARAMETERS, parse_length_prior
from phloem.config.partition import LINKABLE, PartitionConfig
from phloem.data.alignment import Alignment
from phloem.data.mrbayes_block import read_mrbayes_block
from phloem.data.partitions import SitePartition
from phloem.data.patterns import SitePatterns, compress
from phloem.data.reading import parse_alignment
from phloem.errors import ConfigError
from phloem.target.coordinates import Shares
from phloem.target.posterior import TreePosterior
from phloem.target.priors import UniformPrior
from phloem.tasks.mrbayes_file import MrBayesFile, mrbayes_file, safe_names
from phloem.tasks.mrbayes_settings import block_settings, load_with_block, with_models
from phloem.tasks.own_parts import OwnParts
from phloem.tasks.run_files import build_target, part_models
from phloem.trees.reading import read_trees
from support.messages import saying
from support.small_posteriors import evolved

NAMES = ("Homo sapiens", "4-1", "O'Brien", "All", "homo_Sapiens", "AB123.1")  # only the last can stay
ALIGNMENT = Alignment(NAMES, evolved(6, 120, seed=4).states)
FIXED = {
    "kappa": (3.5,),
    "rates": (1.0, 2.5, 0.75, 1.25, 3.0, 0.001),
    "frequencies": (0.1, 0.2, 0.3, 0.4),
    "alpha": 0.3,
    "invariant": 0.25,
}


def partition_of(names: tuple[str, ...]) -> SitePartition:
    """Uneven parts: sites in a row, and every other of the rest."""
    part_of_site = np.zeros(ALIGNMENT.site_count, np.int32)
    for part in range(1, len(names)):
        part_of_site[30 * part :: 2] = part
    return SitePartition(names, part_of_site, (None,) * len(names))


def settings_of(config: InferConfig, partition: SitePartition | None) -> SitePatterns:
    return compress(ALIGNMENT, partition and with_models(partition, config.partition.model_names))


def file_of(config: InferConfig, patterns: SitePatterns) -> MrBayesFile:
    return mrbayes_file(patterns, config, build_target(patterns, config, 1))


class Case(NamedTuple):
    model: str = "GTR+G4"
    parts: int = 1
    models: str | None = None
    link: str | None = None
    rates: str = "inferred"
    prior: str = "exponential"
    fixed: tuple[str, ...] = ()


CASES = [
    Case(parts=2, models="GTR+I+G4,HKY+G4"),
    Case(parts=2, models="HKY+G4,HKY+G4", link="alpha,kappa", prior="gamma-dirichlet"),
    Case(parts=3, models="JC+G4,HKY,GTR+I+G4", link="frequencies,alpha", rates="equal", prior="uniform:4"),
    Case(parts=3, models="SYM,K80+G4,F81+F+G4", link="alpha", prior="gamma-dirichlet:2,3"),
    Case("HKY+I+G5", fixed=("kappa", "frequencies", "alpha", "invariant")),
    Case("GTR+F+G4", parts=2, fixed=("rates",), link="alpha"),
]


def config_of(case: Case) -> InferConfig:
    model = ModelConfig(case.model, **{name: FIXED[name] for name in case.fixed})
    partition = PartitionConfig("parts", case.models, case.link, case.rates) if case.parts > 1 else PartitionConfig()
    return InferConfig(model=model, partition=partition, branch_prior=case.prior)


def run(program: str, folder: Path, text: str) -> dict[str, np.ndarray]:
    """Columns of a short chain that begins as the file says."""
    first = "set autoclose=yes nowarn=yes seed=1 swapseed=1 precision=15 usebeagle=no;"
    chain = "mcmc ngen=2000 nruns=1 nchains=1 samplefreq=100 printfreq=2000 diagnfreq=2000 filename=run;"
    assert text.endswith("end;\n")
    (folder / "run.nex").write_text(f"{text}begin mrbayes;\n{first}\n{chain}\nend;\n")
    done = subprocess.run([program, "run.nex"], cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-2000:]
    assert "Error" not in done.stdout
    lines = (folder / "run.p").read_text().splitlines()[1:]
    table = list(csv.DictReader(lines, delimiter="\t"))
    return {name: np.array([float(row[name]) for row in table]) for name in table[0]}


def assert_same_densities(target: TreePosterior, folder: Path, columns: dict[str, np.ndarray]) -> None:
    """All parameters are those that MrBayes prints, LnL is ours, and LnPr up to what does not depend on the sample."""
    trees = read_trees(folder / "run.t", taxa=tuple(safe_names(NAMES)))
    inferred = target.parameters.inferred if target.parameters else ()
    names = {name for one in inferred for name in one.kind.names}
    varying = {name for name, values in columns.items() if np.ptp(values) > 0}
    assert names <= set(columns)
    assert varying <= {"Gen", "LnL", "LnPr", "TL", "TL{all}", *names}
    proportions = [values for name, values in columns.items() if name in names and name.startswith("pinvar")]
    usable = np.all([values > 0 for values in proportions], axis=0) if proportions else np.ones(len(trees), bool)
    assert usable.sum() >= 18  # MrBayes begins with no invariant sites, of which there is no logit
    coordinates, log_volume = [], np.zeros(len(trees))
    for kind in (one.kind for one in inferred):
        values = np.stack([columns[name] for name in kind.names], axis=1)
        with np.errstate(divide="ignore"):
            rows = [row / row.sum() if type(kind) is Shares else row for row in values]
            coordinates.append(np.stack([kind.coordinates(row) for row in rows]))
            # MrBayes' density is that of shares, of the ratio's share, of the shape and of the proportion.
            share = values / (1 + values)
            changed = share * (1 - share) if kind.names[0].startswith("kappa") else values
            log_volume += np.log(changed * (1 - values) if kind.names[0].startswith("pinvar") else changed).sum(axis=1)
    theta = torch.from_numpy(np.concatenate(coordinates, axis=1)[usable]) if coordinates else None
    given = (trees.topologies[np.flatnonzero(usable)], torch.from_numpy(trees.branch_lengths[usable]))
    with torch.no_grad():
        log_likelihood = target.log_likelihood(*given, theta).numpy()
        log_prior = target.log_prior(*given, theta).numpy() - log_volume[usable]
    np.testing.assert_allclose(log_likelihood, columns["LnL"][usable], atol=1e-3)
    difference = log_prior - columns["LnPr"][usable]
    np.testing.assert_allclose(difference, difference[0], atol=1e-3)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.models or case.model} {case.link}")
def test_mrbayes_has_the_same_densities(mrbayes, tmp_path, case):
    config = config_of(case)
    patterns = settings_of(config, partition_of(("one", "two", "three")[: case.parts]) if case.parts > 1 else None)
    columns = run(mrbayes, tmp_path, file_of(config, patterns).text)
    assert_same_densities(build_target(patterns, config, 1), tmp_path, columns)


TWO = "charset a = 1-50; charset b = 51-.; partition p = 2: a, b; set partition=p;"
BLOCKS = [
    "lset nst=2; prset statefreqpr=fixed(empirical);",
    "lset nst=2;",
    "lset nst=6 rates=invgamma ngammacat=5; prset brlenspr=unconstrained:exp(20) statefreqpr=fixed(.1,.2,.3,.4);",
    TWO,
    TWO + "lset nst=6 rates=gamma; unlink shape=(all) revmat=(all); prset ratepr=variable;",
    TWO + "lset applyto=(1) nst=6 rates=gamma; lset applyto=(2) nst=2 rates=gamma; prset app=(all) ratepr=variable;",
    TWO
    + "lset nst=2 rates=propinv; prset tratiopr=fixed(3) brlens=unconstrained:uniform(0,3); unlink statefreq=(all);",
]


@pytest.mark.parametrize("commands", BLOCKS)
def test_a_block_means_what_it_means_to_mrbayes(mrbayes, tmp_path, commands):
    usual = InferConfig(model=ModelConfig("JC"))
    text, _ = file_of(usual, settings_of(usual, None))
    text = f"{text[: text.index('begin mrbayes;')]}begin mrbayes;\n{commands}\nend;\n"
    columns = run(mrbayes, tmp_path, text)
    found = load_with_block(tmp_path / "run.nex")
    config = INFER.resolve(settings=[block_settings("run.nex", found.block).layer])
    partition = found.block.partition and with_models(found.block.partition, config.partition.model_names)
    assert_same_densities(build_target(compress(found.alignment, partition), config, 1), tmp_path, columns)


def test_names_become_what_mrbayes_reads():
    assert safe_names(NAMES) == ["Homo_sapiens", "x4_1", "O_Brien", "All_2", "homo_Sapiens_2", "AB123.1"]
    found = file_of(InferConfig(), settings_of(InferConfig(), None))
    assert list(found.renamed) == [*NAMES[:-1]]
    assert "  [O_Brien: O'Brien]\n" in found.text
    assert len(set(safe_names(["x" * 200 + "1", "x" * 200 + "2"]))) == 2


def test_sites_are_ranges_where_they_can_be():
    partition = SitePartition(
        ("a b", "remainder"), np.array([0, 0, 0, 1, 0, 1, 0, 1, 1, 1] + 110 * [0], np.int32), (None,) * 2
    )
    text = file_of(InferConfig(partition=PartitionConfig("x")), settings_of(InferConfig(), partition)).text
    assert "  charset a_b = 1-3 5 7 11-120;\n" in text
    assert "  charset remainder_2 = 4-8\\2 9-10;\n  partition parts = 2: a_b, remainder_2;\n" in text
    scattered = np.random.default_rng(1).integers(0, 2, 120).astype(np.int32)
    text = file_of(InferConfig(), settings_of(InferConfig(), SitePartition(("a", "b"), scattered, (None,) * 2))).text
    lines = text[text.index("begin mrbayes") :].splitlines()
    assert max(map(len, lines[:10])) < 110
    block = read_mrbayes_block("x", text, safe_names(NAMES), 120)
    np.testing.assert_array_equal(block.partition.part_of_site, scattered)


@pytest.mark.parametrize(
    ("model", "says"),
    [
        (ModelConfig("TN93"), "--write-mrbayes: MrBayes has no TN93"),
        (ModelConfig("HKY+G4", median_rates=True), "means of gamma categories … --median-rates"),
        (ModelConfig("HKY+G21"), "at most 20 gamma categories"),
    ],
)
def test_what_mrbayes_does_not_have_is_said(model, says):
    config = InferConfig(model=model)
    with pytest.raises(ConfigError, match=saying(says)):
        file_of(config, settings_of(config, None))


def test_a_prior_of_ones_own_cannot_be_written():
    own = OwnParts(None, None, UniformPrior(3), None)
    config, patterns = InferConfig(), settings_of(InferConfig(), None)
    with pytest.raises(ConfigError, match="prior of your own"):
        mrbayes_file(patterns, config, build_target(patterns, config, 1), own)


@st.composite
def models(draw: st.DrawFn, categories: int | None, can_fix: bool, can_count: bool = False) -> ModelConfig:
    """Any that MrBayes has. can_count: frequencies, which a file for MrBayes has as numbers."""
    name = draw(st.sampled_from([name for name in MODEL_PARAMETERS if name != "TN93"]))
    gamma = draw(st.sampled_from([None, categories]))
    invariant = draw(st.sampled_from([None, "inferred"]))
    takes = MODEL_PARAMETERS[name] | ({"alpha"} if gamma else set()) | ({"invariant"} if invariant else set())
    fixed = draw(st.sets(st.sampled_from(sorted(takes)))) if can_fix and takes else set()
    settings = {"gamma": gamma, "invariant": invariant} | {key: FIXED[key] for key in fixed}
    if "frequencies" in takes - fixed:
        settings["frequencies"] = draw(st.sampled_from(["inferred", "empirical"] if can_count else ["inferred"]))
    return ModelConfig(name, **settings)


@st.composite
def configs(draw: st.DrawFn) -> InferConfig:
    prior = draw(st.sampled_from(["exponential", "gamma-dirichlet:1,0.1", "gamma-dirichlet:2.5,1e-05", "uniform:3"]))
    rate = draw(st.sampled_from([10.0, 0.1, 1e-7, 123.456])) if prior == "exponential" else 10.0
    categories = draw(st.integers(2, 20))
    count = draw(st.integers(1, 4))
    model = draw(models(categories, can_fix=True, can_count=count == 1))
    partition = PartitionConfig()
    if count > 1:
        names = [str(draw(models(categories, can_fix=False))) for _ in range(count)]
        linked = [name for name in LINKABLE if draw(st.booleans())]
        partition = PartitionConfig(
            "dna.nex",
            draw(st.sampled_from([None, ",".join(names)])),
            ",".join(linked) or None,
            draw(st.sampled_from(["inferred", "equal"])),
        )
    return InferConfig(model=model, partition=partition, branch_prior=prior, prior_rate=rate)


@given(configs(), st.integers(2, 4))
def test_read_back_the_settings_are_the_same(config, count):
    models_given = config.partition.model_names
    names = tuple(f"p {number}" for number in range(len(models_given) or count))
    patterns = settings_of(config, partition_of(names) if config.partition.sites else None)
    found = file_of(config, patterns)
    alignment = parse_alignment(found.text.encode(), source="dna.nex").alignment
    np.testing.assert_array_equal(alignment.states, ALIGNMENT.states)
    block = read_mrbayes_block("dna.nex", found.text, alignment.taxa, alignment.site_count)
    assert block.unsupported == block.ignored[:-1] == ()  # the last is about chains
    read = INFER.resolve(settings=[block_settings("dna.nex", block).layer])
    priors = [parse_length_prior("", one.branch_prior) for one in (read, config)]
    assert priors[0] == priors[1]
    assert read.prior_rate == config.prior_rate
    partition = block.partition and with_models(block.partition, read.partition.model_names)
    expected = part_models(config.model, patterns.partition)
    for one, other in zip(part_models(read.model, partition), expected, strict=True):
        assert (one.name, one.inferred, one.gamma) == (other.name, other.inferred, other.gamma)
        assert (one.kappa, one.rates, one.alpha, one.invariant) == (
            (other.kappa, other.rates, other.alpha, other.invariant)
        )
        if not isinstance(other.frequencies, str):
            assert one.frequencies == other.frequencies
    assert (partition is None) == (patterns.partition is None)
    if partition is not None:
        np.testing.assert_array_equal(partition.part_of_site, patterns.partition.part_of_site)
        assert read.partition.rates == config.partition.rates
        shared = {name for name in config.partition.linked if sum(name in one.inferred for one in expected) > 1}
        assert read.partition.linked == shared


@pytest.mark.parametrize("what", ["one part", "taxa without data", "constant part"])
def test_mrbayes_has_the_same_densities_of_odd_parts(mrbayes, tmp_path, what):
    states = ALIGNMENT.states.copy()
    if what == "taxa without data":
        states[2, :60] = states[4, 60:] = 15
        states[0, 5] = 5  # A or G
    elif what == "constant part":
        states[:, 60:] = 1
    part_of_site = np.repeat(np.arange(2, dtype=np.int32), 60) * (what != "one part")
    names, models = (("all",), (None,)) if what == "one part" else (("a", "b"), ("GTR+G4", "HKY+I"))
    patterns = compress(Alignment(NAMES, states), SitePartition(names, part_of_site, models))
    config = InferConfig(partition=PartitionConfig("parts"))
    columns = run(mrbayes, tmp_path, file_of(config, patterns).text)
    assert_same_densities(build_target(patterns, config, 1), tmp_path, columns)
