"""Data for the page's own scripts: small, and unable to end the element that holds it."""

import base64
import json
from typing import Any

import numpy as np

from phloem.kernels.arrays import AnyArray


def embedded_json(value: Any) -> str:
    """JSON that is safe inside a script element: no sign in it means anything to HTML."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)  # ASCII, so line separators are escaped too
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def packed(numbers: AnyArray) -> str:
    """Numbers from 0 to 65535, two bytes each, low byte first, in base 64."""
    return base64.b64encode(np.ascontiguousarray(numbers, "<u2").tobytes()).decode()
