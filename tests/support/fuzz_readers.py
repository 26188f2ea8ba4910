"""Throw mutated tree files at the reader; run by test_fuzz.py in a process of its own.

usage: fuzz_readers.py SEED COUNT DIRECTORY
"""

import random
import sys
from functools import partial
from pathlib import Path

from phloem.errors import PhloemError
from phloem.trees.reading import read_any_trees, read_trees
from phloem.trees.sample import TreeSample

SEEDS = [
    b"(A:0.1,B:0.2,(C:0.3,D:0.4):0.5);\n(A:1e-3,C,(B,D):2E+5)root;\n",
    b"[&W 0.25][&U]('it''s',\"B\",('c d'[a [nested] one]:1,D_4)95/0.9:[&rate=1]2)[x];"
    b"[p = 0.1](it's,\"B\",(D_4,'c d'));",
    b"((((((((A,B),C),D),E),F),G),H),I);((A,I),((B,H),((C,G),(D,(E,F)))));" * 3,
    b"((A,B),(C,D,E),F);(A,B,C,D,E,F);",
    b"#NEXUS\nbegin taxa; dimensions ntax=4; taxlabels A 'B b' C D; end;\nbegin trees;\n"
    b"translate 1 A, 2 'B b', 3 C, 4 D;\ntree * one [p = 0.2, P = 0.2] = [&W 0.21] [&U] (1,2,(3,4));\n"
    b"utree 'two; 2' = (1:1,(2:2,3:3):4,4:5);\nend;\n",
    b"#NEXUS\n[ID: 1]\nBegin trees;\n"
    b"tree STATE_0 [&lnP=-3.5] = [&R] ((A[&x={1,2}]:[&r=1]0.5,B:0.5):1,(C:1,D:1):0.5);\nEnd;\n"
    b"begin mrbayes; set x=y; end;\nbegin trees; tree last = (A,(B,D),C); end;",
]
SIGNS = [
    b"(",
    b")",
    b",",
    b";",
    b":",
    b"[",
    b"]",
    b"'",
    b"''",
    b"=",
    b"\0",
    b"\xff",
    b" ",
    b"\n",
    b"/",
    b"e",
    b"-",
    b",,,",
]
WORDS = [b"tree ", b"begin trees;", b"end;", b"translate ", b"taxlabels ", b"#NEXUS", b"[&W ", b"1e999", b"A", b"()"]
SNIPPETS = [*SIGNS, *WORDS, b"((" * 50, b"='", b"a'b = ('=(", b"x'", b"'("]


def mutate(text: bytes, draw: random.Random) -> bytes:
    """A few deletions, insertions, changes, repetitions, moves and cuts."""
    for _ in range(draw.choice([1, 1, 2, 3, 8])):
        at, to = sorted(draw.randrange(len(text) + 1) for _ in range(2))
        kind = draw.randrange(6)
        if kind == 0:
            text = text[:at] + text[min(to, at + 5) :]
        elif kind == 1:
            text = text[:at] + draw.choice(SNIPPETS) + text[at:]
        elif kind == 2:
            text = text[:at] + bytes([draw.randrange(256)]) + text[at + 1 :]
        elif kind == 3:
            text = text[:to] + text[at:to] + text[to:]
        elif kind == 4:
            text = text[at:to] + text[:at] + text[to:]
        else:
            text = text[:to]
    return text


def check(path: Path) -> bool:
    """Whether the file was read. Anything but a one-line PhloemError or a sound result ends the process."""
    good = True
    for read in (read_trees, read_any_trees, partial(read_any_trees, keep_root=True)):
        try:
            sample = read(path)  # a Tree checks itself that it is one
        except PhloemError as problem:
            good = False
            if len(str(problem).splitlines()) != 1:
                raise AssertionError(f"not one line: {problem!r}") from problem
            continue
        if isinstance(sample, TreeSample):  # from_parents checks that these are trees indeed
            assert sample.topologies.from_parents(sample.topologies.parent).equal(sample.topologies).all()
    return good


def main(seed: int, count: int, directory: Path) -> None:
    draw = random.Random(seed)
    path = directory / "mutated"
    read = 0
    for index in range(count):
        text = mutate(SEEDS[index % len(SEEDS)], draw)
        path.write_bytes(text)
        try:
            read += check(path)
        except BaseException:
            print(f"mutation {index} of seed {seed}: {text!r}", file=sys.stderr)
            raise
    print(f"{count} files, {read} of them read")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
