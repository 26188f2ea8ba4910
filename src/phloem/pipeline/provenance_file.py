"""`provenance.json` as earlier sessions wrote it."""

import json
from pathlib import Path
from typing import Any


def read_provenance(path: Path) -> dict[str, Any]:
    """What the file says; nothing if it is none of phloem's, which is no reason to complain: it is for the records."""
    try:
        found = json.loads(path.read_bytes())
        known = isinstance(found["sessions"], list) and isinstance(found["trees"], list) and found["versions"]["phloem"]
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return dict(found) if known else {}
