"""Trees, models and alignments from the priors that `phloem infer` has: data whose truth is known, written beside them.

A data set depends on the settings, the seed and its number alone. Its tree, its model parameters, its sites and what
is missing have random numbers of their own: the same tree comes with more sites, or with gaps.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from phloem.arrays import ByteArray, FloatArray
from phloem.config import InferConfig, ModelConfig
from phloem.config.infer import INFER, USUAL_MODEL
from phloem.config.model import EMPIRICAL
from phloem.config.partition import BY_CODON
from phloem.config.settings import check_choice, check_count
from phloem.data.alignment import CODE_OF_BYTE, Alignment
from phloem.data.hiding import LETTERS, hide
from phloem.data.hiding import Hidden as Hidden
from phloem.data.partitions import SitePartition, by_codon, read_partition
from phloem.data.writing import SUFFIXES, write_letters
from phloem.errors import BadArgument, ConfigError, counted
from phloem.random_streams import RandomStream
from phloem.storage.files import cannot_write, check_can_write, write_text
from phloem.target.free_parameters import FreeParameters
from phloem.target.partitioned import PartitionedModel
from phloem.target.rates import ModelRates, Parameters, gamma_of, repeated, stacked
from phloem.target.simulation import simulate_states
from phloem.target.substitution import SubstitutionModel, known_model
from phloem.tasks.mrbayes_settings import with_models
from phloem.tasks.run_files import length_prior, part_models
from phloem.trees.generation import random_topologies, yule_trees
from phloem.trees.reading import read_trees
from phloem.trees.sample import TreeSample
from phloem.trees.writing import format_newick

UNIFORM: Final = "uniform"
YULE: Final = "yule"
TOPOLOGIES: Final = (UNIFORM, YULE)
NOTHING_HIDDEN: Final = Hidden()
FEWEST_TAXA, MOST_TAXA = 4, 100_000
MOST_SITES: Final = 100_000_000
MOST_REPLICATES: Final = 1_000_000
LENGTHS = re.compile(r"\d+(,\d+)+")  # of parts
# What stands for parameters while they are not drawn yet.
BEFORE_DRAWN: Final[dict[str, Any]] = {
    "rates": (1.0,) * 6,
    "frequencies": (0.25,) * 4,
    "alpha": 1.0,
    "invariant": 0.0,
}


@dataclass(frozen=True, slots=True)
class SimulateRequest:
    """What to simulate. config: of which the model, the partition, the prior on branch lengths and the seed count.

    topology: how trees are drawn, uniformly or by a Yule process. height: of Yule trees with a clock, from the root to
    the leaves; without it lengths are from the prior. tree: a file with one tree, or one for each data set, in place
    of drawn ones; lengths that it lacks are from the prior. sites: None for those of the lengths of parts, or 1,000.
    multipliers: rates of the parts, up to a factor, in place of drawn ones.
    """

    config: InferConfig
    taxa: int | None = None
    sites: int | None = None
    topology: str = UNIFORM
    height: float | None = None
    tree: str | Path | TreeSample | None = None
    multipliers: tuple[float, ...] | None = None
    hidden: Hidden = NOTHING_HIDDEN
    replicates: int = 1

    def __post_init__(self) -> None:
        check_choice("--topology", self.topology, TOPOLOGIES)
        check_count("--replicates", self.replicates, most=MOST_REPLICATES)
        if self.taxa is not None:
            check_count("--taxa", self.taxa, least=FEWEST_TAXA, most=MOST_TAXA)
        if self.sites is not None:
            check_count("--sites", self.sites, most=MOST_SITES)
        if self.height is not None and self.topology != YULE:
            raise BadArgument("--height: only Yule trees have one. Give --topology yule too, or leave it out.")
        if self.height is not None and not 0 < self.height < np.inf:
            raise BadArgument(f"--height {self.height:g}: give a number above 0.")
        if self.tree is not None and (self.taxa is not None or self.topology != UNIFORM):
            option = "--taxa" if self.taxa is not None else "--topology"
            raise BadArgument(f"{option} and --tree: the tree says it. Give one of them.")


class Simulated(NamedTuple):
    """An alignment and what it was drawn from."""

    symbols: ByteArray  # (taxa, sites)  bytes of letters, with those of missing data
    tree: TreeSample  # the true one, with lengths
    parameters: dict[str, float]  # that were drawn, by the names that they have in a run's results
    models: tuple[dict[str, Any], ...]  # of the parts, all parameters
    partition: SitePartition | None
    prior: str | None  # on branch lengths, if they were drawn

    @property
    def taxa(self) -> tuple[str, ...]:
        """The names of the taxa."""
        return self.tree.taxa

    @property
    def alignment(self) -> Alignment:
        """The alignment, with missing data."""
        return Alignment(self.taxa, CODE_OF_BYTE[self.symbols])

    def as_json(self) -> dict[str, Any]:
        """The truth."""
        lengths = self.tree.branch_lengths
        assert lengths is not None
        counts = {name: int((self.symbols == ord(sign)).sum()) for name, sign in HOW_HIDDEN.items()}
        return {
            "taxa": len(self.taxa),
            "sites": self.symbols.shape[1],
            "newick": format_newick(self.tree.topologies, self.taxa, lengths)[0],
            "tree_length": float(lengths.sum()),
            "branch_prior": self.prior,
            "parameters": self.parameters,
            "models": list(self.models),
            "hidden": {name: count / self.symbols.size for name, count in counts.items()},
        }


HOW_HIDDEN = {"missing_genes": "?", "gaps": "-", "missing": "N"}


def simulate_data(request: SimulateRequest) -> Iterator[Simulated]:
    """The data sets, one after the other."""
    config = request.config
    given = _given_trees(request)
    partition = partition_of(request)
    model = _Model(request, partition)
    count = partition.part_of_site.size if partition else request.sites or 1000
    part_of_site = partition.part_of_site if partition else np.zeros(count, np.int32)
    prior = length_prior(config)
    for replicate in range(request.replicates):
        stream = RandomStream(config.seed, "simulate", step=replicate)
        if given is None:
            tree = _drawn_tree(request, stream.named("tree"))
        else:
            tree = given[min(replicate, len(given) - 1)]
        drawn = tree.branch_lengths is None
        if tree.branch_lengths is None:
            lengths = prior.draw(tree.topologies.branch_count, stream.named("lengths").generator())
            tree = replace(tree, branch_lengths=lengths[None])
        assert tree.branch_lengths is not None
        rates, parameters, models = model.draw(stream.named("model").generator())
        states = simulate_states(
            tree.topologies, tree.branch_lengths[0], rates, part_of_site, stream=stream.named("sites")
        )
        symbols = LETTERS[states]
        hide(symbols, part_of_site, request.hidden, stream=stream.named("hidden"))
        yield Simulated(symbols, tree, parameters, models, partition, prior.in_words() if drawn else None)


def _drawn_tree(request: SimulateRequest, stream: RandomStream) -> TreeSample:
    taxa = request.taxa or 20
    names = tuple(f"t{number + 1}" for number in range(taxa))
    lengths: FloatArray | None = None
    if request.topology == YULE:
        topologies, lengths = yule_trees(taxa, 1, stream=stream)
        lengths = None if request.height is None else request.height * lengths
    else:
        topologies = random_topologies(taxa, 1, stream=stream)
    return TreeSample(names, topologies, np.ones(1), lengths)


def _given_trees(request: SimulateRequest) -> list[TreeSample] | None:
    if request.tree is None:
        return None
    source = "the trees" if isinstance(request.tree, TreeSample) else str(request.tree)
    sample = request.tree if isinstance(request.tree, TreeSample) else read_trees(request.tree)
    if len(sample) not in (1, request.replicates):
        raise BadArgument(
            f"{source}: {counted(len(sample), 'tree')} for {counted(request.replicates, 'data set')}. Give one tree, "
            "or as many as --replicates."
        )
    lengths = sample.branch_lengths
    if lengths is not None and np.isnan(lengths).all():
        lengths = None
    if lengths is not None and not (np.isfinite(lengths) & (lengths >= 0)).all():
        raise BadArgument(f"{source}: a branch has no length, or a negative one. Give lengths of 0 or more, or none.")
    return [
        TreeSample(
            sample.taxa, sample.topologies[place], np.ones(1), None if lengths is None else lengths[place : place + 1]
        )
        for place in range(len(sample))
    ]


def partition_of(request: SimulateRequest) -> SitePartition | None:
    """The parts of the alignment, by their lengths, by codon or in a file."""
    config = request.config.partition
    if config.sites is None:
        return None
    if LENGTHS.fullmatch(config.sites.replace(" ", "")):
        sizes = [int(size) for size in config.sites.split(",")]
        if request.sites not in (None, sum(sizes)) or not all(sizes) or sum(sizes) > MOST_SITES:
            raise BadArgument(
                f"--partition {config.sites}: parts of {counted(sum(sizes), 'site')} together. Give lengths of 1 or "
                "more, and leave --sites out."
            )
        names = tuple(f"part{number + 1}" for number in range(len(sizes)))
        partition = SitePartition(names, np.repeat(np.arange(len(sizes), dtype=np.int32), sizes), (None,) * len(sizes))
    elif config.sites == BY_CODON:
        partition = by_codon(request.sites or 1000)
    else:
        partition = read_partition(config.sites, request.sites or 1000)
    return with_models(partition, config.model_names)


class _Model:
    """The models of the parts, with parameters that are given or drawn."""

    def __init__(self, request: SimulateRequest, partition: SitePartition | None) -> None:
        config = request.config
        self._configs = part_models(config.model, partition)
        self._partition = partition
        models = [_before_drawn(one) for one in self._configs]
        if partition is not None:
            PartitionedModel(partition.names, tuple(models))  # which refuses parts of different categories
        self._models: Sequence[SubstitutionModel] = models
        self._multipliers = _multipliers(request.multipliers, partition)
        has_rates = partition is not None and config.partition.rates == "inferred" and self._multipliers is None
        self._free = FreeParameters.of(
            self._configs,
            models,
            linked=config.partition.linked,
            sizes=partition.sizes if partition is not None and has_rates else None,
        )

    def draw(self, random: np.random.Generator) -> tuple[ModelRates, dict[str, float], tuple[dict[str, Any], ...]]:
        """One set of models, the parameters that were drawn, and all parameters of each part."""
        values: dict[str, float] = {}
        if self._free is None:
            parameters = repeated(stacked(self._models), 1)
        else:
            found = self._free.draw(random)
            parameters, values = found.parameters, dict(zip(self._free.names, found.values[0].tolist(), strict=True))
        if self._multipliers is not None:
            parameters.multiplier[:] = self._multipliers
        categories, method = gamma_of(self._models)
        return ModelRates(parameters, categories=categories, method=method), values, tuple(self._describe(parameters))

    def _describe(self, parameters: Parameters) -> Iterator[dict[str, Any]]:
        """Every part's model, as `phloem infer` would be given it."""
        for part, config in enumerate(self._configs):
            exchangeabilities = parameters.exchangeabilities[0, part]
            yield {
                "part": self._partition.names[part] if self._partition else None,
                "model": str(config),
                "exchangeabilities": (exchangeabilities / exchangeabilities.sum()).tolist(),
                "frequencies": parameters.frequencies[0, part].tolist(),
                "alpha": None if config.gamma is None else float(_known(parameters.shape)[0, part]),
                "gamma_categories": config.gamma,
                "invariant": None if config.invariant is None else float(parameters.invariant[0, part]),
                "rate": float(parameters.multiplier[0, part]),
            }


