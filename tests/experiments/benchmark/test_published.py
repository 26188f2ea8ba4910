"""The published values: those of the file are those of the benchmark data's README, number for number."""

import pytest

from phloem.experiments.benchmark.published import (
    QUANTITIES,
    VARIANTS,
    published,
    published_estimate,
    published_gaps,
    published_step,
    stepping_stone,
)

DATASETS = [f"DS{number}" for number in range(1, 9)]
NAMES = ("Split", "PSP", "MLP", "GCN", "GIN", "SAGE", "GGNN", "EDGE")


def rows_of(text: str) -> dict[str, list[str]]:
    lines = [[part.strip() for part in line.strip().strip("|").split("|")] for line in text.splitlines() if "|" in line]
    return {line[0]: line[1:] for line in lines}


def as_written(mean: float, std: float) -> str:
    deviation = f"{std:.2f}"
    return f"{mean:.2f}({deviation if std >= 1 else deviation.removeprefix('0')})".replace("-", "−")


def test_every_number_is_that_of_the_readme(real_data):
    rows = rows_of((real_data / "README.md").read_text())
    for short, quantity in zip(("ELBO", "ML"), QUANTITIES, strict=True):
        for name in NAMES:
            ours = [as_written(*published_estimate(quantity, name.lower(), dataset)) for dataset in DATASETS]
            assert ours == rows[f"{short} {name}"]
    assert [as_written(*stepping_stone(dataset)) for dataset in DATASETS] == rows["ML MrBayes stepping stone"]
    for name in ("tree 24", "tree 31", "tree 36", "average"):
        assert [f"{published_gaps(variant)[name]:.2f}" for variant in VARIANTS] == rows[name]


def test_step_times_are_those_of_the_readme(real_data):
    text = " ".join((real_data / "README.md").read_text().split())
    ours = ", ".join(f"{name} {published_step('DS1', name.lower()):.0f}" for name in NAMES)
    assert f"DS1 {ours}; " in text
    assert f"EDGE on DS4 {published_step('DS4', 'edge'):.0f}, on DS8 {published_step('DS8', 'edge'):.0f}." in text
    other = published()["other_times"]
    assert f"into a support: {other['support_seconds']} s." in text
    assert f"with gradient: {other['likelihood_milliseconds']} ms." in text
    assert f"1,000 samples: {other['marginal_likelihood_seconds']} s." in text


def test_some_values_without_the_readme():
    assert published_estimate("elbo", "edge", "DS1") == (-7110.26, 0.10)
    assert published_estimate("log_marginal_likelihood", "split", "DS8") == (-8651.39, 0.94)
    assert stepping_stone("DS7") == (-37332.76, 2.42)
    assert published_gaps("psp") == {"tree 24": 1.81, "tree 31": 1.82, "tree 36": 3.79, "average": 0.89}
    assert published_step("DS2", "edge") is None
    assert published_estimate("elbo", "edge", "DS9") is None


@pytest.mark.parametrize("name", ["elbo", "log_marginal_likelihood", "stepping_stone", "gaps", "step_milliseconds"])
def test_every_kind_says_where_it_comes_from(name):
    assert published()["sources"][name]
