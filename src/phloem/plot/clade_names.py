"""A clade in a few words."""

from collections.abc import Sequence

import numpy as np

from phloem.kernels.arrays import BoolArray


def clade_name(taxa: Sequence[str], members: BoolArray, limit: int = 2) -> str:
    """The taxa on the smaller side of a split: the first few, and how many more there are."""
    side = members if 2 * int(members.sum()) <= len(taxa) else ~members
    names = [taxa[taxon] for taxon in np.flatnonzero(side).tolist()]
    shown = ", ".join(names[:limit])
    return shown if len(names) <= limit else f"{shown} + {len(names) - limit}"
