"""Can the results be trusted? A verdict in plain words, from weights of draws, agreement of runs, and chains."""

import math
from typing import Literal, NamedTuple

from phloem.arrays import FloatArray
from phloem.errors import counted
from phloem.inference.agreement import Agreement, Measured
from phloem.inference.chain_check import ChainCheck
from phloem.inference.convergence import Convergence
from phloem.inference.diagnostics import effective_sample_size, pareto_shape, smooth, unseen_share

Level = Literal["good", "usable", "do not trust"]
LEVELS: tuple[Level, ...] = ("good", "usable", "do not trust")

# Limits for good and for usable. Users of MCMC know 200 and 100 effective draws and deviations of 0.01 and 0.05; the
# limits for the tail's shape are those of Vehtari et al. (2024).
ENOUGH_DRAWS = (200.0, 100.0)
TAIL_SHAPE = (0.5, 0.7)
UNSEEN_SHARE = 0.005  # of the weight: less changes no probability by half of what counts as agreement of runs
AVERAGE_DEVIATION = (0.01, 0.05)
LARGEST_DEVIATION = (0.05, 0.1)
OUTSIDE = (0.02, 0.2)  # of the posterior; by 0.2 the marginal likelihood is too low by 0.22
ADDED_ERROR = (0.01, 0.05)  # of that share, where trees of chains stand for it: clades are hardly more uncertain
ELSEWHERE = (0.005, 0.2)  # of the posterior, by an approximation that may be off by nats
NOTABLE_PEAK = 0.001  # of the posterior: a smaller one goes without saying
CLADE_DIFFERENCE = (0.02, 0.1)  # between the run and its chains, beyond errors
SHRINK = (1.01, 1.05)  # R̂ (Vehtari et al. 2021)
LIKELIHOOD_DIFFERENCE = (0.2, 1.0)  # nats; smaller ones do not matter, whatever their errors
ADDED = "Trees of those chains stand for it, and the marginal likelihood counts it: what matters is its error."
NOT_ADDED = "The marginal likelihood lacks it, and so do the topologies."
MORE_CHAINS = "in a new run more chains (--set evaluation.chains=400) make what lies outside the support more certain"
OTHER_PEAK = (
    "Other values of the model's parameters explain the data too. Another run may begin at theirs (--seed 2): the one "
    "with the greater marginal likelihood counts. Parameters that parts share (--link) or a simpler --model may have "
    "one peak only."
)
TAKE_CHAINS = "take trees of chains instead (phloem sample --chains 400)"
RESUME = "Finish training with phloem infer --resume."
# All networks can do what the tables can, and more; so can the warped family what lognormals can.
TABLES, LESS_FLEXIBLE = ("split", "psp"), ("lognormal",)
ERRORS = 3.0  # a difference within this many standard errors does not count


class Finding(NamedTuple):
    """One diagnostic: its name, its value as text, how good that is, and what it means."""

    name: str  # "Pareto k̂"
    value: str  # "0.43"
    level: Level
    meaning: str  # a sentence or two


class Trust(NamedTuple):
    """The verdict on a posterior, which is as good as its worst finding."""

    level: Level
    findings: tuple[Finding, ...]
    advice: str  # what to do; a sentence


def judge(
    log_weights: FloatArray,
    agreement: Agreement | None,
    check: ChainCheck | None = None,
    *,
    steps_done: int,
    steps: int,
    finished: bool,
    branches: str = "",
    family: str = "",
    runs: int = 1,
    explored: bool = False,
    in_use: bool = False,
) -> Trust:
    """The verdict on the draws of one run, or of several together with their agreement.

    check: what chains from the draws said. steps_done: of the run that has taken the fewest. branches, family: of
    branch lengths, where they are ours. runs: how many were asked for, some of which may not have begun. explored:
    whether chains found the posterior before training, so that another run would start at the same place. in_use:
    whether another process is training them.
    """
    begun = 1 if agreement is None else len(agreement.log_marginal_likelihoods)
    weights = [_effective_draws(log_weights), _tail(log_weights)]
    agreed = [] if agreement is None else [_likelihoods(agreement), *_splits(agreement)]
    checked = [] if check is None else _checked(check)
    peaks = [] if check is None or check.elsewhere < NOTABLE_PEAK else [_elsewhere(check)]
    training = [] if finished else [_unfinished(steps_done, steps, begun, max(begun, runs))]
    findings = (*weights, *agreed, *checked, *peaks, *training)
    if not finished:
        advice = "Another process is training it: wait for it." if in_use else RESUME
    elif len(log_weights) < ENOUGH_DRAWS[0]:
        advice = "Too few draws to tell: draw more (phloem evaluate --samples 1000 --repeats 100)."
    elif _worst(peaks) != "good":
        advice = OTHER_PEAK
    else:
        longer = f" (--steps {2 * steps})" if steps_done >= steps else " (--stop steps)"  # it ended when it was flat
        if steps == 0:  # a model that was trained elsewhere
            longer = ""
        added = check is not None and check.added > 0
        advice = _advice_by_chains(_worst(checked), _worst(weights), added=added)
        flexible = _more_flexible(branches, family)
        advice = advice or _advice(_levels(weights), _worst(agreed), longer, flexible, begun, explored=explored)
    return Trust(_worst(findings), findings, advice)


