"""An alignment and several substitution models → a run of each, their marginal likelihoods and Bayes factors.

Every model is an ordinary run in a directory of its own, which all commands open. One set of bootstrap trees, made
under the model with the most parameters, begins the support of all; chains add what each model's posterior needs.
"""

import json
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from filelock import FileLock, Timeout

from phloem.config import InferConfig, ModelConfig
from phloem.config.infer import INFER
from phloem.config.model import parse_name
from phloem.config.search import iqtree_model
from phloem.config.settings import Layer
from phloem.data.alignment import Alignment
from phloem.data.patterns import compress
from phloem.data.reading import load_alignment
from phloem.display.events import Event, Notice
from phloem.errors import BadArgument, ConfigError, FileProblem, PhloemError, quoted
from phloem.inference.agreement import Measured, marginal_likelihood
from phloem.inference.outside import log_error_outside
from phloem.inference.trust import Trust
from phloem.runs.directory import LOCK, SavedRuns, claimed, find_traces
from phloem.runs.driver import RunRequest
from phloem.search.replicates import alignment_hash
from phloem.storage.files import cannot_read, cannot_write, check_can_write, read_bytes, refuse_links, write_text
from phloem.tasks.infer import InferRequest, run_inference
from phloem.tasks.posterior import Posterior
from phloem.tasks.run_files import BOOTSTRAP, RunInputs, build_target, infer_run
from phloem.tasks.support import SupportSource, Trees
from phloem.trees.constraint_files import read_constraints

COMPARISON = "comparison.json"
SETTINGS = "settings.toml"  # those that all runs share; the model is that of the bootstrap
USUAL_MODELS = ("JC", "HKY", "HKY+G", "GTR+G", "GTR+I+G")
# Kass & Raftery (1995), Journal of the American Statistical Association 90:773: up to so much of 2 ln B.
STRENGTHS = ((2.0, "hardly worth a mention"), (6.0, "positive"), (10.0, "strong"), (math.inf, "very strong"))
UNDECIDED = "undecided"
LEAST_ERRORS = 2.0  # standard errors of a difference; less is undecided

Progress = Callable[[Event], None]
Saved = SavedRuns[InferConfig, RunInputs]


class CompareRequest(NamedTuple):
    """Which models to compare, on what, and where the files go. Settings are those of every run."""

    source: str | Path
    run: RunRequest  # its directory holds those of the models
    models: Sequence[str] = ()  # by default those of the comparison that is resumed, or else the usual ones
    trees: Trees = ()
    preset: str | None = None
    settings: Sequence[Layer] = ()
    long_names: bool = False


class Displays(NamedTuple):
    """What shows the progress of the parts; by default nothing does."""

    bootstrap: Callable[[], AbstractContextManager[Callable[[float], None]]] = lambda: nullcontext(lambda _share: None)
    model: Callable[[], AbstractContextManager[Progress]] = lambda: nullcontext(lambda _event: None)


NO_DISPLAYS = Displays()


@dataclass(frozen=True, slots=True)
class ComparedModel:
    """A model and what its run found, which is nothing if it failed, or was stopped."""

    name: str
    directory: Path
    parameters: int | None = None  # that are inferred and free, of the model or of those of all parts
    seconds: float = 0.0  # of work on its run, bootstrap trees aside
    likelihood: Measured | None = None  # log p(Y), and its standard error
    trust: Trust | None = None
    problem: str = ""

    @property
    def is_trusted(self) -> bool:
        """Whether the run ended with good weights and nothing missed."""
        return self.trust is not None and self.trust.level == "good"


class Subject(NamedTuple):
    """What models are compared on, and where."""

    source: str  # the alignment as the user named it
    sha256: str
    directory: Path


