"""Throw damaged files at everything that reads one: alignments, trees, tables and settings.

    PYTHONPATH=tests python -m support.fuzz --seed 1 --count 500000

Nothing but a sound result or a `PhloemError` of one line may come out, within two seconds of processor time. Cases are
good files that were changed a few times: bytes, pieces, numbers, words of the format, one of them repeated thousands of
times. A seed and a number make a case; what fails is printed and counted.
"""

import argparse
import gzip
import io
import random
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from phloem.config.density import DENSITY
from phloem.config.infer import INFER
from phloem.config.settings import parse_value
from phloem.data.reading import load_alignment, parse_alignment
from phloem.errors import PhloemError
from phloem.tasks.embed import recover
from phloem.trees.reading import parse_newick, read_any_trees, read_trees, read_weighted_table
from phloem.trees.sample import TreeSample
from phloem.variational.fitting import fit_network
from phloem.variational.sbn import collect_support, read_network, read_support, write_network
from support.limits import TookTooLong, processor_seconds

SECONDS = 2.0  # of processor time, for each case
REPEATS = [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14]  # as powers of two
SHOWN_FAILURES = 10

ROWS = {"Homo": "ACGTNACGTTACGAAC", "Pan_t": "ACGTRACGT-ACGAAC", "Gorilla": "ACGT?ACGTAACGATT", "x": "ACGTTACGTAACGATT"}
LINES = "".join(f"{name} {row}\n" for name, row in ROWS.items())
ALIGNMENTS = [
    "".join(f">{name} a title\n{row[:7]}\n{row[7:].lower()}\n" for name, row in ROWS.items()),
    f"4 16\n{LINES}",
    "4 16\n" + "".join(f"{name}\n{row[:5]}\n{row[5:]}\n" for name, row in ROWS.items()),
    "4 16\n" + "".join(f"{name:<10}{row[:6]}\n" for name, row in ROWS.items()) + "\n".join(["ACGTACGTAC"] * 4),
    "#NEXUS\n[a [nested] comment; 'x']\nbegin taxa; dimensions ntax=4; taxlabels Homo Pan_t Gorilla x; end;\n"
    "Begin data;\nDimensions ntax=4 nchar=16;\nFormat datatype=dna interleave=no gap=- missing=? matchchar=.;\n"
    f"Matrix\n{LINES.replace('Homo', chr(39) + 'Homo (s) ; x' + chr(39)).replace('TTA', '{TC}TA')};\nend;\n"
    "begin sets; charset a = 1-3; exset * b = 4; end; begin mrbayes; lset nst=6; mcmc; end;\n",
    '#nexus begin characters; dimensions nchar=16; format datatype=RNA interleave missing=x gap=~ symbols="0 1";\n'
    f"matrix\n{LINES}\n{LINES};\nend;\n".replace("nchar=16", "nchar=32"),
    f"# STOCKHOLM 1.0\n#=GF x\n{LINES}//\n",
    f"CLUSTAL W (1.83) multiple sequence alignment\n\n\n{LINES}      **** *\n\n{LINES}",
]
TREES = [
    "(A:0.1,B:0.2,(C:0.3,D:0.4):0.5);\n(A:1e-3,C,(B,D):2E+5)root;\n",
    "[&W 0.25][&U]('it''s',\"B\",('c d'[a [nested] one]:1,D_4)95/0.9:[&rate=1]2)[x];[p = 0.1](it's,\"B\",(D_4,'c d'));",
    "((((((((A,B),C),D),E),F),G),H),I);((A,I),((B,H),((C,G),(D,(E,F)))));" * 3,
    "((A,B),(C,D,E),F);(A,B,C,D,E,F);",
    "#NEXUS\nbegin taxa; dimensions ntax=4; taxlabels A 'B b' C D; end;\nbegin trees;\n"
    "translate 1 A, 2 'B b', 3 C, 4 D;\ntree * one [p = 0.2, P = 0.2] = [&W 0.21] [&U] (1,2,(3,4));\n"
    "utree 'two; 2' = (1:1,(2:2,3:3):4,4:5);\nend;\n",
    "#NEXUS\n[ID: 1]\nBegin trees;\n"
    "tree STATE_0 [&lnP=-3.5] = [&R] ((A[&x={1,2}]:[&r=1]0.5,B:0.5):1,(C:1,D:1):0.5);\nEnd;\n"
    "begin mrbayes; set x=y; end;\nbegin trees; tree last = (A,(B,D),C); end;",
]
TABLES = ["0.5\t(A,B,(C,D));\n0.25\t(A,C,(B,D));\n\n1e-3\t(A:1,D:2,(B:1,C:0.5):1);\n", "3\t(A,B,(C,(D,E)));\n"]
SETTINGS = [
    'preset = "quick"\nseed = 3\nruns = 2\nbranches = "edge"\n\n[model]\nname = "HKY"\nkappa = [2.0]\n'
    'frequencies = [0.3, 0.2, 0.2, 0.3]\ngamma = 4\nalpha = 0.5\n\n[training]\nsteps = 1_000\nstop = "auto"\n',
    "# density\nseed = 1\n[training]\nsteps = 100\n[support]\ncredible = 0.95\nmethod = 'embedded'\n",
    INFER.to_toml(INFER.record()),
    DENSITY.to_toml(DENSITY.record()),
]
NUMBERS = ["0", "-1", "1e999", "-1e-999", "nan", "inf", "²", "٣", "9" * 20, "1" * 5000, "0x10", "1_0", "2147483648", ""]
SIGNS = [*list("()[]{},;:='\"*/&-+.#>~?!\\|\x00\x1b\r\n\t "), "''", "//", "\ufeff", "é", "\u2028", "\ud7ff", "東"]
WORDS = {
    "alignment": [
        "begin data;",
        "begin ",
        "end;",
        "matrix ",
        "format ",
        "dimensions ",
        "nchar=",
        "ntax=",
        "datatype=dna ",
        "interleave ",
        "{AC}",
        "(A",
        "[",
        "]",
        "exset x = 1;",
        "#NEXUS ",
        ">",
        ">A b\n",
        "4 16\n",
        "CLUSTAL\n",
        "//\n",
        "transpose ",
        "gap=",
        "missing=",
        "matchchar=",
        "equate=",
        "taxlabels ",
        "' ",
        " '",
        "title x;",
    ],
    "trees": [
        "tree ",
        "utree ",
        "begin trees;",
        "end;",
        "translate ",
        "taxlabels ",
        "#NEXUS ",
        "[&W ",
        "[p = ",
        "A",
        "()",
        "(A,B)",
        ":1e9",
        "tree a = (A,B,(C,D));",
        "begin taxa; taxlabels A B C D; end;",
        "='",
        "a'b = ('=(",
        "x'",
        "'(",
    ],
    "tables": ["1\t", "\t", "(A,B,(C,D));", "nan\t", "-1\t", "1e999\t"],
    "settings": [
        "[training]\n",
        "[[x]]\n",
        "a.b.c = ",
        "= ",
        "steps = ",
        '"""',
        "'''",
        "true",
        "1979-05-27",
        "[[",
        "{a=",
        "\\u",
        "0b1",
        "_",
        "# ",
        "model.kappa = ",
        "preset = ",
    ],
}


