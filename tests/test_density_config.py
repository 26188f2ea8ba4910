"""Settings of densities: a bad one cannot exist, and each is a line of a file."""

from dataclasses import asdict, replace

import pytest

from density_trees import five_taxa
from phloem.config.density import BASES, CONVOLUTIONS, DENSITY_PRESETS, NOISES, DensityConfig, changed, density_preset
from phloem.config.density_toml import density_differences, density_to_toml, read_density_config
from phloem.energy.noise import ListedNoise, SubsplitNoise, UniformNoise
from phloem.energy.noise_choice import choose_base, choose_noise
from phloem.energy.training import new_model
from phloem.errors import ConfigError
from phloem.features.convolutions import CONVOLUTIONS as BUILT
from phloem.pipeline.reproduce_density import VARIANTS

OTHERS = {
    "convolution": "edge",
    "depth": 3,
    "width": 7,
    "noise": "listed",
    "uniform_share": 0.5,
    "base": "uniform",
    "noise_ratio": 4,
    "batch": 5,
    "steps": 6,
    "rate": 0.5,
    "clipping": float("inf"),
    "decay": "stairs",
    "stairs": 7,
    "stair_factor": 0.25,
    "reports": 8,
    "report_samples": 90,
    "samples": 100,
    "seed": 11,
}


def test_names_of_convolutions_are_those_that_can_be_built():
    assert {*CONVOLUTIONS} == {"mlp", *BUILT}
    assert {*VARIANTS} < {*CONVOLUTIONS}
    for name in CONVOLUTIONS:
        new_model(5, DensityConfig(convolution=name, width=4))


def test_every_noise_and_base_can_be_chosen():
    kinds = {"sbn": SubsplitNoise, "uniform": UniformNoise, "listed": ListedNoise}
    assert {*NOISES} == {*kinds}
    for name in NOISES:
        noise = choose_noise(five_taxa(), DensityConfig(noise=name))
        assert type(noise) is kinds[name]
        bases = {base: choose_base(noise, DensityConfig(noise=name, base=base)) for base in BASES}
        assert bases["noise"] is noise
        assert type(bases["uniform"]) is (UniformNoise if name != "listed" else ListedNoise)
    assert {*BASES} == {"noise", "uniform"}


def test_presets_are_settings():
    assert density_preset("standard") == DensityConfig()
    assert {name: density_preset(name).steps for name in DENSITY_PRESETS} == {
        "paper": 200_000,
        "standard": 20_000,
        "quick": 2_000,
    }
    assert density_preset("paper", steps=None, rate=1) == replace(density_preset("paper"), rate=1.0)


@pytest.mark.parametrize("name", OTHERS)
def test_every_setting_is_a_line_that_is_read_again(name):
    assert asdict(DensityConfig()).keys() == OTHERS.keys()
    config = replace(DensityConfig(), **{name: OTHERS[name]})
    text = density_to_toml(config)
    assert text.splitlines()[0].startswith("# All settings of `phloem density fit`")
    assert read_density_config(text, "config.toml") == config != DensityConfig()
    usual = getattr(DensityConfig(), name)
    assert density_differences(DensityConfig(), config) == [f"{name} is {usual}, not {OTHERS[name]}"]


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("steps", "1", "steps is '1', which is no int"),
        ("steps", True, "which is no int"),
        ("steps", 1.0, "which is no int"),
        ("rate", "1", "rate is '1', which is no float"),
        ("noise", 1, "which is no str"),
        ("color", 1, "unknown setting 'color'. Known are convolution, "),
    ],
)
def test_a_setting_of_another_kind_is_refused_wherever_it_comes_from(name, value, words):
    with pytest.raises(ConfigError, match=f"here: {words}" if name == "color" else words):
        changed(DensityConfig(), {name: value}, "here")
    with pytest.raises(ConfigError, match=words):
        density_preset("quick", **{name: value})


def test_a_file_that_is_not_toml_is_one_line():
    with pytest.raises(ConfigError, match=r"config.toml: is not TOML"):
        read_density_config("steps = ", "config.toml")
