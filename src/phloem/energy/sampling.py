"""Sampling topologies from a density: exactly, by importance resampling, or by Markov chains."""

import math
from typing import Any, Final, NamedTuple

import numpy as np

from phloem.arrays import FloatArray, LongArray
from phloem.energy.density import Progress, TreeDensity, enumerate_density, is_enumerable
from phloem.energy.noise import ListedNoise, NoiseDraw
from phloem.errors import BadArgument
from phloem.inference.diagnostics import effective_sample_size, pareto_shape
from phloem.random_streams import RandomStream
from phloem.trees.generation import numbered_topologies, random_nni
from phloem.trees.topology import TopologyBatch

METHODS: Final = ("auto", "exact", "importance", "mcmc")
POOL_FACTOR, LEAST_POOL = 20, 10_000  # draws of the noise for each wanted topology, and at least
CHUNK = 10_000  # draws of the noise at a time
CHAINS = 64  # side by side, so that a transition is one call of the network
BURNIN = 200  # transitions that are discarded; chains start at draws of the noise
THINNING = 10


class DensityDraws(NamedTuple):
    """Topologies from a density, all of equal weight, how they were drawn, and measures of their quality."""

    topologies: TopologyBatch
    method: str
    quality: dict[str, Any]


def sample_density(
    density: TreeDensity, count: int, *, stream: RandomStream, method: str = "auto", progress: Progress | None = None
) -> DensityDraws:
    """Draw topologies. `auto` is `exact` if all topologies can be enumerated, else `importance`."""
    if method not in METHODS:
        raise BadArgument(f"--method {method}: choose one of {', '.join(METHODS)}.")
    if count < 1:
        raise BadArgument(f"density: cannot sample {count} trees. Give at least 1.")
    enumerable = is_enumerable(density.noise)
    if method == "exact" and not enumerable:
        raise BadArgument(
            f"--method exact: {density.noise.taxon_count} taxa have too many topologies to enumerate. "
            "Use importance or mcmc."
        )
    if method == "exact" or (method == "auto" and enumerable):
        return sample_exactly(density, count, stream=stream, progress=progress)
    if method == "mcmc":
        return sample_chains(density, count, stream=stream, progress=progress)
    return resample(density, count, stream=stream, progress=progress)


def sample_exactly(
    density: TreeDensity, count: int, *, stream: RandomStream, progress: Progress | None = None
) -> DensityDraws:
    """Independent draws from the probabilities of all topologies."""
    noise = density.noise
    log_model = enumerate_density(density.unnormalized, noise, progress)
    drawn = _choose(log_model, count, stream)
    topologies = numbered_topologies(noise.taxon_count, drawn) if noise.listed is None else noise.listed[drawn]
    return DensityDraws(topologies, "exact", {"topologies": len(log_model)})


def resample(
    density: TreeDensity, count: int, *, stream: RandomStream, progress: Progress | None = None
) -> DensityDraws:
    """Resample from a large pool of noise, by the weights q/p_noise."""
    pool = max(POOL_FACTOR * count, LEAST_POOL)
    starts = np.arange(0, pool, CHUNK)

    def draw(start: int) -> NoiseDraw:
        return density.noise.draw(min(CHUNK, pool - start), stream=stream.named("pool").at(stream.step, start))

    log_weights = np.empty(pool)
    for start in starts.tolist():
        drawn = draw(start)
        log_weights[start : start + CHUNK] = density.unnormalized.log_density(drawn.topologies) - drawn.log_prob
        if progress:
            progress((start + len(drawn.log_prob)) / pool)
    chosen = _choose(log_weights, count, stream.named("choice"))
    # A large pool of trees would fill the memory: those chosen are drawn once more.
    order = np.argsort(chosen, kind="stable")
    parents = np.empty((count, drawn.topologies.node_count), drawn.topologies.parent.dtype)
    for start, part in zip(starts.tolist(), np.split(order, np.searchsorted(chosen[order], starts[1:])), strict=True):
        if len(part):
            parents[part] = draw(start).topologies.parent[chosen[part] - start]
    quality = {
        "draws": pool,
        "effective_draws": effective_sample_size(log_weights),
        "pareto_shape": pareto_shape(log_weights),
    }
    return DensityDraws(TopologyBatch.from_canonical(parents), "importance", quality)


