"""Messages count things in words that fit every number: `1 replicate`, `2 replicates`."""

import ast
import re
from pathlib import Path

import pytest

import phloem
from phloem.errors import counted

ROOT = Path(phloem.__file__).parent
COUNTED = (
    *("replicates", "sequences", "sites", "patterns", "lines", "runs", "steps", "draws", "trees", "topologies"),
    *("clades", "climbs", "iterations", "parameters", "channels", "estimates", "repeats", "others", "files", "cores"),
)
# The number is more than one wherever this is said, or is no number.
MORE_THAN_ONE = {
    "config/density.py: at most {} trees of noise",
    "data/reading.py: {} lines",
    "display/words.py: {} runs",
    "experiments/density/charts.py: to {} repeats",
    "experiments/density/charts.py: {} repeats",
    "inference/trust.py: of {} runs",
    "runs/driver.py: the last {} steps",
    "tasks/density.py: ask for 1 to {} trees",
}
# Nobody but a programmer reads these.
OF_PROGRAMMERS = ("energy/", "experiments/density/results.py", "features/", "inference/gap.py", "plot/")
OF_PROGRAMMERS += ("report/text.py: {} trees", "target/", "trees/", "variational/")


@pytest.mark.parametrize(("number", "words"), [(0, "0 runs"), (1, "1 run"), (2, "2 runs"), (12_000, "12,000 runs")])
def test_one_is_singular(number, words):
    assert counted(number, "run") == words
    assert counted(number, "topology", "topologies") == words.replace("runs", "topologies").replace("run", "topology")


def plurals_after_numbers(path: Path) -> list[str]:
    """Texts such as `{} runs` in the f-strings of a file, `{}` standing for what is filled in."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.JoinedStr):
            text = "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
            found += re.findall(rf"(?:\w+ )*\{{\}} (?:{'|'.join(COUNTED)})\b(?!/)(?: of \w+)?", text)
    return found


def test_no_message_says_one_of_several():
    found = {f"{path.relative_to(ROOT)}: {text}" for path in ROOT.rglob("*.py") for text in plurals_after_numbers(path)}
    assert found >= MORE_THAN_ONE, "else they need not be listed"
    found = {text for text in found - MORE_THAN_ONE if not text.startswith(OF_PROGRAMMERS)}
    assert not found, "\n".join(sorted(found))
