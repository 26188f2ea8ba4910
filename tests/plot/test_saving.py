"""Figures as files: the same bytes each time, text as text, whole or not at all."""

import re
import zlib

import pytest
from matplotlib.figure import Figure

from phloem.errors import BadArgument, FileProblem
from phloem.plot import save, tree
from support.every_figure import FIGURES, TAXA, consensus

every_figure = pytest.mark.parametrize("draw", FIGURES.values(), ids=FIGURES)


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
    with pytest.raises(BadArgument, match=r"figures are written as \.pdf, \.svg, \.png, not as '.*'\. Change it\.$"):
        save(Figure(), tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_a_directory_that_is_not_there(tmp_path):
    with pytest.raises(FileProblem, match=r"its directory does not exist\. Make it first\.$"):
        save(Figure(), tmp_path / "none" / "tree.pdf")


@pytest.mark.parametrize("dpi", [0, -3, float("nan"), 1e9])
def test_dots_that_make_no_picture_are_refused(dpi, tmp_path):
    with pytest.raises(BadArgument, match="dots an inch"):
        save(Figure(), tmp_path / "tree.png", dpi=dpi)