class Kind(NamedTuple):
    """Files of one kind: good ones, the words of their format, and what reads them."""

    seeds: list[str]
    words: list[str]
    read: Callable[[bytes, Path, random.Random], None]


def read_alignments(content: bytes, path: Path, draw: random.Random) -> None:
    """As bytes, or now and then from a file that is gzipped, whole or not."""
    if draw.random() < 0.1:
        packed = gzip.compress(content, 1)
        path.write_bytes(mutated_bytes(packed, draw) if draw.random() < 0.7 else packed)
        load_alignment(path)
    else:
        parse_alignment(content, long_names=draw.random() < 0.5)


def read_tree_files(content: bytes, path: Path, draw: random.Random) -> None:
    """With every reader."""
    path.write_bytes(content)
    problem: PhloemError | None = None
    for read in (read_trees, read_any_trees, lambda name: read_any_trees(name, keep_root=True)):
        try:
            sample = read(path)  # a Tree checks itself that it is one
        except PhloemError as reason:
            problem = reason
            continue
        if isinstance(sample, TreeSample):  # from_parents checks that these are trees indeed
            assert sample.topologies.from_parents(sample.topologies.parent).equal(sample.topologies).all()
    if problem:
        raise problem


def read_tables(content: bytes, path: Path, draw: random.Random) -> None:
    """Weighted trees; or features, supports and networks whose arrays are changed, or whose bytes are."""
    if draw.random() < 0.6:
        path.write_bytes(content)
        read_weighted_table(path)
        return
    arrays = dict(draw.choice(ARCHIVES))
    if draw.random() < 0.8:
        change_array(arrays, draw)
    with io.BytesIO() as stream:
        (np.savez_compressed if draw.random() < 0.3 else np.savez)(stream, **arrays)
        whole = stream.getvalue()
    path.write_bytes(mutated_bytes(whole, draw) if draw.random() < 0.5 else whole)
    problem: PhloemError | None = None
    for read in (recover, read_support, read_network):
        try:
            read(path)
        except PhloemError as reason:
            problem = reason
    if problem:
        raise problem


