"""How an alignment's sites are divided into parts: by codon position, by NEXUS sets, or by a file of RAxML or IQ-TREE.

Sites are counted from 1 in files and messages, from 0 in arrays.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np

from phloem.arguments import check_fields, checked
from phloem.arrays import IntArray, LongArray, read_only
from phloem.data.nexus import is_nexus
from phloem.data.nexus_commands import Command, Word, commands, in_full, split_words
from phloem.errors import AlignmentError, counted, listed, printable, quoted
from phloem.storage.files import read_bytes

# Models of nucleotides in the files of other programs; phloem need not have them all.
MODELS = frozenset(
    {
        *("JC", "JC69", "F81", "K80", "K2P", "HKY", "HKY85", "TN", "TN93", "TRN", "TNE", "TRNEF", "K81", "K3P"),
        *("K81U", "TPM1", "TPM1UF", "TPM2", "TPM2U", "TPM2UF", "TPM3", "TPM3U", "TPM3UF", "TIM", "TIM1", "TIME"),
        *("TIM1UF", "TIM2", "TIM2E", "TIM2UF", "TIM3", "TIM3E", "TIM3UF", "TVM", "TVME", "TVMEF", "SYM", "GTR"),
    }
)
NUCLEOTIDES = frozenset({"DNA", "DNAF", "DNAX", "RNA"})  # a kind of data, which says nothing of the model
OTHER_DATA = frozenset(
    {
        *("AA", "AMINO", "PROT", "PROTEIN", "BIN", "BINARY", "MORPH", "MULTI", "STANDARD", "CODON", "NT2AA", "LG"),
        *("WAG", "JTT", "DAYHOFF", "DCMUT", "JTTDCMUT", "JTT-DCMUT", "VT", "BLOSUM62", "RTREV", "CPREV", "MTREV"),
        *("MTART", "MTMAM", "MTZOA", "MTMET", "MTVER", "MTINV", "PMB", "HIVB", "HIVW", "FLU", "STMTREV", "MK"),
    }
)
SITES = re.compile(r"(\d{1,9}|\.)(?:-(\d{1,9}|\.)(?:[\\/](\d{1,9}))?)?", re.ASCII)
NUMERIC = re.compile(r"[0-9.\\/-]+")
SIGNS = ("-", "\\", "/")  # inside ranges
DEEPEST = 50  # charsets within charsets
DEFAULT = "default"  # MrBayes' partition of one part, its first
# Options of MrBayes' `set` that begin like `partition`.
SET_OPTIONS = ("partition", "precision")
LEAVING_OUT = ("exset", "exclude", "eliminate")


@dataclass(frozen=True, slots=True, eq=False)
class SitePartition:
    """Every site of an alignment belongs to exactly one part, in the order of the names; each part has a site."""

    names: tuple[str, ...]
    part_of_site: IntArray  # (sites,)
    models: tuple[str | None, ...]  # what the file says of each part's model, such as GTR+G4; None if nothing
    ignored: tuple[str, ...] = ()  # a line for everything in the file that was not taken

    def __post_init__(self) -> None:
        check_fields(self)
        used = np.unique(self.part_of_site)
        if not len(self.names) == len(set(self.names)) == len(self.models) or used.tolist() != [*range(len(self))]:
            raise AlignmentError(f"partition: sites of parts {used.tolist()[:5]} do not fit {len(self)} names.")
        object.__setattr__(self, "part_of_site", read_only(self.part_of_site))

    def __len__(self) -> int:
        return len(self.names)

    @property
    def sizes(self) -> LongArray:
        """The number of sites of each part."""
        return np.bincount(self.part_of_site, minlength=len(self))


class Part(NamedTuple):
    """A part as a file defines it; sites None for all those that no other part has."""

    name: str
    sites: LongArray | None
    model: str | None = None


def by_codon(sites: int) -> SitePartition:
    """The three codon positions of a coding sequence."""
    if sites < 1 or sites % 3:
        raise AlignmentError(
            f"partition by codon: {counted(sites, 'site')} are no whole number of codons. Give an alignment of whole "
            "codons, or a partition file."
        )
    return SitePartition(("codon1", "codon2", "codon3"), np.arange(sites, dtype=np.int32) % 3, (None,) * 3)


@checked
def read_partition(path: str | Path, sites: int) -> SitePartition:
    """The partition in a file for an alignment of so many sites: NEXUS, or lines such as `DNA, gene1 = 1-100`."""
    try:
        text = read_bytes(Path(path)).decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise AlignmentError(f"{path}: not a text file (byte {problem.start + 1}). Give a partition file.") from None
    return parse_partition(str(path), text, sites)


def parse_partition(source: str, text: str, sites: int) -> SitePartition:
    """The partition in the text of a file."""
    if is_nexus(text.lstrip()[:16].encode()):
        return SiteSets(source, text, sites).only_partition()
    return _parse_lines(source, text, sites)


def _parse_lines(source: str, text: str, sites: int) -> SitePartition:
    """Lines `model, name = sites` of RAxML and IQ-TREE, `#` before comments."""
    sets = SiteSets(source, "", sites)
    parts = []
    for number, line in enumerate(text.splitlines(), 1):
        words = split_words(line.partition("#")[0])
        if not words:
            continue
        where = f"{source}, line {number}"
        equals = next((index for index, word in enumerate(words) if word.marks("=")), 0)
        if equals < 3 or not words[1].marks(","):
            raise AlignmentError(f"{where}: {quoted(line.strip())} is no part. Write lines such as DNA, gene1 = 1-100.")
        kind = words[0].text
        if not (is_model(where, kind) or kind.upper() in NUCLEOTIDES):
            raise _not_nucleotides(where, kind)
        name = " ".join(map(str, words[2:equals]))
        found = sets.sites_of(words[equals + 1 :], where)
        parts.append(Part(name, found, None if kind.upper() in NUCLEOTIDES else kind))
    if not parts:
        raise AlignmentError(f"{source}: no parts. Give a NEXUS file, or lines such as DNA, gene1 = 1-100.")
    return assemble(source, parts, sites)


def is_model(where: str, word: str) -> bool:
    """Whether a word is a model of nucleotides, additions included. Raise if it is one of other data."""
    name, addition, _ = re.split(r"([+{*]|$)", word.upper(), maxsplit=1)
    if name in OTHER_DATA or (addition and name not in MODELS | NUCLEOTIDES):
        raise _not_nucleotides(where, word)
    return name in MODELS


def _not_nucleotides(where: str, word: str) -> AlignmentError:
    return AlignmentError(
        f"{where}: {quoted(word)} is no model of nucleotides, and phloem takes no other data. Write DNA, or a model "
        "such as GTR+G4."
    )


def assemble(
    where: str, parts: Iterable[Part], sites: int, ignored: tuple[str, ...] = (), advice: str = ""
) -> SitePartition:
    """The partition of these parts. Raise unless every site is in exactly one of them and each has a site.

    advice: what else to do where sites are in two parts or in none.
    """
    owner = np.full(sites, -1, np.int32)
    names: list[str] = []
    seen: set[str] = set()
    models: list[str | None] = []
    rest = None
    for index, part in enumerate(parts):
        if (key := printable(part.name).casefold()) in seen:
            raise AlignmentError(f"{where}: two parts are called {quoted(part.name)}. Give each its own name.")
        seen.add(key)
        names.append(printable(part.name))
        models.append(part.model)
        if part.sites is None:
            rest = index
            continue
        taken = part.sites[owner[part.sites] >= 0]
        if len(taken):
            both = f"{quoted(names[owner[taken[0]]])} and {quoted(part.name)}"
            what = f"site {taken[0] + 1} is in two parts, {both}{_and_more(taken)}. Put each site in one part."
            raise AlignmentError(f"{where}: {what}{advice}")
        owner[part.sites] = index
    free = np.flatnonzero(owner < 0)
    if rest is not None:
        owner[free] = rest
    elif len(free):
        what = f"site {free[0] + 1} is in no part{_and_more(free)}. Put each site in one part."
        raise AlignmentError(f"{where}: {what}{advice}")
    if empty := [name for name, size in zip(names, np.bincount(owner, minlength=len(names)), strict=True) if not size]:
        raise AlignmentError(f"{where}: part {quoted(empty[0])} has no sites. Remove it, or give it some.")
    return SitePartition(tuple(names), owner, tuple(models), ignored)


def _and_more(sites: LongArray) -> str:
    """`, as are 3 more`, after the first."""
    more = len(sites) - 1
    return f", as {'is' if more == 1 else 'are'} {more:,} more" if more else ""


class Definition(NamedTuple):
    """A command `charset NAME = …`, `partition NAME = …` or the like."""

    name: str
    is_default: bool  # it has an asterisk
    where: str  # the file, the line and the command, for messages
    words: list[Word]  # what follows the equals sign


def read_definition(source: str, command: Command) -> Definition:
    """The name that a command defines and the words that it stands for."""
    where = f"{source}, line {command.line}, {printable(command.keyword)}"
    words = command.words()
    is_default = bool(words) and words[0].marks("*")
    name, *rest = words[is_default:] or [Word("=")]
    if rest and rest[0].marks("("):  # (CHARACTERS = title), (STANDARD)
        close = next((index for index, word in enumerate(rest) if word.marks(")")), len(rest))
        if any(word.text.lower() == "vector" for word in rest[:close]):
            raise AlignmentError(f"{where}: the VECTOR form is not supported. List the sites, as in 1-100 201-300.")
        rest = rest[close + 1 :]
    if name.marks("=,:()*") or not name.text or not rest or not rest[0].marks("="):
        raise AlignmentError(f"{where}: no name and an equals sign. Write {printable(command.keyword)} NAME = …;")
    if not command.is_whole:
        raise AlignmentError(f"{where}: no ';' at its end. The file may have been cut off.")
    return Definition(name.text, is_default, where, rest[1:])


class SiteSets:
    """The charsets and partitions that a NEXUS file defines for an alignment of so many sites, whatever their blocks.

    They are read when they are asked for, so that a set that nobody uses may be wrong.
    """

    def __init__(self, source: str, text: str, sites: int) -> None:
        self.source, self.site_count = source, sites
        self.active = ""  # the name or number that the last `set partition=` gives
        self._charset_commands: list[Command] = []
        self._partitions: list[Command] = []
        self._sites: dict[str, LongArray] = {}
        left_out: list[str] = []
        for command in commands(source, text):
            if command.keyword == "charset":
                self._charset_commands.append(command)
            elif command.keyword in ("partition", "charpartition", "codonposset"):
                self._partitions.append(command)
            elif command.keyword == "set" and command.block == "mrbayes":
                self.active = chosen_partition(command) or self.active
            elif command.keyword in LEAVING_OUT:
                left_out.append(command.keyword)
        words = " and ".join(dict.fromkeys(left_out))
        self._ignored = (f"{source}: {words} would leave out sites: all are used.",) if words else ()

    @cached_property
    def _charsets(self) -> dict[str, list[Definition]]:
        """All definitions of each name."""
        found: dict[str, list[Definition]] = {}
        for command in self._charset_commands:
            one = read_definition(self.source, command)
            found.setdefault(one.name.casefold(), []).append(one)
        return found

    @property
    def partition_names(self) -> list[str]:
        """The names of all partitions, in the order of the file."""
        return [read_definition(self.source, command).name for command in self._partitions]

    def only_partition(self) -> SitePartition:
        """That of a file about nothing else: the active partition, the default, the only one, or the charsets."""
        found = [read_definition(self.source, command) for command in self._partitions]
        starred = [one.name for one in found if one.is_default]
        if self.active:
            return self.partition(self.active)
        if len(found) == 1 or len(starred) == 1:
            return self.partition((starred or [found[0].name])[0])
        if found:
            raise AlignmentError(
                f"{self.source}: {len(found)} partitions, {listed([one.name for one in found])}. Choose one: add "
                f"`begin mrbayes; set partition={found[0].name}; end;`."
            )
        if not self._charsets:
            raise AlignmentError(f"{self.source}: no charset or partition. Write charset NAME = 1-100; for each part.")
        advice = " Or say which charsets are the parts: partition NAME = 2: gene1, gene2;"
        parts = (Part(one.name, self._charset(one.name)) for one, *_ in self._charsets.values())
        return assemble(self.source, parts, self.site_count, self._ignored, advice)

    def active_partition(self) -> SitePartition | None:
        """What `set partition=` activates; None if that is nothing or MrBayes' default."""
        return None if self.active.lower() in ("", DEFAULT, "1") else self.partition(self.active)

    def partition(self, wanted: str) -> SitePartition:
        """The partition of that name, or of that number, as MrBayes counts: 1 is the default, of one part."""
        if wanted.lower() in (DEFAULT, "1"):
            return assemble(self.source, [Part("all", np.arange(self.site_count))], self.site_count, self._ignored)
        found = [read_definition(self.source, command) for command in self._partitions]
        chosen = [one for one in found if one.name.casefold() == wanted.casefold()]
        if not chosen and wanted.isascii() and wanted.isdigit() and len(wanted) < 9:
            chosen = found[int(wanted) - 2 : int(wanted) - 1] if int(wanted) > 1 else []
        if not chosen:
            known = f"The file has {listed([one.name for one in found])}." if found else "The file has no partition."
            raise AlignmentError(f"{self.source}: no partition is called {quoted(wanted)}. {known}")
        if len({tuple(one.words) for one in chosen}) > 1:
            raise AlignmentError(f"{chosen[1].where}: {quoted(wanted)} is defined twice. Rename one of the two.")
        return assemble(chosen[0].where, self._parts(chosen[0]), self.site_count, self._ignored)

    def sites_of(self, words: Iterable[Word], where: str, within: tuple[str, ...] = ()) -> LongArray:
        """The sites of a list such as `1-100 201-.\\3 gene1`, in order. within: the charsets that it is part of."""
        chosen = np.zeros(self.site_count, bool)
        for word in _join_ranges(words):
            if not word.is_quoted and word.text.lower() in ("all", "*"):
                chosen[:] = True
            elif not word.is_quoted and NUMERIC.fullmatch(word.text):
                chosen[self._range(word.text, where)] = True
            else:
                chosen[self._charset(_set_name(word), where, within)] = True
        return np.flatnonzero(chosen)

    def _range(self, text: str, where: str) -> slice:
        numbers, shown = SITES.fullmatch(text), f"'{text[:60]}'"  # without doubling its backslash
        if numbers is None:
            raise AlignmentError(f"{where}: {shown} is no site or range. Write 7, 1-100, 101-. or 1-.\\3.")
        first, last = (self.site_count if number == "." else int(number or -1) for number in numbers.group(1, 2))
        last = first if numbers[2] is None else last
        step = int(numbers[3] or 1)
        if 0 in (first, last, step):
            raise AlignmentError(f"{where}: {shown}: sites and steps are counted from 1, not 0. Correct it.")
        if max(first, last) > self.site_count:
            raise AlignmentError(
                f"{where}: {shown} goes beyond the alignment, which has {counted(self.site_count, 'site')}. "
                "Correct the range, or give the alignment that it is for."
            )
        if last < first:
            raise AlignmentError(f"{where}: the range {shown} goes backwards. Write {last}-{first}.")
        return slice(first - 1, last, step)

    def _charset(self, name: str, where: str = "", within: tuple[str, ...] = ()) -> LongArray:
        key = name.casefold()
        if key in self._sites:
            return self._sites[key]
        if name.lower() == "remainder":
            raise AlignmentError(f"{where}: `remainder` must be a part of its own, in a partition. List the sites.")
        if key not in self._charsets:
            known = f"The file has {listed([*self._charsets])}" if self._charsets else "The file has none"
            raise AlignmentError(
                f"{where}: {quoted(name)} is no site and no charset. {known}. Correct it, or add a missing ';'."
            )
        if key in within or len(within) >= DEEPEST:
            raise AlignmentError(f"{where}: charset {quoted(name)} is defined by itself. Correct one of the charsets.")
        found = self._charsets[key]
        sites = [self.sites_of(_after_datatype(one), one.where, (*within, key)) for one in found]
        if any(not np.array_equal(other, sites[0]) for other in sites[1:]):
            raise AlignmentError(f"{found[1].where}: {quoted(name)} is defined twice. Rename one of the two.")
        self._sites[key] = sites[0]
        return sites[0]

    def _parts(self, definition: Definition) -> Iterator[Part]:
        """Of `3: a, b, c`, `label: sites, …` or `model: sites, …`."""
        chunks = _split_at_commas(definition.words)
        labels = [chunk[0] if len(chunk) > 1 and chunk[1].marks(":") else None for chunk in chunks]
        colons = sum(word.marks(":") for word in definition.words)
        where = definition.where
        if labels and labels[0] and colons == 1 and (len(chunks) > 1 or labels[0].text == "1"):
            if labels[0].text != str(len(chunks)):
                raise AlignmentError(
                    f"{where}: {quoted(definition.name)} says {quoted(labels[0].text)} before the colon and has "
                    f"{counted(len(chunks), 'part')}. Correct one of them."
                )
            chunks, labels = [chunks[0][2:], *chunks[1:]], [None] * len(chunks)
        elif None in labels or colons != len(labels) or not labels:
            raise AlignmentError(
                f"{where}: {quoted(definition.name)} is not of the form 2: gene1, gene2, nor of the form label: sites, "
                "label: sites. Correct it."
            )
        else:
            chunks = [chunk[2:] for chunk in chunks]
        used: set[str] = set()
        for label, chunk in zip(labels, chunks, strict=True):
            model = label.text if label and not label.is_quoted and is_model(where, label.text) else None
            has_name = label and not model and label.text.upper() not in NUCLEOTIDES
            name = label.text if label and has_name else _name_of_sets(chunk, used)
            used.add(name)
            is_rest = [word.text.lower() for word in chunk] == ["remainder"]
            yield Part(name, None if is_rest else self.sites_of(chunk, where), model)


