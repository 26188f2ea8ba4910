"""Settings of searches and bootstraps, and models by IQ-TREE's names."""

import subprocess
from dataclasses import fields

import pytest

from phloem.config import BootstrapConfig, ModelConfig
from phloem.config.model import MODEL_PARAMETERS
from phloem.config.search import BOOTSTRAP, SEARCH, SearchConfig, iqtree_model
from phloem.data.reading import find_alignment
from phloem.errors import ConfigError
from support.models import GOOD


@pytest.mark.parametrize("schema", [SEARCH, BOOTSTRAP], ids=lambda schema: schema.command)
def test_configurations_come_back_from_their_toml(schema):
    config = schema.resolve(settings=[{"count": 1500, "model": "HKY+G4", "keep": 3, "within": 2, "threads": 4}])
    assert schema.read(schema.to_toml(config), "x.toml") == config
    assert schema.read(schema.to_toml(schema.record()), "x.toml") == schema.record()
    assert [*schema.keys] == [field.name for field in fields(schema.record)]


@pytest.mark.parametrize("schema", [SEARCH, BOOTSTRAP], ids=lambda schema: schema.command)
def test_there_are_no_presets(schema):
    with pytest.raises(ConfigError, match="unknown setting 'preset'"):
        schema.read('preset = "quick"', "x.toml")


@pytest.mark.parametrize("record", [SearchConfig, BootstrapConfig])
@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({"count": 0}, "--count 0: give a whole number from 1"),
        ({"model": "-redo"}, "--model '-redo'"),
        ({"seed": -1}, "--seed -1: give a whole number from 0"),
        ({"seed": 2**63}, "--seed 9223372036854775808: give a whole number from 0"),
        ({"keep": -1}, "--keep -1"),
        ({"within": -1.0}, "--within -1"),
        ({"threads": 0}, "--threads 0: give a whole number from 1"),
    ],
)
def test_what_makes_no_sense_is_refused(record, settings, what):
    with pytest.raises(ConfigError, match=what):
        record(**settings)


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
