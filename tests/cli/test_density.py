"""`phloem density fit`: what users type, see, and get wrong."""

import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import phloem
from phloem.cli.main import run
from phloem.tasks.density import density_run
from phloem.trees.reading import read_trees
from support.command_line import complaint
from support.density_trees import FLAGS, as_json, assert_same_fit, contents, five_taxa, write_table
from support.messages import assert_says
from support.waiting import wait_until

BALANCED, OTHER = "(A,(B,C),(D,E));", "(A,(B,D),(C,E));"


@pytest.fixture(autouse=True)
def trees(in_empty_directory) -> None:
    write_table(Path("trees.tsv"), five_taxa())


@pytest.fixture(scope="module")
def fitted(tmp_path_factory) -> Path:
    """A finished fit, which no test may change."""
    folder = tmp_path_factory.mktemp("fitted")
    table = write_table(folder / "trees.tsv", five_taxa())
    assert run(["density", "fit", str(table), "--out", str(folder / "run"), *FLAGS, "--quiet"]) == 0
    return folder / "run"


def fit(*options: str, out: str = "run") -> list[str]:
    return ["density", "fit", "trees.tsv", "--out", out, *FLAGS, *options]


def test_a_fit_says_what_it_found_and_what_is_next(capsys):
    assert run(fit()) == 0
    captured = capsys.readouterr()
    assert "phloem:" not in captured.err  # on a slow machine there is progress
    first, *lines = captured.out.splitlines()
    assert first.startswith("15 topologies on 5 taxa; mlp, sbn noise, 40 steps, ")
    assert [line.split()[0] for line in lines[:3]] == ["loss", "divergence", "log"]
    assert lines[2].endswith("by a sum over 15 topologies")
    for line in lines:
        if line.startswith("  phloem density "):
            words = line.split("  ")[1].replace("TREES", "trees.tsv").replace("FILE", "new.nwk").split()
            assert run(words[1:]) == 0, line
    assert len(read_trees(Path("new.nwk"))) == 1000


def test_json_is_the_summary_and_quiet_says_nothing(fitted, capsys):
    assert run(fit("--json", "--quiet")) == 0
    assert as_json(capsys.readouterr().out) == as_json(Path("run/summary.json").read_text())
    assert_same_fit(fitted, Path("run"))
    assert run(fit("--quiet", "--resume")) == 0
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("options", "setting"),
    [
        ("--convolution gcn", {"convolution": "gcn"}),
        ("--noise uniform", {"noise": "uniform"}),
        ("--noise listed", {"noise": "listed"}),
        ("--base uniform", {"base": "uniform"}),
        ("--noise-ratio 2", {"noise_ratio": 2}),
        ("--uniform-share 0.5", {"uniform_share": 0.5}),
        ("--steps 41", {"steps": 41}),
        ("--batch 10", {"batch": 10}),
        ("--rate 0.01", {"rate": 0.01}),
        ("--width 9", {"width": 9}),
        ("--seed 7", {"seed": 7}),
        ("--preset paper", {"decay": "stairs", "rate": 0.001}),
    ],
)
def test_every_setting_changes_the_density(options, setting, fitted, capsys):
    assert run(fit(*options.split(), "--quiet")) == 0
    found, usual = phloem.load_density("run"), phloem.load_density(fitted)
    assert {name: getattr(found.config, name) for name in setting} == setting
    assert {name: getattr(usual.config, name) for name in setting} != setting
    scores = [density.log_prob(five_taxa().topologies) for density in (found, usual)]
    assert np.abs(scores[0] - scores[1]).max() > 0


def test_settings_come_from_a_preset_a_file_and_set_too(fitted, capsys):
    Path("run.toml").write_text('preset = "paper"\nseed = 7\nstairs = 5\nclipping = 2\n')
    assert run(fit("--config", "run.toml", "--set", "clipping=4", "--set", "reports=2", "--seed", "8", "--quiet")) == 0
    config = phloem.load_density("run").config
    assert (config.decay, config.stairs, config.clipping, config.reports) == ("stairs", 5, 4.0, 2)
    assert (config.convolution, config.steps, config.seed) == ("mlp", 40, 8)
    assert run(fit("--config", str(fitted / "config.toml"), "--out", "again", "--quiet")) == 0
    assert_same_fit(fitted, Path("again"))


