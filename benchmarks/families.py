"""How near does each family of branch lengths come to the posterior of one topology?

    python benchmarks/families.py                     a table: DS1, DS4 and DS8, their most frequent bootstrap trees
    python benchmarks/families.py --picture FILE      DS1 only, and a picture of a short branch and of two neighbours

Needs PHLOEM_DATA. The parameters of a topology's branches are free here: no network, so what is lost is the family's.
"""

import argparse
import math
import os
import sys
from pathlib import Path
from typing import NamedTuple

import matplotlib
import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from scipy import stats

from phloem import RandomStream
from phloem.data.patterns import compress
from phloem.data.reading import read_alignment
from phloem.inference.diagnostics import effective_sample_size, pareto_shape
from phloem.inference.gap import best_members, weigh
from phloem.target.estimation import optimize_branch_lengths
from phloem.target.likelihood import TreeLikelihood
from phloem.target.posterior import TreePosterior
from phloem.tasks.support import read_samples
from phloem.trees.sample import pool
from phloem.trees.topology import TopologyBatch
from phloem.variational.families import FAMILIES, LOCATION_OFFSET, unwarp

DRAWS = 20_000
START_LOG_SCALE = -1.5
SHOWN = 60  # bins of a histogram


class Fitted(NamedTuple):
    """The best member of a family, and draws from it."""

    parameters: torch.Tensor  # (branches, parameters)
    log_lengths: np.ndarray  # (draws, branches)
    log_weights: np.ndarray  # (draws,)


def problem(name: str) -> tuple[TreePosterior, TopologyBatch]:
    data = Path(os.environ["PHLOEM_DATA"])
    alignment = read_alignment(data / "alignments" / f"{name}.fasta")
    trees = pool(read_samples([data / "ufboot" / name], taxa=alignment.taxa))
    best = int(np.argmax(trees.weights))
    return TreePosterior(TreeLikelihood(compress(alignment))), trees.topologies[best : best + 1]


def fit(name: str, family_name: str) -> Fitted:
    target, topologies = problem(name)
    family, branches = FAMILIES[family_name], topologies.branch_count
    lengths = optimize_branch_lengths(target.likelihood, topologies).branch_lengths.clip(1e-4)
    start = torch.zeros(1, branches, family.parameters_per_branch, dtype=torch.float64)
    start[:, :, 0], start[:, :, 1] = torch.from_numpy(np.log(lengths)) - LOCATION_OFFSET, START_LOG_SCALE
    stream = RandomStream(1, "families")
    parameters = best_members(family, topologies, target, start, stream=stream).parameters
    noise = stream.named("draws").generator().standard_normal((DRAWS, 1, branches))
    weighed = weigh(target, topologies, family, parameters.numpy(), noise)
    repeated = topologies[np.zeros(DRAWS, np.int64)]
    operation = family.from_noise(repeated, noise[:, 0], path_only=False)
    drawn, _ = operation.values((True,), parameters.repeat(DRAWS, 1, 1))
    return Fitted(parameters[0], drawn.log().numpy(), weighed.log_weights[:, 0])


def show(names: tuple[str, ...]) -> None:
    table = Table(title="The best member for one topology", title_justify="left", box=None)
    for heading in ("", "family", "bound", "log p(Y, τ)", "effective draws", "k̂"):
        table.add_column(heading, justify="right" if heading not in ("", "family") else "left")
    for name in names:
        for family in FAMILIES:
            found = fit(name, family).log_weights
            evidence = np.logaddexp.reduce(found) - math.log(DRAWS)
            share, shape = effective_sample_size(found) / DRAWS, pareto_shape(found)
            table.add_row(name, family, f"{found.mean():.2f}", f"{evidence:.2f}", f"{share:.0%}", f"{shape:.2f}")
    Console(width=100, highlight=False).print(table, "")


def draw_picture(path: Path) -> None:
    """A short branch's marginal, and two neighbours: the posterior by weighted draws, and both families."""
    matplotlib.use("agg")
    from matplotlib import pyplot  # after the choice of what it draws with

    warped, lognormal = fit("DS1", "warped"), fit("DS1", "lognormal")
    weights = np.exp(warped.log_weights - warped.log_weights.max())
    weights /= weights.sum()
    branch = int(warped.parameters[:, 1].argmax())  # the widest, so a short one
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    values = warped.log_lengths[:, branch]
    left.hist(values, SHOWN, weights=weights, density=True, color="#c9d4de", label="posterior")
    grid = np.linspace(*left.get_xlim(), 400)
    location, log_scale = lognormal.parameters[branch].numpy()
    left.plot(grid, stats.norm.pdf(grid, location + LOCATION_OFFSET, math.exp(log_scale)), "#b5472f", label="lognormal")
    left.plot(grid, marginal(grid, warped, branch), "#1f5d8c", label="warped")
    left.set(xlabel="log length of a short branch", ylabel="density", yticks=[])
    left.legend(frameon=False, loc="upper left")
    first, second = most_tied(warped.log_lengths, weights)
    picked = np.random.default_rng(1).choice(DRAWS, 3000, p=weights)
    right.scatter(*warped.log_lengths[picked][:, [first, second]].T, s=2, color="#9fb2c3", label="posterior")
    for fitted, color, label in ((lognormal, "#b5472f", "lognormal"), (warped, "#1f5d8c", "warped")):
        outline(right, fitted.log_lengths[:, [first, second]], color, label)
    right.set(xlabel="log length", ylabel="log length of a neighbour")
    right.legend(frameon=False, loc="lower left")
    figure.savefig(path, dpi=160)


def marginal(grid: np.ndarray, fitted: Fitted, branch: int) -> np.ndarray:
    """The density of a branch's log length; the variance of its u is that of the draws."""
    location, log_scale = fitted.parameters[branch, :2]
    scale = log_scale.exp()
    own, _ = unwarp((torch.from_numpy(fitted.log_lengths[:, branch]) - location - LOCATION_OFFSET) / scale, log_scale)
    values, log_slope = unwarp((torch.from_numpy(grid) - location - LOCATION_OFFSET) / scale, log_scale)
    return stats.norm.pdf(values.numpy(), scale=own.std().item()) / (scale * log_slope.exp()).numpy()


def most_tied(log_lengths: np.ndarray, weights: np.ndarray) -> tuple[int, int]:
    """The two branches with the largest correlation."""
    covariance = np.cov(log_lengths.T, aweights=weights)
    scale = np.sqrt(np.diag(covariance))
    size = np.abs(covariance / np.outer(scale, scale) - np.eye(len(scale)))
    first, second = np.unravel_index(size.argmax(), size.shape)
    return int(first), int(second)


def outline(axes, points: np.ndarray, color: str, label: str) -> None:
    """Where the density of draws falls to a tenth of its peak."""
    density = stats.gaussian_kde(points[:8000].T, 0.3)
    grids = [np.linspace(*np.quantile(column, (0.0005, 0.9995)), 50) for column in points.T]
    mesh = np.meshgrid(*grids)
    heights = density(np.stack([part.ravel() for part in mesh])).reshape(mesh[0].shape)
    axes.contour(*mesh, heights, levels=[0.1 * heights.max()], colors=color)
    axes.plot([], [], color, label=label)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--picture", type=Path)
    options = parser.parse_args()
    if "PHLOEM_DATA" not in os.environ:
        print("families.py: left out, as PHLOEM_DATA is not set: it names the folder of benchmark data.")
        sys.exit()
    if options.picture:
        draw_picture(options.picture)
    else:
        show(("DS1", "DS4", "DS8"))
