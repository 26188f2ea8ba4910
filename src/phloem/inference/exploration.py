"""Before there is a Q: where is the posterior, and how wide is it? Short chains from bootstrap trees.

Bootstrap trees are near the posterior but not of it. Chains that start from them find what they miss in seconds, and
say how wide it is: whether the trees of one half of the chains are made of subsplits of the other half and of the
bootstrap. Whether chains
stay long enough in each mode does not matter, as training weighs what they found.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from phloem.arrays import FloatArray, LongArray
from phloem.errors import BadArgument
from phloem.inference.chains import ChainStarts, ChainTrees, covariance_factor, run_chains
from phloem.inference.draws import resample
from phloem.inference.laplace import ParameterStart
from phloem.random_streams import RandomStream
from phloem.runs.ranks import ALONE, Ranks
from phloem.target.posterior import TreePosterior
from phloem.trees.sample import TreeSample, merge
from phloem.trees.topology import TopologyBatch
from phloem.variational.sbn import support_of

ROUNDS = 100  # of each chain; if the posterior is wide as many again, to get farther from the bootstrap
START_LENGTH = 0.05  # of all branches: a round or two puts them right
KEPT = 0.5  # of a chain's rounds, the last: before, it is on its way from the bootstrap. Rounds added later all count
WIDE = 0.75  # of the trees of half of the chains, if a support of all others generates fewer


class Exploration(NamedTuple):
    """Topologies that chains visited in the end, each once, by how often; their weights sum to one."""

    trees: TreeSample
    chains: int
    rounds: int  # of each chain
    is_wide: bool
    theta: ParameterStart | None  # of the model's parameters in the same trees, if any are inferred


def explore(
    target: TreePosterior,
    samples: Sequence[TreeSample],
    *,
    theta: ParameterStart | None = None,
    length: float = START_LENGTH,
    chains: int,
    stream: RandomStream,
    threads: int = 1,
    progress: Callable[[float], None] = lambda _share: None,
    ranks: Ranks = ALONE,
) -> Exploration:
    """Run chains from trees of the samples, from as many of each. The same stream gives the same trees.

    theta: where the model's parameters begin, if any are inferred. length: where all branches begin, which parameters
    follow: with others than fit them they would go elsewhere first. ranks: share the chains out, with the same target.
    """
    if (theta is None) != (target.parameters is None):
        raise BadArgument("exploring: say where the model's parameters begin if any are inferred, and only then.")

    def advance(starts: ChainStarts, part: int) -> tuple[ChainTrees, LongArray]:
        found = run_chains(
            target,
            samples[0].taxa,
            starts,
            ROUNDS,
            stream=stream.named(f"part {part}"),
            threads=threads,
            progress=lambda share: progress((part + share) / 2),
            ranks=ranks,
        )
        kept = round(KEPT * ROUNDS / found.every) if part == 0 else found.by_chain.shape[1]
        return found, found.by_chain[:, -kept:].ravel()

    starts = _starts(samples, theta, length, chains, stream.named("starts"))
    found, chosen = advance(starts, 0)
    is_wide = _coverage(samples, found.select(chosen), chains) < WIDE
    if is_wide:
        found, chosen = advance(_ends(found, starts.factor), 1)
    progress(1.0)
    trees = found.select(chosen).distinct().normalized()
    return Exploration(trees, chains, ROUNDS * (1 + is_wide), is_wide, _center(found.theta[chosen]))


def _center(theta: FloatArray) -> ParameterStart | None:
    """Mean and covariance of the parameters' coordinates."""
    if not theta.shape[1]:
        return None
    return ParameterStart(theta.mean(axis=0), covariance_factor(theta, np.full(len(theta), 1 / len(theta))))


def _coverage(samples: Sequence[TreeSample], trees: TreeSample, chains: int) -> float:
    """The share of the trees of every other chain that a support of the samples and the other chains generates."""
    is_held_out = np.arange(len(trees)) // (len(trees) // chains) % 2 == 1
    known = merge([*samples, trees[~is_held_out]])
    held_out = trees[is_held_out].distinct()
    covered = support_of(known.taxa, known.topologies).generates(held_out.topologies)
    return float(held_out.weights[covered].sum() / held_out.weights.sum())


def _starts(
    samples: Sequence[TreeSample], theta: ParameterStart | None, length: float, chains: int, stream: RandomStream
) -> ChainStarts:
    """Topologies of each sample in turn, as often as their weights say."""
    generator = stream.generator()
    uniform = generator.random(len(samples))
    chosen = []
    for place, sample in enumerate(samples[:chains]):
        count = len(range(place, chains, len(samples)))
        weights = sample.normalized().weights
        chosen.append(sample.topologies.take(resample(weights, count, float(uniform[place]))))
    topologies = TopologyBatch.concatenate(chosen)
    lengths = np.full((len(topologies), topologies.branch_count), length)
    center, factor = theta or ParameterStart(np.empty(0), np.empty((0, 0)))
    coordinates = center + generator.standard_normal((len(topologies), len(center))) @ factor.T
    return ChainStarts(topologies, lengths, len(topologies.distinct()[0]), coordinates, factor)


def _ends(found: ChainTrees, factor: FloatArray) -> ChainStarts:
    """Where the chains are."""
    last = found.by_chain[:, -1]
    return ChainStarts(found.topologies.take(last), found.branch_lengths[last], found.starts, found.theta[last], factor)
