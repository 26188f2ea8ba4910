"""Do two samples agree on clades? The frequency in one against that in the other."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from phloem.errors import BadArgument
from phloem.plot.clade_names import clade_name
from phloem.plot.lettering import write, write_below
from phloem.plot.style import BLUE, FAINT, MUTED, ONE_COLUMN, SMALL_SIZE, VERMILION, axes_for, figure_of, styled
from phloem.trees.comparison import split_table
from phloem.trees.sample import check_same_taxa
from phloem.trees.splits import SplitFrequencies

KEY = 27  # points below the axes, under their label, where the key to the numbers begins
LINE = 0.1  # inches a line of the key
LEAST_LABELLED = 0.01  # difference that is worth a label


def clades(
    one: SplitFrequencies,
    other: SplitFrequencies,
    *,
    names: tuple[str, str] = ("one sample", "other sample"),
    labelled: int = 3,
    width: float = ONE_COLUMN,
    ax: Axes | None = None,
) -> Figure:
    """A dot for each clade that either sample has, those that differ most with a number; a key below has their taxa.

    Samples that agree have all dots on the diagonal. The largest difference stands in the corner.
    """
    if labelled < 0:
        raise BadArgument(f"clade plot: {labelled} labels. Give 0 or more.")
    check_same_taxa(other.taxa, one.taxa, "clade plot")
    members, frequencies = split_table([one, _with_taxa(other, one.taxa)])
    x, y = frequencies.T
    difference = np.abs(x - y)
    worst = [int(split) for split in np.argsort(-difference, kind="stable")[:labelled]]
    worst = [split for split in worst if difference[split] >= LEAST_LABELLED]
    with styled():
        ax = axes_for(ax, width, width + LINE * len(worst))  # nearly square inside
        ax.plot([0, 1], [0, 1], color=FAINT, linewidth=0.8, zorder=0)
        ax.plot(x, y, "o", color=BLUE, markersize=3.2, alpha=0.6, markeredgewidth=0, clip_on=False)
        ax.plot(x[worst], y[worst], "o", color=VERMILION, markersize=3.2, markeredgewidth=0, clip_on=False)
        numbers = [str(number) for number in range(1, len(worst) + 1)]
        write(ax, numbers, x[worst], y[worst], (3, -1), va="top", size=SMALL_SIZE, color=VERMILION)
        key = [f"{number}  {clade_name(one.taxa, members[split])}" for number, split in enumerate(worst, 1)]
        if key:
            write_below(ax, "\n".join(key), KEY, size=SMALL_SIZE)
        note = f"{len(x)} clades\nlargest difference {difference.max(initial=0):.3f}"
        ax.text(0.02, 0.98, note, transform=ax.transAxes, va="top", size=SMALL_SIZE, color=MUTED)
        ax.set_xlabel(f"Clade frequency, {names[0]}")
        ax.set_ylabel(f"Clade frequency, {names[1]}")
        ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
    return figure_of(ax)


def _with_taxa(splits: SplitFrequencies, taxa: tuple[str, ...]) -> SplitFrequencies:
    """The same splits with the taxa in another order."""
    place = {name: taxon for taxon, name in enumerate(splits.taxa)}
    members = splits.members[:, [place[name] for name in taxa]]
    return SplitFrequencies(taxa, members ^ members[:, :1], splits.frequencies)  # the side without what is taxon 0 now
