"""The density experiment as a page: what it says, and what its pictures are made of."""

import re
from dataclasses import replace

import numpy as np
import pytest

from phloem.experiments.density.charts import estimates
from phloem.experiments.density.page import density_page, divergence_chart, loss_chart, scatter
from phloem.experiments.density.results import chosen_variant, density_rows, variants
from phloem.report.wording import length
from support.html_pages import Reader
from support.made_up_density import made_up_experiment, made_up_repeat, small_experiment


@pytest.fixture(scope="module")
def page() -> Reader:
    return Reader(density_page(made_up_experiment()))


def elements(page: Reader, tag: str, look: str) -> list[dict[str, str]]:
    return [found for name, found in page.elements if name == tag and look in found.get("class", "").split()]


def corners(points: str) -> np.ndarray:
    return np.array([point.split(",") for point in points.split()], float)


def test_the_page_says_in_words_what_is_shown(page):
    text = page.text()
    experiment = made_up_experiment()
    for fact in ("10,395 topologies of 8 taxa", "7,496 of them have probability 0", f"J* = {experiment.best_loss:.5g}"):
        assert fact in text
    assert "6 variants of an energy-based model" in text
    assert "GGNN (seed" in text
    assert "7,496 topologies of probability 0 cannot be shown." in text
    assert "± standard deviation of 3 repeats" in text
    for words in ("ended early", "was trained for", "Published", "nan"):
        assert words not in text


def test_the_table_has_the_rows(page):
    text = page.text()
    for row in density_rows(made_up_experiment()):
        assert row.convolution.upper() in text
        assert length(row.divergence) in text
        assert length(row.excess_loss) in text
    values = [float(found["data-value"]) for tag, found in page.elements if tag == "td" and "data-value" in found]
    expected = [
        (row.divergence, row.excess_loss, row.repeats, row.steps, row.seconds, 1000 * row.seconds / row.steps)
        for row in density_rows(made_up_experiment())
    ]
    np.testing.assert_allclose(np.reshape(values, (6, 6)), expected)


def test_published_step_times_are_a_column_and_what_is_not_published_is_a_dash():
    text = Reader(density_page(small_experiment(), published={"edge": 80, "ggnn": 94})).text()
    assert "Published ms" in text
    assert " 80 " in text
    assert " 94 " in text
    assert text.count("–") == 4


def test_every_variant_has_a_line_in_both_panels_and_its_colour_in_the_legend_and_the_table(page):
    for look in range(6):
        assert len(elements(page, "polyline", f"run-{look}")) == 2
        assert len(elements(page, "line", f"run-{look}")) == 2
    assert len(elements(page, "polygon", "shade")) == 2 * 2
    assert len(elements(page, "line", "best")) == 1


def test_dots_stand_where_the_probabilities_are(page):
    experiment = made_up_experiment()
    found = estimates(experiment, chosen_variant(variants(experiment)))
    (dots,) = elements(page, "path", "dots")
    assert "run-4" in dots["class"].split()
    places = np.array(re.findall(r"M(-?\d+) (-?\d+)h0", dots["d"]), float)
    assert len(places) == len(found.target)
    drawn = scatter(found)
    for values, column, axis in ((found.target, 0, drawn.x_ticks), (found.model, 1, drawn.y_ticks)):
        powers = [float(tick.label.translate(str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789"))[2:]) for tick in axis]
        expected = np.interp(values, powers, [tick.place for tick in axis])
        inside = (values >= powers[0]) & (values <= powers[-1])
        percents = places[:, column] / 10 if column == 0 else 100 - places[:, column] / 10
        np.testing.assert_allclose(percents[inside], expected[inside], atol=0.06)


def test_lines_stand_where_the_values_are():
    experiment = made_up_experiment()
    found = variants(experiment)
    for chart, values in (
        (loss_chart(found, experiment.best_loss), [variant.losses.mean - experiment.best_loss for variant in found]),
        (divergence_chart(found), [variant.divergences.mean for variant in found]),
    ):
        powers = [(tick.place, float(tick.label)) for tick in chart.y_ticks if tick.label != "0"]
        for line, mean in zip(chart.lines, values, strict=True):
            x, y = corners(line.points).T
            np.testing.assert_allclose(x, np.arange(10, 1001, 10), atol=0.06)
            (low, least), (high, most) = powers[0], powers[-1]
            expected = low + (high - low) * np.log(mean / least) / np.log(most / least)
            np.testing.assert_allclose(100 - y / 10, expected, atol=0.02)


def test_a_shade_is_a_deviation_to_each_side():
    experiment = made_up_experiment()
    found = variants(experiment)
    chart = divergence_chart(found)
    mlp = found[0].divergences
    upper = corners(chart.shades[0].points)[:100, 1]
    lower = corners(chart.shades[0].points)[:99:-1, 1]
    middle = corners(chart.lines[0].points)[:, 1]
    assert mlp.deviation is not None
    decade = (upper - middle) / np.log10(mlp.mean / (mlp.mean + mlp.deviation))
    np.testing.assert_allclose(
        (lower - middle) * np.log10((mlp.mean + mlp.deviation) / mlp.mean),
        (middle - upper) * np.log10(mlp.mean / (mlp.mean - mlp.deviation)),
        atol=0.1,
    )
    np.testing.assert_allclose(decade, decade.mean(), rtol=0.02)


def test_repeats_that_ended_early_and_variants_that_are_missing_are_told():
    experiment = small_experiment()
    early = [made_up_repeat(experiment.target, name, 9, steps=80_000, reports=3) for name in ("edge", "gcn")]
    kept = [repeat for repeat in experiment.repeats if repeat.convolution in ("mlp", "edge")]
    page = Reader(density_page(replace(experiment, repeats=(*kept, *early)), convolution="mlp"))
    text = page.text()
    assert "3 variants of an energy-based model" in text
    assert "+ 1 ended early" in text
    assert "GCN was trained for 80,000 of 200,000 steps." in text
    assert "EDGE was trained for" not in text
    assert "What MLP (seed" in text
    assert len(elements(page, "polyline", "early")) == 2
    assert len(elements(page, "polyline", "run")) == 2 * 3 + 2


def test_one_look_at_one_repeat_makes_a_page_and_so_does_a_training_that_was_lost():
    experiment = small_experiment()
    once = made_up_repeat(experiment.target, "gin", 1, reports=1)
    page = Reader(density_page(replace(experiment, repeats=(once,))))
    assert "±" not in page.text()
    assert all(len(line["points"].split()) == 2 for line in elements(page, "polyline", "run"))
    lost = replace(once, losses=(np.nan,), divergences=(np.nan,), log_probabilities=np.full(15, np.nan))
    page = Reader(density_page(replace(experiment, repeats=(lost,))))
    assert not re.search(r"\bnan\b", page.text())
    assert [found.get("data-value") for tag, found in page.elements if tag == "td"].count("1e300") == 2


def test_the_same_experiment_gives_the_same_bytes_and_not_many():
    page = density_page(made_up_experiment())
    assert page == density_page(made_up_experiment())
    assert len(page.encode()) < 200_000


def test_nothing_is_loaded_and_ids_are_unique(page):
    for tag, attributes in page.elements:
        assert tag not in ("link", "img", "iframe", "object", "embed", "base", "form")
        assert "src" not in attributes
        assert attributes.get("href", "#").startswith("#") or tag == "a"
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(set(ids)) == len(ids)
    for _, attributes in page.elements:
        if attributes.get("href", "").startswith("#"):
            assert attributes["href"][1:] in ids
