"""What all figures share: their own settings and nobody else's; files with the same bytes each time."""

import re
import subprocess
import sys
import zlib

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure

import phloem
from phloem.errors import BadArgument, FileProblem
from phloem.plot import save, tree
from phloem.plot.style import FONTS, axes_for, fonts, styled
from support.every_figure import FIGURES, ON_AXES, TAXA, consensus, sample

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


@every_figure
def test_equal_figures_are_equal_bytes(draw, tmp_path):
    figures = [draw(None) for _ in range(2)]
    for suffix, beginning in {"pdf": b"%PDF", "svg": b"<?xml", "png": b"\x89PNG"}.items():
        paths = [tmp_path / f"{number}.{suffix}" for number in range(2)]
        for figure, path in zip(figures, paths, strict=True):
            save(figure, path, dpi=100)
        first, second = (path.read_bytes() for path in paths)
        assert first.startswith(beginning)
        assert first == second, suffix


@pytest.mark.parametrize("name", ["tree", "clades", "training", "density"])
def test_saving_a_figure_again_changes_nothing(name, tmp_path):
    """Whatever it was saved as in between; axes have the same places in all formats."""
    figure = FIGURES[name](None)
    places = set()
    for path in ("first.svg", "between.png", "between.pdf", "second.svg"):
        save(figure, tmp_path / path, dpi=100)
        places.add(figure.axes[0].get_position().bounds)
    assert len(places) == 1
    assert (tmp_path / "first.svg").read_bytes() == (tmp_path / "second.svg").read_bytes()


def test_text_is_text_in_svg_and_no_date_is_written(tmp_path):
    save(tree(consensus()), tmp_path / "tree.svg")
    content = (tmp_path / "tree.svg").read_text()
    assert set(TAXA) <= set(re.findall(r">([^<>]+)</text>", content))
    assert "<dc:date>" not in content


def test_letters_are_embedded_in_pdf_and_no_date_is_written(tmp_path):
    save(tree(consensus()), tmp_path / "tree.PDF")
    content = (tmp_path / "tree.PDF").read_bytes()
    assert b"/FontFile2" in content  # TrueType
    assert b"/Type3" not in content
    assert b"CreationDate" not in content
    pages = b"".join(
        zlib.decompress(stream) for stream in re.findall(rb"stream\r?\n(x.*?)\r?\nendstream", content, re.DOTALL)
    )
    assert re.search(rb"T[jJ]\b", pages)  # text is shown as text


def test_dots_an_inch_make_larger_pictures(tmp_path):
    widths = []
    for dpi in (50, 100):
        save(tree(consensus()), tmp_path / "tree.png", dpi=dpi)
        widths.append(int.from_bytes((tmp_path / "tree.png").read_bytes()[16:20], "big"))
    assert widths == [360, 720]


def test_a_figure_can_be_changed_and_saved_again(tmp_path):
    """Its layout is as free as before."""
    figure = FIGURES["topologies"](None)
    save(figure, tmp_path / "figure.png", dpi=50)
    left = figure.axes[0].get_position().x0
    figure.axes[0].set_ylabel("Two\nlines")
    save(figure, tmp_path / "figure.png", dpi=50)
    assert figure.axes[0].get_position().x0 > left


def test_figures_of_ones_own_are_saved_as_they_are(tmp_path):
    figure = Figure()
    place = figure.subplots().get_position().bounds
    save(figure, tmp_path / "own.svg")
    assert figure.axes[0].get_position().bounds == place


@pytest.mark.parametrize("name", ["tree.jpg", "tree", "tree.pdf.gz"])
def test_other_formats_are_refused(name, tmp_path):
    with pytest.raises(BadArgument, match=r"figures are written as \.pdf, \.svg, \.png, not as '.*'\."):
        save(Figure(), tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_a_directory_that_is_not_there(tmp_path):
    with pytest.raises(FileProblem, match=r"its directory does not exist\. Make it first\.$"):
        save(Figure(), tmp_path / "none" / "tree.pdf")


@pytest.mark.parametrize("dpi", [0, -3, float("nan"), 1e9])
def test_dots_that_make_no_picture_are_refused(dpi, tmp_path):
    with pytest.raises(BadArgument, match="dots per inch"):
        save(Figure(), tmp_path / "tree.png", dpi=dpi)
