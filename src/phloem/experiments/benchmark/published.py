"""The published values that ours stand beside: `published.json`, which says of each where it comes from."""

import json
from functools import cache
from importlib.resources import files
from typing import Any, Final, NamedTuple

VARIANTS: Final = ("split", "psp", "mlp", "gcn", "gin", "sage", "ggnn", "edge")  # in the paper's order
QUANTITIES: Final = ("elbo", "log_marginal_likelihood")
SHORT: Final = {"elbo": "ELBO", "log_marginal_likelihood": "ML"}
PUBLISHED_REPEATS: Final = 100  # estimates
STEPPING_STONE: Final = "stepping_stone"


def variant_name(variant: str) -> str:
    """As the paper writes it."""
    return "Split" if variant == "split" else variant.upper()


class PublishedEstimate(NamedTuple):
    """A mean, and the standard deviation of a single estimate."""

    mean: float
    std: float


@cache
def published() -> dict[str, Any]:
    """The whole file."""
    return dict(json.loads((files(__package__) / "published.json").read_text(encoding="utf-8")))


def published_estimate(quantity: str, variant: str, dataset: str) -> PublishedEstimate | None:
    """What table 1 says, if the paper has that data set."""
    found = published()[quantity][variant].get(dataset)
    return None if found is None else PublishedEstimate(*found)


def stepping_stone(dataset: str) -> PublishedEstimate | None:
    """What MrBayes said of the marginal likelihood, according to the paper."""
    found = published()[STEPPING_STONE].get(dataset)
    return None if found is None else PublishedEstimate(*found)


def published_step(dataset: str, variant: str) -> float | None:
    """Milliseconds of a training step of the published code, where they are known."""
    found = published()["step_milliseconds"].get(dataset, {}).get(variant)
    return None if found is None else float(found)


def published_gaps(variant: str) -> dict[str, float]:
    """The amortisation gaps of table 2: of three trees by their rank, as `tree 24`, and on average."""
    return {name: float(row[variant]) for name, row in published()["gaps"].items()}
