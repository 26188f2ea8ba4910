"""What Markov chains from the draws of a run say: of the posterior, of themselves, and of the run."""

import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from phloem.arrays import LongArray
from phloem.errors import BadArgument, counted
from phloem.inference.chain_check import (
    ChainCheck,
    check_run,
    clade_difference,
    outside_support,
    share_outside,
)
from phloem.inference.chains import ChainTrees, can_run_chains, run_chains, starts_from
from phloem.inference.convergence import ChainSplits, Convergence, chain_splits, convergence
from phloem.inference.draws import USUAL_COUNT, Draws, shortest_decimals
from phloem.inference.laplace import share_elsewhere
from phloem.inference.outside import is_added, with_outside
from phloem.inference.trust import Trust, judge_chains, percent
from phloem.random_streams import RandomStream
from phloem.runs.ranks import ALONE, Ranks
from phloem.target.posterior import TreePosterior
from phloem.trees.sample import TreeSample
from phloem.trees.splits import SplitFrequencies, split_frequencies
from phloem.variational.sbn import SubsplitNetwork

USUAL_CHAINS, USUAL_ROUNDS = 400, 200
FEWEST_CHAINS = 2  # that say anything of their errors
CHECK_ROUNDS = 100  # of the chains at the end of a run: some seconds, in which all but the slowest clades are forgotten
NOTABLE = 0.01  # of the probability: a smaller share outside the support, or difference of a clade, goes without saying


@dataclass(frozen=True, eq=False, repr=False)
class ChainPosterior:
    """The posterior by Markov chains. `print` shows how far they have converged, and how far the run is off."""

    trees: ChainTrees
    splits: ChainSplits
    found: Convergence
    check: ChainCheck

    @property
    def trust(self) -> Trust:
        """How far the chains have converged."""
        return judge_chains(self.found, self.trees.chains, self.trees.rounds)

    @property
    def clades(self) -> SplitFrequencies:
        """Every split that was seen, with its probability."""
        return self.splits.frequencies

    def chosen(self, count: int | None = None) -> LongArray:
        """Numbers of trees, evenly spaced over all chains: 1,000 by default, or all if there are fewer."""
        if count is None:
            count = min(USUAL_COUNT, len(self.trees))
        check_count(count, len(self.trees))
        return np.arange(count) * len(self.trees) // count

    def sample(self, count: int | None = None) -> TreeSample:
        """Trees with branch lengths, evenly spaced over all chains, all of the same weight."""
        found = self.trees.select(self.chosen(count))
        lengths = found.branch_lengths
        assert lengths is not None
        return TreeSample(found.taxa, found.topologies, found.weights, shortest_decimals(lengths.astype(np.float32)))

    def describe(self, width: int = 80) -> list[str]:
        """Lines for a terminal."""
        return [line for paragraph in self._sentences() for line in textwrap.wrap(paragraph, width)]

    def _sentences(self) -> Iterator[str]:
        found = self.found
        yield self.about()
        yield (
            f"R̂ {found.shrink:.3f}; the average standard deviation of split frequencies is "
            f"{found.groups.average:.4f} between groups of chains and {found.halves.average:.4f} between halves of "
            f"their time; no clade's probability is less certain than ± {found.largest_error:.4f}."
        )
        outside, difference = self.check.outside, self.check.difference
        yield f"Outside the support of Q lies {percent(outside)} of the posterior."
        yield (
            f"The run's own clade probabilities are off by up to {difference.value:.3f}: "
            f"{difference.run:.3f}, and {difference.chains.value:.3f} ± {difference.chains.error:.3f} by its chains."
        )
        level = self.trust.level
        yield f"can the chains be trusted? {level if level == 'good' else level.upper()}. {self.trust.advice}"
        if self.is_run_off and level == "good":
            yield "The run itself misses part of the posterior: take these trees, not its own."

    @property
    def is_run_off(self) -> bool:
        """Whether the run differs from the chains by more than their errors and more than hardly."""
        outside = 0.0 if self.check.added else self.check.outside_beyond_errors  # the run has trees for it
        return max(outside, self.check.difference.beyond_errors) > NOTABLE

    def about(self) -> str:
        """What the trees are, in a sentence."""
        trees = self.trees
        starts = counted(trees.starts, "distinct draw")
        worth = counted(round(self.found.effective), "independent one")
        return (
            f"{counted(trees.chains, 'Markov chain')} of {counted(trees.rounds, 'round')} each, from {starts} of the "
            f"run, the first quarter left out: {counted(len(trees), 'tree')}, worth {worth}."
        )

    def __str__(self) -> str:
        return "\n".join(self.describe())


def check_count(count: int, have: int) -> None:
    """Raise unless chains that keep so many trees have as many as are asked for."""
    if not 1 <= count <= have:
        trees = counted(have, "tree")
        raise BadArgument(f"--count {count:,}: the chains have {trees}. Ask for 1 to as many, or for more --rounds.")


def chains_from(
    draws: Draws,
    target: TreePosterior,
    networks: Sequence[SubsplitNetwork],
    clades: SplitFrequencies,
    *,
    chains: int,
    rounds: int,
    stream: RandomStream,
    threads: int = 1,
    progress: Callable[[float], None] | None = None,
) -> ChainPosterior:
    """Run chains from draws. networks: that the draws are from. clades: with their probabilities by the draws."""
    starts = starts_from(draws, chains, stream=stream)
    trees = run_chains(target, draws.taxa, starts, rounds, stream=stream, threads=threads, progress=progress)
    splits = chain_splits(trees)
    check = check_run(trees, splits, starts.topologies, networks, clades)
    check = check._replace(added=int((~draws.is_from_q).sum()))
    return ChainPosterior(trees, splits, convergence(trees, splits), check)


class CheckedDraws(NamedTuple):
    """Draws, and what chains say of them."""

    draws: Draws
    check: ChainCheck | None  # None if there were no chains


def check_draws(
    draws: Draws,
    target: TreePosterior,
    networks: Sequence[SubsplitNetwork],
    *,
    chains: int,
    seed: int,
    adding: bool = True,
    threads: int = 1,
    progress: Callable[[float], None] | None = None,
    ranks: Ranks = ALONE,
) -> CheckedDraws:
    """What short chains say of the run, or the runs, that draws are from; nothing without any, or if none can be run.

    networks: that the draws are from. chains: no more than there are draws are run. adding: whether the draws get trees
    of the chains for what is outside the support, if there is much. ranks: share the chains out.
    """
    chains = min(chains, len(draws))
    if chains < FEWEST_CHAINS or not can_run_chains(target):
        return CheckedDraws(draws, None)
    if progress:
        progress(0.0)
    stream = RandomStream(seed, "chain check")
    of_starts = split_frequencies(draws.weighted().topology_sample())
    starts = starts_from(draws, chains, stream=stream)
    trees = run_chains(
        target, draws.taxa, starts, CHECK_ROUNDS, stream=stream, threads=threads, progress=progress, ranks=ranks
    )
    is_outside = outside_support(trees.topologies, networks)
    outside, added = share_outside(trees, is_outside), 0
    if adding and is_added(outside):
        draws = with_outside(draws, trees, is_outside, outside)
        added = int((~draws.is_from_q).sum())
    clades = split_frequencies(draws.weighted().topology_sample())
    difference = clade_difference(chain_splits(trees), starts.topologies, of_starts, clades)
    elsewhere = share_elsewhere(draws, target, stream=stream.named("peaks")) if target.parameters is not None else 0.0
    return CheckedDraws(draws, ChainCheck(trees.chains, trees.rounds, outside, difference, added, elsewhere))
