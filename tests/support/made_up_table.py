"""A table 1 without training: cells in every state."""

from typing import Any

from phloem.experiments.benchmark.published import (
    QUANTITIES,
    published,
    published_estimate,
    published_gaps,
    published_step,
)


def made_up_cell(dataset: str, variant: str, *, seed: int = 1, above: float | None = 0.05, **changes: Any) -> dict:
    """A cell whose estimates are the published ones and so much; None for one that is not finished."""
    cell: dict[str, Any] = {
        "dataset": dataset,
        "variant": variant,
        "seed": seed,
        "family": "lognormal",
        "preset": "standard",
        "changes": {},
        "state": "finished" if above is not None else "not begun",
        "problem": "",
        "steps": 10_000,
        "steps_done": 10_000 if above is not None else 0,
        "lower_bound": None,
        "pareto_shape": None,
        "effective_share": None,
        "training_seconds": 40.0,
        "step_milliseconds": 4.0,
        "published_step_milliseconds": published_step(dataset, variant),
        "wall_seconds": 60.0,
        "processor_seconds": 55.0,
        "processor": "a processor, 2 cores",
        "support": {"replicates": 10, "trees": 10_000, "origin": "IQ-TREE"},
        "settings": {},
        "versions": {},
        "system": "",
    }
    for quantity in QUANTITIES:
        theirs = published_estimate(quantity, variant, dataset)
        cell[quantity] = None
        if above is not None:
            cell[quantity] = {
                "mean": theirs.mean + above,
                "std": 0.2,
                "standard_error": 0.02,
                "published": theirs._asdict(),
                "difference": above,
                "difference_standard_error": 0.03,
            }
    return cell | changes


def made_up_table(*cells: dict) -> dict:
    return {"sources": published()["sources"], "cells": list(cells)}


def every_state() -> dict:
    return made_up_table(
        made_up_cell("DS1", "split", above=-0.5),
        made_up_cell("DS1", "edge", above=-0.1),
        made_up_cell("DS1", "edge", seed=2, above=0.2),
        made_up_cell("DS2", "split", above=None, state="stopped", steps_done=700),
        made_up_cell("DS2", "edge", above=None, state="failed", problem="no <space> | left"),
        made_up_cell("DS1", "edge", family="warped", changes={"training.steps": "400"}),
    )


def made_up_gaps() -> dict:
    measured = {"gap": 0.5, "error": 0.01}
    rows = [{"rank": rank, "probability": 0.02, "gap": 0.1 * rank} for rank in range(1, 43)]
    cell = made_up_cell("DS1", "edge") | {"published": published_gaps("edge"), "topologies": 42, "samples": 5000}
    return {
        "sources": {"gaps": published()["sources"]["gaps"]},
        "dataset": "DS1",
        "cells": [
            cell
            | {
                "gaps": dict.fromkeys([*published_gaps("edge"), "by probability"], measured),
                "trees": rows,
                "outside": [41],
            },
            cell
            | {
                "variant": "psp",
                "published": published_gaps("psp"),
                "gaps": dict.fromkeys([*published_gaps("psp"), "by probability"]),
                "trees": [],
                "outside": [],
                "state": "not measured",
            },
        ],
    }
