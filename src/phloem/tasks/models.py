"""From settings to the model that is trained and the target that it is trained for."""

import torch

from phloem.config import InferConfig, read_config
from phloem.data.patterns import SitePatterns
from phloem.inference.training import Training
from phloem.random_streams import RandomStream
from phloem.target.likelihood import TreeLikelihood
from phloem.target.posterior import TreePosterior, TreePrior
from phloem.target.substitution import build_model as build_substitution_model
from phloem.tasks.run_directory import Checkpoint
from phloem.variational.joint import JointModel, build_branch_model
from phloem.variational.sbn import SubsplitNetwork, SubsplitSupport


def build_target(patterns: SitePatterns, config: InferConfig, threads: int | None = None) -> TreePosterior:
    """The posterior that the settings describe, up to its constant."""
    substitution = build_substitution_model(config.model, patterns)
    return TreePosterior(TreeLikelihood(patterns, substitution, threads=threads), TreePrior(config.prior_rate))


def build_model(support: SubsplitSupport, config: InferConfig) -> JointModel:
    """An untrained model; its first weights depend on the seed alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(RandomStream(config.seed, "weights").key()[0]))
        branches = build_branch_model(config.branches, support, depth=config.depth, width=config.width)
    return JointModel(SubsplitNetwork(support), branches)


def restore_training(checkpoint: Checkpoint, target: TreePosterior) -> Training:
    """The training that a checkpoint is of, with the model as it was."""
    config = read_config(checkpoint.config, "checkpoint")
    training = Training(build_model(checkpoint.support, config), target, config.training, seed=config.seed)
    training.restore(checkpoint.training)
    return training