def judge_weights(log_weights: FloatArray) -> Level:
    """How good draws are by their weights alone."""
    return _worst([_effective_draws(log_weights), _tail(log_weights)])


def judge_chains(found: Convergence, chains: int, rounds: int) -> Trust:
    """The verdict on so many Markov chains of so many rounds each."""
    findings = (
        Finding(
            "R̂",
            f"{found.shrink:.3f}",
            _level(found.shrink, SHRINK),
            "How much wider all chains together are than groups of them, of the log posterior and of the tree length.",
        ),
        Finding(
            "Average standard deviation of split frequencies",
            f"{found.groups.average:.4f} between groups of chains, {found.halves.average:.4f} between halves",
            _level(max(found.groups.average, found.halves.average), AVERAGE_DEVIATION),
            "Over clades with a probability of at least 0.1 in one of them. Groups differ where chains are too short; "
            "the first half of the time differs from the second where they were still on the way.",
        ),
        Finding(
            "Effective sample size",
            f"{found.effective:,.0f}",
            _level(-found.effective, tuple(-limit for limit in ENOUGH_DRAWS)),
            "How many independent trees would make the least certain clade as certain as it is.",
        ),
    )
    level = _worst(findings)
    if level == "good":
        advice = "Nothing to worry about."
    elif _level(found.halves.average, AVERAGE_DEVIATION) == "good" and findings[0].level == "good":
        advice = f"More chains (--chains {2 * chains}) make it more certain."
    else:
        advice = f"The chains are too short: run them longer (--rounds {2 * rounds})."
    return Trust(level, findings, advice)


def _effective_draws(log_weights: FloatArray) -> Finding:
    size = effective_sample_size(smooth(log_weights))
    return Finding(
        "Effective sample size",
        f"{size:,.0f} of {len(log_weights):,}",
        _level(-size, tuple(-limit for limit in ENOUGH_DRAWS)),
        "How many independent trees of the posterior itself the weighted draws are worth. "
        "Probabilities and means are as uncertain as those from this many trees.",
    )


def _tail(log_weights: FloatArray) -> Finding:
    shape, unseen = pareto_shape(log_weights), unseen_share(log_weights)
    meaning = (
        "How heavy the tail of the importance weights is. Below 0.5 the errors stated here are reliable; up to 0.7 "
        "the estimates are, but their errors may be larger; above 0.7 a few draws decide and the rest may be missing."
    )
    if shape is None or unseen is None:
        return Finding("Pareto k̂", "not known", "usable", f"{meaning} There were too few draws to tell.")
    level = _level(shape, TAIL_SHAPE)
    value = f"{shape:.2f}"
    if level != "good" and unseen <= UNSEEN_SHARE:
        level = "good"
        value += f", {100 * unseen:.1g} % of the weight unseen"
        meaning += " But if draws heavier than any seen would have hardly any weight, as here, errors are as stated."
    return Finding("Pareto k̂", value, level, meaning)


def _likelihoods(agreement: Agreement) -> Finding:
    difference, error = agreement.difference
    return Finding(
        "Marginal likelihoods of the runs",
        f"{difference:.2f} ± {error:.2f} apart",
        "good" if difference <= ERRORS * error else _level(difference, LIKELIHOOD_DIFFERENCE),
        "Every run estimates the same number. A run that falls behind has missed part of the posterior; in the "
        "combined posterior it counts accordingly less.",
    )


def _splits(agreement: Agreement) -> list[Finding]:
    splits = agreement.splits
    return [
        Finding(
            "Average standard deviation of split frequencies",
            f"{splits.average:.4f}",
            _level(splits.average, AVERAGE_DEVIATION),
            "Between the runs, over clades with a probability of at least 0.1 in one of them, as MrBayes reports it.",
        ),
        Finding(
            "Largest standard deviation of split frequencies",
            f"{splits.largest:.4f}",
            _level(splits.largest, LARGEST_DEVIATION),
            "The clade that the runs agree on least.",
        ),
    ]


