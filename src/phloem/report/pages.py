"""What all pages share: templates, and data for their scripts."""

import base64
import json
from functools import cache
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined

from phloem.arrays import AnyArray
from phloem.report import wording

FILTERS = ("percent", "decimal", "deviation", "brief", "short_name", "spread", "duration")


@cache
def environment() -> Environment:
    """Texts are escaped, and a name that is not there is an error."""
    made = Environment(
        loader=PackageLoader("phloem.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["counted"] = wording.count  # jinja's own `count` is a length
    made.filters["number"] = wording.length  # and its `length` is a count
    for name in FILTERS:
        made.filters[name] = getattr(wording, name)
    made.globals["source"] = _source
    return made


def _source(name: str) -> str:
    """A style sheet or script of ours as it is."""
    loader = environment().loader
    assert loader is not None
    return loader.get_source(environment(), name)[0]


def embedded_json(value: Any) -> str:
    """JSON that is safe inside a script element: no sign in it means anything to HTML."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)  # ASCII, so line separators are escaped too
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def packed(numbers: AnyArray) -> str:
    """Numbers from 0 to 65535, two bytes each, low byte first, in base 64."""
    return base64.b64encode(np.ascontiguousarray(numbers, "<u2").tobytes()).decode()