def read_settings(content: bytes, path: Path, draw: random.Random) -> None:
    """A file, and what --set takes."""
    path.write_bytes(content)
    schema = draw.choice((INFER, DENSITY))
    text = content.decode(errors="replace")
    if draw.random() < 0.2:
        schema.flatten({draw.choice(list(schema.keys)): parse_value(text[: draw.randrange(1, 60)])}, "--set")
    else:
        schema.resolve(settings=[schema.read_toml(path)])


KINDS = {
    "alignment": Kind(ALIGNMENTS, WORDS["alignment"], read_alignments),
    "trees": Kind(TREES, WORDS["trees"], read_tree_files),
    "tables": Kind(TABLES, WORDS["tables"], read_tables),
    "settings": Kind(SETTINGS, WORDS["settings"], read_settings),
}


def _archives() -> list[dict[str, np.ndarray]]:
    """The arrays of good files."""
    sample = parse_newick(["(A,B,(C,(D,E)));", "(A,C,(B,(D,E)));", "(A,D,(B,(C,E)));"])
    features = np.random.default_rng(1).random((1, 8, 5))
    with tempfile.TemporaryDirectory() as folder:
        write_network(fit_network(sample).network, Path(folder) / "x")
        with np.load(Path(folder) / "x") as found:
            network = {name: found[name] for name in found.files}
    assert collect_support([sample]).taxa == sample.taxa
    taxa = np.array(sample.taxa)
    return [network, {"taxa": taxa, "features": features}, {"taxa": taxa, "features_0": features[0]}]


def change_array(arrays: dict[str, np.ndarray], draw: random.Random) -> None:
    """One array of another shape, kind or content, or none."""
    name = draw.choice(list(arrays))
    array = arrays[name]
    kind = draw.randrange(7)
    if kind == 0:
        del arrays[name]
    elif kind == 1:
        arrays[name] = array[draw.randrange(-3, 3) :] if array.ndim else array[None]
    elif kind == 2:
        arrays[name] = (
            array.astype(draw.choice(["U3", "f4", "i1", "?", "c16", "S2"])) if array.dtype.kind != "U" else array
        )
    elif kind == 3:
        arrays[name] = np.repeat(array, draw.choice([0, 2, 300]), axis=0) if array.ndim else array
    elif kind == 4 and array.dtype.kind in "fiu" and array.size:
        changed = array.copy()
        changed.flat[draw.randrange(array.size)] = draw.choice([0, 1, 2, 7, 100])
        arrays[name] = changed
    elif kind == 5 and array.dtype.kind == "f" and array.size:
        changed = array.copy()
        changed.flat[draw.randrange(array.size)] = draw.choice([np.nan, np.inf, -np.inf, 1e308, -1e-320])
        arrays[name] = changed
    else:
        arrays[name] = array.reshape(array.shape[::-1])


def mutated_bytes(content: bytes, draw: random.Random) -> bytes:
    """One to three changes of bytes, or a cut."""
    changed = bytearray(content)
    for _ in range(draw.randrange(1, 4)):
        place = draw.randrange(len(changed) + 1)
        kind = draw.randrange(4)
        if kind == 0:
            changed[place : place + 1] = bytes([draw.randrange(256)])
        elif kind == 1:
            del changed[place : place + draw.randrange(1, 9)]
        elif kind == 2 and place < len(changed):
            changed[place] ^= 1 << draw.randrange(8)
        else:
            del changed[max(place, 2) :]
    return bytes(changed)


