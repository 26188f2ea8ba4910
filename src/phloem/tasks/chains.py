"""The trees of Markov chains from the draws of a run, as files."""

from collections.abc import Callable
from pathlib import Path

import torch

from phloem.arrays import FloatArray, LongArray
from phloem.errors import counted
from phloem.inference.chain_posterior import USUAL_ROUNDS, ChainPosterior, check_count
from phloem.inference.chains import kept_rounds
from phloem.storage.files import write_text
from phloem.target.posterior import TreePosterior
from phloem.tasks.exports import (
    SampleFiles,
    check_sample_files,
    format_lengths,
    format_trace,
    release,
    write_tree_file,
)
from phloem.tasks.opening import open_posterior
from phloem.tasks.posterior import values_by_name
from phloem.trees.branch_lengths import split_lengths
from phloem.trees.sample import GroupedTrees, TreeSample


def write_chains(
    directory: Path,
    files: SampleFiles,
    *,
    chains: int,
    rounds: int | None = None,
    count: int | None = None,
    seed: int = 1,
    threads: int | None = None,
    progress: Callable[[float], None] = lambda _: None,
) -> list[str]:
    """Run chains from the draws of a run and write their trees; returns what was done, in lines."""
    check_sample_files(directory, files)
    posterior = open_posterior(directory)
    rounds = rounds or USUAL_ROUNDS
    if count is not None:  # before they run
        *_, kept = kept_rounds(chains, rounds, posterior.topologies.topologies.node_count)
        check_count(count, chains * kept)
    found = posterior.chains(chains, rounds, seed=seed, threads=threads, progress=progress)
    chosen = found.chosen(count)
    sample = found.sample(count)
    about = [f"{release()}: {counted(len(sample), 'tree')}, evenly spaced. {found.about()}", *_verdict(found)]
    write_tree_file(sample, files.trees, about)
    if files.trace is not None:
        write_text(files.trace, format_trace(_trace(found, sample, chosen, posterior.target), *about))
    if files.lengths is not None:
        grouped = GroupedTrees.from_sample(found.trees.sample())
        write_text(files.lengths, format_lengths(grouped, split_lengths(grouped)))
    lines = [] if posterior.is_finished else [f"not finished: the starts are of step {posterior.summary.steps:,}"]
    lines.append(f"{counted(len(sample), 'posterior tree')}, equally weighted: {files.trees}")
    if files.trace is not None:
        lines.append(f"their trace: {files.trace}")
    if files.lengths is not None:
        lines.append(f"branch lengths: {files.lengths}")
    return [*lines, *found.describe()]


def _verdict(found: ChainPosterior) -> list[str]:
    return [f"Can it be trusted? {found.trust.level.capitalize()}. {found.trust.advice}"]


def _trace(
    found: ChainPosterior, sample: TreeSample, chosen: LongArray, target: TreePosterior
) -> dict[str, FloatArray | LongArray]:
    lengths = sample.branch_lengths
    assert lengths is not None
    theta = found.trees.theta[chosen]
    with torch.no_grad():
        log_prior = target.log_prior(sample.topologies, torch.tensor(lengths), torch.from_numpy(theta)).numpy()
    log_joint = found.trees.log_joint[chosen]
    return {
        "posterior": log_joint,
        "likelihood": log_joint - log_prior,
        "prior": log_prior,
        "TL": lengths.sum(axis=1),
        **values_by_name(target.parameters, theta),
        "chain": chosen // (len(found.trees) // found.trees.chains) + 1,
    }