@dataclass(frozen=True, slots=True)
class Comparison:
    """The models, the best first; those without a result are last."""

    subject: Subject
    models: tuple[ComparedModel, ...]

    @classmethod
    def of(cls, subject: Subject, models: Sequence[ComparedModel]) -> "Comparison":
        """The models in order."""
        ranked = sorted(models, key=lambda one: math.inf if one.likelihood is None else -one.likelihood.value)
        return cls(subject, tuple(ranked))

    @property
    def measured(self) -> tuple[ComparedModel, ...]:
        """Those with a result."""
        return tuple(one for one in self.models if one.likelihood is not None)

    def against_best(self, model: ComparedModel) -> Measured | None:
        """The log Bayes factor against the best model, at most 0, with its error."""
        best = self.models[0].likelihood
        if model.likelihood is None or best is None:
            return None
        error = 0.0 if model is self.models[0] else math.hypot(best.error, model.likelihood.error)
        return Measured(model.likelihood.value - best.value, error)

    def probability(self, model: ComparedModel) -> float | None:
        """Posterior probability among the measured models, which were equally probable before."""
        factor = self.against_best(model)
        if factor is None:
            return None
        factors = [found.value for one in self.measured if (found := self.against_best(one))]
        return float(math.exp(factor.value) / np.exp(factors).sum())

    def evidence(self, model: ComparedModel) -> str:
        """How strong the evidence for the best model is against this one, in words; nothing for itself."""
        factor = self.against_best(model)
        return "" if factor is None or model is self.models[0] else strength(-factor.value, factor.error)

    @property
    def undecided(self) -> list[ComparedModel]:
        """The models of which it is not known whether they are worse than the best."""
        return [model for model in self.measured if self.evidence(model) == UNDECIDED]

    def as_json(self) -> dict[str, Any]:
        """Plain lists and numbers, as in `comparison.json`."""
        alignment = {"source": self.subject.source, "sha256": self.subject.sha256}
        return {"alignment": alignment, "models": [self._row(model) for model in self.models]}

    def _row(self, model: ComparedModel) -> dict[str, Any]:
        likelihood, factor, trust = model.likelihood, self.against_best(model), model.trust
        return {
            "model": model.name,
            "run": str(model.directory),
            "parameters": model.parameters,
            "log_marginal_likelihood": None if likelihood is None else likelihood.value,
            "error": None if likelihood is None else likelihood.error,
            "log_bayes_factor": None if factor is None else factor.value,
            "log_bayes_factor_error": None if factor is None else factor.error,
            "evidence_for_the_best": self.evidence(model) or None,
            "probability": self.probability(model),
            "trust": None if trust is None else {"level": trust.level, "advice": trust.advice},
            "seconds": model.seconds,
            "problem": model.problem or None,
        }


def strength(log_factor: float, error: float) -> str:
    """How strong the evidence for the better of two models is. log_factor: ln B, of 0 or more, with its error."""
    if log_factor < LEAST_ERRORS * error:
        return UNDECIDED
    return next(words for limit, words in STRENGTHS if 2 * log_factor <= limit)


def log_marginal_likelihood(posterior: Posterior) -> Measured:
    """log p(Y) from all draws together, and its standard error, with what chains found outside the support."""
    inside = marginal_likelihood(posterior.draws.own)
    check = posterior.summary.check
    if check is None or not check.added:
        return inside
    outside = check.outside
    error = math.hypot(inside.error, log_error_outside(outside))
    return Measured(inside.value - math.log1p(-outside.value), error)


def compare_models(request: CompareRequest, displays: Displays = NO_DISPLAYS) -> Comparison:
    """Infer under each model, in a directory of its own; a comparison that was stopped goes on where it was.

    A run that fails does not keep the others from theirs: its model then has no result, but a problem.
    """
    directory, options = request.run.directory, request.run.options
    _refuse_model_settings(request.settings)
    earlier = _earlier(request.run)
    models = parse_models(request.models or [*earlier.seconds] or USUAL_MODELS)
    alignment, notes = load_alignment(request.source, long_names=request.long_names)
    subject = Subject(str(request.source), alignment_hash(alignment), directory)
    if earlier.sha256 not in ("", subject.sha256):
        raise FileProblem(
            f"{directory}: is a comparison on another alignment than {request.source}, or that has changed since. Use "
            "the alignment that it began with, or start again with --force."
        )
    runs = {str(model): infer_run(directory / str(model)) for model in models}
    saved = [
        SavedRuns.find(run, lambda _text: None) if request.run.resume and run.holds_run() else SavedRuns(run)
        for run in runs.values()
    ]
    richest = _richest(models, alignment)
    configs = [_with_bootstrap_under(richest, config) for config in _configs(request, models, saved, earlier.config)]
    _check_same_settings(directory, configs, [one.config or earlier.config for one in saved])
    trees = _support_source(request, alignment, configs[models.index(richest)], saved)
    compared = [ComparedModel(name, run.path, seconds=earlier.seconds.get(name, 0.0)) for name, run in runs.items()]
    with _claimed(request.run):
        write_text(directory / SETTINGS, INFER.to_toml(configs[models.index(richest)]))
        _save(Comparison.of(subject, compared))
        if trees is not None:
            with displays.bootstrap() as show:
                trees.make_bootstrap(options.threads, progress=show)
        for place, (run, config) in enumerate(zip(runs.values(), configs, strict=True)):
            is_done, began = run.has_results(), time.monotonic()
            try:
                with displays.model() as progress:
                    progress(Notice(f"model {place + 1} of {len(models)}: {compared[place].name}", urgent=False))
                    said = notes if place else ()  # of the alignment, with the first model
                    compared[place] = _infer(request, compared[place], config, _without(said, progress))
            finally:
                if not is_done:
                    seconds = round(compared[place].seconds + time.monotonic() - began, 1)
                    compared[place] = replace(compared[place], seconds=seconds)
                _save(Comparison.of(subject, compared))
    return Comparison.of(subject, compared)


