"""Curves of training: what is comparable is drawn, and can be seen."""

import numpy as np
import pytest

from phloem.errors import BadArgument
from phloem.plot import training
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
    with pytest.raises(BadArgument, match=r"^training plot: 1 names for 2 runs. Give one each.$"):
        training([history(), history()], names=["one"])
    with pytest.raises(BadArgument, match=r"^training plot: no report has a finite ELBO.$"):
        training([[history()[0]._replace(elbo=np.nan)]])
