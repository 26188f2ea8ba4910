"""The files of a run of `phloem infer`: what it is made from, what it leaves, and how each is written and read."""

import csv
import io
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from phloem.arrays import AnyArray, BoolArray
from phloem.config import InferConfig, ModelConfig
from phloem.config.infer import INFER
from phloem.config.model import parse_length_prior
from phloem.data.partitions import SitePartition
from phloem.data.patterns import SitePatterns
from phloem.errors import ConfigError, FileProblem, PhloemError
from phloem.inference.chain_check import ChainCheck
from phloem.inference.draws import Draws, TopologyEstimates, write_draws
from phloem.inference.laplace import ParameterStart
from phloem.inference.measurement import Measurement
from phloem.inference.summary import Summary, SupportSize, summarize_draws
from phloem.inference.training import Report, Training, TrainingStart, start_in
from phloem.inference.trust import judge
from phloem.random_streams import RandomStream
from phloem.runs.checkpoints import Checkpoint, RunKind
from phloem.runs.directory import HISTORY, SUMMARY, RunDirectory
from phloem.runs.history import HistoryFile
from phloem.storage.arrays import Sealed, prefixed, without_prefix
from phloem.storage.files import read_bytes
from phloem.target.free_parameters import FreeParameters, model_in_words
from phloem.target.likelihood import TreeLikelihood
from phloem.target.partitioned import PartitionedModel
from phloem.target.posterior import TreePosterior
from phloem.target.priors import LengthPrior, build_length_prior
from phloem.target.substitution import SubstitutionModel
from phloem.target.substitution import build_model as build_substitution_model
from phloem.tasks.own_parts import NOTHING_OWN, OwnParts, branches_of, family_of
from phloem.trees.branch_lengths import SplitLengths, split_lengths
from phloem.trees.constraints import TopologyConstraints
from phloem.trees.reading import parse_newick
from phloem.trees.sample import TreeSample
from phloem.trees.splits import SplitFrequencies
from phloem.trees.writing import format_newick
from phloem.variational.families import FAMILIES
from phloem.variational.joint import JointModel, TableModel, build_branch_model, write_parameters
from phloem.variational.parameters import ParameterModel
from phloem.variational.sbn import SubsplitNetwork, SubsplitSupport, support_arrays, support_from

BOOTSTRAP = "bootstrap"
IN_BRACES = re.compile(r"\{[^}]*\}")  # numbers that another program estimated, which are inferred anew
SUPPORT = "support.npz"
PARAMETERS = "parameters.safetensors"
DRAWS = "draws.safetensors"
TOPOLOGIES = "topologies.csv"
CLADES = "clades.csv"
EXPORTS = ("posterior.nex", "posterior.log", "consensus.nex", "consensus-labels.nex", "report.html")

MOST_TOPOLOGIES = 10_000  # rows; the cumulative probability says what is left
TOPOLOGY_COLUMNS = ("rank", "probability", "error", "cumulative", "log_evidence", "log_evidence_error", "newick")
CLADE_COLUMNS = ("probability", "error", "taxa", "members", "mean_length", "deviation", "median", "lower", "upper")
INSIDE, OUTSIDE = "*", "."


class RunInputs(NamedTuple):
    """What a run is made from. Given the settings, everything else follows."""

    source: str  # the alignment as the user named it
    patterns: SitePatterns
    support: SubsplitSupport
    own: OwnParts = NOTHING_OWN  # in memory: no file has them
    constraints: TopologyConstraints | None = None

    def target(self, config: InferConfig, threads: int | None = None) -> TreePosterior:
        """The posterior that the settings describe, up to its constant."""
        return build_target(self.patterns, config, threads, own=self.own, constraints=self.constraints)

    def model(self, config: InferConfig, theta: ParameterStart | None) -> JointModel:
        """An untrained model; its first weights depend on the seed alone. theta: where Q(θ) begins, if there is one."""
        return build_model(self.support, config, theta, own=self.own)

    def training(self, config: InferConfig, target: TreePosterior, start: TrainingStart) -> Training:
        """The training of an untrained model."""
        self.own.require(config, "estimator")
        model, estimator = self.model(config, start.theta), self.own.estimator
        if start.logits is not None:
            model.network.logits.data.copy_(start.logits)
        if start.log_length is not None and isinstance(model.branches, TableModel):
            model.branches.begin_at(start.log_length)
        return Training(model, target, config.training, seed=config.seed, held=start.held, estimator=estimator)


