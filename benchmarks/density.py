"""How long is a step of 20 + 20 eight-taxon trees for every kind of density, and how fast are trees scored?"""

import numpy as np
import torch

from phloem import RandomStream
from phloem.config.density import DENSITY, VARIANTS
from phloem.energy import DensityTraining
from phloem.energy.noise import UniformNoise
from phloem.trees import TreeSample, all_topologies
from timing import Row, best_times, show

TAXA, CONCENTRATION = 8, 0.008
PUBLISHED = {"gin": 57e-3, "ggnn": 94e-3, "edge": 80e-3}  # seconds a step of the reference code, on one core
LEAST_SPEEDUP = 20
SCORING_GOAL = 1.0  # seconds for all topologies
STEP_ROUNDS, SCORE_ROUNDS = 300, 5


def trainings() -> dict[str, DensityTraining]:
    """One of every kind, on the same target, with the paper's settings."""
    topologies = all_topologies(TAXA)
    weights = RandomStream(1, "benchmark").generator().dirichlet(np.full(len(topologies), CONCENTRATION))
    target = TreeSample(tuple("ABCDEFGH"), topologies, weights, None)
    noise = UniformNoise(TAXA)
    settings = {name: {"convolution": name, "noise": "uniform"} for name in VARIANTS}
    configs = {name: DENSITY.resolve(preset="paper", settings=[given]) for name, given in settings.items()}
    return {name: DensityTraining(target, noise, config) for name, config in configs.items()}


def main() -> None:
    """Print both tables."""
    torch.set_num_threads(1)
    found = trainings()
    steps = best_times({name: training.step for name, training in found.items()}, STEP_ROUNDS)
    rows = []
    for name, seconds in steps.items():
        published = PUBLISHED.get(name)
        note = "" if published is None else f"published {1000 * published:.0f} ms: {published / seconds:.0f} times"
        rows.append(Row(name, seconds, None if published is None else published / LEAST_SPEEDUP, note))
    show("A step of 20 + 20 trees of 8 taxa, Adam included", rows)

    everything = all_topologies(TAXA)
    tasks = {name: lambda one=one: one.density.log_density(everything) for name, one in found.items()}
    scores = best_times(tasks, SCORE_ROUNDS)
    show(
        f"Scoring all {len(everything):,} topologies",
        [Row(name, s, SCORING_GOAL, f"{len(everything) / s:,.0f} trees a second") for name, s in scores.items()],
    )


if __name__ == "__main__":
    main()
