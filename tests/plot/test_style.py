"""What all figures have in common: their own settings, no one else's, and nothing left behind."""

import subprocess
import sys

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure

import phloem
from phloem.errors import BadArgument
from phloem.plot.style import FONTS, axes_for, fonts, styled
from support.every_figure import FIGURES, ON_AXES, consensus, sample

every_figure = pytest.mark.parametrize("draw", FIGURES.values(), ids=FIGURES)


@every_figure
def test_settings_of_the_user_stay_and_do_not_count(draw, tmp_path):
    with matplotlib.rc_context({"font.size": 31, "lines.linewidth": 9, "axes.facecolor": "black"}):
        before = dict(matplotlib.rcParams)
        figure = draw(None)
        phloem.plot.save(figure, tmp_path / "figure.png", dpi=30)
        assert dict(matplotlib.rcParams) == before
    assert figure.axes[0].get_facecolor()[:3] == (1, 1, 1)
    assert max(text.get_size() for text in figure.findobj(matplotlib.text.Text)) <= 7


@pytest.mark.parametrize("draw", ON_AXES.values(), ids=ON_AXES)
def test_figures_are_drawn_on_axes_that_are_given(draw):
    figure = Figure(figsize=(8, 4))
    left, right = figure.subplots(1, 2)
    assert draw(right) is figure
    assert figure.axes == [left, right]
    assert right.has_data() or right.texts
    assert not left.has_data()
    assert max(text.get_size() for text in right.findobj(matplotlib.text.Text) if text.get_text()) <= 7


def test_axes_may_be_part_of_a_figure_in_a_figure():
    figure = Figure(layout="constrained")
    part = figure.subfigures(1, 2)[1].subplots()
    assert phloem.plot.tree(consensus(), ax=part) is figure


@every_figure
def test_all_text_is_inside_the_figure(draw):
    figure = draw(None)
    with styled():
        figure.draw_without_rendering()
        figure.draw_without_rendering()
    for ax in figure.axes:
        for text in [*ax.texts, ax.title, ax.xaxis.label, ax.yaxis.label]:
            if text.get_text() and ax.axison | (text in ax.texts):
                box = text.get_window_extent()
                assert box.x0 >= -1
                assert box.y0 >= -1
                assert box.x1 <= figure.bbox.x1 + 1
                assert box.y1 <= figure.bbox.y1 + 1


def test_fonts_are_truetype_and_there_is_always_one():
    assert fonts()[-1] == FONTS[-1] == "DejaVu Sans"


@pytest.mark.parametrize("size", [0, -1, np.nan, 1e6])
def test_sizes_that_make_no_figure_are_refused(size):
    with pytest.raises(BadArgument, match=r"^figure: .* inches\. Give sizes above 0 and below 600\.$"):
        phloem.plot.topologies(sample(), width=size)


def test_axes_that_are_given_need_no_size():
    ax = Figure().subplots()
    assert axes_for(ax, -1, -1) is ax


def test_plots_are_there_after_importing_phloem_alone_and_need_neither_pyplot_nor_torch():
    script = "import sys, phloem; phloem.plot.tree; sys.exit(bool({'matplotlib.pyplot', 'torch'} & set(sys.modules)))"
    subprocess.run([sys.executable, "-c", script], check=True)