def parse_models(names: Sequence[str]) -> list[ModelConfig]:
    """The models by their names, each of them once."""
    models: dict[str, str] = {}
    for name in names:
        words = parse_name("--models", name.strip())
        known = str(ModelConfig(words.text))
        if known in models:
            raise ConfigError(
                f"--models: {quoted(models[known])} and {quoted(words.text)} are the same. Give one of them."
            )
        models[known] = words.text
    if len(models) < 2:
        raise ConfigError(f"--models {', '.join(models)}: one model has nothing to compare it with. Name two or more.")
    return [ModelConfig(name) for name in models.values()]


def _infer(request: CompareRequest, model: ComparedModel, config: InferConfig, progress: Progress) -> ComparedModel:
    """The model with what its run finds, or with the problem that ends it."""
    run = request.run
    own = run._replace(directory=model.directory, resume=infer_run(model.directory).holds_run(), force=False)
    try:
        posterior = run_inference(
            InferRequest(
                request.source,
                own,
                request.trees,
                base=config,
                long_names=request.long_names,
                bootstrap=run.directory / BOOTSTRAP,
            ),
            progress,
        )
        return replace(
            model,
            parameters=posterior.draws.theta.shape[1],
            likelihood=log_marginal_likelihood(posterior),
            trust=posterior.trust,
        )
    except PhloemError as problem:
        progress(Notice(f"{model.name}: {problem}"))
        return replace(model, problem=str(problem))


def _without(said: Sequence[str], progress: Progress) -> Progress:
    """Progress without notices that were given before."""

    def tell(event: Event) -> None:
        if not (isinstance(event, Notice) and event.text in said):
            progress(event)

    return tell


def _refuse_model_settings(settings: Sequence[Layer]) -> None:
    for layer in settings:
        for key in INFER.flatten(layer, getattr(layer, "source", "")):
            if key.startswith("model."):
                raise ConfigError(
                    f"{key}: is a setting of one model. Name whole models with --models, and leave it out."
                )


def _configs(
    request: CompareRequest, models: Sequence[ModelConfig], saved: Sequence[Saved], shared: InferConfig | None
) -> list[InferConfig]:
    """The settings of every run: its own, or for one that has not begun those that were shared before, and changes."""
    bases = [one.config or shared for one in saved]
    return [
        replace(INFER.resolve(base=base, preset=request.preset, settings=request.settings), model=model)
        for base, model in zip(bases, models, strict=True)
    ]


def _richest(models: Sequence[ModelConfig], alignment: Alignment) -> ModelConfig:
    """The model with the most free parameters, the first of several."""
    patterns = compress(alignment)
    return max(models, key=lambda model: build_target(patterns, InferConfig(model=model)).dimension)


def _with_bootstrap_under(model: ModelConfig, config: InferConfig) -> InferConfig:
    """The settings with this model for the bootstrap, unless they name one."""
    if config.support.model is not None:
        return config
    return replace(config, support=replace(config.support, model=iqtree_model(model)))


