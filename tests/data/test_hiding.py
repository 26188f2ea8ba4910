"""Missing data in simulated alignments: as much as was asked for, and where it should be."""

import numpy as np
import pytest

from phloem.data.hiding import GAP, LOST_GENE, UNKNOWN, Hidden, hide
from phloem.errors import BadArgument
from phloem.random_streams import RandomStream

PARTS = np.repeat(np.arange(4, dtype=np.int32), 5000)


def hidden_in(taxa: int, *, seed: int = 1, **shares: float) -> np.ndarray:
    symbols = np.full((taxa, len(PARTS)), ord("A"), np.uint8)
    hide(symbols, PARTS, Hidden(**shares), stream=RandomStream(seed, "test"))
    return symbols


def runs(row: np.ndarray) -> np.ndarray:
    """Lengths of the stretches of True."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], row.astype(np.int8), [0]])))
    return edges[1::2] - edges[::2]


def test_nothing_is_hidden_unless_asked():
    assert (hidden_in(3) == ord("A")).all()


def test_single_sites_are_missing_here_and_there():
    where = hidden_in(10, missing=0.3) == UNKNOWN
    assert where.mean() == pytest.approx(0.3, abs=0.01)
    assert np.concatenate([runs(row) for row in where]).mean() == pytest.approx(1 / 0.7, abs=0.03)


@pytest.mark.parametrize(("share", "length"), [(0.2, 25.0), (0.05, 3.0), (0.9, 10.0), (0.4, 1.0)])
def test_gaps_have_their_share_and_length(share, length):
    where = hidden_in(40, gaps=share, gap_length=length) == GAP
    assert where.mean() == pytest.approx(share, rel=0.05)
    inner = [runs(row)[1:-1] for row in where]
    assert np.concatenate(inner).mean() == pytest.approx(length, rel=0.05)
    # The first site and the last are gaps as often as others are.
    many = np.concatenate([hidden_in(200, seed=seed, gaps=share, gap_length=length)[:, [0, -1]] for seed in (1, 2, 3)])
    assert (many == GAP).mean(axis=0) == pytest.approx(share, abs=0.08)


def test_genes_are_missing_wholly_and_no_taxon_lacks_all():
    symbols = hidden_in(20, genes=0.4)
    lost = np.stack([(symbols[:, part == PARTS] == LOST_GENE).mean(axis=1) for part in range(4)], axis=1)
    assert set(np.unique(lost)) == {0.0, 1.0}
    assert lost.sum(axis=0).tolist() == [8, 8, 8, 8]
    assert hidden_in(20, genes=0.75).tolist() != hidden_in(20, genes=0.75, seed=2).tolist()
    assert ((hidden_in(20, genes=0.75) == LOST_GENE).mean(axis=1) == 0.75).all()
    for seed in range(10):
        most = hidden_in(20, seed=seed, genes=0.95) == LOST_GENE
        assert not most.all(axis=1).any()


def test_genes_need_parts():
    symbols = np.zeros((4, 10), np.uint8)
    with pytest.raises(BadArgument, match=r"one part.* --partition"):
        hide(symbols, np.zeros(10, np.int32), Hidden(genes=0.1), stream=RandomStream(1, "x"))


@pytest.mark.parametrize(
    ("shares", "option"),
    [
        ({"genes": -0.1}, "--missing-genes -0.1"),
        ({"gaps": 1.0}, "--gaps 1"),
        ({"missing": 1.5}, "--missing 1.5"),
        ({"missing": float("nan")}, "--missing nan"),
        ({"gap_length": 0.5}, "--gap-length 0.5"),
        ({"gaps": 0.95, "gap_length": 10.0}, "--gaps 0.95: gaps of mean length 10"),
    ],
)
def test_impossible_shares_are_refused(shares, option):
    with pytest.raises(BadArgument, match=option):
        Hidden(**shares)


def test_each_kind_has_random_numbers_of_its_own():
    both, gaps = hidden_in(5, gaps=0.2, missing=0.2), hidden_in(5, gaps=0.2)
    np.testing.assert_array_equal(both == GAP, gaps == GAP)
