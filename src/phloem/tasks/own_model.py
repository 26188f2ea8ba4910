"""A model that its user has trained → a posterior, with all that a run of phloem's own has."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from phloem.config import EvaluationConfig, InferConfig, ModelConfig, TrainingConfig
from phloem.errors import BadArgument
from phloem.inference.draws import DrawCollector, Draws, write_draws
from phloem.inference.evaluation import Evaluation, evaluate
from phloem.inference.particles import check_same_taxa
from phloem.inference.summary import Summary, SupportSize, summarize_draws
from phloem.inference.training import Report
from phloem.inference.trust import judge
from phloem.random_streams import RandomStream
from phloem.runs.checkpoints import Checkpoint
from phloem.runs.directory import HISTORY, claimed
from phloem.runs.history import History, HistoryFile
from phloem.search.replicates import alignment_hash
from phloem.target.posterior import TreePosterior, TreePrior
from phloem.target.substitution import describe_model
from phloem.tasks.exports import make_exports
from phloem.tasks.own_parts import MODEL, branches_of, name_of
from phloem.tasks.posterior import Posterior, TemporaryHome, TrainedRun
from phloem.tasks.run_files import DRAWS, PARAMETERS, SUPPORT, InferCheckpoint, RunInputs, infer_run, write_tables
from phloem.threads import single_threaded_products
from phloem.variational.joint import JointModel, write_parameters
from phloem.variational.sbn import write_support


def posterior_of(
    model: JointModel,
    target: TreePosterior,
    *,
    history: Sequence[Report] = (),
    particles: int = 10,
    evaluation: EvaluationConfig | None = None,
    seed: int = 1,
    source: str = "alignment",
    out: str | Path | None = None,
) -> Posterior:
    """The posterior that a trained model says: drawn from, weighted against the target, and judged.

    history: the reports of its training, which the figures show. particles: of the lower bound that is reported.
    evaluation: how many trees to draw, by default as in `infer`. source: what the alignment is called. out: a new run
    directory; without one it is temporary, and `Posterior.save` copies it. From the files all but the model itself can
    be loaded again.
    """
    _check(model, target)
    steps = history[-1].step if history else 0
    config = _settings(model, target, seed, TrainingConfig(max(1, steps), particles), evaluation or EvaluationConfig())
    drawn = DrawCollector()
    stream = RandomStream(seed, "evaluation")
    with single_threaded_products():
        found = evaluate(model, target, config.evaluation, particles=particles, stream=stream, keep=drawn)
    draws = drawn.draws(model.network.support.taxa)
    inputs = RunInputs(source, target.likelihood.patterns, model.network.support)
    state = {"counters": np.array([steps, 0, 0], np.int64)}
    checkpoint = Checkpoint(config, inputs, state, History(Report, list(history)))
    summary = _summarize(model, target, checkpoint, found, draws)
    home = TemporaryHome() if out is None else None
    path = home.path / "run" if home else Path(str(out))
    trained = TrainedRun(checkpoint, target, model)
    posterior = Posterior.from_draws(path, config, summary, draws, home=home, trained=trained)
    _write(posterior, checkpoint, model)
    return posterior


def _settings(
    model: JointModel, target: TreePosterior, seed: int, training: TrainingConfig, evaluation: EvaluationConfig
) -> InferConfig:
    """As much as settings can say of the model and the target, and the names of what they cannot."""
    likelihood, prior = target.likelihood, target.prior
    substitution = describe_model(likelihood.model, likelihood.patterns)
    own = [MODEL + type(model).__name__]
    if substitution is None:
        own.append("substitution " + name_of(likelihood.model.name))
    is_usual = type(prior) is TreePrior  # a subclass is another prior
    if not is_usual:
        own.append("prior " + name_of(prior))
    return InferConfig(
        seed=seed,
        runs=1,
        prior_rate=prior.rate if isinstance(prior, TreePrior) else TreePrior().rate,
        own=", ".join(own),
        model=substitution or ModelConfig(),
        training=training,
        evaluation=evaluation,
    )


def _check(model: JointModel, target: TreePosterior) -> None:
    for value, kind in ((model, JointModel), (target, TreePosterior)):
        if not isinstance(value, kind):
            raise BadArgument(f"posterior: a {type(value).__name__} is given where a {kind.__name__} is needed.")
    check_same_taxa(model, target)


def _summarize(
    model: JointModel, target: TreePosterior, checkpoint: InferCheckpoint, found: Evaluation, draws: Draws
) -> Summary:
    config, support, patterns = checkpoint.config, model.network.support, target.likelihood.patterns
    trust = judge(draws.log_weights, None, steps_done=checkpoint.step, steps=config.training.steps, finished=True)
    return Summary(
        names=support.taxa,
        sites=len(patterns.pattern_of_site),
        patterns=len(patterns),
        model=target.likelihood.model.name,
        branches=branches_of(config),
        seed=config.seed,
        support=SupportSize(support.topology_count, len(support.splits), support.parameter_count),
        finished=True,
        steps=checkpoint.step,
        repeats=config.evaluation.repeats,
        samples=config.evaluation.samples,
        evaluation=found,
        found=summarize_draws(draws, trust),
    )


def _write(posterior: Posterior, checkpoint: InferCheckpoint, model: JointModel) -> None:
    """Write the files that a finished run has, the summary last of the results."""
    config, inputs = checkpoint.config, checkpoint.inputs
    with claimed(infer_run(posterior.directory)) as run:
        hashed = alignment_hash(inputs.patterns.alignment)
        provenance = {"alignment": {"source": inputs.source, "sha256": hashed}, "trees": [], "bootstrap": ""}
        run.record(config, provenance, seed=config.seed, command="phloem.posterior_of")
        run.checkpoints.add(checkpoint)
        write_support(inputs.support, run.path / SUPPORT)
        write_parameters(model, run.path / PARAMETERS)
        HistoryFile(run.path / HISTORY, Report).rewrite(checkpoint.history.reports)
        write_draws(posterior.draws, run.path / DRAWS)
        write_tables(run, posterior.trees)
        run.write_summary(posterior.summary.as_json())
        make_exports(posterior).write(run.path)
        run.seal_exports()