def _check_same_settings(directory: Path, configs: Sequence[InferConfig], before: Sequence[InferConfig | None]) -> None:
    for config, one in zip(configs, before, strict=True):
        different = [] if one is None else INFER.differences(replace(one, model=config.model), config)
        if different:
            raise FileProblem(
                f"{directory}: is a comparison with other settings: {different[0]}. Leave the settings out to resume "
                "with its own, or start again with --force."
            )


def _support_source(
    request: CompareRequest, alignment: Alignment, config: InferConfig, saved: Sequence[Saved]
) -> SupportSource | None:
    """Where the trees for all supports come from; None if every run has its support."""
    if all(one.first is not None for one in saved):
        return None
    given = next((one.trees for one in saved if one.trees), ())
    if given and not request.trees:
        raise BadArgument(
            f"{request.run.directory}: the comparison was begun with --trees {' '.join(given)}. Give them again."
        )
    directory, source = request.run.directory / BOOTSTRAP, str(request.source)
    constraints = None if config.constrain is None else read_constraints(config.constrain, alignment.taxa)
    return SupportSource(
        source,
        alignment,
        config,
        request.trees,
        directory,
        may_replace=request.run.force,
        constraints=constraints,
    )


class _Earlier(NamedTuple):
    """What is known of a comparison that is resumed."""

    sha256: str = ""  # of its alignment
    seconds: Mapping[str, float] = MappingProxyType({})  # that each of its models has taken
    config: InferConfig | None = None  # what its runs share, and a model


def _earlier(run: RunRequest) -> _Earlier:
    """What the comparison that is resumed has left; nothing for a new one.

    A directory that holds anything else is an error.
    """
    path = run.directory
    if run.resume and run.force:
        raise BadArgument("--resume and --force: a comparison is either resumed or replaced. Give one of them.")
    try:
        entries = sorted(entry.name for entry in path.iterdir())
    except FileNotFoundError:
        return _Earlier()
    except NotADirectoryError:
        raise FileProblem(f"{path}: is not a directory. Name a new or an empty one for --out.") from None
    except OSError as problem:
        raise cannot_read(path, problem) from None
    for owner in find_traces(path, expected=INFER.command).values():
        raise FileProblem(f"{path}: is a run of `phloem {owner or 'infer'}`, not a comparison. Name another directory.")
    if COMPARISON not in entries:
        others = [name for name in entries if name not in (LOCK, BOOTSTRAP)]
        if others:
            raise FileProblem(
                f"{path}: holds {others[0]} and no comparison. Name a new or an empty directory for --out."
            )
        return _Earlier()
    if run.force:
        return _Earlier()
    if not run.resume:
        raise FileProblem(
            f"{path}: holds a comparison. Resume it (--resume), replace it (--force), or name another --out."
        )
    try:
        found = json.loads(read_bytes(path / COMPARISON))
        seconds = {str(row["model"]): float(row["seconds"]) for row in found["models"]}
        sha256 = str(found["alignment"]["sha256"])
    except (ValueError, KeyError, TypeError):
        raise FileProblem(f"{path / COMPARISON}: is damaged. Start again with --force.") from None
    settings = read_bytes(path / SETTINGS).decode(errors="replace")
    return _Earlier(sha256, seconds, INFER.read_record(settings, str(path / SETTINGS)))


@contextmanager
def _claimed(run: RunRequest) -> Iterator[None]:
    """The directory of a comparison, that no one else can use meanwhile; with --force its runs are removed first."""
    path = run.directory
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as problem:
        raise cannot_write(path, problem) from None
    refuse_links(path, (COMPARISON, SETTINGS, LOCK, BOOTSTRAP))
    check_can_write(path / COMPARISON)
    lock = FileLock(path / LOCK, timeout=0)
    try:
        lock.acquire()
    except Timeout:
        raise FileProblem(f"{path}: is in use by another comparison. Wait for it, or name another --out.") from None
    except OSError as problem:
        raise cannot_write(path, problem) from None
    try:
        if run.force:
            for folder in sorted(path.iterdir()):
                if infer_run(folder).holds_run():
                    with claimed(infer_run(folder), force=True) as replaced:
                        replaced.clear()
        yield
    finally:
        lock.release()


def _save(comparison: Comparison) -> None:
    write_text(comparison.subject.directory / COMPARISON, json.dumps(comparison.as_json(), indent=2) + "\n")