def _known(shape: FloatArray | None) -> FloatArray:
    assert shape is not None  # some part has one
    return shape


def _before_drawn(config: ModelConfig) -> SubstitutionModel:
    if config.frequencies == EMPIRICAL:
        raise ConfigError(
            f"model {config}: there is no alignment yet to count frequencies in. Give --frequencies, or leave +F out "
            "to draw them."
        )
    values = {**BEFORE_DRAWN, "kappa": (1.0,) * (2 if config.name == "TN93" else 1)}
    return known_model(replace(config, **{name: values[name] for name in config.inferred}))


def _multipliers(given: tuple[float, ...] | None, partition: SitePartition | None) -> FloatArray | None:
    """Rates of the parts, 1 on average over the sites."""
    if given is None:
        return None
    if partition is None or len(given) != len(partition):
        parts = 1 if partition is None else len(partition)
        raise BadArgument(
            f"--multipliers: {counted(len(given), 'number')} for {counted(parts, 'part')}. Give one each."
        )
    rates = np.array(given)
    if not (np.isfinite(rates) & (rates > 0)).all():
        raise BadArgument(f"--multipliers {','.join(map(str, given))}: give finite numbers above 0.")
    return np.asarray(rates * partition.sizes.sum() / (rates @ partition.sizes))


