"""Distributions of model parameters, side by side."""

import numpy as np
import pytest

from phloem.errors import BadArgument
from phloem.plot import parameters
from support.every_figure import parameter_values

WEIGHTS = np.full(200, 1 / 200)


def test_each_parameter_has_a_panel_of_its_name():
    figure = parameters(parameter_values(), WEIGHTS)
    assert [ax.get_title(loc="left") for ax in figure.axes] == list(parameter_values())
    for number, ax in enumerate(figure.axes):
        _, edges, _ = ax.patches[0].get_data()
        assert number - 0.6 < edges[0] < number < edges[-1] < number + 0.6


def test_panels_are_as_many_in_a_row_as_there_is_room_for():
    figures = [parameters(parameter_values(), WEIGHTS, width=width) for width in (7.2, 3.6)]
    assert [figure.axes[0].get_subplotspec().get_gridspec().ncols for figure in figures] == [4, 2]
    assert figures[1].get_figheight() == pytest.approx(2 * figures[0].get_figheight())
    one = parameters({"alpha": parameter_values()["r(1)"]}, WEIGHTS)
    assert len(one.axes) == 1


def test_a_light_draw_far_away_does_not_stretch_the_axis():
    values = np.append(np.random.default_rng(1).normal(size=999), 1e6)
    weights = np.append(np.ones(999), 1e-3)
    _, edges, _ = parameters({"alpha": values}, weights / weights.sum()).axes[0].patches[0].get_data()
    assert edges[-1] < 10


def test_a_run_with_a_fixed_model_has_nothing_to_plot():
    with pytest.raises(BadArgument, match="no parameters"):
        parameters({}, WEIGHTS)