def build_target(
    patterns: SitePatterns,
    config: InferConfig,
    threads: int | None = None,
    *,
    own: OwnParts = NOTHING_OWN,
    constraints: TopologyConstraints | None = None,
) -> TreePosterior:
    """The posterior that the settings describe, up to its constant."""
    own.require(config, "prior", "substitution")
    if constraints is not None and own.prior is not None:
        raise ConfigError("--constrain: a prior of your own has to know of it itself. Leave one of them out.")
    configs = part_models(config.model, patterns.partition)
    models = [_part_model(own_config, patterns, part) for part, own_config in enumerate(configs)]
    substitution: SubstitutionModel | PartitionedModel = models[0]
    sizes = None
    if patterns.partition is not None:
        substitution = PartitionedModel(patterns.partition.names, tuple(models))
        sizes = patterns.partition.sizes if config.partition.rates == "inferred" else None
    parameters = FreeParameters.of(configs, models, linked=config.partition.linked, sizes=sizes)
    states_differ = parameters is not None and parameters.change_states
    likelihood = TreeLikelihood(patterns, substitution, threads=threads, states_differ=states_differ)
    return TreePosterior(likelihood, own.prior or length_prior(config), parameters, constraints)


def part_models(model: ModelConfig, partition: SitePartition | None) -> list[ModelConfig]:
    """The model of each part: what its partition says, or this one."""
    if partition is None:
        return [model]
    found = []
    for name, own in zip(partition.names, partition.models, strict=True):
        try:
            found.append(model if own is None else _named_model(IN_BRACES.sub("", own), model))
        except ConfigError as problem:
            raise ConfigError(f"part {name}: {problem}") from None
    return found


def _named_model(name: str, others: ModelConfig) -> ModelConfig:
    """The model that a partition names, whose rate categories are made as those of the others."""
    model = ModelConfig(name)
    return model if model.gamma is None else replace(model, median_rates=others.median_rates)


def _part_model(config: ModelConfig, patterns: SitePatterns, part: int) -> SubstitutionModel:
    try:
        return build_substitution_model(config, patterns.parts[part])
    except ConfigError as problem:
        if patterns.partition is None:
            raise
        raise ConfigError(f"part {patterns.partition.names[part]}: {problem}") from None


def length_prior(config: InferConfig) -> LengthPrior:
    """The prior on branch lengths that the settings describe."""
    return build_length_prior(parse_length_prior("--branch-prior", config.branch_prior), config.prior_rate)


def build_model(
    support: SubsplitSupport, config: InferConfig, theta: ParameterStart | None, *, own: OwnParts = NOTHING_OWN
) -> JointModel:
    """An untrained model; its first weights depend on the seed alone."""
    own.require(config, "model", "convolution", "family")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(RandomStream(config.seed, "weights").key()[0]))
        branches = build_branch_model(
            config.branches,
            support,
            depth=config.depth,
            width=config.width,
            convolution=own.convolution,
            family=own.family or FAMILIES[config.family],
            dimension=0 if theta is None else len(theta.center),
        )
    parameters = None if theta is None else ParameterModel(theta.center, theta.factor)
    return JointModel(SubsplitNetwork(support), branches, parameters)


InferRun = RunDirectory[InferConfig, RunInputs]
InferCheckpoint = Checkpoint[InferConfig, RunInputs]


def restore_training(checkpoint: InferCheckpoint, target: TreePosterior) -> Training:
    """The training at a checkpoint."""
    training = checkpoint.inputs.training(checkpoint.config, target, start_in(checkpoint.training))
    training.restore(checkpoint.training)
    return training


def _pack(inputs: RunInputs) -> Sealed:
    support = support_arrays(inputs.support)
    del support["taxa"]  # which are those of the patterns
    arrays, texts = pack_data(inputs.patterns, inputs.constraints)
    return Sealed({**prefixed("support", support), **arrays}, {"source": inputs.source, **texts})


def _unpack(found: Sealed, _config: InferConfig, path: Path) -> RunInputs:
    patterns, constraints = unpack_data(found)
    support = {"taxa": np.array(patterns.taxa), **without_prefix("support", found.arrays)}
    return RunInputs(found.texts["source"], patterns, support_from(path, support), constraints=constraints)


