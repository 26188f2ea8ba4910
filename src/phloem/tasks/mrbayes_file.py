"""An alignment with the model and priors of a run as a NEXUS file that MrBayes runs.

Priors are the same in both programs, one to one. What MrBayes 3.2.7 has not is an error.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from phloem.arrays import LongArray
from phloem.config import InferConfig, ModelConfig
from phloem.config.model import EMPIRICAL, INFERRED, parse_length_prior
from phloem.data.alignment import MEMBERS, STATES
from phloem.data.mrbayes_block import DEFAULTS
from phloem.data.partitions import SitePartition
from phloem.data.patterns import SitePatterns
from phloem.errors import ConfigError, first_few, printable, quoted
from phloem.target.partitioned import PartitionedModel
from phloem.target.posterior import TreePosterior
from phloem.tasks.mrbayes_settings import NAMES, RATES, SETTINGS, prior_text
from phloem.tasks.own_parts import NOTHING_OWN, OwnParts
from phloem.tasks.run_files import part_models
from phloem.trees.constraints import TopologyConstraints

MOST_CATEGORIES: Final = 20  # of MrBayes
LONGEST_NAME: Final = 90
WIDTH: Final = 100  # of lines with sites
# What MrBayes takes for something else where a name is expected.
RESERVED: Final = ("all", "default", "remainder", "none")
LETTERS: Final = {sum(1 << STATES.index(state) for state in of): letter for letter, of in reversed(MEMBERS.items())}
CHAINS: Final = """  [How long MrBayes' chains run is no part of the model: change it as you like.]
  mcmcp nruns=2 nchains=4 ngen=1000000 samplefreq=500 printfreq=10000 diagnfreq=10000;
  mcmcp relburnin=yes burninfrac=0.25;
  [Type mcmc, then sump and sumt; or take the brackets away here: mcmc; sump; sumt;]
"""


class MrBayesFile(NamedTuple):
    """A NEXUS file that MrBayes runs, and which taxa have other names in it."""

    text: str
    renamed: dict[str, str]


def mrbayes_file(
    patterns: SitePatterns, config: InferConfig, target: TreePosterior, own: OwnParts = NOTHING_OWN
) -> MrBayesFile:
    """The alignment with the same model and priors for MrBayes. Raise where it has nothing the same."""
    if own.prior is not None:
        raise ConfigError("--write-mrbayes: MrBayes cannot have a prior of your own. Leave one of them out.")
    configs = part_models(config.model, patterns.partition)
    taxa = safe_names(patterns.taxa)
    model = target.likelihood.model
    models = model.parts if isinstance(model, PartitionedModel) else (model,)
    lines = [*_partition_commands(patterns.partition)]
    for number, (part, fitted) in enumerate(zip(configs, models, strict=True), 1):
        lines += _model_commands(part, fitted.frequencies.tolist(), number if len(configs) > 1 else None)
    lines.append(f"prset brlenspr=unconstrained:{_length_prior_words(config)};")
    if len(configs) > 1:
        lines += _sharing_commands(config, configs)
    safe = dict(zip(patterns.taxa, taxa, strict=True))
    if target.constraints is not None:
        lines += _constraint_commands(target.constraints, safe)
    if config.outgroup is not None:
        lines += _outgroup_command(config.outgroup, safe)
    matrix = "".join(
        f"  {name}  {''.join(map(LETTERS.__getitem__, row))}\n"
        for name, row in zip(taxa, patterns.alignment.states.tolist(), strict=True)
    )
    renamed = {own: name for own, name in zip(patterns.taxa, taxa, strict=True) if own != name}
    was = "".join(f"  [{name}: {_in_comment(own)}]\n" for own, name in renamed.items())
    sites = patterns.alignment.site_count
    text = (
        "#NEXUS\n[The model and priors of a run of phloem infer, for MrBayes 3.2.7.]\n\nbegin data;\n"
        f"  dimensions ntax={len(taxa)} nchar={sites};\n  format datatype=dna missing=? gap=-;\n{was}  matrix\n{matrix}"
        "  ;\nend;\n\nbegin mrbayes;\n" + "".join(f"  {line}\n" for line in lines) + CHAINS + "end;\n"
    )
    return MrBayesFile(text, renamed)


def _partition_commands(partition: SitePartition | None) -> Iterator[str]:
    if partition is None:
        return
    names = safe_names(partition.names)
    for part, name in enumerate(names):
        words, line = [*_ranges(np.flatnonzero(partition.part_of_site == part) + 1)], f"charset {name} ="
        for word in words:
            if len(line) + len(word) > WIDTH:
                yield line
                line = "   "
            line += f" {word}"
        yield f"{line};"
    yield f"partition parts = {len(names)}: {', '.join(names)};"
    yield "set partition=parts;"


def _model_commands(config: ModelConfig, frequencies: Sequence[float], part: int | None) -> Iterator[str]:
    """lset and prset. frequencies: those that stand for empirical ones."""
    where = "" if part is None else f"applyto=({part}) "
    if config.name == "TN93":
        raise ConfigError("--write-mrbayes: MrBayes has no TN93. Choose HKY or GTR.")
    if config.median_rates:
        raise ConfigError("--write-mrbayes: MrBayes takes means of gamma categories. Leave --median-rates out.")
    if config.gamma is not None and config.gamma > MOST_CATEGORIES:
        raise ConfigError(f"--write-mrbayes: MrBayes has at most {MOST_CATEGORIES} gamma categories. Choose fewer.")
    ((nst, is_equal),) = (key for key, name in NAMES.items() if name == config.name)
    has_gamma = config.gamma is not None and config.gamma > 1  # one category is the same rate for all
    site_rates = next(word for word, kind in RATES.items() if kind == (has_gamma, config.invariant is not None))
    yield f"lset {where}nst={nst} rates={site_rates}{f' ngammacat={config.gamma}' if has_gamma else ''};"
    if is_equal:
        priors = ["statefreqpr=fixed(equal)"]
    else:
        given = frequencies if config.frequencies == EMPIRICAL else config.frequencies
        priors = [_prior("statefreq", given)]
    if nst == "2":
        priors.append(_prior("tratio", config.kappa))
    if nst == "6":
        priors.append(_prior("revmat", config.rates))
    if has_gamma:
        priors.append(_prior("shape", config.alpha))
    if config.invariant is not None:
        priors.append(_prior("pinvar", config.invariant))
    yield f"prset {where}{' '.join(priors)};"


def _prior(parameter: str, given: Sequence[float] | float | str | None) -> str:
    """What is inferred has MrBayes' own prior, which is ours; what is given is fixed."""
    if given is None or isinstance(given, str):
        return f"{parameter}pr={prior_text(*getattr(DEFAULTS, parameter))}"
    return f"{parameter}pr={prior_text('fixed', [given] if isinstance(given, int | float) else given)}"


def _sharing_commands(config: InferConfig, configs: Sequence[ModelConfig]) -> Iterator[str]:
    """MrBayes shares whatever it can, so that what is not shared is said of every parameter."""
    yield f"prset applyto=(all) ratepr={'variable' if config.partition.rates == INFERRED else 'fixed'};"
    yield f"unlink {' '.join(f'{parameter}=(all)' for parameter in SETTINGS)};"
    for parameter, name in SETTINGS.items():
        parts = [str(number) for number, part in enumerate(configs, 1) if name in part.inferred]
        if name in config.partition.linked and len(parts) > 1:
            yield f"link {parameter}=({','.join(parts)});"


def _constraint_commands(constraints: TopologyConstraints, safe: Mapping[str, str]) -> Iterator[str]:
    names = safe_names(constraints.names)
    for number, name in enumerate(names):
        line = f"constraint {name} ="
        for taxon in constraints.clade(number):
            if len(line) + len(safe[taxon]) > WIDTH:
                yield line
                line = "   "
            line += f" {safe[taxon]}"
        yield f"{line};"
    yield f"prset topologypr=constraints({','.join(names)});"


def _outgroup_command(outgroup: str, safe: Mapping[str, str]) -> Iterator[str]:
    """MrBayes has an outgroup of one taxon."""
    if outgroup in safe:
        yield f"outgroup {safe[outgroup]};"


def _length_prior_words(config: InferConfig) -> str:
    words = parse_length_prior("--branch-prior", config.branch_prior)
    if words.kind == "exponential":
        return prior_text("exponential", [config.prior_rate])
    return (
        prior_text("gammadir", [*words.numbers, 1, 1]) if words.kind == "gamma-dirichlet" else _uniform(words.numbers)
    )


def _uniform(numbers: Sequence[float]) -> str:
    return prior_text("uniform", [0, *numbers])


def _ranges(sites: LongArray) -> Iterator[str]:
    """Sites in order, from 1, as `1-100`, `2-898\\3` and single ones."""
    numbers = sites.tolist()
    first = 0
    while first < len(numbers):
        last = first + 1
        step = numbers[last] - numbers[first] if last < len(numbers) else 1
        while last < len(numbers) and numbers[last] - numbers[last - 1] == step:
            last += 1
        if last - first > (1 if step == 1 else 2):
            stride = "" if step == 1 else f"\\{step}"
            yield f"{numbers[first]}-{numbers[last - 1]}{stride}"
            first = last
        else:
            yield str(numbers[first])
            first += 1


def safe_names(names: Sequence[str]) -> list[str]:
    """Names that MrBayes reads, in which letters, digits, dots and underscores are kept; different ones stay so."""
    safe: list[str] = []
    used: set[str] = set(RESERVED)  # without difference between large and small letters
    for name in names:
        kept = re.sub(r"[^A-Za-z0-9_.]", "_", name)[:LONGEST_NAME]
        plain = kept if re.match("[A-Za-z]", kept) else f"x{kept}"
        word, number = plain, 2
        while word.lower() in used:
            word, number = f"{plain}_{number}", number + 1
        used.add(word.lower())
        safe.append(word)
    return safe


def _in_comment(name: str) -> str:
    return printable(name).replace("[", "(").replace("]", ")")


def renamed_in_words(renamed: dict[str, str]) -> str:
    """`'Homo sapiens' is Homo_sapiens and 3 more`."""
    return first_few([f"{quoted(own)} is {name}" for own, name in renamed.items()], ", ", limit=3)
