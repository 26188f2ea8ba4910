"""A trace that Tracer, R and pandas read: a row a tree, tabs between the columns."""

from collections.abc import Mapping

from phloem.errors import BadArgument
from phloem.kernels.arrays import AnyArray


def format_trace(columns: Mapping[str, AnyArray], title: str) -> str:
    """`# title`, the names of the columns after `state`, then the rows, numbered from 0."""
    lengths = {len(column) for column in columns.values()}
    if len(lengths) != 1:
        raise BadArgument("trace: one or more columns of the same length are needed.")
    lines = ["# " + " ".join(title.split()), "\t".join(["state", *columns])]
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    lines += ("\t".join([str(number), *map(_cell, row)]) for number, row in enumerate(rows))
    return "\n".join(lines) + "\n"


def _cell(value: float | int) -> str:
    return str(value) if isinstance(value, int) else f"{value:.10g}"