def pack_data(patterns: SitePatterns, constraints: TopologyConstraints | None) -> Sealed:
    """Site patterns, and what is known of the tree, as arrays and texts."""
    arrays: dict[str, AnyArray] = {
        "patterns.states": patterns.states,
        "patterns.counts": patterns.counts,
        "patterns.sites": patterns.pattern_of_site,
    }
    texts = {"taxa": json.dumps(patterns.taxa)}
    if (partition := patterns.partition) is not None:
        arrays["patterns.parts"] = partition.part_of_site
        texts["partition"] = json.dumps([partition.names, partition.models])
    if constraints is not None:
        arrays["constraints.members"] = constraints.members
        texts["constraints"] = json.dumps(constraints.names)
    return Sealed(arrays, texts)


def unpack_data(found: Sealed) -> tuple[SitePatterns, TopologyConstraints | None]:
    """The same, from what holds it and maybe more."""
    arrays, texts = found
    taxa = tuple(json.loads(texts["taxa"]))
    patterns = (arrays["patterns.states"], arrays["patterns.counts"], arrays["patterns.sites"])
    partition = None
    if "partition" in texts:
        names, models = (tuple(column) for column in json.loads(texts["partition"]))
        partition = SitePartition(names, arrays["patterns.parts"], models)
    constraints = None
    if "constraints" in texts:
        names = tuple(json.loads(texts["constraints"]))
        constraints = TopologyConstraints(taxa, names, arrays["constraints.members"])
    return SitePatterns(taxa, *patterns, partition), constraints


INFER_RUNS: RunKind[InferConfig, RunInputs] = RunKind(
    schema=INFER,
    report=Report,
    pack=_pack,
    unpack=_unpack,
    results=(SUPPORT, PARAMETERS, TOPOLOGIES, CLADES, DRAWS),
    exports=EXPORTS,
    beginnings=(BOOTSTRAP,),
    several=True,
)


def infer_run(path: str | Path) -> InferRun:
    """The directory of a run of `phloem infer`."""
    return RunDirectory(Path(path), INFER_RUNS)


class Results(NamedTuple):
    """What the evaluation of a run found. A run that has not ended can be evaluated as well."""

    model: JointModel
    target: TreePosterior
    measured: Measurement
    finished: bool
    steps_done: int
    steps: int  # planned
    skipped: int = 0
    check: ChainCheck | None = None
    held: bool = False  # Q(τ), as chains had found the posterior before

    @classmethod
    def of(
        cls, training: Training, measured: Measurement, *, finished: bool, check: ChainCheck | None = None
    ) -> "Results":
        """What was found of a model in training."""
        steps = (training.steps_done, training.steps, training.skipped)
        return cls(training.model, training.target, measured, finished, *steps, check, training.held)


def write_results(run: InferRun, checkpoint: InferCheckpoint, results: Results) -> Summary:
    """Write the results, their checksums last: where these are, all else is. No byte of them depends on time."""
    summary = summarize(checkpoint, results)
    write_parameters(results.model, run.path / PARAMETERS)
    HistoryFile(run.path / HISTORY, Report).rewrite(checkpoint.history.reports)
    write_draws(results.measured.draws, run.path / DRAWS)
    write_tables(run, results.measured.draws)
    run.write_summary(summary.as_json())
    return summary


def write_tables(run: InferRun, draws: Draws) -> None:
    """Write the topologies and the clades of weighted draws."""
    run.write(TOPOLOGIES, format_topologies(draws.topology_estimates()))
    run.write(CLADES, format_clades(split_lengths(draws.weighted())))


