"""Training curves, importance weights and amortisation gaps: what is drawn, and that it can be seen."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from phloem.errors import BadArgument
from phloem.inference.gap import AmortizationGaps
from phloem.plot import training, weights
from phloem.plot.diagnostics import gaps
from phloem.plot.style import save
from support.every_figure import history, legend, texts


def test_every_run_has_its_elbo_and_its_bound():
    figure = training([history(0), history(1)])
    bound, elbo, other_bound, other_elbo = figure.axes[0].lines
    assert elbo.get_ydata().tolist() == [report.elbo for report in history(0)]
    assert other_elbo.get_ydata().tolist() == [report.elbo for report in history(1)]
    assert bound.get_color() == elbo.get_color() != other_bound.get_color() == other_elbo.get_color()
    assert legend(figure) == ["multi-sample bound", "ELBO", "run 1", "run 2"]


def test_the_bound_of_a_tempered_target_is_left_out():
    """Report 6 is at full temperature, but its bound is a mean over steps that were not."""
    reports = history(tempered=5)
    bound = training([reports]).axes[0].lines[0]
    assert bound.get_ydata().tolist() == [report.lower_bound for report in reports[6:]]


def test_tempering_is_shaded():
    figure = training([history(tempered=5), history(tempered=8)])
    (shade,) = figure.axes[0].patches
    assert (shade.get_x(), shade.get_width()) == (0, 900)
    assert texts(figure) == ["tempered"]
    assert not training([history(tempered=0)]).axes[0].patches


def test_a_run_that_was_tempered_to_its_end_has_its_elbo():
    figure = training([history(tempered=30)])
    assert len(figure.axes[0].lines[0].get_ydata()) == 0
    assert len(figure.axes[0].lines[1].get_ydata()) == 20
    assert figure.axes[0].patches[0].get_width() == 2000


def test_the_axis_leaves_the_first_steps_out_and_shows_all_last_ones():
    low, high = training([history(0), history(1)]).axes[0].get_ylim()
    assert low > -120
    last = [value for seed in (0, 1) for report in history(seed)[-5:] for value in (report.elbo, report.lower_bound)]
    assert low < min(last)
    assert max(last) < high


def test_a_run_that_is_far_below_is_seen():
    far = [report._replace(elbo=report.elbo - 300) for report in history(1)]
    low, _ = training([history(0), far]).axes[0].get_ylim()
    assert low < far[-1].elbo


def test_one_report_is_enough_and_what_is_not_finite_is_left_out():
    assert training([history()[:1]]).axes
    broken = [report._replace(elbo=np.nan, lower_bound=-np.inf) for report in history()[:3]]
    assert np.isfinite(training([[*broken, *history()[3:]]]).axes[0].get_ylim()).all()


def test_names_of_runs_can_be_given():
    assert legend(training([history(0), history(1)], names=["EDGE", "Split"]))[2:] == ["EDGE", "Split"]


def test_bad_input_is_one_line():
    for nothing in ([], [[]], [history(), []]):
        with pytest.raises(BadArgument, match=r"^training plot: every run needs at least one report.$"):
            training(nothing)
    with pytest.raises(BadArgument, match=r"^training plot: 1 names for 2 runs\."):
        training([history(), history()], names=["one"])
    with pytest.raises(BadArgument, match=r"^training plot: no report has a finite ELBO.$"):
        training([[history()[0]._replace(elbo=np.nan)]])


def test_weights_are_in_order_and_relative_to_their_mean():
    logs = np.random.default_rng(1).normal(size=100)
    _, line, tail = weights(logs - 7000).axes[0].lines
    plain = np.sort(np.exp(logs))[::-1]
    np.testing.assert_allclose(line.get_ydata(), plain / plain.mean())
    np.testing.assert_allclose(tail.get_ydata(), line.get_ydata()[:20])


@pytest.mark.parametrize(("draws", "tail"), [(10, 2), (100, 20), (1000, 95), (100_000, 949)])
def test_the_tail_is_that_of_pareto_smoothing(draws, tail):
    assert legend(weights(np.zeros(draws))) == [f"tail, {tail} draws"]


def test_diagnostics_are_written_where_they_are_given():
    logs = np.zeros(2000)
    both = "effective draws 1,500 of 2,000 (75 %)\nPareto k̂ 0.43"
    assert texts(weights(logs, effective_samples=1500, pareto_k=0.431)) == [both]
    assert texts(weights(logs, pareto_k=0.431)) == ["Pareto k̂ 0.43"]
    assert texts(weights(logs)) == []


def test_draws_without_weight_count_in_the_mean_but_have_no_place_on_the_axis():
    _, line, _ = weights([0, 0, -np.inf, -np.inf]).axes[0].lines
    assert line.get_ydata().tolist() == [2, 2]


def test_one_huge_weight_does_not_hide_the_others():
    figure = weights([0.0, -1000.0, -1001.0])
    assert figure.axes[0].get_ylim()[0] == 1e-3


@pytest.mark.parametrize("bad", [[], [-np.inf], [np.nan, 0], [np.inf, 0]])
def test_bad_weights_are_one_line(bad):
    with pytest.raises(BadArgument, match=r"^weight plot: .* at least one weight above zero"):
        weights(bad)


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