def mutated(kind: Kind, draw: random.Random) -> bytes:
    """A good file after one to eight changes."""
    text = draw.choice(kind.seeds)
    for _ in range(draw.choice([1, 1, 2, 3, 8])):
        first, last = sorted(draw.randrange(len(text) + 1) for _ in range(2))
        change = draw.randrange(10)
        if change == 0:
            text = text[:first] + text[min(last, first + 6) :]
        elif change in (1, 2):
            text = text[:first] + draw.choice(kind.words) + text[first:]
        elif change == 3:
            text = text[:first] + draw.choice(SIGNS) + text[first + draw.randrange(2) :]
        elif change == 4:
            text = text[:last] + text[first:last] + text[last:]
        elif change == 5:
            text = text[first:last] + text[:first] + text[last:]
        elif change == 6:
            text = text[:last]
        elif change == 7:
            other = draw.choice(kind.seeds)
            text = text[:first] + other[draw.randrange(len(other)) :]
        elif change == 8:
            digits = [place for place, sign in enumerate(text[:20_000]) if sign.isdigit()]
            place = draw.choice(digits) if digits else 0
            text = text[:place] + draw.choice(NUMBERS) + text[place + 1 :]
        elif len(text) < 20_000:
            piece = draw.choice([draw.choice(kind.words), draw.choice(SIGNS), text[first : first + 3]])
            text = text[:first] + piece * 2 ** draw.choice(REPEATS) + text[first:]
    content = text.encode("utf-8", "surrogatepass")
    return mutated_bytes(content, draw) if content and draw.random() < 0.1 else content


def main(seed: int, count: int) -> int:
    warnings.simplefilter("error")  # what is not said in one line is not said well
    draw = random.Random(seed)
    outcomes: Counter[tuple[str, str]] = Counter()
    failures: Counter[str] = Counter()
    slowest = (0.0, "")
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file.tsv"
        for kind in KINDS.values():  # compile what they use first: that takes longer than two seconds
            for text in kind.seeds:
                for _ in range(20):
                    try:
                        kind.read(text.encode(), path, draw)
                    except PhloemError:
                        continue
        draw = random.Random(seed)
        for number in range(count):
            name = draw.choice(list(KINDS))
            content = mutated(KINDS[name], draw)
            before = time.process_time()
            try:
                with processor_seconds(SECONDS):
                    KINDS[name].read(content, path, draw)
                outcomes[name, "read"] += 1
            except PhloemError as problem:
                outcomes[name, "refused"] += 1
                if len(str(problem).splitlines()) != 1 or len(str(problem)) > 2000:
                    failures["a message of several lines, or a very long one"] += 1
                    print(f"case {number} of seed {seed}: {str(problem)[:500]!r}", file=sys.stderr)
            except (Exception, TookTooLong) as problem:
                outcomes[name, "failed"] += 1
                where = traceback.extract_tb(problem.__traceback__)[-1]
                reason = f"{type(problem).__name__} in {Path(where.filename).name}, line {where.lineno}"
                failures[reason] += 1
                if failures[reason] == 1 and len(failures) <= SHOWN_FAILURES:
                    print(f"case {number} of seed {seed}, {name}: {content[:2000]!r}", file=sys.stderr)
                    traceback.print_exception(problem)
            if (taken := time.process_time() - before) > slowest[0]:
                slowest = taken, f"case {number}, {name}"
    for name in KINDS:
        print(f"{name}: {outcomes[name, 'read']} read, {outcomes[name, 'refused']} refused")
    for reason, times in failures.items():
        print(f"FAILED: {reason}: {times} times")
    print(
        f"{count} cases of seed {seed}, {failures.total()} failures, slowest {slowest[0]:.2f} s of processor time "
        f"({slowest[1]}), "
        f"{time.monotonic() - start:.0f} s in all"
    )
    return 1 if failures else 0


ARCHIVES = _archives()
if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=10_000)
    given = parser.parse_args()
    sys.exit(main(given.seed, given.count))