def summarize(checkpoint: InferCheckpoint, results: Results, *, in_use: bool = False) -> Summary:
    """The result of a run in a few numbers. in_use: whether another process is training it."""
    config, inputs, measured = checkpoint.config, checkpoint.inputs, results.measured
    trust = judge(
        measured.draws.own_log_weights,
        None,
        results.check,
        steps_done=results.steps_done,
        steps=results.steps,
        finished=results.finished,
        branches=config.branches,
        family=family_of(config),
        explored=results.held,
        in_use=in_use,
    )
    support = inputs.support
    return Summary(
        names=support.taxa,
        sites=len(inputs.patterns.pattern_of_site),
        patterns=len(inputs.patterns),
        model=model_in_words(results.target.likelihood.model, results.target.parameters),
        branches=branches_of(config),
        family=family_of(config),
        seed=config.seed,
        support=SupportSize(support.topology_count, len(support.splits), support.parameter_count),
        finished=results.finished,
        steps=results.steps_done,
        repeats=measured.evaluated.repeats,
        samples=measured.evaluated.samples,
        evaluation=measured.evaluation,
        annealed=measured.annealed,
        check=results.check,
        found=summarize_draws(measured.draws, trust, results.target.parameters),
        constraints=() if inputs.constraints is None else inputs.constraints.names,
        stopped_early=results.finished and results.steps_done < results.steps,
        skipped_steps=results.skipped,
    )


def read_summary(run: InferRun) -> Summary:
    """`summary.json`, if it is as it was written."""
    path = run.checksums.check(SUMMARY)
    try:
        return Summary.from_json(json.loads(read_bytes(path)))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise FileProblem(
            f"{path}: is damaged, or not a summary that this version reads. Make it again with --resume."
        ) from None


def format_topologies(topologies: TopologyEstimates) -> str:
    """The most probable topologies."""
    shown = topologies.first(MOST_TOPOLOGIES)
    probability = shown.trees.weights
    numbers = (probability, shown.error, np.cumsum(probability), shown.log_evidence, shown.log_evidence_error)
    newick = format_newick(shown.trees.topologies, shown.trees.taxa)
    rows = zip(range(1, len(shown) + 1), *(column.tolist() for column in numbers), newick, strict=True)
    return _format(TOPOLOGY_COLUMNS, rows)


def read_topologies(path: Path, taxa: tuple[str, ...]) -> TreeSample:
    """The topologies of a table, with their probabilities as weights."""
    probability, newick = _read(path, ("probability", "newick"))
    try:
        parsed = parse_newick(newick, taxa=taxa)
        return TreeSample(taxa, parsed.topologies, np.array([float(text) for text in probability]), None)
    except (ValueError, PhloemError):
        raise _damaged(path) from None


def format_clades(splits: SplitLengths) -> str:
    """Every split with its probability and the length of its branch, the single taxa after the others.

    The error is that of the probability. Members are on the side without the first taxon, as stars.
    """
    count = len(splits.taxa)
    columns = (splits.mean, splits.deviation, splits.median, splits.lower, splits.upper)
    statistics = np.stack(columns, axis=1).tolist()
    shares = np.stack([splits.frequency, splits.error], axis=1).tolist()
    order = [*range(count, len(splits.members)), *range(count)]
    rows = (
        (*shares[row], int(splits.members[row].sum()), stars(splits.members[row]), *statistics[row]) for row in order
    )
    return _format(CLADE_COLUMNS, rows)


def stars(members: BoolArray) -> str:
    """A split as MrBayes writes it: a star for every member, a dot for every other taxon."""
    return "".join(INSIDE if member else OUTSIDE for member in members.tolist())


def read_clades(path: Path, taxa: tuple[str, ...]) -> SplitFrequencies:
    """The splits of a table that divide the taxa into more than one and the rest."""
    columns = _read(path, ("probability", "taxa", "members"))
    rows = [row for row in zip(*columns, strict=True) if row[1] != "1"]
    try:
        members = np.array([[sign == INSIDE for sign in row[2]] for row in rows], np.bool_).reshape(
            len(rows), len(taxa)
        )
        return SplitFrequencies(taxa, members, np.array([float(row[0]) for row in rows]))
    except ValueError:
        raise _damaged(path) from None


def _format(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    return table.getvalue()


def _read(path: Path, columns: tuple[str, ...]) -> list[list[str]]:
    """Some columns of a table, which may have others: earlier versions wrote fewer."""
    try:
        header, *rows = [*csv.reader(io.StringIO(read_bytes(path).decode(errors="replace")))] or [[""]]
    except csv.Error:
        raise _damaged(path) from None
    if not set(columns) <= set(header) or any(len(row) != len(header) for row in rows):
        raise _damaged(path)
    return [[row[header.index(name)] for row in rows] for name in columns]


def _damaged(path: Path) -> FileProblem:
    return FileProblem(f"{path}: is damaged, or not a table that phloem wrote. Make it again with --resume.")
