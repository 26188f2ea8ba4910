"""Every setting with its default. Settings that make no sense cannot exist."""

from typing import Final

from phloem.config.density import DENSITY as DENSITY
from phloem.config.density import DensityConfig as DensityConfig
from phloem.config.infer import BRANCH_MODELS as BRANCH_MODELS
from phloem.config.infer import DECAYS as DECAYS
from phloem.config.infer import ESTIMATORS as ESTIMATORS
from phloem.config.infer import INFER as INFER
from phloem.config.infer import PRESETS as PRESETS
from phloem.config.infer import STOPS as STOPS
from phloem.config.infer import EvaluationConfig as EvaluationConfig
from phloem.config.infer import InferConfig as InferConfig
from phloem.config.infer import SupportConfig as SupportConfig
from phloem.config.infer import TrainingConfig as TrainingConfig
from phloem.config.infer import preset as preset
from phloem.config.model import ALIASES as ALIASES
from phloem.config.model import EMPIRICAL as EMPIRICAL
from phloem.config.model import MODEL_PARAMETERS as MODEL_PARAMETERS
from phloem.config.model import ModelConfig as ModelConfig
from phloem.config.search import BOOTSTRAP as BOOTSTRAP
from phloem.config.search import BOOTSTRAP_METHODS as BOOTSTRAP_METHODS
from phloem.config.search import SEARCH as SEARCH
from phloem.config.search import BootstrapConfig as BootstrapConfig
from phloem.config.search import SearchConfig as SearchConfig
from phloem.config.search import iqtree_model as iqtree_model
from phloem.config.settings import FileSettings as FileSettings
from phloem.config.settings import Schema as Schema
from phloem.config.settings import command_of as command_of
from phloem.config.settings import heading as heading

# Those of `phloem infer`, for short.
HEADING: Final = heading(INFER.command)
resolve = INFER.resolve
read_config = INFER.read
to_toml = INFER.to_toml
from_toml = INFER.from_toml
read_toml = INFER.read_toml
differences = INFER.differences