class DataFiles(NamedTuple):
    """The files of a data set."""

    alignment: Path
    tree: Path
    truth: Path
    parts: Path | None  # if the parts are not in a file already


def data_files(prefix: Path, form: str, replicate: int, request: SimulateRequest) -> DataFiles:
    """Their names; those of several data sets have numbers, counted from 1."""
    digits = len(str(request.replicates))
    name = prefix.name if request.replicates == 1 else f"{prefix.name}-{replicate + 1:0{digits}}"
    if not prefix.name:
        raise BadArgument(f"--out {prefix}: give a name for the files, such as {prefix / 'data'}.")
    sites = request.config.partition.sites
    by_lengths = sites is not None and LENGTHS.fullmatch(sites.replace(" ", ""))
    folder = prefix.parent
    return DataFiles(
        folder / f"{name}{SUFFIXES[form]}",
        folder / f"{name}.true.tre",
        folder / f"{name}.true.json",
        folder / f"{name}.parts" if by_lengths else None,
    )


def run_simulation(
    request: SimulateRequest,
    prefix: Path,
    *,
    form: str = "fasta",
    command: str = "",
    progress: Callable[[float], None] = lambda _share: None,
) -> list[DataFiles]:
    """Simulate and write; the truth first, so that no data are without it."""
    check_choice("--format", form, tuple(SUFFIXES))
    written = []
    try:
        prefix.parent.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise cannot_write(prefix.parent, problem) from None
    check_can_write(data_files(prefix, form, 0, request).alignment)
    for replicate, found in enumerate(simulate_data(request)):
        files = data_files(prefix, form, replicate, request)
        truth = {
            "phloem": version("phloem"),
            "command": command,
            "seed": request.config.seed,
            "replicate": replicate + 1,
            "topology": "given" if request.tree is not None else request.topology,
            **found.as_json(),
        }
        write_text(files.truth, json.dumps(truth, indent=2) + "\n")
        write_text(files.tree, truth["newick"] + "\n")
        if files.parts is not None:
            write_text(files.parts, _parts_text(found))
        write_letters(found.taxa, found.symbols, files.alignment, form)
        written.append(files)
        progress((replicate + 1) / request.replicates)
    return written


