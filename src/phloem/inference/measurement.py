"""What a trained model says of the posterior: by draws from it and, where their weights are poor, by annealed ones."""

from collections.abc import Callable
from typing import Literal, NamedTuple

from phloem.config import EvaluationConfig
from phloem.inference.annealing import anneal, plan_path
from phloem.inference.chain_posterior import CheckedDraws
from phloem.inference.diagnostics import effective_sample_size, pareto_shape, smooth
from phloem.inference.draws import DrawCollector, Draws
from phloem.inference.evaluation import Evaluation, estimate, evaluate
from phloem.inference.outside import of_both_parts
from phloem.inference.sharing import share_parameters
from phloem.inference.trust import LEVELS, judge_weights
from phloem.random_streams import RandomStream
from phloem.runs.ranks import ALONE, Ranks
from phloem.target.posterior import TreePosterior
from phloem.variational.families import is_made_of_noise
from phloem.variational.joint import JointModel

Phase = Literal["evaluation", "annealing"]
PLANNING = 0.1  # of the time of annealing, roughly
WEIGHINGS = 10  # of trees on their way for each tree of training, which takes longer: about half its time in all
FEWEST = 100  # draws


class PlainDraws(NamedTuple):
    """What draws from Q with the weights p/Q said, before others were annealed."""

    evaluation: Evaluation
    draws: int
    effective_sample_size: float
    pareto_shape: float | None


class Annealed(NamedTuple):
    """How draws were annealed."""

    draws: int
    temperatures: int
    steps: int  # of a Hamiltonian path
    interchanges: int  # of a tree at every temperature
    plain: PlainDraws | None  # None if there were none, or those of several runs


class Measurement(NamedTuple):
    """Draws of a trained model, and what they say."""

    evaluated: EvaluationConfig
    evaluation: Evaluation
    draws: Draws
    annealed: Annealed | None  # if they were


def checked_measurement(measured: Measurement, checked: CheckedDraws) -> Measurement:
    """What was measured, with the draws that chains added, which the marginal likelihood counts."""
    check = checked.check
    if check is None or not check.added:
        return measured
    likelihood = of_both_parts(measured.evaluation.log_marginal_likelihood, check.outside)
    return measured._replace(
        draws=checked.draws, evaluation=measured.evaluation._replace(log_marginal_likelihood=likelihood)
    )


def measure(
    model: JointModel,
    target: TreePosterior,
    config: EvaluationConfig,
    *,
    particles: int,
    seed: int,
    trained: int | None = None,
    progress: Callable[[Phase, float], None] = lambda _phase, _share: None,
    ranks: Ranks = ALONE,
) -> Measurement:
    """Draw from a model; where the weights are not good, anneal as many draws as the settings say.

    Annealed draws take the place of plain ones if they are judged better or, judged alike, more of them are effective.
    trained: how many trees training has seen, by which annealing is limited to a share of its time; it is also limited
    by the number of plain draws. ranks: share the draws out, with a model of the same kind.
    """
    share_parameters(model, ranks)
    drawn = DrawCollector()
    evaluation = evaluate(
        model,
        target,
        config,
        particles=particles,
        stream=RandomStream(seed, "evaluation"),
        keep=drawn,
        progress=lambda repeat: progress("evaluation", repeat / config.repeats),
        ranks=ranks,
    )
    draws = drawn.draws(model.network.support.taxa)
    plain = Measurement(config, evaluation, draws, None)
    count = min(config.anneal, config.samples * config.repeats)
    is_good = judge_weights(draws.log_weights) == "good"
    if is_good or count == 0 or not is_made_of_noise(model.branches.family):
        return plain
    annealed = measure_annealed(
        model,
        target,
        config,
        count,
        particles=particles,
        seed=seed,
        most_weighings=None if trained is None else WEIGHINGS * trained,
        progress=lambda share: progress("annealing", share),
        ranks=ranks,
    )
    if _quality(annealed.draws) <= _quality(draws):
        return plain
    assert annealed.annealed is not None
    before = PlainDraws(evaluation, len(draws), _effective_draws(draws), pareto_shape(draws.log_weights))
    return annealed._replace(annealed=annealed.annealed._replace(plain=before))


def _quality(draws: Draws) -> tuple[int, float]:
    """The greater the better."""
    return -LEVELS.index(judge_weights(draws.log_weights)), _effective_draws(draws)


def _effective_draws(draws: Draws) -> float:
    return effective_sample_size(smooth(draws.log_weights))


def measure_annealed(
    model: JointModel,
    target: TreePosterior,
    config: EvaluationConfig,
    count: int,
    *,
    particles: int,
    seed: int,
    most_weighings: int | None = None,
    progress: Callable[[float], None] = lambda _share: None,
    ranks: Ranks = ALONE,
) -> Measurement:
    """Anneal at least so many draws: whole estimates, of as many draws as the settings say if there are enough.

    most_weighings: of trees on their way; if they would be more, there are fewer draws, but `FEWEST` at least.
    """
    stream = RandomStream(seed, "annealing")
    path = plan_path(model, target, stream=stream.named("pilot"), progress=lambda share: progress(PLANNING * share))
    if most_weighings is not None:
        count = min(count, max(FEWEST, most_weighings // path.weighings))
    samples = min(config.samples, count)
    repeats = -(-count // samples)
    drawn = DrawCollector()
    log_weights = anneal(
        model,
        target,
        path,
        samples * repeats,
        stream=stream,
        keep=drawn,
        progress=lambda share: progress(PLANNING + (1 - PLANNING) * share),
        ranks=ranks,
    )
    return Measurement(
        EvaluationConfig(samples=samples, repeats=repeats),
        estimate(log_weights.reshape(repeats, samples), particles),
        drawn.draws(model.network.support.taxa),
        Annealed(len(log_weights), len(path.inverse_temperatures), path.steps, path.interchanges, None),
    )