def test_a_resumed_fit_may_repeat_its_settings_but_not_change_them(capsys):
    assert run(fit("--preset", "quick", "--seed", "7", "--quiet")) == 0
    again = ["density", "fit", "--out", "run", "--resume", "--quiet"]
    assert run([*again, "--preset", "quick", "--steps", "40"]) == 0
    assert run([*again, "--config", "run/config.toml"]) == 0
    assert run([*again, "--preset", "quick"]) == 2
    assert "steps is 40, not 2000" in complaint(capsys)
    Path("run.toml").write_text("seed = 8\n")
    assert run([*again, "--config", "run.toml"]) == 2
    assert "seed is 7, not 8" in complaint(capsys)


def test_depth_changes_a_graph_network(capsys):
    found = []
    for depth in "12":
        assert run(fit("--convolution", "gcn", "--depth", depth, "--out", depth, "--json")) == 0
        found.append(as_json(capsys.readouterr().out)["parameters"])
    assert found[0] < found[1]


def test_samples_change_a_normaliser_by_draws_and_burnin_the_trees(capsys):
    names = "ABCDEFGHIJK"
    Path("eleven.nwk").write_text(
        "".join(f"({one},{two},(A,(B,(C,(D,(E,(F,(G,(H,I)))))))));\n" for one, two in ("JK", "KJ"))
        + "((A,J),K,(B,(C,(D,(E,(F,(G,(H,I))))))));\n((B,J),K,(A,(C,(D,(E,(F,(G,(H,I))))))));\n"
    )
    for samples, burnin, topologies in (("50", "0", 3), ("60", "2", 2)):
        command = ["density", "fit", "eleven.nwk", "--out", samples, *FLAGS, "--samples", samples, "--burnin", burnin]
        assert run([*command, "--json"]) == 0
        summary = as_json(capsys.readouterr().out)
        assert summary["normalizer"]["draws"] == int(samples)
        assert summary["normalizer"]["topologies"] is None
        assert summary["topologies"] == topologies
        assert summary["taxa"] == len(names)
    assert run(["density", "score", "50", "eleven.nwk", "--json"]) == 0
    as_json(capsys.readouterr().out)


def test_checkpoints_come_as_often_as_is_asked_for(capsys):
    assert run(fit("--checkpoint-every", "7steps", "--quiet")) == 0
    assert sorted(path.name for path in Path("run/checkpoints").iterdir()) == [
        "step-000000035.safetensors",
        "step-000000040.safetensors",
    ]


def test_a_run_is_kept_unless_it_is_forced(capsys):
    assert run(fit("--quiet")) == 0
    before = contents(Path("run"))
    assert run(fit()) == 2
    assert_says(complaint(capsys), "run: … --resume … --force")
    assert contents(Path("run")) == before
    assert run(fit("--force", "--seed", "2", "--quiet")) == 0
    assert phloem.load_density("run").config.seed == 2