def chosen_partition(command: Command) -> str | None:
    """What `set partition=` of a MRBAYES block chooses, if that is what it sets."""
    words = command.words()
    chosen = None
    for key, equals, value in zip(words, words[1:], words[2:], strict=False):
        if equals.marks("=") and in_full(key.text.lower(), SET_OPTIONS) == "partition":
            chosen = value.text
    return chosen


def _join_ranges(words: Iterable[Word]) -> list[Word]:
    """Without commas and what stands in braces, and with `1 - 100 \\ 3` as one word."""
    joined: list[Word] = []
    for word in words:
        if word.marks(",") or (not word.is_quoted and word.text.startswith("{")):
            continue
        last = joined[-1] if joined else Word("", is_quoted=True)
        both = last.text + word.text
        goes_on = word.text[:1] in SIGNS or last.text[-1:] in SIGNS
        if goes_on and not word.is_quoted and not last.is_quoted and NUMERIC.fullmatch(both):
            joined[-1] = Word(both)
        else:
            joined.append(word)
    return joined


def _set_name(word: Word) -> str:
    """The charset that a word names; IQ-TREE adds the length of its tree in braces."""
    return word.text if word.is_quoted else word.text.partition("{")[0]


def _after_datatype(definition: Definition) -> list[Word]:
    """The sites of a charset, after IQ-TREE's `DNA,`; sites of other files are not ours."""
    words = definition.words
    if any(word.marks(":") for word in words):
        raise AlignmentError(
            f"{definition.where}: sites of another file, {quoted(words[0].text)}, are not supported. Join the "
            "alignments in one file, and leave the file's name out."
        )
    if len(words) > 1 and words[1].marks(",") and not words[0].is_quoted and not NUMERIC.fullmatch(words[0].text):
        kind = words[0].text.upper()
        if kind in NUCLEOTIDES:
            return words[2:]
        is_model(definition.where, kind)
    return words


def _split_at_commas(words: Iterable[Word]) -> list[list[Word]]:
    """The words between commas; a comma at the end is let pass."""
    chunks: list[list[Word]] = [[]]
    for word in words:
        if word.marks(","):
            chunks.append([])
        else:
            chunks[-1].append(word)
    return chunks if chunks[-1] else chunks[:-1]


def _name_of_sets(words: Sequence[Word], used: set[str]) -> str:
    """A part's name from the charsets that it consists of; if it has other sites, from its number."""
    named = all(word.is_quoted or not NUMERIC.fullmatch(word.text) for word in words)
    name = "_".join(filter(None, map(_set_name, words))) if words and named else f"part{len(used) + 1}"
    while name in used:
        name += "_"
    return name
