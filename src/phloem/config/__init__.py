"""Every setting with its default. Settings that make no sense cannot exist."""

from typing import TYPE_CHECKING

from phloem.lazy import lazy_names

if TYPE_CHECKING:
    from phloem.config.density import DensityConfig as DensityConfig
    from phloem.config.infer import EvaluationConfig as EvaluationConfig
    from phloem.config.infer import InferConfig as InferConfig
    from phloem.config.infer import SupportConfig as SupportConfig
    from phloem.config.infer import TrainingConfig as TrainingConfig
    from phloem.config.infer import from_toml as from_toml
    from phloem.config.infer import preset as preset
    from phloem.config.infer import read_config as read_config
    from phloem.config.infer import resolve as resolve
    from phloem.config.infer import to_toml as to_toml
    from phloem.config.model import ModelConfig as ModelConfig
    from phloem.config.partition import PartitionConfig as PartitionConfig
    from phloem.config.search import BootstrapConfig as BootstrapConfig
else:
    __getattr__, __dir__ = lazy_names(__name__, __file__)
