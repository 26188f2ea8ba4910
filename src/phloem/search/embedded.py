"""Bootstrap trees and the maximum-likelihood tree by phloem's own search."""

import math
from collections.abc import Callable, Sequence
from threading import Event

import numpy as np

from phloem.config.model import EstimatedModel, parse_estimated_model
from phloem.config.search import SearchConfig
from phloem.data.alignment import Alignment
from phloem.data.patterns import SitePatterns, compress
from phloem.errors import AlignmentError
from phloem.random_streams import RandomStream
from phloem.search.climbing import Climb
from phloem.search.jobs import SearchProgress, SearchResult, run_jobs
from phloem.search.resampling import Resampling, Visits, correlation
from phloem.search.surface import SearchTree, Surface
from phloem.search.tree_search import CLIMBS_AT_A_TIME, Start, TreeSearch, first_starts
from phloem.target.estimation import estimate_model, start_model
from phloem.target.substitution import SubstitutionModel
from phloem.threads import available_threads
from phloem.trees.constraints import TopologyConstraints
from phloem.trees.sample import TreeSample
from phloem.trees.topology import TopologyBatch

FEWEST_TAXA = 4
# The search ends when so many climbs in a row found nothing better and supports no longer change.
PATIENCE = 100
STABLE = 0.99
MOST_CLIMBS = 1000


def search_trees(
    alignment: Alignment,
    config: SearchConfig,
    *,
    stop: Event | None = None,
    report: Callable[[SearchProgress], None] | None = None,
    constraints: TopologyConstraints | None = None,
) -> SearchResult:
    """The maximum-likelihood tree and bootstrap trees, the same for the same seed whatever the number of threads.

    `stop`, once set, ends the search early with `Stopped`. constraints: that all trees satisfy, from the first on.
    """
    if len(alignment.taxa) < FEWEST_TAXA:
        raise AlignmentError(f"alignment: {len(alignment.taxa)} taxa. A search needs at least {FEWEST_TAXA}.")
    patterns = compress(alignment)
    stream = RandomStream(config.seed, "search")
    stop = stop or Event()
    form = parse_estimated_model("--model", config.model)
    model = start_model(form, patterns)
    surface = Surface(patterns, model, constraints=constraints)
    starts = first_starts(surface, patterns, stream=stream, stop=stop)
    if not model.is_jukes_cantor:
        model = _fitted_model(model, patterns, form, starts[0], stop, constraints)
        surface = Surface(patterns, model, constraints=constraints)
    resampling = Resampling(surface.patterns.counts, config.count, stream=stream.named("replicates"), stop=stop)
    visits = Visits(resampling, len(alignment.taxa), config.keep)
    threads = config.threads or available_threads()
    search = TreeSearch(surface, visits, stream=stream, threads=threads, stop=stop)
    agreement = _climb_until_stable(search, visits, starts, report or (lambda _news: None))
    best = search.best
    fitted = estimate_model(patterns, best.topology, model, best.lengths[None], form=form)
    return SearchResult(
        topology=best.topology,
        branch_lengths=fitted.branch_lengths[0],
        log_likelihood=fitted.log_likelihood,
        model=fitted.model,
        bootstrap=_sample(alignment, visits.topologies(resampling.choose())),
        best=_sample(alignment, visits.topologies(visits.best(config.within))),
        climbs=search.climbs,
        correlation=agreement,
        is_stable=agreement >= STABLE,
    )


def _fitted_model(
    model: SubstitutionModel,
    patterns: SitePatterns,
    form: EstimatedModel,
    start: Start,
    stop: Event,
    constraints: TopologyConstraints | None,
) -> SubstitutionModel:
    """The parameters that fit the first peak, which is found under those that fit the start."""
    tree = start
    for is_last in (False, True):
        fitted = estimate_model(patterns, tree.topology, model, tree.lengths[None], form=form)
        model = fitted.model
        if not is_last:
            room = SearchTree(Surface(patterns, model, constraints=constraints))
            room.place(tree.topology, fitted.branch_lengths[0])
            peak = Climb(room, math.inf, {}, stop).peak()
            tree = Start(peak.topology, peak.lengths)
    return model


def _climb_until_stable(
    search: TreeSearch, visits: Visits, starts: Sequence[Start], report: Callable[[SearchProgress], None]
) -> float:
    """Climb from the starts, and then from perturbed trees; the correlation of supports at half of the way and now."""
    supports: list[dict[int, float]] = []
    agreement = 0.0
    waiting = list(starts)
    regrafted: set[int] = set()  # keys of trees
    while search.climbs < MOST_CLIMBS and (search.unsuccessful < PATIENCE or agreement < STABLE):
        if not waiting and search.best.key not in regrafted:
            regrafted.add(search.best.key)
            waiting = search.regrafted()
        search.climb_from(waiting[:CLIMBS_AT_A_TIME] or search.perturbed())
        waiting = waiting[CLIMBS_AT_A_TIME:]
        supports.append(visits.supports())
        agreement = correlation(supports[(len(supports) - 1) // 2], supports[-1])
        left = max(len(waiting) + PATIENCE - search.unsuccessful, CLIMBS_AT_A_TIME)
        fraction = search.climbs / (search.climbs + left)
        report(SearchProgress(fraction, search.best.log_likelihood, search.climbs))
    return agreement


def _sample(alignment: Alignment, topologies: TopologyBatch) -> TreeSample:
    return TreeSample(alignment.taxa, topologies, np.ones(len(topologies)), None)


def find_likelihood_tree(
    alignment: Alignment, config: SearchConfig, *, progress: Callable[[SearchProgress], None] | None = None
) -> SearchResult:
    """Search in a thread of its own: an interruption ends it, and no thread is busy afterwards.

    `progress` is called from the calling thread.
    """
    tell = progress or (lambda _news: None)
    found: list[SearchResult] = []

    def work(_job: int, stop: Event, report: Callable[[SearchProgress], None]) -> SearchResult:
        return search_trees(alignment, config, stop=stop, report=report)

    run_jobs([0], 1, work, heard=lambda _job, news: tell(news), ended=lambda _job, result: found.append(result))
    return found[0]