def sample_chains(
    density: TreeDensity, count: int, *, stream: RandomStream, progress: Progress | None = None
) -> DensityDraws:
    """Metropolis–Hastings, which alternately proposes a random interchange and a new draw of the noise."""
    if isinstance(density.noise, ListedNoise):
        raise BadArgument("--method mcmc: listed topologies have no neighbours to move to. Use exact.")
    chains = min(CHAINS, count)
    kept = math.ceil(count / chains)
    steps = BURNIN + kept * THINNING
    first = density.noise.draw(chains, stream=stream.named("first"))
    state = _State(
        first.topologies.parent.copy(), density.unnormalized.log_density(first.topologies), first.log_prob.copy()
    )
    accepted = np.zeros(2)
    parents, log_model = [], []
    for step in range(steps):
        moved = _propose(density, state, step % 2 == 0, stream.at(step + 1))
        accepted[step % 2] += moved
        if step >= BURNIN and (step - BURNIN) % THINNING == THINNING - 1:
            parents.append(state.parent.copy())
            log_model.append(state.log_model.copy())
        if progress:
            progress((step + 1) / steps)
    shares = accepted / (chains * np.array([(steps + 1) // 2, steps // 2]))
    quality = {
        "chains": chains,
        "steps": steps,
        "accepted_interchanges": float(shares[0]),
        "accepted_draws": float(shares[1]),
        "scale_reduction": _scale_reduction(np.array(log_model)),
        "effective_draws": _effective_draws(np.array(log_model)),
    }
    return DensityDraws(TopologyBatch.from_canonical(np.concatenate(parents)[:count]), "mcmc", quality)


class _State(NamedTuple):
    """The chains' current topologies; the arrays change in place."""

    parent: np.ndarray  # (chains, nodes)
    log_model: FloatArray  # (chains,)
    log_noise: FloatArray  # (chains,)


def _propose(density: TreeDensity, state: _State, interchange: bool, stream: RandomStream) -> int:
    """One transition of all chains; returns how many have moved."""
    if interchange:
        proposed = random_nni(TopologyBatch.from_canonical(state.parent.copy()), stream=stream.named("interchange"))
        log_noise = density.noise.log_prob(proposed)
    else:
        proposed, log_noise = density.noise.draw(len(state.parent), stream=stream.named("draw"))
    log_model = density.unnormalized.log_density(proposed)
    log_ratio = log_model - state.log_model
    if not interchange:
        log_ratio += state.log_noise - log_noise
    moves = np.log1p(-stream.named("accept").generator().random(len(log_ratio))) < log_ratio
    state.parent[moves] = proposed.parent[moves]
    state.log_model[moves] = log_model[moves]
    state.log_noise[moves] = log_noise[moves]
    return int(moves.sum())


def _choose(log_weights: FloatArray, count: int, stream: RandomStream) -> LongArray:
    """Places drawn independently with these weights."""
    cumulative = np.cumsum(np.exp(log_weights - log_weights.max()))
    places = np.searchsorted(cumulative, stream.generator().random(count) * cumulative[-1], side="right")
    chosen: LongArray = np.minimum(places, len(cumulative) - 1)
    return chosen


def _scale_reduction(values: FloatArray) -> float | None:
    """R̂ of values (draws, chains), near 1 if the chains agree; None if there are too few to tell."""
    draws, chains = values.shape
    if draws < 2 or chains < 2:
        return None
    within = values.var(axis=0, ddof=1).mean()
    between = values.mean(axis=0).var(ddof=1)
    return float(np.sqrt((draws - 1) / draws + between / within)) if within > 0 else None


def _effective_draws(values: FloatArray) -> float | None:
    """The number of independent draws that values (draws, chains) are worth, from the variance of the chains' means."""
    chains = values.shape[1]
    between = values.mean(axis=0).var(ddof=1) if chains > 1 else 0.0
    return min(float(values.size), float(chains * values.var(ddof=1) / between)) if between > 0 else None