def _parts_text(found: Simulated) -> str:
    """Parts by lengths as a file of RAxML or IQ-TREE, for `phloem infer --partition`."""
    assert found.partition is not None
    last = np.cumsum(found.partition.sizes)
    first = last - found.partition.sizes + 1
    rows = zip(found.models, found.partition.names, first.tolist(), last.tolist(), strict=True)
    return "".join(f"{model['model']}, {name} = {start}-{stop}\n" for model, name, start, stop in rows)


def simulate(
    taxa: int | None = None,
    sites: int | None = None,
    *,
    topology: str = UNIFORM,
    height: float | None = None,
    tree: str | Path | TreeSample | None = None,
    multipliers: Sequence[float] | None = None,
    missing_genes: float = 0.0,
    gaps: float = 0.0,
    gap_length: float = 10.0,
    missing: float = 0.0,
    **settings: Any,
) -> Simulated:
    """One data set, in memory: its `alignment`, its true `tree` and its `parameters`.

    Arguments are as on the command line; settings are those of `phloem.infer`, of which `model={"name": "HKY+G4"}`,
    `partition={"sites": "500,300"}`, `branch_prior`, `prior_rate` and `seed` count. What a model leaves open is drawn
    from its prior.
    """
    hidden = Hidden(genes=missing_genes, gaps=gaps, gap_length=gap_length, missing=missing)
    config = INFER.resolve(base=InferConfig(model=USUAL_MODEL), settings=[settings])
    request = SimulateRequest(
        config, taxa, sites, topology, height, tree, None if multipliers is None else tuple(multipliers), hidden
    )
    return next(simulate_data(request))
