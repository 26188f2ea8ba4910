"""Likelihoods and priors of trees with model parameters, as MrBayes printed them of its own samples."""

import csv
import subprocess
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch

from phloem.arrays import FloatArray
from phloem.config import ModelConfig
from phloem.data.patterns import compress
from phloem.target.coordinates import Shares
from phloem.target.free_parameters import FreeParameters
from phloem.target.likelihood import TreeLikelihood
from phloem.target.posterior import TreePosterior
from phloem.target.priors import GammaDirichletPrior, LengthPrior, TreePrior, UniformPrior
from phloem.target.substitution import build_model
from phloem.trees.reading import read_trees
from phloem.trees.sample import TreeSample
from support.small_posteriors import evolved

ALIGNMENT = evolved(6, 120, seed=4)
LETTERS = {1: "A", 2: "C", 4: "G", 8: "T"}


class Case(NamedTuple):
    model: str
    prior: LengthPrior
    lset: str
    prset: str


CASES = [
    Case("HKY+I+G4", TreePrior(), "nst=2 rates=invgamma", "exponential(10)"),
    Case("GTR+G4", GammaDirichletPrior(), "nst=6 rates=gamma", "gammadir(1,0.1,1,1)"),
    Case("GTR+G5", GammaDirichletPrior(2, 3), "nst=6 rates=gamma ngammacat=5", "gammadir(2,3,1,1)"),
    Case("K80+I", TreePrior(7), "nst=2 rates=propinv", "exponential(7) statefreqpr=fixed(equal)"),
    Case("F81", UniformPrior(5), "nst=1", "uniform(0,5)"),
    Case("SYM+G4", TreePrior(), "nst=6 rates=gamma", "exponential(10) statefreqpr=fixed(equal)"),
]


def run(program: str, folder: Path, case: Case) -> tuple[TreeSample, dict[str, FloatArray]]:
    """Trees and columns of a short chain, with all digits."""
    rows = (f"{name} {''.join(LETTERS[int(state)] for state in states)}" for name, states in alignment_rows())
    commands = [
        "set autoclose=yes nowarn=yes seed=1 swapseed=1 precision=15",
        "set usebeagle=yes beagledevice=cpu beagleprecision=double",
        f"lset {case.lset}",
        f"prset brlenspr=unconstrained:{case.prset}",
        "mcmc ngen=3000 nruns=1 nchains=1 samplefreq=100 printfreq=3000 diagnfreq=3000 filename=run",
    ]
    (folder / "run.nex").write_text(
        "#NEXUS\nbegin data;\ndimensions ntax=6 nchar=120;\nformat datatype=dna;\nmatrix\n" + "\n".join(rows) + "\n;\n"
        "end;\nbegin mrbayes;\n" + "".join(f"{command};\n" for command in commands) + "end;\n"
    )
    subprocess.run([program, "run.nex"], cwd=folder, check=True, capture_output=True, timeout=300)
    lines = (folder / "run.p").read_text().splitlines()[1:]
    table = list(csv.DictReader(lines, delimiter="\t"))
    columns = {name: np.array([float(row[name]) for row in table]) for name in table[0]}
    return read_trees(folder / "run.t", taxa=ALIGNMENT.taxa), columns


def alignment_rows() -> zip:
    return zip(ALIGNMENT.taxa, ALIGNMENT.states, strict=True)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.model)
def test_mrbayes_samples_have_the_densities_that_it_printed(mrbayes, tmp_path, case):
    trees, columns = run(mrbayes, tmp_path, case)
    patterns, config = compress(ALIGNMENT), ModelConfig(case.model)
    model = build_model(config, patterns)
    parameters = FreeParameters.of(config, model)
    assert parameters is not None
    assert set(columns) == {"Gen", "LnL", "LnPr", "TL", *parameters.names}
    likelihood = TreeLikelihood(patterns, model, states_differ=parameters.change_states)
    target = TreePosterior(likelihood, case.prior, parameters)
    usable = columns.get("pinvar", np.ones(len(trees))) > 0  # MrBayes begins with none, which has no logit
    assert usable.sum() >= 29
    theta, log_volume = [], np.zeros(len(trees))
    for kind in (one.kind for one in parameters.inferred):
        values = np.stack([columns[name] for name in kind.names], axis=1)
        with np.errstate(divide="ignore"):
            theta.append(
                np.stack([kind.coordinates(row / row.sum() if isinstance(kind, Shares) else row) for row in values])
            )
            # MrBayes' density is that of shares, of the ratio's share, of the shape and of the proportion.
            share = values / (1 + values)
            changed = share * (1 - share) if kind.names == ("kappa",) else values
            log_volume += np.log(changed * (1 - values) if kind.names == ("pinvar",) else changed).sum(axis=1)
    coordinates = torch.from_numpy(np.concatenate(theta, axis=1)[usable])
    topologies, lengths = trees.topologies[np.flatnonzero(usable)], torch.from_numpy(trees.branch_lengths[usable])
    with torch.no_grad():
        log_likelihood = target.log_likelihood(topologies, lengths, coordinates).numpy()
        log_prior = target.log_prior(topologies, lengths, coordinates).numpy() - log_volume[usable]
    np.testing.assert_allclose(log_likelihood, columns["LnL"][usable], atol=1e-3)
    difference = log_prior - columns["LnPr"][usable]
    assert np.ptp(log_prior) > 0.5 or case.model == "F81"  # a uniform prior is the same everywhere
    np.testing.assert_allclose(difference, difference[0], atol=1e-3)
