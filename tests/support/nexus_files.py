"""NEXUS text as other programs write it, with names in quotes where they need them."""

import re

from hypothesis import strategies as st

PLAIN = re.compile(r"[A-Za-z0-9_.]+")
# What is punctuation somewhere in a NEXUS file, and letters that are not ASCII.
ODD = "'\"()[]{};,:=/\\*<>~+-#&^$@!|% _.aZ09éßΩ東"


def quote(name: str) -> str:
    return name if PLAIN.fullmatch(name) else "'" + name.replace("'", "''") + "'"


def odd_names(least: int = 3, most: int = 6) -> st.SearchStrategy[list[str]]:
    """Distinct names without blanks at their ends, which no format keeps."""
    name = st.text(st.sampled_from(ODD), min_size=1, max_size=12).map(str.strip).filter(bool)
    return st.lists(name, min_size=least, max_size=most, unique_by=str.lower)


def data_block(names: list[str], rows: list[str], *, interleaved: bool = False) -> str:
    """An alignment; interleaved in blocks of three sites."""
    sites = len(rows[0])
    step = 3 if interleaved else sites
    matrix = "\n\n".join(
        "\n".join(f"  {quote(name)} {row[at : at + step]}" for name, row in zip(names, rows, strict=True))
        for at in range(0, sites, step)
    )
    layout = "interleave=yes" if interleaved else "interleave=no"
    return (
        f"#NEXUS\nbegin data;\ndimensions ntax={len(names)} nchar={sites};\n"
        f"format datatype=dna missing=? gap=- {layout};\nmatrix\n{matrix}\n;\nend;\n"
    )
