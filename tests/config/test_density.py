"""The settings of `phloem density fit`: presets, limits, and TOML."""

import math
import re
from dataclasses import asdict, fields, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phloem.config.density import BASES, DENSITY, NOISES, PRESET_FIELDS, VARIANTS, DensityConfig
from phloem.config.infer import DECAYS, NETWORKS
from phloem.config.settings import command_of
from phloem.energy.noise import ListedNoise, SubsplitNoise, UniformNoise, choose_base, choose_noise
from phloem.energy.training import new_model
from phloem.errors import ConfigError
from phloem.features.convolutions import CONVOLUTIONS as BUILT
from support.density_trees import five_taxa

PAGE = Path(__file__).parents[2] / "docs" / "density.md"

positive = st.floats(1e-9, 1e9)
configs = st.builds(
    DensityConfig,
    convolution=st.sampled_from(NETWORKS),
    depth=st.integers(0, 10),
    width=st.integers(1, 1000),
    noise=st.sampled_from(NOISES),
    uniform_share=st.floats(0, 1, exclude_min=True, exclude_max=True),
    base=st.sampled_from(BASES),
    noise_ratio=st.integers(1, 100),
    batch=st.integers(1, 1000),
    steps=st.integers(1, 10**9),
    rate=positive,
    clipping=positive | st.just(math.inf),
    decay=st.sampled_from(DECAYS),
    stairs=st.integers(1, 100),
    stair_factor=positive,
    reports=st.integers(1, 1000),
    report_samples=st.integers(10, 1000),
    samples=st.integers(10, 1000),
    seed=st.integers(0, 2**63 - 1),
)

# Another value for every setting.
OTHERS = {
    "convolution": "gin",
    "depth": 3,
    "width": 64,
    "noise": "uniform",
    "uniform_share": 0.5,
    "base": "uniform",
    "noise_ratio": 3,
    "batch": 7,
    "steps": 50,
    "rate": 0.5,
    "clipping": math.inf,
    "decay": "stairs",
    "stairs": 7,
    "stair_factor": 0.5,
    "reports": 3,
    "report_samples": 50,
    "samples": 60,
    "seed": 9,
}


@given(configs)
def test_a_configuration_comes_back_from_its_toml(config):
    text = DENSITY.to_toml(config)
    assert DENSITY.read(text, "config.toml") == config
    assert command_of(text) == "density fit"


def test_every_setting_is_read_and_told_apart():
    assert [*OTHERS] == [field.name for field in fields(DensityConfig)]
    for name, value in OTHERS.items():
        shown = f'"{value}"' if isinstance(value, str) else value
        found = DENSITY.read(f"{name} = {shown}\n", "x.toml")
        assert asdict(found) == asdict(DensityConfig()) | {name: value}
        assert DENSITY.differences(found, DensityConfig()) == [
            f"{name} is {value}, not {getattr(DensityConfig(), name)}"
        ]
    assert DENSITY.differences(DensityConfig(), DensityConfig()) == []


def test_the_file_of_a_run_has_a_line_for_every_setting():
    assert (
        DENSITY.to_toml(DENSITY.presets["paper"])
        == """\
# All settings of `phloem density fit`; what is not set has no line.
convolution = "ggnn"
depth = 2
width = 100
noise = "sbn"
uniform_share = 0.05
base = "noise"
noise_ratio = 1
batch = 20
steps = 200000
rate = 0.001
clipping = inf
decay = "stairs"
stairs = 20
stair_factor = 0.75
reports = 100
report_samples = 1000
samples = 20000
seed = 1
"""
    )


