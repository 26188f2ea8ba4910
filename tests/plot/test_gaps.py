"""The picture of gaps: a point a tree, with errors and averages."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from phloem.inference.gap import AmortizationGaps
from phloem.plot.diagnostics import gaps
from phloem.plot.style import save


def example(count: int = 5) -> AmortizationGaps:
    gap, error = np.linspace(0.3, 0.7, count), np.full(count, 0.01)
    return AmortizationGaps(*[gap, error] * 3, shortfall=error, converged=np.ones(count, np.bool_))


def test_every_tree_is_a_point_at_its_rank_with_two_errors_to_each_side():
    ranks = np.array([1, 2, 4, 5, 9])
    (ax,) = gaps(example(), ranks=ranks).axes
    points, _, (bars,) = ax.containers[0]
    np.testing.assert_array_equal(points.get_xdata(), ranks)
    np.testing.assert_allclose(points.get_ydata(), example().gap)
    np.testing.assert_allclose(
        [bar[:, 1] for bar in bars.get_segments()], [(g - 0.02, g + 0.02) for g in example().gap]
    )


def test_averages_are_lines_with_their_values():
    weights = np.array([1.0, 0, 0, 0, 0])
    (ax,) = gaps(example(), weights=weights).axes
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [
        "tree ± 2 errors",
        "average 0.50",
        "weighted 0.30",
    ]
    levels = [line.get_ydata()[0] for line in ax.lines if len(line.get_ydata()) == 2]
    assert levels == pytest.approx([0, 0.5, 0.3])
    assert len(gaps(example()).axes[0].get_legend().get_texts()) == 2


def test_it_is_drawn_on_given_axes_and_saved(tmp_path):
    figure = Figure()
    assert gaps(example(), ax=figure.subplots(1, 2)[1]) is figure
    save(figure, tmp_path / "gaps.svg")
    assert "amortisation gap, nats" in (tmp_path / "gaps.svg").read_text()
