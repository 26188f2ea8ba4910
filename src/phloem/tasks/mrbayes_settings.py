"""MrBayes' blocks as settings of `phloem infer`.

What MrBayes 3.2.7 has and phloem does not is an error: nothing is replaced by something similar.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from phloem.config import ModelConfig
from phloem.config.model import EMPIRICAL, INFERRED
from phloem.config.partition import LINKABLE
from phloem.data.alignment import Alignment
from phloem.data.mrbayes_block import DEFAULTS, MrBayesBlock, PartSettings, Setting, read_mrbayes_block
from phloem.data.nexus import is_nexus
from phloem.data.partitions import SitePartition
from phloem.data.reading import find_alignment, parse_alignment
from phloem.errors import ConfigError, PhloemError, counted, listed, quoted
from phloem.storage.files import read_bytes
from phloem.trees.constraints import TopologyConstraints

TAKEN: Final = "taken from the MrBayes block"
LEAVE_ASIDE: Final = "--no-mrbayes (in Python, mrbayes=False) leaves the block aside"
# By nst, and whether frequencies are equal.
NAMES: Final = {
    ("1", True): "JC",
    ("1", False): "F81",
    ("2", True): "K80",
    ("2", False): "HKY",
    ("6", True): "SYM",
    ("6", False): "GTR",
}
# MrBayes' parameters and phloem's settings.
SETTINGS: Final = {
    "tratio": "kappa",
    "revmat": "rates",
    "statefreq": "frequencies",
    "shape": "alpha",
    "pinvar": "invariant",
}
FREE: Final = {"kappa": 1, "rates": 5, "frequencies": 3, "alpha": 1, "invariant": 1}  # coordinates of each
RATES: Final = {"equal": (False, False), "gamma": (True, False), "propinv": (False, True), "invgamma": (True, True)}


class AlignmentWithBlock(NamedTuple):
    """An alignment, lines on what was not used of its file, and what its MRBAYES blocks say, if there are any."""

    alignment: Alignment
    notes: tuple[str, ...]
    block: MrBayesBlock | None


class BlockSettings(NamedTuple):
    """What a block says in phloem's words."""

    layer: dict[str, Any]  # by dotted key
    notices: tuple[str, ...]


def load_with_block(path: str | Path, *, long_names: bool = False) -> AlignmentWithBlock:
    """The alignment in a file with what its MRBAYES blocks say."""
    content, source = read_bytes(find_alignment(path)), str(path)
    alignment, notes = parse_alignment(content, source=source, long_names=long_names, mrbayes=True)
    block = None
    if is_nexus(content[:64].removeprefix(b"\xef\xbb\xbf")):
        try:
            block = read_mrbayes_block(source, content.decode("utf-8-sig"), alignment.taxa, alignment.site_count)
        except PhloemError as problem:
            raise type(problem)(f"{problem} Or {LEAVE_ASIDE}.") from None
    return AlignmentWithBlock(alignment, notes, block)


def may_have_block(path: str | Path) -> bool:
    """Whether a file is NEXUS, so that it can say more than sequences."""
    try:
        return is_nexus(read_bytes(find_alignment(path))[:64].removeprefix(b"\xef\xbb\xbf"))
    except PhloemError:
        return False


def block_settings(source: str, block: MrBayesBlock, given: Collection[str] = ()) -> BlockSettings:
    """The settings that a block of a file makes, but for what the user's own replace.

    given: the keys of those. A model replaces the models of all parts, a prior on lengths the prior, a partition the
    parts with all that is said of them.
    """
    lines = [f"{line.rstrip('.')}." for line in block.ignored]
    if loose := [one.name for one in block.constraints if not one.is_enforced]:
        lines.append(f"{source}: constraint {listed(loose)}: defined, but no prset topologypr enforces it.")
    outgroup = {} if block.outgroup is None or "outgroup" in given else {"outgroup": block.outgroup}
    if outgroup:
        lines.insert(0, f"{TAKEN} of {source}: trees are rooted at outgroup {block.outgroup}, for display")
    if not block.sets_model:
        return BlockSettings(outgroup, tuple(lines))
    problems = [*block.unsupported]
    if problems:
        more = f" The block has {counted(len(problems) - 1, 'more problem')}." if len(problems) > 1 else ""
        raise ConfigError(f"{problems[0]}{more} {LEAVE_ASIDE}.")
    try:
        layer, taken = _settings(source, block, given)
    except ConfigError as problem:
        raise ConfigError(f"{source}, MrBayes block: {problem} Or {LEAVE_ASIDE}.") from None
    if taken:
        lines.insert(0, f"{TAKEN} of {source}: {', '.join(taken)}; flags override it")
    return BlockSettings(layer | outgroup, tuple(lines))