def test_whole_numbers_do_for_numbers():
    found = DENSITY.read("rate = 1\n", "x.toml")
    assert found.rate == 1.0
    assert type(found.rate) is float


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("stepps = 5", r"^x\.toml: unknown setting 'stepps'\. Did you mean 'steps'\?$"),
        ("[training]\nsteps = 5", r"^x\.toml: unknown setting 'training'\. Known settings: preset, convolution, "),
        ('steps = "5"', r"^x\.toml: steps is the text '5': give a whole number\.$"),
        ("steps = 5.0", r"^x\.toml: steps is 5\.0: give a whole number\.$"),
        ("steps = true", r"^x\.toml: steps is true: give a whole number\.$"),
        ("rate = true", r"^x\.toml: rate is true: give a number\.$"),
        ("rate = [1.0]", r"^x\.toml: rate is \[1\.0\]: give a number\.$"),
        ("noise = 3", r"^x\.toml: noise is 3: give a text\.$"),
        ("steps =", r"^x\.toml, line 1: "),
        ("steps = " + 5000 * "[", r"^x\.toml: brackets are nested too deep"),
        ('preset = "slow"', r"^x\.toml: --preset 'slow': choose one of paper, standard, quick"),
        ("steps = 0", r"^x\.toml: --steps 0: give a whole number from 1"),
        ("rate = nan", r"^x\.toml: --rate nan: "),
        ('noise = "loud"', r"^x\.toml: --noise 'loud': choose one of sbn, uniform, listed"),
    ],
)
def test_what_is_wrong_with_a_text_is_one_line_that_begins_with_its_name(text, message):
    with pytest.raises(ConfigError, match=message) as raised:
        DENSITY.read(text, "x.toml")
    assert str(raised.value).isprintable()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"convolution": "cnn"}, r"--convolution 'cnn': choose one of mlp, gcn"),
        ({"noise": "loud"}, r"--noise 'loud': choose one of sbn, uniform, listed"),
        ({"base": "sbn"}, r"--base 'sbn': choose one of noise, uniform"),
        ({"decay": "linear"}, r"decay 'linear': choose one of"),
        ({"depth": -1}, r"--depth -1: give a whole number from 0"),
        ({"width": 0}, r"--width 0: give a whole number from 1"),
        ({"noise_ratio": 0}, r"--noise-ratio 0: give"),
        ({"batch": 0}, r"--batch 0: give"),
        ({"batch": 100_001}, r"--batch 100001: give a whole number from 1 to 100,000"),
        ({"batch": 1000, "noise_ratio": 101}, r"--batch 1000 and --noise-ratio 101: at most 100,000 trees of noise"),
        ({"steps": 0}, r"--steps 0: give"),
        ({"stairs": 0}, r"stairs 0: give"),
        ({"reports": 0}, r"reports 0: give"),
        ({"report_samples": 9}, r"report_samples 9: give a whole number from 10"),
        ({"samples": 9}, r"--samples 9: give a whole number from 10"),
        ({"seed": -1}, r"--seed -1: give a whole number from 0"),
        ({"rate": 0.0}, r"--rate 0: "),
        ({"rate": math.inf}, r"--rate inf: "),
        ({"stair_factor": 0.0}, r"stair_factor 0: "),
        ({"uniform_share": 0.0}, r"--uniform-share 0: give a number between 0 and 1"),
        ({"uniform_share": 1.0}, r"--uniform-share 1: give a number between 0 and 1"),
        ({"uniform_share": math.nan}, r"--uniform-share nan: give a number between 0 and 1"),
    ],
)
def test_a_bad_configuration_cannot_exist(settings, message):
    with pytest.raises(ConfigError, match=message):
        DensityConfig(**settings)


def test_the_documentation_lists_every_setting_with_its_default_and_whether_presets_decide_it():
    rows = re.findall(r"^\| `(\w+)` \| `([^|]*)` \| [^|]*\| (\* )?", PAGE.read_text(), re.MULTILINE)
    expected = {name: str(value) for name, value in asdict(DensityConfig()).items()}
    assert {name: default for name, default, _ in rows} == expected
    assert tuple(name for name, _, star in rows if star) == PRESET_FIELDS


def test_the_largest_batches_are_allowed():
    assert DensityConfig(batch=1000, noise_ratio=100).batch == 1000


def test_the_papers_preset_is_the_papers_schedule():
    paper = DENSITY.presets["paper"]
    assert (paper.steps, paper.batch, paper.noise_ratio, paper.width, paper.depth) == (200_000, 20, 1, 100, 2)
    assert (paper.rate, paper.decay, paper.stair_factor) == (0.001, "stairs", 0.75)
    assert paper.steps // paper.stairs == 10_000


def test_presets_can_be_changed_setting_by_setting():
    assert DENSITY.resolve(preset="standard") == DENSITY.resolve() == DensityConfig()
    quick = DENSITY.resolve(preset="quick", settings=[{"width": None, "seed": 5}])
    assert quick == replace(DensityConfig(), steps=2_000, seed=5)
    assert DENSITY.resolve(preset="paper", settings=[{"steps": 3}]).steps == 3
    with pytest.raises(ConfigError, match=r"--preset 'slow': choose one of paper, standard, quick"):
        DENSITY.resolve(preset="slow")
    for name, config in DENSITY.presets.items():
        assert DENSITY.resolve(preset=name) == config  # so nothing that a preset sets is left out of its fields
        assert DENSITY.read(DENSITY.to_toml(config), "x.toml") == config


def test_a_preset_decides_the_schedule_and_nothing_else():
    base = DensityConfig(**OTHERS)
    for name, config in DENSITY.presets.items():
        schedule = {field: getattr(config, field) for field in PRESET_FIELDS}
        assert DENSITY.resolve(base=base, preset=name) == replace(base, **schedule)


def test_names_of_convolutions_are_those_that_can_be_built():
    assert {*NETWORKS} == {"mlp", *BUILT}
    assert {*VARIANTS} < {*NETWORKS}
    for name in NETWORKS:
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


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("steps", "1", "steps is the text '1': give a whole number"),
        ("steps", True, "steps is true: give a whole number"),
        ("steps", 1.0, "steps is 1.0: give a whole number"),
        ("rate", "1", "rate is the text '1': give a number"),
        ("noise", 1, "noise is 1: give a text"),
        ("color", 1, "unknown setting 'color'. "),
    ],
)
def test_a_setting_of_another_type_is_refused(name, value, words):
    with pytest.raises(ConfigError, match=f"^{words}"):
        DENSITY.resolve(preset="quick", settings=[{name: value}])
