"""What all pages share: the template engine, and data for their scripts."""

import base64
import json
from functools import cache
from typing import Any

import numpy as np
from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

from phloem.arrays import AnyArray
from phloem.report import wording

SHARED = "phloem.report"  # its templates serve all pages
FILTERS = (
    "annealing",
    "added",
    "likelihood_error",
    "percent",
    "error_bar",
    "decimal",
    "deviation",
    "brief",
    "short_name",
    "spread",
    "duration",
)


def render_page(template: str, *, package: str = SHARED, **values: Any) -> str:
    """A page from a template of a package, which may extend and import those of the report."""
    return _environment(package).get_template(template).render(**values)


@cache
def _environment(package: str) -> Environment:
    """Text is escaped, and an undefined name is an error."""
    loader = ChoiceLoader([PackageLoader(name) for name in dict.fromkeys((package, SHARED))])
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["counted"] = wording.count  # jinja's own `count` is a length
    environment.filters["number"] = wording.length  # and its `length` is a count
    for name in FILTERS:
        environment.filters[name] = getattr(wording, name)

    def source(name: str) -> str:
        """A style sheet or script, as it is."""
        return loader.get_source(environment, name)[0]

    environment.globals["source"] = source
    return environment


def embedded_json(value: Any) -> str:
    """JSON that is safe inside a script element: nothing in it means anything to HTML."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)  # ASCII, so line separators are escaped too
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def packed(numbers: AnyArray) -> str:
    """Numbers from 0 to 65535, two bytes each, low byte first, in base 64."""
    return base64.b64encode(np.ascontiguousarray(numbers, "<u2").tobytes()).decode()
