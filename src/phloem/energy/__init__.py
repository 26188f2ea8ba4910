"""Tree probabilities by energy-based models, trained by noise contrastive estimation."""

from typing import TYPE_CHECKING

from phloem.lazy import lazy_names

if TYPE_CHECKING:
    from phloem.energy.density import TreeDensity as TreeDensity
    from phloem.energy.model import EnergyModel as EnergyModel
    from phloem.energy.sampling import sample_density as sample_density
    from phloem.energy.training import DensityTraining as DensityTraining
    from phloem.energy.training import train_density as train_density
else:
    __getattr__, __dir__ = lazy_names(__name__, __file__)