FILES = {
    "empty.nwk": "",
    "empty.tsv": "",
    "one.nwk": BALANCED * 3,
    "three.nwk": "(A,B,C);\n",
    "polytomy.nwk": f"(A,B,C,(D,E));{BALANCED}",
    "others.nwk": "(A,(B,C),(D,F));(A,(B,D),(C,F));",
    "negative.tsv": f"-1\t{BALANCED}\n1\t{OTHER}\n",
    "nan.tsv": f"nan\t{BALANCED}\n1\t{OTHER}\n",
    "infinite.tsv": f"inf\t{BALANCED}\n1\t{OTHER}\n",
    "zero.tsv": f"0\t{BALANCED}\n0\t{OTHER}\n",
    "single.tsv": f"1\t{BALANCED}\n0\t{OTHER}\n",
    **{
        f"{name}.nex": f"#NEXUS\nbegin trees;\ntree a = [&W {weight}] {BALANCED}\nend;\n"
        for name, weight in {"negative": "-1", "nan": "nan", "infinite": "inf", "zero": "0"}.items()
    },
}
COMPLAINTS = {
    "empty.nwk": "no trees",
    "empty.tsv": "no trees",
    "one.nwk": "same topology",
    "three.nwk": "3 taxa",
    "polytomy.nwk": "polytomy",
    "negative.tsv": "line 1 … weight '-1'",
    "nan.tsv": "line 1 … weight 'nan'",
    "infinite.tsv": "line 1 … weight 'inf'",
    "zero.tsv": "weight zero",
    "single.tsv": "same topology",
    "negative.nex": "weight … finite",
    "nan.nex": "weight … finite",
    "infinite.nex": "weight … finite",
    "zero.nex": "weight zero",
    "binary.nwk": "text",
    "binary.tsv": "not UTF-8",
    "latin.nwk": "not UTF-8",
    "folder": "no tree files",
    "missing.nwk": "no such file",
}


@pytest.fixture
def bad_files() -> None:
    for name, text in FILES.items():
        Path(name).write_text(text)
    Path("binary.nwk").write_bytes(bytes(range(256)))
    Path("binary.tsv").write_bytes(bytes(range(256)))
    Path("latin.nwk").write_bytes(b"(\xe4,\xf6,(c,(d,e)));\n(\xe4,c,(\xf6,(d,e)));\n")
    Path("folder").mkdir()


@pytest.mark.usefixtures("bad_files")
@pytest.mark.parametrize("name", COMPLAINTS)
def test_bad_trees_are_one_line_and_leave_nothing(name, capsys):
    assert run(["density", "fit", name, "--out", "deep/run", *FLAGS]) == 2
    assert_says(complaint(capsys), COMPLAINTS[name])
    assert not Path("deep").exists()


@pytest.mark.usefixtures("bad_files")
@pytest.mark.parametrize("name", [*sorted(set(COMPLAINTS) - {"one.nwk", "single.tsv", "latin.nwk"}), "others.nwk"])
def test_bad_trees_are_one_line_for_scores_too(name, fitted, capsys):
    assert run(["density", "score", str(fitted), name]) == 2
    assert name in complaint(capsys)


@pytest.mark.usefixtures("bad_files")
@pytest.mark.parametrize(
    ("options", "facts"),
    [
        ("--steps 0", "--steps 0"),
        ("--steps many", "--steps"),
        ("--batch 0", "--batch 0"),
        ("--batch 100001", "--batch 100001"),
        ("--noise-ratio 5001", "100,000 trees"),
        ("--rate nan", "--rate nan"),
        ("--rate 0", "--rate 0"),
        ("--rate 1e300", "learning rate"),
        ("--width 0", "--width 0"),
        ("--depth -1", "--depth -1"),
        ("--uniform-share 1", "--uniform-share 1"),
        ("--samples 9", "--samples 9"),
        ("--seed -1", "--seed -1"),
        ("--convolution best", "--convolution … mlp, gcn"),
        ("--noise some", "--noise … sbn"),
        ("--base some", "--base … noise"),
        ("--preset best", "--preset … paper"),
        ("--burnin 15", "trees.tsv … 15 … 15 trees"),
        ("--config none.toml", "none.toml: … no such file"),
        ("--config empty.nwk --set stpes=5", "'stpes' … 'steps'"),
        ("--set steps", "--set 'steps' … clipping=inf"),
        ("--set training.steps=5", "'training.steps' … 'steps'"),
        ("--set clipping=0", "clipping 0"),
        ("--burnin some", "--burnin some"),
        ("--checkpoint-every often", "--checkpoint-every often"),
        ("--resume --force", "--resume … --force"),
        ("--out trees.tsv", "trees.tsv: … directory"),
        ("--out .", "no run"),
    ],
)
def test_bad_options_are_one_line(options, facts, capsys):
    assert run(fit(*options.split())) == 2
    assert_says(complaint(capsys), facts)


