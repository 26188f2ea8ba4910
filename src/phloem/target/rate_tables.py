"""A substitution model as the kernels of the tree search read it: eigenvalues instead of matrices."""

import numpy as np

from phloem.data.patterns import SitePatterns, merge_relabelled
from phloem.kernels.arrays import FloatArray
from phloem.kernels.jukes_cantor import BLOCK
from phloem.kernels.partials import PatternTables, RateTables
from phloem.target.substitution import SubstitutionModel


def search_patterns(patterns: SitePatterns, model: SubstitutionModel) -> SitePatterns:
    """The patterns that the model can tell apart."""
    return merge_relabelled(patterns) if model.is_jukes_cantor else patterns


def rate_tables(model: SubstitutionModel) -> RateTables:
    """Eigenvalues and vectors of the symmetrised rate matrix, for every rate category."""
    frequencies = model.frequencies.detach().numpy()
    root = np.sqrt(frequencies)
    symmetric = root[:, None] * model.rate_matrix().detach().numpy() / root
    values, vectors = np.linalg.eigh((symmetric + symmetric.T) / 2)
    values, vectors = values[::-1].copy(), vectors[:, ::-1]  # that of zero is the largest
    values[0] = 0.0
    exponents = model.site_rates.rates().detach().numpy()[:, None] * values
    return RateTables(
        equal=int(model.is_jukes_cantor),
        frequencies=np.ascontiguousarray(frequencies),
        spectral=np.ascontiguousarray((vectors * root[:, None]).T),
        exponents=exponents,
        category_weights=model.site_rates.weights().detach().numpy(),
        terms=np.array([0.0, values[1]]) if model.is_jukes_cantor else np.append(0.0, exponents[:, 1:]),
    )


def pattern_tables(patterns: SitePatterns, model: SubstitutionModel) -> PatternTables:
    """Weights of the patterns, and the likelihoods of those that may be constant at invariant sites."""
    constant = np.zeros(len(patterns))
    if model.site_rates.invariant is not None:
        common = np.bitwise_and.reduce(patterns.states, axis=0)[:, None] >> np.arange(4) & 1  # (patterns, 4)
        constant = model.site_rates.invariant.item() * (common @ model.frequencies.detach().numpy())
    return PatternTables(_blocks(patterns.counts), _blocks(constant))


def tip_rows(patterns: SitePatterns, categories: int) -> FloatArray:
    """Partials of the tips, the same in every category, (taxa, blocks, categories, 4, BLOCK)."""
    taxa, count = patterns.states.shape
    filled = np.ones((taxa, -(-count // BLOCK) * BLOCK, 4))
    filled[:, :count] = patterns.tip_partials
    rows = filled.reshape(taxa, -1, 1, BLOCK, 4).swapaxes(3, 4)
    return np.ascontiguousarray(np.broadcast_to(rows, (taxa, rows.shape[1], categories, 4, BLOCK)))


def _blocks(values: FloatArray) -> FloatArray:
    """Numbers of patterns in blocks, the last one filled up with zeros."""
    filled = np.zeros(-(-len(values) // BLOCK) * BLOCK)
    filled[: len(values)] = values
    return filled.reshape(-1, BLOCK)
