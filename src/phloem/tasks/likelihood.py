"""Alignment and trees → log-likelihoods under a fixed model."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from phloem.arrays import FloatArray
from phloem.config import ModelConfig
from phloem.data.patterns import AlignmentSummary, compress, summarize
from phloem.data.reading import find_trees, read_alignment
from phloem.errors import TreeFormatError, quoted
from phloem.target.estimation import optimize_branch_lengths
from phloem.target.likelihood import TreeLikelihood
from phloem.target.substitution import SubstitutionModel, build_model
from phloem.trees.reading import read_trees
from phloem.trees.sample import TreeSample
from phloem.trees.splits import split_bits, unpack_bits
from phloem.trees.writing import format_newick


@dataclass(frozen=True, slots=True)
class LikelihoodTable:
    """What was asked for, tree by tree in file order; None where it was not asked for."""

    alignment: AlignmentSummary
    model: SubstitutionModel
    sample: TreeSample  # with the lengths that were used
    log_likelihoods: FloatArray  # (trees,)
    gradients: FloatArray | None  # (trees, 2n-3)
    sites: FloatArray | None  # (trees, sites)

    def newick(self) -> list[str]:
        """The trees with the lengths that were used."""
        return format_newick(self.sample.topologies, self.sample.taxa, self.sample.branch_lengths)

    def taxa_below(self) -> list[list[list[str]]]:
        """For each tree and branch the taxa on the side without the first taxon (its own branch: the first)."""
        members = unpack_bits(split_bits(self.sample.topologies), len(self.sample.taxa))
        taxa = np.array(self.sample.taxa)
        return [[taxa[row].tolist() for row in tree] for tree in members]

    def as_json(self) -> dict[str, Any]:
        """The same as plain lists and numbers; a likelihood of zero is null, as JSON has no infinity."""
        newick = self.newick()
        trees = []
        for index, value in enumerate(self.log_likelihoods.tolist()):
            tree: dict[str, Any] = {"log_likelihood": _finite(value), "newick": newick[index]}
            if self.gradients is not None:
                tree["gradient"] = self.gradients[index].tolist()
            if self.sites is not None:
                tree["sites"] = [_finite(site) for site in self.sites[index].tolist()]
            trees.append(tree)
        return {"alignment": self.alignment._asdict(), "model": self.model.describe(), "trees": trees}


def evaluate_likelihood(
    alignment_source: str | Path,
    tree_source: str | Path,
    config: ModelConfig,
    *,
    long_names: bool = False,
    optimize: bool = False,
    gradient: bool = False,
    sites: bool = False,
    threads: int | None = None,
) -> LikelihoodTable:
    """Log-likelihoods of all trees of a file, with the branch lengths that it gives or with the best ones."""
    alignment = read_alignment(alignment_source, long_names=long_names)
    sample = read_trees(find_trees(tree_source), taxa=alignment.taxa)
    patterns = compress(alignment)
    model = build_model(config.fixed(), patterns)
    likelihood = TreeLikelihood(patterns, model, threads=threads)
    if optimize:
        start = sample.branch_lengths
        if start is not None and not np.isfinite(start).all():
            start = None
        best = optimize_branch_lengths(likelihood, sample.topologies, start)
        sample = TreeSample(sample.taxa, sample.topologies, sample.weights, best.branch_lengths)
    lengths = torch.tensor(_known_lengths(sample, tree_source), requires_grad=gradient)
    values = likelihood(sample.topologies, lengths)
    if gradient:
        values.sum().backward()
    return LikelihoodTable(
        alignment=summarize(alignment),
        model=model,
        sample=sample,
        log_likelihoods=values.detach().numpy(),
        gradients=lengths.grad.numpy() if lengths.grad is not None else None,
        sites=likelihood.of_sites(sample.topologies, lengths) if sites else None,
    )


def _known_lengths(sample: TreeSample, source: str | Path) -> FloatArray:
    """The sample's lengths; an error where one is missing or negative."""
    if sample.branch_lengths is None:
        raise TreeFormatError(f"{source}: the trees have no branch lengths. Give lengths, or --optimize.")
    bad = np.argwhere(~(sample.branch_lengths >= 0))
    if len(bad):
        tree, branch = bad[0].tolist()
        length = sample.branch_lengths[tree, branch]
        below = f"the branch of {quoted(sample.taxa[branch])}" if branch < len(sample.taxa) else "an interior branch"
        what = "has no length" if np.isnan(length) else f"has the negative length {length:g}"
        raise TreeFormatError(f"{source}, tree {tree + 1}: {below} {what}. Give lengths of 0 or more, or --optimize.")
    return sample.branch_lengths


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None