def _checked(check: ChainCheck) -> list[Finding]:
    outside, difference = check.outside, check.difference
    chains = f"{counted(check.chains, 'Markov chain')} of {counted(check.rounds, 'round')}"
    return [
        Finding(
            "Outside the support",
            percent(outside)
            + (f", which {counted(check.added, 'tree')} of the chains stand for" if check.added else ""),
            _outside_level(check),
            f"The share of the posterior on trees that Q cannot generate, by {chains} that began at the draws and went "
            f"where they liked. Weights cannot see it. {ADDED if check.added else NOT_ADDED}",
        ),
        Finding(
            "Clades by chains",
            f"{difference.value:.3f} apart at most ({difference.run:.3f}, and {difference.chains.value:.3f} ± "
            f"{difference.chains.error:.3f} by chains)",
            _level(difference.beyond_errors, CLADE_DIFFERENCE),
            "How far those chains have moved a clade's probability. If the draws are a sample of the posterior, chains "
            "from them stay one. Differences within three standard errors do not count.",
        ),
    ]


def _elsewhere(check: ChainCheck) -> Finding:
    share = f"about {100 * check.elsewhere:.2g} %" if check.elsewhere < 0.99 else "more than 99 %"
    return Finding(
        "Other peaks of the model's parameters",
        share,
        _level(check.elsewhere, ELSEWHERE),
        "The share of the posterior around values of the parameters that the run does not reach, on its most likely "
        "tree, by a normal approximation of each peak.",
    )


def _outside_level(check: ChainCheck) -> Level:
    """Trees that stand for what is outside leave its error, but short chains may not have seen the most of much."""
    by_share = _level(check.outside_beyond_errors, OUTSIDE)
    if not check.added:
        return by_share
    by_error = _level(check.outside.error, ADDED_ERROR)
    return max(by_error, "usable" if by_share == "do not trust" else "good", key=LEVELS.index)


def percent(share: Measured) -> str:
    """A share in percent, with as many decimals as its error has."""
    if share.error == 0:
        return f"{100 * share.value:.3g} % ± 0 %"
    decimals = min(4, max(0, -math.floor(math.log10(100 * share.error))))
    return f"{100 * share.value:.{decimals}f} % ± {100 * share.error:.{decimals}f} %"


def _unfinished(steps_done: int, steps: int, begun: int, runs: int) -> Finding:
    which = "" if begun == runs else f" in {begun} of {runs} runs, the others have none"
    return Finding(
        "Training",
        f"step {steps_done:,} of {steps:,}{which}",
        "usable",
        "Training is not finished: this is the posterior so far.",
    )


def _advice_by_chains(checked: Level, weights: Level, *, added: bool) -> str:
    """What to do where chains found more than the run did; nothing where they did not."""
    if checked == "do not trust":
        return f"The run misses much of the posterior, which longer training does not mend: {TAKE_CHAINS}."
    if checked == "usable" and weights != "do not trust" and added:
        return f"Good enough to work with: {MORE_CHAINS}."
    if checked == "usable" and weights != "do not trust":
        return f"Good enough to work with, but the run misses a part of the posterior. To have it, {TAKE_CHAINS}."
    return ""


def _more_flexible(branches: str, family: str) -> str:
    """What else could be tried where branch lengths fit badly, with the settings for it."""
    settings = [
        *(["--branches edge"] if branches in TABLES else []),
        *(["--family warped"] if family in LESS_FLEXIBLE else []),
    ]
    return f", or use more flexible branch lengths ({' '.join(settings)})" if settings else ""


def _advice(
    weights: tuple[Level, Level], runs: Level, longer: str, more_flexible: str, begun: int, *, explored: bool
) -> str:
    """What would make finished runs better.

    longer: the setting for more steps, in brackets. more_flexible: what else could be tried. begun: of the runs.
    """
    effective_draws, tail = weights
    worst = max(weights, key=LEVELS.index)
    if runs == "do not trust":
        return f"The runs disagree: train longer{longer}, or make more runs (--runs {2 * begun})."
    if worst == "do not trust":
        return f"Train longer{longer}{more_flexible}."
    if tail == "good" and runs == "good" and effective_draws == "usable":
        return f"Good enough to work with. More draws (--repeats) or longer training{longer} make it safer."
    if "usable" in (worst, runs):
        return f"Good enough to work with; errors may be larger than stated. Longer training{longer} makes it safer."
    if begun == 1 and not explored:
        return "Nothing to worry about; a second run (--runs 2) would show whether a mode was missed."
    return "Nothing to worry about."


def _levels(weights: list[Finding]) -> tuple[Level, Level]:
    effective_draws, tail = weights
    return effective_draws.level, tail.level


def _level(value: float, limits: tuple[float, ...]) -> Level:
    good, usable = limits
    return "good" if value <= good else "usable" if value <= usable else "do not trust"


def _worst(findings: "list[Finding] | tuple[Finding, ...]") -> Level:
    return max((finding.level for finding in findings), key=LEVELS.index, default="good")
