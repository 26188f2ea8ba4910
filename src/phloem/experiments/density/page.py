"""The density experiment as one HTML file with everything in it."""

from collections.abc import Mapping

from phloem.experiments.density.charts import (
    NEGLIGIBLE,
    divergence_chart,
    estimates,
    look_of,
    loss_chart,
    repeats_in_words,
    scatter,
)
from phloem.experiments.density.results import DensityExperiment, chosen_variant, density_rows, variants
from phloem.report.contents import PAPER, phloem_version
from phloem.report.pages import environment


def density_page(
    experiment: DensityExperiment, *, convolution: str | None = None, published: Mapping[str, float] | None = None
) -> str:
    """The figure's three panels, the results as a table, and what they mean. The same experiment gives the same text.

    convolution: whose estimates are shown; the one that ends nearest to the target if none is named.
    published: by convolution, milliseconds a training step of the published code, for a column beside ours.
    """
    found = variants(experiment)
    rows = density_rows(experiment)
    shown = estimates(experiment, chosen_variant(found, convolution))
    return (
        environment()
        .get_template("density.html")
        .render(
            experiment=experiment,
            topologies=len(experiment.target),
            rows=rows,
            best=next(row for row in rows if row.convolution == chosen_variant(found).convolution),
            published=published,
            variants=found,
            looks={variant.convolution: look_of(variant) for variant in found},
            repeats=repeats_in_words(found),
            has_early=any(variant.stopped for variant in found),
            losses=loss_chart(found, experiment.best_loss),
            divergences=divergence_chart(found),
            estimates=shown,
            negligible=f"{NEGLIGIBLE * 1e6:g} in a million",
            scatter=scatter(shown),
            release=phloem_version({}),
            paper=PAPER,
        )
    )
