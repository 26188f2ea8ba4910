"""Scripts import those beside them: their folder is searched last, so that none of their names hides another module."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
