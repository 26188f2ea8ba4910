"""The parameters of substitution models that are inferred, of one model or of those of an alignment's parts.

Every tree of a batch has a row of coordinates θ, real numbers without limits, cut into those of each parameter
(`coordinates.py`). Names are MrBayes': with a partition they end in the parts that have the parameter, as in
`alpha{1}`, `kappa{2,3}` or `pinvar{all}`.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple, final

import numpy as np

from phloem.arrays import FloatArray, LongArray
from phloem.config import ModelConfig
from phloem.config.model import ALIASES, MODEL_PARAMETERS
from phloem.kernels.likelihood.pruning import Derivatives
from phloem.target.coordinates import Coordinates, Multipliers, Ratio, Shape, Share, Shares
from phloem.target.partitioned import PartitionedModel, short_name
from phloem.target.rates import ModelRates, Parameters, gamma_of, repeated, stacked
from phloem.target.substitution import SubstitutionModel

STATES = "ACGT"
TRANSITION = 1  # A↔G, hardly ever the rarest of exchanges
RATE_NAMES = tuple(f"r({STATES[i]}<->{STATES[j]})" for i, j in ((0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)))
FREQUENCY_NAMES = tuple(f"pi({state})" for state in STATES)
SETTINGS = ("kappa", "rates", "frequencies", "alpha", "invariant")  # in the order of the parameters


class Inferred(NamedTuple):
    """Parameters that some parts of the alignment share."""

    field: str  # of `Parameters`, or "kappa"
    kind: Coordinates
    parts: tuple[int, ...]


class FreeParameters:
    """Which parameters of the parts' models are inferred, the others being those of fixed ones."""

    def __init__(self, fixed: Sequence[SubstitutionModel], inferred: Sequence[Inferred]) -> None:
        self.fixed = tuple(fixed)  # a model for each part, as they are but for what is inferred
        self.inferred = tuple(inferred)
        self._start = stacked(self.fixed)

    @classmethod
    def of(
        cls,
        configs: ModelConfig | Sequence[ModelConfig],
        fixed: SubstitutionModel | Sequence[SubstitutionModel],
        *,
        linked: Collection[str] = (),
        sizes: LongArray | None = None,
    ) -> "FreeParameters | None":
        """What the configurations of some parts leave open; None if that is nothing.

        fixed: the models with something in place of that. linked: settings that parts share where they infer them.
        sizes: of the parts, if their rates are inferred too.
        """
        configs = (configs,) if isinstance(configs, ModelConfig) else tuple(configs)
        fixed = (fixed,) if isinstance(fixed, SubstitutionModel) else tuple(fixed)
        inferred = []
        for setting in SETTINGS:
            for name, parts in _groups(setting, configs, is_linked=setting in linked):
                suffix = _suffix(parts, len(configs))
                inferred += [Inferred(field, kind, parts) for field, kind in _kinds(setting, name, suffix)]
        if sizes is not None and len(configs) > 1:
            names = tuple(f"m{{{part + 1}}}" for part in range(len(configs)))
            inferred.append(Inferred("multiplier", Multipliers(names, sizes), tuple(range(len(configs)))))
        return cls(fixed, inferred) if inferred else None

    @property
    def change_states(self) -> bool:
        """Whether some of them say how states differ, not only how sites do."""
        return any(one.field in ("kappa", "exchangeabilities", "frequencies") for one in self.inferred)

    @property
    def dimension(self) -> int:
        """How many coordinates there are."""
        return sum(one.kind.dimension for one in self.inferred)

    @property
    def names(self) -> tuple[str, ...]:
        """Of the parameters, which are more than the coordinates where they sum to 1."""
        return tuple(name for one in self.inferred for name in one.kind.names)

    def values(self, coordinates: FloatArray) -> FloatArray:
        """The parameters by their names, (trees, parameters), from coordinates (trees, dimension)."""
        return np.concatenate(self._values(coordinates), axis=1)

    def at(self, coordinates: FloatArray) -> "TreeModels":
        """The models of some trees."""
        return TreeModels(self, self._values(coordinates))

    def log_prior(self, coordinates: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Log density, (trees,), and its gradient, (trees, dimension)."""
        found = [one.kind.log_prior(own) for one, own in self._cut(coordinates)]
        return np.sum([value for value, _ in found], axis=0), np.concatenate([slope for _, slope in found], axis=1)

    def draw(self, random: np.random.Generator) -> "TreeModels":
        """The models of one tree, with parameters from their priors."""
        return TreeModels(self, [one.kind.draw(random)[None] for one in self.inferred])

    def start(self) -> FloatArray:
        """The coordinates, (dimension,), of the fixed models."""
        parts = []
        for one in self.inferred:
            first = one.parts[0]
            if one.field == "kappa":
                exchangeabilities = self._start.exchangeabilities[first]
                values = exchangeabilities[_transitions(one)[:1]] / exchangeabilities[:1]
            elif one.field == "multiplier":
                values = self._start.multiplier
            else:
                values = np.atleast_1d(getattr(self._start, one.field)[first])
            parts.append(one.kind.coordinates(values / values.sum() if type(one.kind) is Shares else values))
        return np.concatenate(parts)

    def parameters(self, values: Sequence[FloatArray]) -> Parameters:
        """The parameters of every tree's models, (trees, parts, …), from those that are inferred."""
        trees = len(values[0])
        found = repeated(self._start, trees)
        for one, own in zip(self.inferred, values, strict=True):
            parts = list(one.parts)
            if one.field == "kappa":
                for exchange in _transitions(one):
                    found.exchangeabilities[:, parts, exchange] = own
            elif one.field == "multiplier":
                found.multiplier[:] = own
            else:
                array = getattr(found, one.field)
                array[:, parts] = own[:, None] if array.ndim == 3 else own
        return found

    def _values(self, coordinates: FloatArray) -> list[FloatArray]:
        return [one.kind.values(own) for one, own in self._cut(coordinates)]

    def _cut(self, coordinates: FloatArray) -> list[tuple[Inferred, FloatArray]]:
        """Each with its own columns."""
        found, first = [], 0
        for one in self.inferred:
            found.append((one, coordinates[:, first : first + one.kind.dimension]))
            first += one.kind.dimension
        return found


@final
class TreeModels:
    """A model for each part of the alignment and each of some trees."""

    def __init__(self, parameters: FreeParameters, values: Sequence[FloatArray]) -> None:
        self._inferred = list(zip(parameters.inferred, values, strict=True))
        self.parameters = parameters.parameters(values)  # (trees, parts, …)
        categories, method = gamma_of(parameters.fixed)
        self.rates = ModelRates(self.parameters, categories=categories, method=method)

    @property
    def values(self) -> FloatArray:
        """The parameters that are inferred, by their names, (trees, parameters)."""
        return np.concatenate([values for _, values in self._inferred], axis=1)

    def gradient(self, found: Derivatives, of_trees: FloatArray) -> FloatArray:
        """The coordinates' gradient, (trees, dimension), from derivatives and how much each tree counts."""
        by, parts = self.rates.gradients(found, of_trees), []
        for one, values in self._inferred:
            of_parts = list(one.parts)
            if one.field == "kappa":
                by_values = by.exchangeabilities[:, of_parts][:, :, _transitions(one)].sum(axis=(1, 2))[:, None]
            elif one.field == "multiplier":
                by_values = by.multiplier
            else:
                array = getattr(by, one.field)[:, of_parts].sum(axis=1)
                by_values = array if array.ndim == 2 else array[:, None]
            parts.append(one.kind.pull_back(values, by_values))
        return np.concatenate(parts, axis=1)


def _transitions(one: Inferred) -> list[int]:
    """Which exchangeabilities a ratio is: both transitions, or one of them where there are two ratios."""
    return {"kappa(A<->G)": [1], "kappa(C<->T)": [4]}.get(one.kind.names[0].partition("{")[0], [1, 4])


def _groups(setting: str, configs: Sequence[ModelConfig], *, is_linked: bool) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Parts that share a parameter, each with the name of their models, of which TN93's has two ratios."""
    parts = [part for part, config in enumerate(configs) if setting in config.inferred]
    if not is_linked:
        yield from ((configs[part].name, (part,)) for part in parts)
        return
    for has_two_ratios in (False, True):
        own = tuple(p for p in parts if (setting == "kappa" and configs[p].name == "TN93") == has_two_ratios)
        if own:
            yield configs[own[0]].name, own


def _suffix(parts: tuple[int, ...], count: int) -> str:
    """What MrBayes adds to the names of parameters."""
    if count == 1:
        return ""
    return "{all}" if len(parts) == count else f"{{{','.join(str(part + 1) for part in parts)}}}"


def _kinds(setting: str, model: str, suffix: str) -> list[tuple[str, Coordinates]]:
    """The fields that a setting is about, with their coordinates."""
    if setting == "kappa":
        names = ("kappa(A<->G)", "kappa(C<->T)") if model == "TN93" else ("kappa",)
        return [("kappa", Ratio(name + suffix)) for name in names]
    if setting == "rates":
        return [("exchangeabilities", Shares(tuple(name + suffix for name in RATE_NAMES), TRANSITION))]
    if setting == "frequencies":
        return [("frequencies", Shares(tuple(name + suffix for name in FREQUENCY_NAMES), 0))]
    if setting == "alpha":
        return [("shape", Shape("alpha" + suffix))]
    return [("invariant", Share("pinvar" + suffix))]


def model_in_words(model: SubstitutionModel | PartitionedModel, parameters: FreeParameters | None) -> str:
    """A model in a line: what of it is inferred, and the numbers of what is not.

    model: with any values in place of those that are inferred.
    """
    if parameters is None:
        return model.in_words()
    models = model.parts if isinstance(model, PartitionedModel) else (model,)
    of_parts = []
    for number, part in enumerate(models):
        fields = [one.field for one in parameters.inferred if number in one.parts]
        takes = MODEL_PARAMETERS.get(ALIASES.get(part.name, part.name), frozenset())
        of_parts.append([short_name(part), *_fixed_in_words(part, takes, fields)])
    kinds = [one.field for one in parameters.inferred]
    words = {
        "kappa": "kappa" if kinds.count("kappa") == 1 else "both kappas" if len(models) == 1 else "kappas",
        "shape": "the shape" if kinds.count("shape") == 1 else "shapes",
        "invariant": "the proportion of invariant sites" if kinds.count("invariant") == 1 else "proportions",
        "multiplier": "rates of parts",
    }
    *others, last = (words.get(kind, kind) for kind in dict.fromkeys(kinds))
    inferred = f"{', '.join(others)} and {last}" if others else last
    are = "is" if kinds in (["kappa"], ["shape"], ["invariant"]) else "are"
    if isinstance(model, PartitionedModel):
        named = zip(model.names, of_parts, strict=True)
        shown = f"{len(models)} parts: " + "; ".join(f"{name} {', '.join(words)}" for name, words in named)
        return f"{shown}; {inferred} {are} inferred"
    (fixed,) = of_parts
    return f"{', '.join(fixed)}{'; ' if len(fixed) > 1 else ', of which '}{inferred} {are} inferred"


def _fixed_in_words(model: SubstitutionModel, takes: frozenset[str], inferred: Sequence[str]) -> Iterator[str]:
    """The parameters that are not inferred. takes: those that the model has, rates of sites aside."""
    exchangeabilities = model.exchangeabilities.tolist()
    rates = model.site_rates
    if "kappa" in takes and "kappa" not in inferred:
        ratios = dict.fromkeys(exchangeabilities[place] / exchangeabilities[0] for place in (1, 4))
        yield "kappa " + " ".join(f"{ratio:g}" for ratio in ratios)
    if "rates" in takes and "exchangeabilities" not in inferred:
        yield "exchangeabilities " + " ".join(f"{rate:g}" for rate in exchangeabilities)
    if "frequencies" in takes and "frequencies" not in inferred:
        yield "frequencies " + " ".join(f"{share:.4f}" for share in model.frequencies.tolist())
    if rates.shape is not None and "shape" not in inferred:
        yield f"shape {rates.shape.item():g}"
    if rates.shape is not None and rates.method == "median":
        yield "medians of categories"
    if rates.invariant is not None and "invariant" not in inferred:
        yield f"invariant sites {rates.invariant.item():g}"