def block_constraints(source: str, block: MrBayesBlock, taxa: Sequence[str]) -> TopologyConstraints:
    """The constraints that a block enforces. A partial one that has all taxa is a clade."""
    enforced = [one for one in block.constraints if one.is_enforced]
    for one in enforced:
        if one.kind == "negative" or (one.kind == "partial" and len(one.taxa) + len(one.others) < len(taxa)):
            raise ConfigError(
                f"{source}: constraint {quoted(one.name)} is {one.kind}, and phloem has clades that all trees must "
                f"have. Enforce only such, or {LEAVE_ASIDE}."
            )
    try:
        return TopologyConstraints.of(taxa, [(one.name, one.taxa) for one in enforced])
    except PhloemError as problem:
        raise ConfigError(f"{source}, MrBayes block: {problem} Or {LEAVE_ASIDE}.") from None


def _settings(source: str, block: MrBayesBlock, given: Collection[str]) -> tuple[dict[str, Any], list[str]]:
    """The layer, and in words what is in it."""
    layer: dict[str, Any] = {}
    taken: list[str] = []
    names_model, has_parts = "model.name" in given, block.partition is not None and "partition.sites" not in given
    models = [] if names_model else [_model_settings(part) for part in block.parts]
    configs = [ModelConfig(**settings) for settings in models]
    if configs:
        chosen = max(range(len(configs)), key=lambda part: _size(configs[part]))
        layer |= {f"model.{name}": value for name, value in models[chosen].items()}
        if len(set(configs)) > 1:
            _check_models_of_parts(configs, has_parts, given)
            layer["partition.models"] = ",".join(map(str, configs))
        taken.append(f"model {configs[0]}" if len(set(configs)) == 1 else f"models {', '.join(map(str, configs))}")
    if has_parts:
        layer["partition.sites"] = source
        layer["partition.link"] = _links(block, configs)
        layer["partition.rates"] = _part_rates(block)
        taken.append(counted(len(block.parts), "part"))
    if not {"branch_prior", "prior_rate"} & set(given):
        layer |= (prior := _length_prior(block.parts[0].brlens))
        rate = f" with rate {prior['prior_rate']:g}" if "prior_rate" in prior else ""
        taken.append(f"branch lengths {prior['branch_prior']}{rate}")
    enforced = [one.name for one in block.constraints if one.is_enforced]
    if enforced and "constrain" not in given:
        layer["constrain"] = source
        taken.append(counted(len(enforced), "constraint"))
    return {key: value for key, value in layer.items() if value is not None}, taken


def _model_settings(part: PartSettings) -> dict[str, Any]:
    """Of a part's model, by the names of its fields."""
    is_equal = part.statefreq.kind == "equal"
    has_gamma, has_invariant = RATES[part.rates]
    settings: dict[str, Any] = {"name": NAMES[part.nst, is_equal]}
    settings |= {"gamma": part.categories} if has_gamma else {}
    settings |= {"invariant": INFERRED} if has_invariant else {}
    for parameter, name in SETTINGS.items():
        setting: Setting = getattr(part, parameter)
        if not part.has(parameter) or setting.kind == "equal" or setting == getattr(DEFAULTS, parameter):
            continue
        if setting.kind == "empirical":
            settings[name] = EMPIRICAL
        elif setting.kind == "fixed":
            settings[name] = setting.numbers[0] if name in ("alpha", "invariant") else setting.numbers
        else:
            raise _no_prior(parameter, setting)
    return settings


