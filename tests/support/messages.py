"""What a message says, whatever its wording: facts in their order, with ` … ` between them (`dna.fasta … line 3`)."""

import re


def saying(facts: str) -> str:
    """A regular expression, as `pytest.raises(match=…)` takes it."""
    return ".*".join(map(re.escape, facts.split(" … ")))


def assert_says(message: str, facts: str) -> None:
    assert re.search(saying(facts), message), f"{message!r} does not say {facts!r}"