def test_a_fit_without_trees_needs_a_run(capsys):
    assert run(["density", "fit", "--out", "run"]) == 2
    assert "trees" in complaint(capsys)
    assert run(["density", "fit", "--out", "run", "--resume"]) == 2
    assert_says(complaint(capsys), "run: … checkpoint")
    assert not Path("run").exists()


@pytest.mark.usefixtures("bad_files")
def test_a_run_does_not_go_on_with_other_trees(fitted, capsys):
    for name, facts in (("others.nwk", "others.nwk … 'E'"), ("one.nwk", f"{fitted}: … other trees")):
        assert run(["density", "fit", name, "--out", str(fitted), "--resume"]) == 2
        assert_says(complaint(capsys), facts)


def test_commands_for_posteriors_name_the_run_as_what_it_is(fitted, capsys):
    before = contents(fitted)
    for command in (["report"], ["evaluate"], ["sample", "--out", "trees.nex"], ["gap", "--trees", "trees.tsv"]):
        assert run([command[0], str(fitted), *command[1:]]) == 2
        assert_says(complaint(capsys), f"{fitted}: … `phloem density fit` … `phloem infer`")
    assert contents(fitted) == before


def test_names_with_spaces_and_quotes_go_through(capsys):
    Path("odd.nwk").write_text("('a b','it''s',(ä,('日本','(f)')));\n('a b',ä,('it''s',('日本','(f)')));\n")
    assert run(["density", "fit", "odd.nwk", "--out", "odd run", *FLAGS]) == 0
    assert "phloem density score 'odd run' TREES" in capsys.readouterr().out
    assert run(["density", "sample", "odd run", "--out", "new.nex", "--count", "20"]) == 0
    assert run(["density", "score", "odd run", "odd.nwk", "new.nex"]) == 0
    assert set(read_trees(Path("new.nex")).taxa) == {"a b", "it's", "ä", "日本", "(f)"}


SLOW = ["--steps", "1000", "--width", "50", "--checkpoint-every", "10steps", "--quiet"]


@pytest.mark.slow
def test_a_fit_that_is_killed_and_stopped_goes_on_to_the_same_files():
    command = [sys.executable, "-m", "phloem", *fit(*SLOW, "--resume", out="killed")]
    for how, step in ((signal.SIGKILL, 10), (signal.SIGTERM, 100), (signal.SIGINT, 200)):
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
            wait_for_step(step, process)
            process.send_signal(how)
            _, err = process.communicate()
        saved = newest_step()
        assert saved < 1000
        if how != signal.SIGKILL:
            assert process.returncode == 130
            assert_says(err, f"phloem: … step {saved:,}. … : phloem density fit --resume --out killed\n")
            assert err.count("\n") == 1
    assert run(["density", "fit", "--resume", "--out", "killed", "--quiet"]) == 0
    assert run(fit(*SLOW[:-3], "--quiet", out="undisturbed")) == 0
    assert_same_fit(Path("undisturbed"), Path("killed"))


def newest_step() -> int:
    """Of the run in `killed`; -1 before there is a checkpoint."""
    step = density_run("killed").checkpoints.newest_step()
    return -1 if step is None else step


def wait_for_step(step: int, process: subprocess.Popen) -> None:
    try:
        wait_until(lambda: newest_step() >= step, process)
    except AssertionError:
        process.kill()
        raise


@pytest.mark.slow
def test_two_fits_cannot_share_a_directory(capsys):
    command = [sys.executable, "-m", "phloem", *fit(*SLOW, "--steps", "1000000", out="killed")]
    with subprocess.Popen(command) as first:
        try:
            wait_for_step(0, first)
            for option in ("--resume", "--force"):
                assert run(fit(option, out="killed")) == 2
                assert_says(complaint(capsys), "killed: … another run")
        finally:
            first.kill()
