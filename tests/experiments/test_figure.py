"""The figure of the density experiment: three panels of the same variants."""

from dataclasses import replace

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from phloem.errors import BadArgument
from phloem.experiments.density.charts import divergence_chart, estimates, loss_chart
from phloem.experiments.density.figure import experiment_figure
from phloem.experiments.density.results import chosen_variant, variants
from phloem.plot import save
from phloem.plot.style import PALETTE, styled
from support.every_figure import texts
from support.made_up_density import made_up_experiment, made_up_repeat, small_experiment


@pytest.fixture(scope="module")
def figure() -> Figure:
    return experiment_figure(made_up_experiment())


def words(figure: Figure) -> list[str]:
    (legend,) = figure.legends
    return [text.get_text() for text in legend.get_texts()]


def curves(figure: Figure, panel: int) -> list:
    """The lines that have a point a look."""
    return [line for line in figure.axes[panel].lines if len(line.get_xdata()) > 2]


def test_variants_have_the_same_colours_everywhere(figure):
    assert words(figure) == ["MLP", "GCN", "GIN", "SAGE", "GGNN", "EDGE", "± standard deviation of 3 repeats"]
    (legend,) = figure.legends
    assert [line.get_color() for line in legend.get_lines()] == list(PALETTE)
    assert [line.get_color() for line in curves(figure, 0)] == list(PALETTE)
    assert [line.get_color() for line in curves(figure, 1)] == list(PALETTE)
    assert curves(figure, 2)[0].get_color() == PALETTE[4]


def test_lines_are_means_and_bands_deviations(figure):
    experiment = made_up_experiment()
    for panel, field, base in ((0, "losses", experiment.best_loss), (1, "divergences", 0.0)):
        for line, variant in zip(curves(figure, panel), variants(experiment), strict=True):
            values = np.array([getattr(repeat, field) for repeat in variant.repeats]) - base
            assert line.get_xdata().tolist() == list(variant.repeats[0].steps)
            np.testing.assert_allclose(line.get_ydata(), values.mean(axis=0))
        bands = figure.axes[panel].collections
        assert [tuple(band.get_facecolor()[0][:3]) for band in bands] == [to_rgb(PALETTE[0]), to_rgb(PALETTE[4])]
        values = np.array([getattr(repeat, field) for repeat in variants(experiment)[0].repeats]) - base
        heights = bands[0].get_paths()[0].vertices[:, 1]
        assert heights.max() == pytest.approx((values.mean(axis=0) + values.std(axis=0, ddof=1)).max())


def test_the_best_loss_is_a_dashed_line_at_zero_with_its_value(figure):
    dashed = [line for line in figure.axes[0].lines if line.is_dashed()]
    assert [list(line.get_ydata()) for line in dashed] == [[0, 0]]
    assert texts(figure)[0] == f"J* = {made_up_experiment().best_loss:.5g}"
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["0", "0.001", "0.01", "0.1"]


def test_the_page_has_the_same_heights(figure):
    """Two programs draw the same scales: where a value is, as a share of the panel."""
    experiment = made_up_experiment()
    found = variants(experiment)
    with styled():
        figure.draw_without_rendering()
    for panel, chart in enumerate((loss_chart(found, experiment.best_loss), divergence_chart(found))):
        ax = figure.axes[panel]
        for line, drawn in zip(curves(figure, panel), chart.lines, strict=True):
            points = ax.transAxes.inverted().transform(ax.transData.transform(line.get_xydata()))
            expected = np.array([point.split(",") for point in drawn.points.split()], float)
            np.testing.assert_allclose(points[:, 0], expected[:, 0] / 1000, atol=1e-3)
            np.testing.assert_allclose(points[:, 1], 1 - expected[:, 1] / 1000, atol=1e-3)


def test_estimates_stand_against_the_truth_and_what_is_left_out_is_said(figure):
    experiment = made_up_experiment()
    found = estimates(experiment, chosen_variant(variants(experiment)))
    (dots,) = curves(figure, 2)
    np.testing.assert_array_equal(dots.get_xdata(), found.target)
    np.testing.assert_array_equal(dots.get_ydata(), found.model)
    note = texts(figure)[1]
    assert note.splitlines() == [
        f"GGNN, seed {found.repeat.seed}",
        f"{len(found.target):,} topologies",
        f"not shown: {found.tiny:,} below {found.cut}",
        "and 7,496 of probability 0",
    ]


def test_any_variant_can_be_named():
    assert texts(experiment_figure(small_experiment(), convolution="gcn"))[1].startswith(
        "GCN, seed 1\n12 topologies\nnot shown: 3"
    )
    with pytest.raises(BadArgument, match=r"^density experiment: no repeat of 'gat'\. Choose one of mlp, "):
        experiment_figure(small_experiment(), convolution="gat")


def test_missing_variants_leave_the_others_their_colours_and_early_ends_are_thin_lines():
    experiment = small_experiment()
    kept = [repeat for repeat in experiment.repeats if repeat.convolution in ("gcn", "edge")]
    early = made_up_repeat(experiment.target, "edge", 9, steps=80_000, looks=4)
    figure = experiment_figure(replace(experiment, repeats=(*kept, early)))
    assert words(figure) == ["GCN", "EDGE", "ended early"]
    gcn, edge, thin = curves(figure, 1)
    assert [line.get_color() for line in (gcn, edge, thin)] == [PALETTE[1], PALETTE[5], PALETTE[5]]
    assert thin.get_linewidth() < edge.get_linewidth()
    assert thin.get_ydata().tolist() == list(early.divergences)
    assert edge.get_ydata().tolist() == list(kept[1].divergences)
    assert not figure.axes[1].collections


def test_a_deviation_larger_than_its_mean_stays_on_the_axis(tmp_path):
    experiment = small_experiment()
    (repeat,) = [one for one in experiment.repeats if one.convolution == "gin"]
    far = replace(repeat, divergences=tuple(100 * value for value in repeat.divergences), seed=2)
    figure = experiment_figure(replace(experiment, repeats=(repeat, far)))
    low, _ = figure.axes[1].get_ylim()
    assert low > 0
    (band,) = figure.axes[1].collections
    assert band.get_paths()[0].vertices[:, 1].min() == pytest.approx(low)
    save(figure, tmp_path / "far.pdf")


def test_one_look_is_a_dot_and_a_lost_training_is_no_line(tmp_path):
    experiment = small_experiment()
    once = made_up_repeat(experiment.target, "gin", 1, looks=1)
    figure = experiment_figure(replace(experiment, repeats=(once,)))
    assert figure.axes[1].lines[0].get_marker() == "."
    lost = replace(once, losses=(np.nan,), divergences=(np.nan,), log_probabilities=np.full(15, np.nan))
    save(experiment_figure(replace(experiment, repeats=(lost,))), tmp_path / "lost.svg")
    save(experiment_figure(replace(experiment, repeats=(lost, *experiment.repeats))), tmp_path / "some.svg")


def test_an_experiment_without_repeats_is_one_line():
    with pytest.raises(BadArgument, match=r"^density experiment: it has no repeat that was looked at\."):
        experiment_figure(replace(small_experiment(), repeats=()))
