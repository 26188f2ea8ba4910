"""Summaries of runs that never were."""

from typing import Any

from phloem.inference.evaluation import Estimated, Evaluation
from phloem.inference.summary import DrawSummary, Summary, SupportSize

TEN_BELOW = Estimated(-10.0, None)


def made_up_summary(found: DrawSummary, estimate: Estimated = TEN_BELOW, **changes: Any) -> Summary:
    """A finished run on five taxa whose draws say this, with the same estimate for everything."""
    fields: dict[str, Any] = {
        "names": tuple("abcde"),
        "sites": 40,
        "patterns": 17,
        "model": "JC69",
        "branches": "edge",
        "family": "warped",
        "seed": 1,
        "support": SupportSize(15, 25, 31),
        "finished": True,
        "steps": 80,
        "repeats": 3,
        "samples": 20,
        "evaluation": Evaluation(estimate, estimate, estimate),
    }
    return Summary(**fields | changes, found=found)
