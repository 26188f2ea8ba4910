"""From a target and a variational family to a posterior: training, evaluation, amortisation gaps."""

from typing import TYPE_CHECKING

from phloem.lazy import lazy_names

if TYPE_CHECKING:
    from phloem.inference.evaluation import Evaluation as Evaluation
    from phloem.inference.evaluation import evaluate as evaluate
    from phloem.inference.gap import AmortizationGaps as AmortizationGaps
    from phloem.inference.gap import amortization_gaps as amortization_gaps
    from phloem.inference.training import Training as Training
    from phloem.inference.training import train as train
else:
    __getattr__, __dir__ = lazy_names(__name__, __file__)
