"""Settings: a bad one cannot exist."""

import subprocess
import sys

import pytest
import torch

from phloem.config import EvaluationConfig, InferConfig, ModelConfig, SupportConfig, TrainingConfig, preset
from phloem.config.infer import BRANCH_MODELS, PRESETS
from phloem.config.model import MODEL_PARAMETERS, MOST_CATEGORIES, SHAPES, SUM_TOLERANCE
from phloem.config.search import iqtree_model
from phloem.data.reading import find_alignment
from phloem.errors import BadArgument, ConfigError
from phloem.features.convolutions import CONVOLUTIONS
from phloem.target.substitution import LARGEST_CATEGORIES, SiteRates, f81

GOOD = {
    "JC": {},
    "K80": {"kappa": (2.0,)},
    "F81": {"frequencies": (0.25,) * 4},
    "HKY": {"kappa": (2.0,), "frequencies": "empirical"},
    "TN93": {"kappa": (2.0, 3.0), "frequencies": (0.25,) * 4},
    "SYM": {"rates": (1.0,) * 6},
    "GTR": {"rates": (1.0,) * 6, "frequencies": (0.25,) * 4},
}


@pytest.mark.parametrize("name", MODEL_PARAMETERS)
def test_every_model_takes_its_parameters_and_no_others(name):
    ModelConfig(name, **GOOD[name])
    for parameter, value in {"kappa": (2.0,), "frequencies": (0.25,) * 4, "rates": (1.0,) * 6}.items():
        if parameter in GOOD[name] and parameter != "frequencies":
            without = {key: kept for key, kept in GOOD[name].items() if key != parameter}
            with pytest.raises(ConfigError, match=f"needs {parameter}"):
                ModelConfig(name, **without)
        elif parameter not in GOOD[name]:
            with pytest.raises(ConfigError, match=f"has no {parameter}"):
                ModelConfig(name, **GOOD[name], **{parameter: value})


@pytest.mark.parametrize("name", [name for name, taken in MODEL_PARAMETERS.items() if "frequencies" in taken])
def test_frequencies_are_counted_in_the_alignment_unless_they_are_given(name):
    given = {key: value for key, value in GOOD[name].items() if key != "frequencies"}
    assert ModelConfig(name, **given).frequencies == "empirical"


