"""What the MRBAYES blocks of a NEXUS file say of model, priors, partition, outgroup and constraints.

Words, defaults and the order of things are those of MrBayes 3.2.7. Which of it phloem can do is for others to decide,
but what it has nothing for is listed here.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, NamedTuple, cast

from phloem.data.nexus_commands import Command, Word, commands, in_full
from phloem.data.partitions import DEFAULT, SitePartition, SiteSets, chosen_partition, read_definition
from phloem.errors import ConfigError, counted, first_few, listed, printable, quoted

ConstraintKind = Literal["hard", "negative", "partial"]


class Setting(NamedTuple):
    """A prior with its numbers, such as `dirichlet`, `clock:uniform`, or `fixed` with what it is fixed to."""

    kind: str  # in lower case and in full
    numbers: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class PartSettings:
    """What lset and prset say of one part, in MrBayes' words.

    A Dirichlet has a number for each of its entries. Rates are in the order AC, AG, AT, CG, CT, GT, frequencies in the
    order A, C, G, T. statefreq may also be `equal` or `empirical`; a ratemultiplier that varies is `dirichlet` with one
    number, that of its part.
    """

    nst: Literal["1", "2", "6", "mixed"]
    rates: str  # equal, gamma, propinv, invgamma, and what phloem does not have: lnorm, adgamma, kmixture
    categories: int  # of the gamma distribution
    statefreq: Setting
    revmat: Setting
    tratio: Setting
    shape: Setting
    pinvar: Setting
    ratemultiplier: Setting
    brlens: Setting

    def has(self, parameter: str) -> bool:
        """Whether the model has the parameter, fixed or not."""
        needs = {
            "revmat": self.nst in ("6", "mixed"),
            "tratio": self.nst == "2",
            "shape": self.rates in ("gamma", "invgamma", "lnorm", "adgamma"),
            "pinvar": self.rates in ("propinv", "invgamma"),
        }
        return needs.get(parameter, True)

    def prior_of(self, parameter: str) -> tuple[object, ...]:
        """What must be the same in parts that share the parameter."""
        setting: Setting = getattr(self, parameter)
        if parameter == "ratemultiplier":
            return (setting.kind,)
        more = {"shape": (self.categories, self.rates == "adgamma"), "revmat": (self.nst,)}
        return (setting, *more.get(parameter, ()))


DEFAULTS: Final = PartSettings(
    nst="1",
    rates="equal",
    categories=4,
    statefreq=Setting("dirichlet", (1.0,) * 4),
    revmat=Setting("dirichlet", (1.0,) * 6),
    tratio=Setting("beta", (1.0, 1.0)),
    shape=Setting("exponential", (1.0,)),
    pinvar=Setting("uniform", (0.0, 1.0)),
    ratemultiplier=Setting("fixed", (1.0,)),
    brlens=Setting("unconstrained:gammadir", (1.0, 0.1, 1.0, 1.0)),
)


class Constraint(NamedTuple):
    """Taxa that are a clade (hard), are none (negative), or are on one side of a branch (partial)."""

    name: str
    kind: ConstraintKind
    taxa: tuple[str, ...]  # in the order of the alignment, as everywhere
    others: tuple[str, ...]  # of a partial one: those on the other side
    is_enforced: bool  # by `prset topologypr=constraints(…)`


@dataclass(frozen=True, slots=True)
class MrBayesBlock:
    """How MrBayes is set after the last command: one PartSettings for each part of the partition."""

    parts: tuple[PartSettings, ...]
    partition: SitePartition | None  # None: all sites are one part
    groups: Mapping[str, tuple[int, ...]]  # a number per part for each of LINKABLE; unlinked parts have different ones
    sets_model: bool  # whether it says anything of model, priors or parts; if not, MrBayes' defaults are not meant
    outgroup: str | None
    constraints: tuple[Constraint, ...]
    excluded_sites: tuple[int, ...]  # counted from 0
    deleted_taxa: tuple[str, ...]
    unsupported: tuple[str, ...]  # a line for each setting that makes it another model than any of phloem's
    ignored: tuple[str, ...]  # a line for what is about something else, or is not heeded

    def shared(self, parameter: str) -> tuple[int | None, ...]:
        """Which parts share a parameter: for each the first part of its group; None where the model does not have it.

        They share it if they are linked, which they are until they are unlinked, and if its prior is the same. Rates
        are relative to branch lengths, so that parts with other branch lengths have rates of their own.
        """
        needed = ("ratemultiplier", "brlens") if parameter == "ratemultiplier" else (parameter,)
        keys = [
            (part.has(parameter), *((self.groups[name][index], part.prior_of(name)) for name in needed))
            for index, part in enumerate(self.parts)
        ]
        return tuple(
            keys.index(key) if part.has(parameter) else None for key, part in zip(keys, self.parts, strict=True)
        )


LINKABLE: Final = ("statefreq", "revmat", "tratio", "shape", "pinvar", "ratemultiplier", "brlens")
OTHER_LINKABLE: Final = (
    *("topology", "omega", "correlation", "switchrates", "speciationrate", "extinctionrate", "fossilizationrate"),
    *("popsize", "growthrate", "aamodel", "cpprate", "cppmultdev", "cppevents", "tk02var", "igrvar", "mixedvar"),
)
# What lset takes, and the values of each. Those of ngammacat are numbers.
LSET: Final[dict[str, tuple[str, ...]]] = {
    "nst": ("1", "2", "6", "mixed"),
    "rates": ("equal", "gamma", "lnorm", "propinv", "invgamma", "adgamma", "kmixture"),
    "ngammacat": (),
    "nucmodel": ("4by4", "doublet", "codon", "protein"),
    "covarion": ("no", "yes"),
    "parsmodel": ("no", "yes"),
    "coding": ("all", "variable", "informative", "nosingletons", "noabsencesites", "nopresencesites"),
}
# What prset takes: the priors of each parameter, and how many numbers they can have.
PRSET: Final[dict[str, dict[str, tuple[int, ...]]]] = {
    "statefreqpr": {"dirichlet": (1, 4), "fixed": (4,), "fixed(equal)": (0,), "fixed(empirical)": (0,)},
    "revmatpr": {"dirichlet": (1, 6), "fixed": (6,)},
    "tratiopr": {"beta": (2,), "fixed": (1,)},
    "shapepr": {"uniform": (2,), "exponential": (1,), "fixed": (1,)},
    "pinvarpr": {"uniform": (2,), "fixed": (1,)},
    "ratepr": {"fixed": (0,), "variable": (0,), "dirichlet": ()},
    "brlenspr": {
        "unconstrained:uniform": (2,),
        "unconstrained:exponential": (1,),
        "unconstrained:gammadir": (4,),
        "unconstrained:twoexp": (2,),
        "unconstrained:invgamdir": (4,),
    },
}
TOPOLOGIES: Final = ("uniform", "constraints", "fixed", "speciestree")
NOT_OURS: Final = frozenset(
    {"mixed", "lnorm", "adgamma", "kmixture", "unconstrained:twoexp", "unconstrained:invgamdir"}
)
# Parameters without effect as long as the others are as phloem needs them.
LSET_ELSEWHERE: Final = ("code", "ploidy", "nlnormcat", "nmixtcat", "nbetacat", "omegavar")
PRSET_ELSEWHERE: Final = (
    *("revratepr", "aamodelpr", "aarevmatpr", "omegapr", "ny98omega1pr", "ny98omega3pr", "m3omegapr", "codoncatfreqs"),
    *("ratecorrpr", "covswitchpr", "symdirihyperpr", "treeagepr", "speciationpr", "extinctionpr", "fossilizationpr"),
    *("samplestrat", "sampleprob", "popsizepr", "popvarpr", "nodeagepr", "clockratepr", "clockvarpr", "cppratepr"),
    *("cppmultdevpr", "tk02varpr", "bmvarpr", "igrvarpr", "ibrvarpr", "mixedvarpr", "generatepr", "growthpr"),
)
# Commands about MrBayes' own chains, files and screen.
OF_THE_PROGRAM: Final = frozenset(
    {
        *("about", "acknowledgments", "charstat", "citations", "comparetree", "disclaimer", "help", "log", "manual"),
        *("mcmc", "mcmcp", "plot", "propset", "quit", "report", "set", "showbeagle", "showmatrix", "showmcmctrees"),
        *("showmodel", "showmoves", "showparams", "showusertrees", "ss", "ssp", "startvals", "sump", "sumss", "sumt"),
        *("taxastat", "version"),
    }
)
OF_OTHER_MODELS: Final = frozenset({"calibrate", "ctype", "databreaks", "pairs", "speciespartition", "usertree"})
OF_SETS: Final = frozenset({"charset", "partition"})  # which SiteSets reads
FREQUENCY_TOLERANCE: Final = 0.001  # that of MrBayes
LARGEST_NUMBER: Final = 1e9
NUMBER: Final = re.compile(r"-?(\d{1,30}\.?\d{0,30}|\.\d{1,30})([eE][+-]?\d{1,3})?", re.ASCII)
SPAN: Final = re.compile(r"(\d{1,9})(?:-(\d{1,9}|\.)(?:\\(\d{1,9}))?)?", re.ASCII)


def read_mrbayes_block(source: str, text: str, taxa: Sequence[str], sites: int) -> MrBayesBlock | None:
    """What the MRBAYES blocks of a NEXUS text say for these taxa and so many sites; None if they say nothing."""
    found = [command for command in commands(source, text) if command.block == "mrbayes"]
    if not found:
        return None
    reader = _Reader(source, taxa, SiteSets(source, text, sites))
    for command in found:
        reader.take(command)
    return reader.block()


class _Reader:
    """The state of MrBayes while it obeys one command after another."""

    def __init__(self, source: str, taxa: Sequence[str], sets: SiteSets) -> None:
        self.source, self.where = source, source
        self.taxa, self.sets = tuple(taxa), sets
        numbers = {str(number): name for number, name in enumerate(self.taxa, 1)}
        self.taxon_of = numbers | {name.casefold(): name for name in reversed(self.taxa)}
        self.taxsets: dict[str, tuple[str, ...]] = {}
        self.partition: SitePartition | None = None
        self.outgroup: str | None = None
        self.constraints: list[Constraint] = []
        self.excluded: set[int] = set()
        self.deleted: set[str] = set()
        self.sets_model = False
        self.of_the_program: list[str] = []
        self.ignored: list[str] = []
        self._forget_models(1)

    def _forget_models(self, parts: int) -> None:
        """MrBayes' defaults, which it returns to when a partition is chosen."""
        self.parts = [DEFAULTS] * parts
        self.enforced: list[frozenset[str]] = [frozenset()] * parts
        self.not_ours: list[dict[str, str]] = [{} for _ in range(parts)]  # a line for each parameter
        self.groups = {parameter: [0] * parts for parameter in (*LINKABLE, "topology")}
        self.next_group = 1
        self.was_set = False

    def problem(self, what: str) -> ConfigError:
        """An error about the command at hand."""
        return ConfigError(f"{self.where}: {what}.")

    def take(self, command: Command) -> None:
        """Do what the command says."""
        keyword = command.keyword
        self.where = f"{self.source}, line {command.line}, {printable(keyword)[:40]}"
        if not command.is_whole:
            raise self.problem("no ';' at its end. The file may have been cut off")
        handlers: dict[str, Callable[[Command], None]] = {
            "set": self._set,
            "lset": self._lset,
            "prset": self._prset,
            "link": self._link,
            "unlink": self._link,
            "outgroup": self._outgroup,
            "taxset": self._taxset,
            "constraint": self._constraint,
            "exclude": self._exclude,
            "include": self._exclude,
            "delete": self._delete,
            "restore": self._delete,
        }
        self.was_set = self.was_set or keyword in ("lset", "prset", "link", "unlink")
        self.sets_model = self.sets_model or self.was_set
        if keyword in handlers:
            handlers[keyword](command)
        elif keyword in OF_THE_PROGRAM:
            self.of_the_program.append(keyword)
        elif keyword == "execute":
            self.ignored.append(f"{self.where}: other files are not read. Give phloem that file itself.")
        elif keyword not in OF_SETS:
            why = (
                "it belongs to models that phloem does not have" if keyword in OF_OTHER_MODELS else "an unknown command"
            )
            self.ignored.append(f"{self.where}: ignored, {why}.")

    def block(self) -> MrBayesBlock:
        """What all commands together come to."""
        found = MrBayesBlock(
            parts=tuple(self.parts),
            partition=self.partition,
            groups={parameter: tuple(self.groups[parameter]) for parameter in LINKABLE},
            sets_model=self.sets_model,
            outgroup=self.outgroup,
            constraints=tuple(one._replace(is_enforced=one.name in self.enforced[0]) for one in self.constraints),
            excluded_sites=tuple(sorted(self.excluded)),
            deleted_taxa=tuple(name for name in self.taxa if name in self.deleted),
            unsupported=(),
            ignored=(),
        )
        return replace(found, unsupported=self._unsupported(found), ignored=self._ignored(found))

    def _unsupported(self, found: MrBayesBlock) -> tuple[str, ...]:
        lines = [line for part in self.not_ours for line in part.values()]
        if len(set(self.enforced)) > 1 or len(set(self.groups["topology"])) > 1:
            lines.append(f"{self.source}: topologies differ between parts: phloem has one tree for all.")
        if len(set(found.shared("brlens"))) > 1:
            lines.append(f"{self.source}: branch lengths differ between parts: phloem has them proportional.")
        return tuple(dict.fromkeys(lines))

    def _ignored(self, found: MrBayesBlock) -> tuple[str, ...]:
        lines = [*self.ignored]
        if not self.sets.active and self.sets.partition_names:
            lines.append(f"partition {listed(self.sets.partition_names)}: no set partition=NAME; chooses it: one part.")
        if found.excluded_sites:
            lines.append(f"exclude would leave out {counted(len(found.excluded_sites), 'site')}: all are used.")
        if found.deleted_taxa:
            lines.append(f"delete would leave out {counted(len(found.deleted_taxa), 'taxon', 'taxa')}: all are used.")
        kinds: dict[int, set[bool]] = {}
        for group, part in zip(found.groups["statefreq"], found.parts, strict=True):
            kinds.setdefault(group, set()).add(part.statefreq.kind == "dirichlet")
        if any(len(both) > 1 for both in kinds.values()):  # seen in 3.2.7a, which shows what it links in `showmodel`
            lines.append(
                "statefreqpr is a Dirichlet in one part and fixed in another: phloem takes each, MrBayes that of the "
                "first for both unless there is unlink statefreq=(all)."
            )
        if self.of_the_program:
            names = first_few([*dict.fromkeys(self.of_the_program)], ", ", limit=8)
            lines.append(f"{names}: about MrBayes' own chains and files. phloem has its own settings.")
        return tuple(line if line.startswith(self.source) else f"{self.source}: {line}" for line in lines)

    def _set(self, command: Command) -> None:
        chosen = chosen_partition(command)
        if chosen is None:
            self.of_the_program.append("set")
            return
        if self.was_set:
            self.ignored.append(
                f"{self.where} partition: undoes lset, prset, link and unlink before it, as in MrBayes."
            )
        self.sets_model = True
        self.partition = None if chosen.lower() in (DEFAULT, "1") else self.sets.partition(chosen)
        self._forget_models(len(self.partition) if self.partition else 1)

    def _settings(self, command: Command, known: Sequence[str]) -> Iterable[tuple[str, list[Word]]]:
        """Each `parameter=value` of a command, the parameter in full."""
        words = command.words()
        starts = [index for index in range(len(words) - 1) if words[index + 1].marks("=")]
        if words and starts[:1] != [0]:
            raise self.problem(f"{quoted(words[0].text)} is no parameter with a value. Write them as in nst=6")
        for start, stop in zip(starts, [*starts[1:], len(words)], strict=False):
            name, value = in_full(words[start].text.lower(), known), words[start + 2 : stop]
            if name not in known:
                raise self.problem(f"MrBayes has no parameter {quoted(words[start].text)} here. Correct its name")
            if not value:
                raise self.problem(f"{name} has no value. Give it one")
            yield name, value

    def _parts_of(self, value: Sequence[Word]) -> list[int]:
        """The parts in `(all)` or `(1, 3-4)`."""
        chosen: list[int] = []
        for word in self._list(value, "parts. Write (all), or numbers as in (1,3)"):
            span = range(len(self.parts)) if word.lower() == "all" else _span(word, len(self.parts))
            if span is None:
                there = counted(len(self.parts), "part")
                raise self.problem(
                    f"no part {quoted(word)}, there {'is' if len(self.parts) == 1 else 'are'} {there}. Correct it"
                )
            chosen += span
        return list(dict.fromkeys(chosen))

    def _list(self, value: Sequence[Word], what: str) -> list[str]:
        """The words in brackets."""
        inside = [word.text for word in value[1:-1] if not word.marks(",")]
        if not inside or not value[0].marks("(") or not value[-1].marks(")"):
            raise self.problem(f"{quoted(_text(value))} is no list of {what}")
        return inside

    def _change(self, parts: Iterable[int], name: str, value: str, is_ours: bool, **settings: Any) -> None:
        """Set what a parameter says; remember it where phloem has nothing for it, until it is set again."""
        for part in parts:
            self.parts[part] = replace(self.parts[part], **settings)
            self.not_ours[part].pop(name, None)
            if not is_ours:
                self.not_ours[part][name] = f"{self.where}: phloem has no {name}={printable(value)[:60]}."

    def _choose(self, name: str, value: str, known: Iterable[str]) -> str:
        """What the value of a parameter abbreviates."""
        known = [*known]
        if (word := in_full(value, known)) not in known:
            raise self.problem(f"{name}={printable(value)[:40]} is not possible. Choose one of {', '.join(known)}")
        return word

    def _lset(self, command: Command) -> None:
        chosen = [*range(len(self.parts))]
        for name, value in self._settings(command, (*LSET, *LSET_ELSEWHERE, "applyto")):
            if name == "applyto":
                chosen = self._parts_of(value)
            elif name == "ngammacat":
                categories = _text(value)
                if not re.fullmatch(r"[1-9]\d{0,3}", categories, re.ASCII):
                    raise self.problem(f"ngammacat={printable(categories)[:40]} is no number of categories. Correct it")
                self._change(chosen, name, categories, True, categories=int(categories))
            elif name in LSET:
                word = self._choose(name, _text(value), LSET[name])
                if name in ("nst", "rates"):
                    self._change(chosen, name, word, word not in NOT_OURS, **{name: word})
                else:
                    self._change(chosen, name, word, word == LSET[name][0])

    def _prset(self, command: Command) -> None:
        chosen = [*range(len(self.parts))]
        for name, value in self._settings(command, (*PRSET, *PRSET_ELSEWHERE, "topologypr", "applyto")):
            if name == "applyto":
                chosen = self._parts_of(value)
            elif name == "topologypr":
                self._topology(chosen, value)
            elif name == "ratepr":
                self._rate_multipliers(chosen, self._prior(name, value))
            elif name == "brlenspr" and in_full(value[0].text.lower(), ("clock", "fixed")) in ("clock", "fixed"):
                self._change(chosen, name, _text(value), False, brlens=Setting(_text(value)))
            elif name in PRSET:
                prior = self._prior(name, value)
                is_ours = name != "brlenspr" or prior.kind not in NOT_OURS
                self._change(chosen, name, _text(value), is_ours, **{name.removesuffix("pr"): prior})

    def _prior(self, name: str, value: Sequence[Word]) -> Setting:
        """`dirichlet(1,1,1,1)`, `fixed(equal)`, `unconstrained:exponential(10)`."""
        kinds = PRSET[name]
        begin = next((index for index, word in enumerate(value) if word.marks("(")), len(value))
        outer, colon, inner = _text(value[:begin]).partition(":")
        if colon:
            outer = in_full(outer, ("unconstrained",))
            inner = in_full(inner, [kind.partition(":")[2] for kind in kinds])
        kind = self._choose(name, f"{outer}{colon}{inner}", [kind for kind in kinds if "(" not in kind])
        if f"{kind}(equal)" in kinds and (word := in_full(_text(value[begin:])[1:-1], ("equal", "empirical"))):
            if f"{kind}({word})" in kinds:
                return Setting(word)
        inside = value[begin + 1 : -1]
        numbers = tuple(_number(word.text) for word in inside[::2])
        is_list = begin == len(value) or (value[-1].marks(")") and len(inside) % 2 == 1)
        is_list = is_list and all(word.marks(",") for word in inside[1::2]) and all(map(math.isfinite, numbers))
        if not is_list or len(numbers) not in (kinds[kind] or (len(numbers),)):
            how_many = " or ".join(map(str, kinds[kind])) or "for each part one"
            raise self.problem(
                f"{name}={_shown(value)} is not of the form {kind}(…) with {how_many} numbers. Correct it"
            )
        if kind == "dirichlet" and len(numbers) == 1 and kinds[kind]:  # the sum of all
            numbers = (numbers[0] / max(kinds[kind]),) * max(kinds[kind])
        if problem := _out_of_range(name, kind.rpartition(":")[2], numbers):
            raise self.problem(f"{name}={_shown(value)}: {problem}. Correct it")
        if name == "statefreqpr" and kind == "fixed":
            numbers = tuple(number / math.fsum(numbers) for number in numbers)
        return Setting(kind, numbers)

    def _rate_multipliers(self, parts: Sequence[int], prior: Setting) -> None:
        numbers = prior.numbers or (1.0,) * len(parts)
        if len(numbers) != len(parts):
            both = f"{counted(len(numbers), 'number')} for {counted(len(parts), 'part')}"
            raise self.problem(f"ratepr=dirichlet has {both}. Correct it")
        for part, number in zip(parts, numbers, strict=True):
            setting = Setting("fixed" if prior.kind == "fixed" else "dirichlet", (number,))
            self._change([part], "ratepr", prior.kind, True, ratemultiplier=setting)

    def _topology(self, parts: Sequence[int], value: Sequence[Word]) -> None:
        kind = self._choose("topologypr", value[0].text.lower(), TOPOLOGIES)
        names: set[str] = set()
        for text in self._list(value[1:], "constraints. Name them in brackets") if kind == "constraints" else ():
            span = _span(text, len(self.constraints))
            named = [one.name for one in self.constraints if one.name.casefold() == text.casefold()]
            if not named and span is None:
                raise self.problem(f"no constraint is called {quoted(text)}. Define it before, constraint NAME = taxa;")
            names.update(named or [self.constraints[index].name for index in span or ()])
        for part in parts:
            self.enforced[part] = frozenset(names)
        self._change(parts, "topologypr", _text(value), kind in ("uniform", "constraints"))

    def _link(self, command: Command) -> None:
        for name, value in self._settings(command, (*LINKABLE, *OTHER_LINKABLE)):
            for part in self._parts_of(value):
                if name in self.groups:
                    self.groups[name][part] = self.next_group
                    self.next_group += command.keyword == "unlink"
            self.next_group += 1

    def _outgroup(self, command: Command) -> None:
        words = command.words()
        if len(words) != 1:
            raise self.problem(f"{counted(len(words), 'name')} where MrBayes takes one. Name one taxon")
        self.outgroup = self._taxon(words[0].text)

    def _taxon(self, text: str) -> str:
        name = text if text in self.taxa else self.taxon_of.get(text.casefold())
        if name is None:
            raise self.problem(f"{quoted(text)} is no taxon of the alignment. Use its names, or numbers from 1")
        return name

    def _taxa(self, words: Iterable[Word]) -> tuple[str, ...]:
        """Taxa by name, number, range of numbers or set, in the order of the alignment."""
        chosen: set[str] = set()
        for word in words:
            key = word.text.casefold()
            span = None if word.is_quoted else _span(word.text, len(self.taxa))
            if word.marks(","):
                continue
            if key in self.taxon_of:
                chosen.add(self._taxon(word.text))
            elif key in self.taxsets:
                chosen.update(self.taxsets[key])
            elif span is not None or key == "all":
                chosen.update(self.taxa if span is None else self.taxa[span.start : span.stop : span.step])
            else:
                chosen.add(self._taxon(word.text))
        return tuple(name for name in self.taxa if name in chosen)

    def _taxset(self, command: Command) -> None:
        definition = read_definition(self.source, command)
        self.taxsets[definition.name.casefold()] = self._taxa(definition.words)

    def _constraint(self, command: Command) -> None:
        words = command.words()
        equals = next((index for index, word in enumerate(words) if word.marks("=")), 0)
        form = words[1].text.lower() if equals == 2 else "hard"
        if _number(form) == _number(form):  # the strength of a constraint, which MrBayes 3.1 had
            form = "hard"
        kind = in_full(form, ("hard", "negative", "partial"))
        if equals not in (1, 2) or words[0].marks("=,:()*") or kind not in ("hard", "negative", "partial"):
            raise self.problem("not of the form constraint NAME = taxa, with hard, negative or partial after the name")
        name, body = words[0].text, words[equals + 1 :]
        if name.casefold() in [one.name.casefold() for one in self.constraints]:
            raise self.problem(f"{quoted(name)} is defined twice. Rename one of the two")
        colons = [index for index, word in enumerate(body) if word.marks(":")]
        if len(colons) != (kind == "partial"):
            raise self.problem("only partial constraints have two lists of taxa, with a colon between. Correct it")
        middle = colons[0] if colons else len(body)
        taxa, others = self._taxa(body[:middle]), self._taxa(body[middle + 1 :])
        if not taxa or (colons and not others):
            raise self.problem(f"{quoted(name)} has no taxa. Name some")
        if both := [taxon for taxon in taxa if taxon in others]:
            raise self.problem(f"{listed(both)} on both sides of the colon. Leave each on one side")
        self.constraints.append(Constraint(name, cast(ConstraintKind, kind), taxa, others, is_enforced=False))

    def _exclude(self, command: Command) -> None:
        sites = self.sets.sites_of(command.words(), self.where).tolist()
        (self.excluded.update if command.keyword == "exclude" else self.excluded.difference_update)(sites)

    def _delete(self, command: Command) -> None:
        taxa = self._taxa(command.words())
        (self.deleted.update if command.keyword == "delete" else self.deleted.difference_update)(taxa)


