"""A model that its user has trained → a posterior, with all that a run of phloem's own has."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from phloem.config import EvaluationConfig, InferConfig, ModelConfig, TrainingConfig
from phloem.config.model import INFERRED
from phloem.errors import BadArgument
from phloem.inference.chain_posterior import check_draws
from phloem.inference.measurement import checked_measurement, measure
from phloem.inference.particles import check_same_taxa
from phloem.inference.training import Report
from phloem.runs.checkpoints import Checkpoint
from phloem.runs.directory import claimed
from phloem.runs.history import History
from phloem.search.replicates import alignment_hash
from phloem.target.free_parameters import FreeParameters
from phloem.target.partitioned import PartitionedModel
from phloem.target.posterior import TreePosterior
from phloem.target.priors import TreePrior, is_usual, length_prior_words
from phloem.target.substitution import describe_model
from phloem.tasks.exports import make_exports
from phloem.tasks.own_parts import MODEL, name_of
from phloem.tasks.posterior import Posterior, TemporaryHome, TrainedRun
from phloem.tasks.run_files import SUPPORT, InferCheckpoint, InferRun, Results, RunInputs, infer_run, write_results
from phloem.threads import physical_cores, single_threaded_products
from phloem.variational.joint import JointModel
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
    with single_threaded_products():
        measured = measure(model, target, config.evaluation, particles=particles, seed=seed)
        checked = check_draws(
            measured.draws,
            target,
            [model.network],
            chains=config.evaluation.chains,
            seed=seed,
            threads=physical_cores(),
        )
    inputs = RunInputs(source, target.likelihood.patterns, model.network.support, constraints=target.constraints)
    state = {"counters": np.array([steps, 0, 0], np.int64)}
    checkpoint = Checkpoint(config, inputs, state, History(Report, list(history)))
    measured = checked_measurement(measured, checked)
    results = Results(model, target, measured, finished=True, steps_done=steps, steps=steps, check=checked.check)
    home = TemporaryHome() if out is None else None
    path = home.path / "run" if home else Path(str(out))
    with claimed(infer_run(path)) as run:
        _record(run, checkpoint)
        summary = write_results(run, checkpoint, results)
        trained = TrainedRun(checkpoint, target, model)
        posterior = Posterior.from_draws(path, config, summary, measured.draws, home=home, trained=trained)
        make_exports(posterior).write_to_run(run)
    return posterior


def _settings(
    model: JointModel, target: TreePosterior, seed: int, training: TrainingConfig, evaluation: EvaluationConfig
) -> InferConfig:
    """As much as settings can say of the model and the target, and the names of what they cannot."""
    likelihood, prior = target.likelihood, target.prior
    known = likelihood.model
    substitution = None if isinstance(known, PartitionedModel) else describe_model(known, likelihood.patterns)
    if substitution is not None and target.parameters is not None:
        substitution = _left_open(substitution, target.parameters)
    own = [MODEL + type(model).__name__]
    if substitution is None:
        own.append("substitution " + name_of(likelihood.model.name))
    if not is_usual(prior):
        own.append("prior " + name_of(prior))
    return InferConfig(
        seed=seed,
        runs=1,
        branch_prior=length_prior_words(prior),
        prior_rate=prior.rate if isinstance(prior, TreePrior) else TreePrior().rate,
        own=", ".join(own),
        model=substitution or ModelConfig(),
        training=training,
        evaluation=evaluation,
    )


def _left_open(config: ModelConfig, parameters: FreeParameters) -> ModelConfig:
    """The settings of a model of which these parameters are inferred."""
    names: dict[str, dict[str, Any]] = {
        "kappa": {"kappa": None},
        "exchangeabilities": {"rates": None},
        "frequencies": {"frequencies": INFERRED},
        "shape": {"alpha": None},
        "invariant": {"invariant": INFERRED},
        "multiplier": {},
    }
    for one in parameters.inferred:
        config = replace(config, **names[one.field])
    return config


def _check(model: JointModel, target: TreePosterior) -> None:
    for value, kind in ((model, JointModel), (target, TreePosterior)):
        if not isinstance(value, kind):
            raise BadArgument(f"posterior: a {type(value).__name__} is given where a {kind.__name__} is needed.")
    check_same_taxa(model, target)


def _record(run: InferRun, checkpoint: InferCheckpoint) -> None:
    """Write what the run is, as if it had been trained here."""
    config, inputs = checkpoint.config, checkpoint.inputs
    hashed = alignment_hash(inputs.patterns.alignment)
    provenance = {"alignment": {"source": inputs.source, "sha256": hashed}, "trees": [], "bootstrap": ""}
    run.record(config, provenance, seed=config.seed, command="phloem.posterior_of")
    run.checkpoints.add(checkpoint)
    write_support(inputs.support, run.path / SUPPORT)