def test_names_in_any_case_and_their_other_forms():
    assert ModelConfig("jc69").name == "JC"
    assert ModelConfig("hky85", **GOOD["HKY"]).name == "HKY"
    with pytest.raises(ConfigError, match="choose one of JC, K80"):
        ModelConfig("WAG")


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({"name": "K80", "kappa": (1.0, 2.0)}, "takes 1 numbers, not 2"),
        ({"name": "TN93", "kappa": (1.0,), "frequencies": (0.25,) * 4}, "takes 2 numbers, not 1"),
        ({"name": "F81", "frequencies": (0.5, 0.5)}, "takes 4 numbers, not 2"),
        ({"gamma": 4}, "belong together"),
        ({"alpha": 0.5}, "belong together"),
        ({"median_rates": True}, "only gamma categories have medians"),
        ({"name": "F81", "frequencies": "counted"}, "takes 4 numbers, not 'counted'"),
        ({"name": "F81", "frequencies": (0.3,) * 4}, "--frequencies that sum to 1.2: they must sum to 1"),
        ({"name": "F81", "frequencies": (0.5, 0.5, 0.0, 0.0)}, "--frequencies: finite numbers above 0"),
        ({"name": "K80", "kappa": (0.0,)}, "--kappa: finite numbers above 0"),
        ({"name": "K80", "kappa": (float("nan"),)}, "--kappa: finite numbers above 0"),
        ({"name": "SYM", "rates": (1.0,) * 5 + (float("inf"),)}, "--rates: finite numbers above 0"),
        ({"gamma": 0, "alpha": 1.0}, "--gamma 0: give a whole number from 1 to"),
        ({"gamma": 2.5, "alpha": 1.0}, "--gamma 2.5: give a whole number"),
        ({"gamma": 65, "alpha": 1.0}, "65 rate categories: --gamma takes 1 to 64"),
        ({"gamma": 4, "alpha": 0.0}, "gamma shape 0: --alpha must be from 0.001 to 10000"),
        ({"gamma": 4, "alpha": float("nan")}, "gamma shape nan"),
        ({"invariant": 1.0}, "invariant sites 1: --invariant must be from 0 up to 1"),
        ({"invariant": -0.1}, "invariant sites -0.1"),
    ],
)
def test_combinations_that_make_no_sense(settings, what):
    with pytest.raises(ConfigError, match=what):
        ModelConfig(**settings)


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({"steps": 0}, "--steps 0"),
        ({"steps": 2.5}, "--steps 2.5: give a whole number"),
        ({"steps": True}, "--steps True"),
        ({"particles": 1}, "vimco takes 2 to 10,000"),
        ({"particles": 10_001}, "vimco takes 2 to 10,000"),
        ({"particles": 0, "estimator": "rws"}, "--particles 0"),
        ({"stop": "never"}, "--stop 'never': choose one of steps, auto"),
        ({"estimator": "adam"}, "choose one of vimco, rws"),
        ({"decay": "linear"}, "choose one of cosine, stairs"),
        ({"ramp": 1.5}, "ramp 1.5"),
        ({"ramp": float("nan")}, "ramp nan"),
        ({"first_inverse_temperature": -0.1}, "first_inverse_temperature -0.1"),
        ({"rate": 0.0}, "rate 0"),
        ({"topology_rate_factor": float("inf")}, "topology_rate_factor inf"),
        ({"clipping": 0.0}, "clipping 0"),
        ({"stairs": 0}, "stairs 0"),
        ({"stair_factor": -1.0}, "stair_factor -1"),
    ],
)
def test_trainings_that_make_no_sense_are_refused(settings, what):
    with pytest.raises(ConfigError, match=what):
        TrainingConfig(**settings)


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({"branches": "tree"}, "choose one of split, psp, mlp"),
        ({"seed": -1}, "--seed -1"),
        ({"depth": -1}, "--depth -1"),
        ({"width": 0}, "--width 0"),
        ({"prior_rate": 0.0}, "--prior-rate 0"),
        ({"runs": 0}, "--runs 0: give a whole number from 1 to 100"),
        ({"runs": 101}, "--runs 101: give a whole number from 1 to 100"),
    ],
)
def test_inferences_that_make_no_sense_are_refused(settings, what):
    with pytest.raises(ConfigError, match=what):
        InferConfig(**settings)


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({"credible": 0.0}, "--credible 0"),
        ({"credible": 1.1}, "--credible 1.1"),
        ({"replicates": 0}, "--bootstrap-replicates 0: give a number from 1 to 10000"),
        ({"replicates": 1.5}, "--bootstrap-replicates 1.5: give a whole number"),
        ({"method": "iqtree", "count": 999}, "--bootstrap-trees 999: IQ-TREE makes 1000 bootstrap trees or more"),
        ({"count": 1000.5}, "--bootstrap-trees 1000.5: give a whole number"),
        ({"count": 0}, "--bootstrap-trees 0: give a whole number"),
        ({"method": "raxml"}, "--bootstrap-method 'raxml': choose one of auto, iqtree, embedded"),
        ({"method": "embedded", "model": "MFP"}, "--bootstrap-model 'MFP': give JC, K80"),
        ({"model": "-redo"}, "--bootstrap-model '-redo': give one of IQ-TREE's names"),
    ],
)
def test_supports_that_make_no_sense_are_refused(settings, what):
    with pytest.raises(ConfigError, match=what):
        SupportConfig(**settings)


@pytest.mark.parametrize("name", ["samples", "repeats", "reports", "report_samples"])
def test_evaluations_of_nothing_are_refused(name):
    with pytest.raises(ConfigError, match=f"{name} 0: give a whole number from 1 to"):
        EvaluationConfig(**{name: 0})


