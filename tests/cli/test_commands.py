"""The command line: what users type, what they see, and the exit codes."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import phloem
from phloem.cli.main import run
from phloem.trees.reading import parse_newick
from support.command_line import PROGRAM, complaint
from support.messages import assert_says
from support.waiting import wait_until


def test_embedding_and_recovery_of_the_bundled_trees(capsys):
    assert run(["embed", "primates", "--out", "primates.npz"]) == 0
    assert capsys.readouterr().out == "21 binary trees on 12 taxa, 12 channels per node: primates.npz\n"
    with np.load("primates.npz", allow_pickle=False) as arrays:
        assert arrays["features"].shape == (21, 22, 12)
        assert arrays["weights"].sum() == 1000
        assert arrays["taxa"][0] == "Tarsius_syrichta"
        parent, taxa = arrays["parent"], arrays["taxa"].tolist()
    assert run(["recover", "primates.npz"]) == 0
    recovered = parse_newick(capsys.readouterr().out, taxa=taxa)
    np.testing.assert_array_equal(recovered.topologies.parent, parent)


def test_recovery_needs_neither_parents_nor_the_order_of_interior_rows(capsys):
    assert run(["embed", "primates", "--out", "whole.npz"]) == 0
    assert run(["recover", "whole.npz"]) == 0
    expected = capsys.readouterr().out.split("\n", 1)[1]
    with np.load("whole.npz") as arrays:
        order = np.concatenate([np.arange(12), 12 + np.random.default_rng(1).permutation(10)])
        np.savez("bare.npz", taxa=arrays["taxa"], features=arrays["features"][:, order])
    assert run(["recover", "bare.npz"]) == 0
    assert capsys.readouterr().out == expected


def test_polytomies_are_embedded_and_recovered(capsys):
    Path("trees.nwk").write_text("(A,B,(C,D,E));\n(A,(B,C),(D,E));\n(A,B,C,D,E);\n")
    assert run(["embed", "trees.nwk", "--out", "f.npz"]) == 0
    assert "3 trees of any degrees on 5 taxa" in capsys.readouterr().out
    assert run(["recover", "f.npz"]) == 0
    assert capsys.readouterr().out == "(A,B,(C,D,E));\n(A,(B,C),(D,E));\n(A,B,C,D,E);\n"


def test_rooted_trees_are_unrooted_unless_the_root_is_kept(capsys):
    Path("trees.nwk").write_text("((A,B),((C,D),E));\n")
    assert run(["embed", "trees.nwk", "--out", "f.npz"]) == 0
    assert run(["embed", "trees.nwk", "--keep-root", "--out", "rooted.npz"]) == 0
    capsys.readouterr()
    assert run(["recover", "f.npz"]) == 0
    assert capsys.readouterr().out == "(A,B,((C,D),E));\n"
    assert run(["recover", "rooted.npz"]) == 0
    assert capsys.readouterr().out == "((A,B),((C,D),E));\n"


def test_several_files_are_pooled_with_burnin_and_merging(capsys):
    Path("one.nwk").write_text("(A,B,(C,D));\n" * 4)
    Path("two.nwk").write_text("(D,B,(C,A));\n(A,B,(C,D));\n")
    command = ["embed", "one.nwk", "two.nwk", "--out", "f.npz"]
    assert run(command) == 0
    np.testing.assert_allclose(np.load("f.npz")["weights"], [1 / 8] * 4 + [1 / 4] * 2)
    assert run([*command, "--distinct"]) == 0
    np.testing.assert_allclose(np.load("f.npz")["weights"], [0.75, 0.25])
    assert run([*command, "--burnin", "0.5"]) == 0
    np.testing.assert_allclose(np.load("f.npz")["weights"], [0.25, 0.25, 0.5])
    assert run([*command, "--burnin", "1", "--distinct"]) == 0
    np.testing.assert_allclose(np.load("f.npz")["weights"], [1.0])


def test_polytomies_and_binary_trees_in_different_files_are_pooled():
    Path("one.nwk").write_text("(A,B,(C,D));\n")
    Path("two.nwk").write_text("(A,B,C,D);\n(D,C,B,A);\n")
    assert run(["embed", "one.nwk", "two.nwk", "--distinct", "--out", "f.npz"]) == 0
    arrays = np.load("f.npz")
    np.testing.assert_allclose(arrays["weights"], [0.5, 0.5])
    assert arrays["features_0"].shape == (6, 4)
    assert arrays["features_1"].shape == (5, 4)


def test_random_tips_for_big_trees(capsys):
    taxa = [f"t{number}" for number in range(3000)]
    trees = phloem.trees.random_topologies(3000, 1, stream=phloem.RandomStream(1, "x"))
    Path("big.nwk").write_text(phloem.trees.format_newick(trees, taxa)[0])
    arrays = {}
    for name, options in {"a": ["--seed", "1"], "b": ["--seed", "1"], "c": ["--seed", "2"]}.items():
        assert run(["embed", "big.nwk", "--dimension", "16", *options, "--out", f"{name}.npz"]) == 0
        arrays[name] = np.load(f"{name}.npz")["features"]
    assert arrays["a"].shape == (1, 5998, 16)
    np.testing.assert_array_equal(arrays["a"], arrays["b"])
    assert (arrays["a"] != arrays["c"]).any()
    capsys.readouterr()
    assert run(["recover", "a.npz"]) == 2
    assert "linearly dependent" in complaint(capsys)


def test_a_file_without_trees_recovers_to_nothing(capsys):
    np.savez("none.npz", taxa=np.array(["A", "B", "C"]), features=np.empty((0, 4, 3)))
    assert run(["recover", "none.npz"]) == 0
    assert capsys.readouterr().out == ""


def test_one_hot_features_of_a_huge_tree_are_refused_with_advice(capsys):
    Path("star.nwk").write_text("(" + ",".join(f"t{number}" for number in range(20_000)) + ");")
    assert run(["embed", "star.nwk", "--out", "f.npz"]) == 2
    assert "--dimension" in complaint(capsys)
    assert not Path("f.npz").exists()


def test_a_file_named_like_an_example_is_the_file(capsys):
    Path("primates").write_text("(A,B,(C,D));")
    assert run(["embed", "primates", "--out", "f.npz"]) == 0
    assert "on 4 taxa" in capsys.readouterr().out


BAD_COMMANDS = {
    "missing file": (["embed", "none.nwk", "--out", "f.npz"], "none.nwk … no such file"),
    "bad tree": (["embed", "bad.nwk", "--out", "f.npz"], "bad.nwk … tree 1 … line 1 … column 9"),
    "other taxa": (
        ["embed", "good.nwk", "other.nwk", "--out", "f.npz"],
        "other.nwk … tree 1 … line 1 … column 1 … 'D'",
    ),
    "no output": (["embed", "good.nwk"], "Missing option '--out' … phloem embed --help"),
    "no input": (["embed", "--out", "f.npz"], "Missing argument"),
    "bad burn-in": (["embed", "good.nwk", "--burnin", "half", "--out", "f.npz"], "--burnin half"),
    "burn-in of everything": (
        ["embed", "good.nwk", "--burnin", "1", "--out", "f.npz"],
        "good.nwk … burn-in 1 … 1 tree",
    ),
    "bad dimension": (["embed", "good.nwk", "--dimension", "0", "--out", "f.npz"], "--dimension"),
    "bad seed": (["embed", "good.nwk", "--seed", "-1", "--out", "f.npz"], "--seed"),
    "directory that is not there": (
        ["embed", "good.nwk", "--out", "no/f.npz"],
        "no/f.npz … directory",
    ),
    "output is a directory": (["embed", "good.nwk", "--out", "."], "directory"),
    "weights of zero among polytomies": (["embed", "zeros.nwk", "good.nwk", "--out", "f.npz"], "weights … zero"),
    "output is an input": (["embed", "good.nwk", "other.nwk", "--out", "./good.nwk"], "good.nwk … input"),
    "a name that is too long": (["embed", "x" * 5000, "--out", "f.npz"], "File name too long"),
    "output is a device": (["embed", "good.nwk", "--out", "/dev/null"], "/dev/null … regular file"),
    "weights of zero": (["embed", "zero.nwk", "good.nwk", "--out", "f.npz"], "weights … zero"),
    "recover nothing": (["recover", "none.npz"], "none.npz … no such file"),
    "recover text": (["recover", "good.nwk"], "good.nwk … .npz"),
    "recover noise": (["recover", "noise.npz"], "noise.npz … tree 2 … features"),
    "no such command": (["infere"], "No such command 'infere'"),
    "no such option": (["embed", "good.nwk", "--outt", "f.npz"], "No such option"),
}


@pytest.mark.parametrize("case", BAD_COMMANDS)
def test_bad_input_is_one_line_exit_code_2_and_no_file(case, capsys):
    command, facts = BAD_COMMANDS[case]
    Path("good.nwk").write_text("(A,B,(C,D));")
    Path("other.nwk").write_text("(A,B,(C,E));")
    Path("zero.nwk").write_text("[&W 0](A,B,(C,D));")
    Path("zeros.nwk").write_text("[&W 0](A,B,C,D);")
    Path("bad.nwk").write_text("(A,B,(C,A));")
    good = phloem.features.dirichlet_features(phloem.trees.all_topologies(5))[:3]
    noise = good + np.array([0, 1e-3, 0])[:, None, None] * np.random.default_rng(0).random(good.shape)
    np.savez("noise.npz", taxa=np.array(list("ABCDE")), features=noise)
    before = sorted(Path().iterdir())
    assert run(command) == 2
    assert_says(complaint(capsys), facts)
    assert sorted(Path().iterdir()) == before


def test_info_as_json_names_programs_and_versions(capsys, tmp_path, monkeypatch):
    program = tmp_path / "bin" / "iqtree3"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho 'IQ-TREE version 3.1.4 for Linux'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent))
    assert run(["info", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["versions"]["phloem"] == phloem.__version__
    assert facts["versions"]["numpy"] == np.__version__
    assert facts["threads"]["available"] >= 1
    assert Path(facts["kernels"]["cache"]).is_dir()
    iqtree, mrbayes = facts["programs"]
    assert (iqtree["name"], iqtree["version"], iqtree["path"]) == ("IQ-TREE", "3.1.4", str(program))
    assert (mrbayes["path"], mrbayes["version"]) == (None, None)


@pytest.mark.parametrize("script", ["exit 3", "echo no number", "kill -9 $$"])
def test_info_copes_with_a_program_that_does_not_tell_its_version(capsys, tmp_path, monkeypatch, script):
    program = tmp_path / "mb"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert run(["info"]) == 0
    output = capsys.readouterr().out
    assert re.search(r"MrBayes +version unknown, ", output)
    assert re.search(r"IQ-TREE +not found \(optional: bootstrap trees\)", output)


def test_the_real_iqtree_is_found(iqtree, capsys):
    assert run(["info", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["programs"][0]
    assert re.fullmatch(r"\d+\.\d+.*", found["version"])


def test_version(capsys):
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"phloem {phloem.__version__}\n"


@pytest.mark.parametrize("command", ["infer", "embed", "recover", "info"])
def test_every_command_has_help_with_examples(command, capsys):
    assert run([command, "--help"]) == 0
    output = capsys.readouterr().out
    assert "Examples" in output
    assert output.count(f"phloem {command}") >= 2


def test_no_command_shows_help(capsys):
    assert run([]) == 0
    output = capsys.readouterr().out
    assert all(command in output for command in ("embed", "recover", "info"))


def test_interruption_is_exit_code_130(capsys, monkeypatch):
    def interrupt(*_args, **_options):
        raise KeyboardInterrupt

    monkeypatch.setattr("phloem.tasks.embed.embed", interrupt)
    assert run(["embed", "primates", "--out", "f.npz"]) == 130
    assert "interrupted" in complaint(capsys)


@pytest.mark.slow
def test_the_installed_program_runs_and_its_reader_may_leave_early():
    subprocess.run([PROGRAM, "embed", "primates", "--out", "p.npz"], check=True, capture_output=True)
    command = f"{PROGRAM} recover p.npz | head -n 1"
    run = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert run.stdout.startswith("(Tarsius_syrichta,")
    assert run.stderr == ""


@pytest.mark.slow
def test_output_that_cannot_be_written_is_one_line():
    with open("/dev/full", "w") as full:  # noqa: PTH123
        done = subprocess.run([PROGRAM, "info"], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1
    assert_says(done.stderr, "phloem: … standard output … No space left on device")
    assert done.stderr.count("\n") == 1


@pytest.mark.slow
def test_names_are_utf_8_whatever_the_terminal_says():
    Path("trees.nwk").write_text("(Björk,ねこ,(C,D));", encoding="utf-8")
    plain = os.environ | {"PYTHONIOENCODING": "ascii", "LC_ALL": "C"}
    subprocess.run([PROGRAM, "embed", "trees.nwk", "--out", "f.npz"], check=True, capture_output=True, env=plain)
    done = subprocess.run([PROGRAM, "recover", "f.npz"], check=True, capture_output=True, env=plain)
    assert "Björk" in done.stdout.decode("utf-8")


@pytest.mark.slow
def test_a_polite_kill_leaves_nothing_behind():
    """SIGTERM in the middle of writing a large file, as batch systems send it."""
    taxa = [f"t{number}" for number in range(400)]
    trees = phloem.trees.random_topologies(400, 2000, stream=phloem.RandomStream(1, "x"))
    Path("big.nwk").write_text("\n".join(phloem.trees.format_newick(trees, taxa)))
    process = subprocess.Popen([PROGRAM, "embed", "big.nwk", "--out", "f.npz"], stderr=subprocess.PIPE, text=True)
    wait_until(lambda: any(Path().glob(".f.npz.*")), process)
    process.send_signal(signal.SIGTERM)
    _, message = process.communicate()
    assert process.returncode == 130
    assert_says(message, "phloem: … interrupted")
    assert message.count("\n") == 1
    assert sorted(path.name for path in Path().iterdir()) == ["big.nwk"]


@pytest.mark.slow
def test_no_place_for_compiled_code_is_no_obstacle():
    """Where neither the package nor the home can be written, kernels are compiled for each process."""
    nowhere = os.environ | {"NUMBA_CACHE_LOCATOR_CLASSES": "ZipCacheLocator"}  # which serves packages in zip files
    done = subprocess.run([PROGRAM, "info"], env=nowhere, capture_output=True, text=True, check=True)
    assert "no writable directory" in done.stdout


@pytest.mark.slow
def test_help_does_not_wait_for_numba():
    script = "import sys; from phloem.cli.main import run; run(['--help']); sys.exit('numba' in sys.modules)"
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, env=dict(os.environ))


def test_files_of_different_taxon_order_are_pooled_in_the_first_ones(capsys):
    Path("a.nwk").write_text("(A,B,(C,D));")
    text = "#NEXUS begin taxa; taxlabels D B C A; end; begin trees; tree a=(A,(B,C),D); tree b = (A,B,C,D); end;"
    Path("b.nex").write_text(text)
    assert run(["embed", "a.nwk", "b.nex", "-o", "f.npz"]) == 0
    assert np.load("f.npz")["parent_1"].tolist() == [5, 4, 4, 5, 5, -1]


def test_random_tips_for_polytomies_come_from_the_seed(capsys):
    Path("star.nwk").write_text("(A,B,C,D);")
    assert run(["embed", "star.nwk", "--dimension", "2", "--seed", "5", "-o", "f.npz"]) == 0
    assert capsys.readouterr().out == "1 tree of any degrees on 4 taxa, 2 channels per node: f.npz\n"
    tips = phloem.features.random_tips(4, 2, stream=phloem.RandomStream(5, "tip features"))
    np.testing.assert_array_equal(np.load("f.npz")["features_0"][:4], tips)


@pytest.mark.slow
def test_the_program_returns_its_exit_code():
    done = subprocess.run([PROGRAM, "embed", "none", "-o", "f.npz"], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith("phloem: none: ")


@pytest.mark.slow
def test_a_reader_that_is_gone_is_no_error_message():
    subprocess.run([PROGRAM, "embed", "primates", "-o", "p.npz"], check=True, capture_output=True)
    reading_end, writing_end = os.pipe()
    os.close(reading_end)
    buffered = {key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"}
    command = [PROGRAM, "recover", "p.npz"]
    done = subprocess.run(command, stdout=writing_end, stderr=subprocess.PIPE, text=True, env=buffered)
    os.close(writing_end)
    assert (done.returncode, done.stderr) == (1, "")


def while_loading(name: str) -> ImportError:
    problem = ImportError(f"{name} cannot be loaded")
    problem.__cause__ = OSError(f"{name}.so: failed to map segment from shared object")
    return problem


@pytest.mark.parametrize(
    "problem",
    [
        MemoryError(),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes"),
        RuntimeError("std::bad_alloc"),
        RuntimeError("can't start new thread"),
        OSError(12, "Cannot allocate memory"),
        while_loading("library"),
    ],
    ids=str,
)
def test_too_little_memory_is_one_line(capsys, monkeypatch, problem):
    def exhaust(*_args, **_options):
        raise problem

    monkeypatch.setattr("phloem.tasks.embed.embed", exhaust)
    assert run(["embed", "primates", "--out", "f.npz"]) == 1
    assert_says(complaint(capsys), "phloem: … not enough memory")


@pytest.mark.parametrize("problem", [RuntimeError("a bug"), ImportError("no module")], ids=str)
def test_other_problems_are_not_taken_for_it(monkeypatch, problem):
    def fail(*_args, **_options):
        raise problem

    monkeypatch.setattr("phloem.tasks.embed.embed", fail)
    with pytest.raises(type(problem)):
        run(["embed", "primates", "--out", "f.npz"])


@pytest.mark.slow
@pytest.mark.parametrize("megabytes", [300, 800])
def test_a_limit_that_libraries_do_not_survive_is_told_before_they_are_loaded(megabytes):
    limit = megabytes * 10**6
    script = f"import resource; resource.setrlimit(resource.RLIMIT_AS, ({limit}, {limit}))"
    program = [sys.executable, "-c", f"{script}; from phloem.__main__ import main; main()"]
    done = subprocess.run([*program, "info"], capture_output=True, text=True)
    assert done.returncode == 2
    assert_says(done.stderr, f"phloem: … {megabytes / 1000} GB (ulimit -v)")
    assert done.stderr.count("\n") == 1
    assert subprocess.run([*program, "--version"], capture_output=True).returncode == 0


def test_an_odd_file_name_stays_one_printable_line(capsys):
    assert run(["embed", "no\nsuch\x1b[31m", "-o", "f.npz"]) == 2
    assert complaint(capsys).isprintable()


@pytest.mark.parametrize(
    ("scripts", "index", "version"),
    [
        ({"iqtree": "#!/bin/sh\necho 1.6", "iqtree3": "#!/bin/sh\necho 3.0"}, 0, "3.0"),
        ({"mb": "#!/bin/sh\necho v3.2.7 >&2"}, 1, "3.2.7"),
        ({"mb": "#!/no/such/shell\n"}, 1, None),
    ],
)
def test_info_asks_the_program_it_prefers(tmp_path, monkeypatch, capsys, scripts, index, version):
    for name, script in scripts.items():
        (tmp_path / name).write_text(script)
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert run(["info", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["programs"][index]["version"] == version


def test_an_interrupt_inside_a_kernel_call_is_an_interrupt(capsys, monkeypatch):
    """numba reports Ctrl-C while it hands a result back as an error of its own."""

    def interrupted(*_arguments, **_options):
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt as interrupt:
            raise SystemError("returned a result with an exception set") from interrupt

    monkeypatch.setattr("phloem.tasks.info.describe", interrupted)
    assert run(["info"]) == 130
    assert "interrupted" in capsys.readouterr().err


def test_other_errors_of_the_interpreter_are_not_hidden(monkeypatch):
    def broken(*_arguments, **_options):
        raise SystemError("something else")

    monkeypatch.setattr("phloem.tasks.info.describe", broken)
    with pytest.raises(SystemError, match="something else"):
        run(["info"])


@pytest.mark.slow
def test_a_path_that_is_no_text_is_still_shown(tmp_path):
    out = os.fsdecode(b"bad\xff.npz")
    command = [sys.executable, "-c", "from phloem.cli.main import main; main()", "embed", "primates", "--out", out]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True)
    assert done.returncode == 0, done.stderr
    assert b"bad\\udcff.npz" in done.stdout
    assert (tmp_path / out).exists()