def _no_prior(parameter: str, setting: Setting) -> ConfigError:
    own = getattr(DEFAULTS, parameter)
    return ConfigError(f"phloem has no {parameter}pr={prior_text(*setting)}. Make it {prior_text(*own)} or fixed.")


def _size(config: ModelConfig) -> int:
    return sum(FREE[name] for name in config.inferred)


def _check_models_of_parts(configs: Sequence[ModelConfig], has_parts: bool, given: Collection[str]) -> None:
    """Raise where parts have models of their own that settings cannot say."""
    if not has_parts:
        raise ConfigError(
            "its parts have different models, which another partition leaves without parts. Name one with --model."
        )
    if own := [key for key in given if key.startswith("model.")]:
        raise ConfigError(
            f"its parts have different models, and {own[0]} would be of one of them. Name one model with --model."
        )
    if any(ModelConfig(str(config)) != config for config in configs):
        raise ConfigError(
            "parts have different models, and in one of them a parameter is fixed: phloem can fix that only where all "
            "parts have the same model. Change one of them."
        )


def _links(block: MrBayesBlock, configs: Sequence[ModelConfig]) -> str | None:
    """Which settings all parts share. configs: of the parts' models; empty if the user names one for all."""
    linked = []
    for parameter, name in SETTINGS.items():
        shared = block.shared(parameter) if configs else block.groups[parameter]
        groups = [shared[part] for part in range(len(block.parts)) if not configs or name in configs[part].inferred]
        if 1 < len(set(groups)) < len(groups):
            raise ConfigError(
                f"{parameter} is shared by some parts only: phloem links all or none. Use link or unlink."
            )
        if len(groups) > 1 == len(set(groups)):
            linked.append(name)
    return ",".join(name for name in LINKABLE if name in linked) or None


def _part_rates(block: MrBayesBlock) -> str:
    rates = [part.ratemultiplier for part in block.parts]
    kinds = {rate.kind for rate in rates}
    if kinds == {"fixed"}:
        return "equal"
    if kinds != {"dirichlet"} or len(set(block.shared("ratemultiplier"))) > 1:
        raise ConfigError(
            "ratepr varies for some parts only: phloem infers the rates of all parts or none. Correct it."
        )
    numbers = [rate.numbers[0] for rate in rates]
    if set(numbers) != {1.0}:
        raise ConfigError(f"phloem has no ratepr={prior_text('dirichlet', numbers)}. Make it variable, or fixed.")
    return INFERRED


def _length_prior(setting: Setting) -> dict[str, Any]:
    kind, numbers = setting.kind.rpartition(":")[2], setting.numbers
    if kind == "exponential":
        return {"branch_prior": kind, "prior_rate": numbers[0]}
    if kind == "gammadir" and numbers[2:] == (1.0, 1.0):
        return {"branch_prior": f"gamma-dirichlet:{number_text(numbers[0])},{number_text(numbers[1])}"}
    if kind == "uniform" and numbers[0] == 0:
        return {"branch_prior": f"uniform:{number_text(numbers[1])}"}
    what = "from 0" if kind == "uniform" else "with alpha and c of 1"
    raise ConfigError(f"phloem has no brlenspr={prior_text(*setting)}, only one {what}. Change it.")


def with_models(partition: SitePartition, names: Sequence[str]) -> SitePartition:
    """The partition with models that settings give its parts."""
    if not names:
        return partition
    if len(names) != len(partition):
        raise ConfigError(
            f"partition.models has {counted(len(names), 'model')} for {counted(len(partition), 'part')}. Give one each."
        )
    return replace(partition, models=tuple(names))


def prior_text(kind: str, numbers: Sequence[float] = ()) -> str:
    """As in `dirichlet(1,1,1,1)`."""
    return f"{kind}({','.join(map(number_text, numbers))})" if numbers else kind


def number_text(value: float) -> str:
    """All digits, without an exponent, which MrBayes does not read everywhere."""
    return np.format_float_positional(value, trim="-")