def _span(text: str, count: int) -> range | None:
    """`3`, `2-5`, `2-.` or `2-.\\3` among so many things, from 0; None for anything else."""
    found = SPAN.fullmatch(text)
    if found is None:
        return None
    first, step = int(found[1]), int(found[3] or 1)
    last = count if found[2] == "." else int(found[2] or first)
    return range(first - 1, last, step) if step and 1 <= first <= last <= count else None


def _text(value: Sequence[Word]) -> str:
    return "".join(word.text.lower() for word in value)


def _shown(value: Sequence[Word]) -> str:
    return printable(_text(value))[:60]


def _number(text: str) -> float:
    """A number that MrBayes would read; nan for anything else."""
    number = float(text) if NUMBER.fullmatch(text) else math.nan
    return number if abs(number) <= LARGEST_NUMBER else math.nan


def _out_of_range(name: str, kind: str, numbers: tuple[float, ...]) -> str:
    """What is wrong with the numbers of a prior; empty if nothing is."""
    if kind == "uniform":
        highest = 1.0 if name == "pinvarpr" else LARGEST_NUMBER
        return "" if 0 <= numbers[0] < numbers[1] <= highest else f"its bounds must be from 0 to {highest:g}, in order"
    if name == "pinvarpr":
        return "" if 0 <= numbers[0] < 1 else "it must be from 0 up to 1"
    if min(numbers, default=1) <= 0:
        return "its numbers must be above 0"
    if name == "statefreqpr" and kind == "fixed" and abs(math.fsum(numbers) - 1) > FREQUENCY_TOLERANCE:
        return f"frequencies must sum to 1, not to {math.fsum(numbers):g}"
    return ""