def test_presets_and_changes_to_them():
    assert preset("standard") == TrainingConfig()
    assert preset("paper") == TrainingConfig(
        steps=400_000,
        doubly_reparameterized=False,
        ramp=0.25,
        rate=0.001,
        topology_rate_factor=1.0,
        clipping=float("inf"),
        decay="stairs",
    )
    assert preset("quick") == TrainingConfig(steps=8000, topology_rate_factor=10.0)
    standard = TrainingConfig()
    assert (standard.steps, standard.particles, standard.estimator) == (40_000, 10, "vimco")
    assert (standard.ramp, standard.rate, standard.topology_rate_factor) == (0.75, 0.003, 3.0)
    assert (standard.clipping, standard.doubly_reparameterized, standard.decay) == (3.0, True, "cosine")
    assert preset("paper", steps=None) == PRESETS["paper"].training
    assert preset("paper", steps=7).steps == 7
    assert preset("paper", steps=7).decay == "stairs"
    with pytest.raises(ConfigError, match="choose one of paper, standard, quick"):
        preset("slow")


def test_names_of_branch_models_are_those_that_can_be_built():
    assert {*BRANCH_MODELS} == {"split", "psp", "mlp", *CONVOLUTIONS}


def test_presets_differ_in_runs_and_bootstrap_trees_too():
    assert PRESETS["standard"] == InferConfig()
    assert {name: config.runs for name, config in PRESETS.items()} == {"paper": 1, "standard": 2, "quick": 1}
    assert {name: config.support.count for name, config in PRESETS.items()} == {
        "paper": 10_000,
        "standard": 1000,
        "quick": 1000,
    }


def test_limits_of_models_are_those_of_the_likelihood():
    assert MOST_CATEGORIES == LARGEST_CATEGORIES
    for shape in SHAPES:
        SiteRates(torch.tensor(shape, dtype=torch.float64))
    for shape in (SHAPES[0] * 0.999, SHAPES[1] * 1.001):
        with pytest.raises(BadArgument):
            SiteRates(torch.tensor(shape, dtype=torch.float64))
    f81([0.25, 0.25, 0.25, 0.25 + 0.9 * SUM_TOLERANCE])
    with pytest.raises(BadArgument):
        f81([0.25, 0.25, 0.25, 0.25 + 1.1 * SUM_TOLERANCE])


IQTREE_MODELS = {"JC": "JC", "K80": "K2P", "F81": "F81", "HKY": "HKY", "TN93": "TN", "SYM": "SYM", "GTR": "GTR"}


@pytest.mark.parametrize("name", MODEL_PARAMETERS)
def test_models_in_the_words_of_iqtree(name):
    assert iqtree_model(ModelConfig(name, **GOOD[name])) == IQTREE_MODELS[name]
    both = ModelConfig(name, **GOOD[name], gamma=4, alpha=0.5, invariant=0.1)
    assert iqtree_model(both) == f"{IQTREE_MODELS[name]}+I+G4"


@pytest.mark.parametrize("model", [*IQTREE_MODELS.values(), "HKY+I+G4"])
def test_the_real_iqtree_knows_every_model(iqtree, tmp_path, model):
    alignment = find_alignment("primates")
    command = [iqtree, *f"-s {alignment} -st DNA -m {model} -n 0 -nt 1 -seed 1 -pre {tmp_path / 'run'} -quiet".split()]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert f"Model of substitution: {model.partition('+')[0]}" in (tmp_path / "run.iqtree").read_text()


def test_rates_that_do_not_differ_are_nothing_for_iqtree_to_fit():
    assert iqtree_model(ModelConfig(gamma=8, alpha=0.5)) == "JC+G8"
    assert iqtree_model(ModelConfig(gamma=1, alpha=0.5, invariant=0.0)) == "JC"


def test_settings_load_neither_torch_nor_numba_nor_a_terminal():
    script = (
        "import sys, phloem.config; sys.exit(bool({'torch', 'numba', 'rich', 'typer', 'numpy'} & set(sys.modules)))"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


@pytest.mark.parametrize(
    ("record", "setting"),
    [
        (TrainingConfig, {"steps": 10**30}),
        (InferConfig, {"seed": 2**63}),
        (InferConfig, {"width": 10_001}),
        (InferConfig, {"depth": 101}),
        (EvaluationConfig, {"samples": 10**8}),
        (EvaluationConfig, {"repeats": 10**5}),
        (EvaluationConfig, {"report_samples": 10**8}),
    ],
)
def test_more_than_any_machine_can_do_is_refused_in_a_line_of_readable_length(record, setting):
    with pytest.raises(ConfigError, match=r"give a whole number from \d to [\d,]+\.$") as problem:
        record(**setting)
    assert len(str(problem.value)) < 120
