"""`phloem bootstrap`: files, the line, JSON, the bar, and every option."""

import json
import os
import pty
import re
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

import phloem
from phloem.cli.main import run
from phloem.config import BootstrapConfig
from support.command_line import PROGRAM, complaint
from support.fake_iqtree import FakeIqtree
from support.messages import assert_says
from support.waiting import wait_until


@pytest.fixture(autouse=True)
def files(in_empty_directory):
    Path("dna.fasta").write_text(">A\nACGT\n>B\nACGA\n>C\nACTT\n>D\nACTA\n")
    Path("three.fasta").write_text(">A\nACGT\n>B\nACGA\n>C\nACTT\n")
    Path("empty.fasta").write_text(">A\nACGT\n>B\nACGA\n>C\nACTT\n>D\n----\n")


@pytest.fixture
def fake(tmp_path, monkeypatch) -> FakeIqtree:
    return FakeIqtree(tmp_path, monkeypatch)


def test_a_line_for_people(fake, capsys):
    assert run(["bootstrap", "dna.fasta", "--out", "out", "--replicates", "1"]) == 0
    captured = capsys.readouterr()
    assert captured.out == "1 replicate of 1,000 trees on 4 taxa (IQ-TREE 9.8.7): out/replicate_01.nwk.gz\n"
    assert captured.err == ""
    assert run(["bootstrap", "dna.fasta", "-o", "out", "--replicates", "3"]) == 0
    expected = "3 replicates of 1,000 trees on 4 taxa (IQ-TREE 9.8.7, 1 already there): out/replicate_01.nwk.gz …\n"
    assert capsys.readouterr().out == expected


def test_json(fake, capsys):
    assert run(["bootstrap", "dna.fasta", "--out", "out", "--replicates", "2", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer.pop("seconds") > 0
    assert answer == {
        "directory": "out",
        "files": ["out/replicate_01.nwk.gz", "out/replicate_02.nwk.gz"],
        "taxa": 4,
        "count": 1000,
        "found": 0,
        "method": "iqtree",
        "program": "IQ-TREE 9.8.7",
    }


def test_replicates_of_different_versions_are_told(fake, capsys):
    assert run(["bootstrap", "dna.fasta", "--out", "out", "--replicates", "1"]) == 0
    fake.path.write_text(fake.path.read_text().replace("9.8.7", "9.9.0"))
    assert run(["bootstrap", "dna.fasta", "--out", "out", "--replicates", "2", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out.splitlines()[1])
    assert answer["program"] == "IQ-TREE 9.8.7, IQ-TREE 9.9.0"


def test_every_option_changes_its_setting(monkeypatch):
    settings = {"count": 2000, "replicates": 3, "seed": 4, "model": "HKY", "threads": 5, "timeout": 6.0}
    settings |= {"method": "embedded", "keep": 7, "within": 8.0}
    seen = []

    def remember(_source, _directory, config, **_options):
        seen.append(config)
        raise KeyboardInterrupt

    monkeypatch.setattr("phloem.tasks.search.run_bootstrap", remember)
    run(["bootstrap", "dna.fasta", "--out", "out"])
    for name, value in settings.items():
        run(["bootstrap", "dna.fasta", "--out", "out", f"--{name}", str(value)])
    assert seen == [BootstrapConfig(), *(BootstrapConfig(**{name: value}) for name, value in settings.items())]


def test_the_bundled_primates_with_the_real_program(iqtree, capsys):
    assert run(["bootstrap", "primates", "--out", "out", "--replicates", "2"]) == 0
    assert re.match(r"2 replicates of 1,000 trees on 12 taxa \(IQ-TREE \d", capsys.readouterr().out)
    taxa = phloem.read_alignment("primates").taxa
    assert len(phloem.read_trees("out/replicate_02.nwk.gz", taxa=taxa)) == 1000
    assert run(["embed", "out/replicate_01.nwk.gz", "out/replicate_02.nwk.gz", "--distinct", "-o", "f.npz"]) == 0


BAD = {
    "no alignment": (["none.fasta", "--out", "out"], "none.fasta: … no such file"),
    "no directory": (["dna.fasta"], "Missing option '--out' / '-o'"),
    "too few trees": (["dna.fasta", "--out", "out", "--count", "10"], "--count 10 … IQ-TREE … 1000"),
    "trees to keep": (
        ["dna.fasta", "--out", "out", "--keep", "9"],
        "--keep 9 … IQ-TREE",
    ),
    "an unknown method": (["dna.fasta", "--out", "out", "--method", "x"], "--method 'x' … auto, iqtree"),
    "no model of the search": (
        ["dna.fasta", "--out", "out", "--method", "embedded", "--model", "MFP"],
        "--model 'MFP' … JC, K80",
    ),
    "three taxa by the search": (
        ["three.fasta", "--out", "out", "--method", "embedded"],
        "3 taxa … 4",
    ),
    "another method": (
        ["dna.fasta", "--out", "old", "--method", "embedded"],
        "old: … method … iqtree … embedded",
    ),
    "an option as the model": (["dna.fasta", "--out", "out", "--model=-redo"], "--model '-redo'"),
    "three taxa": (["three.fasta", "--out", "out"], "3 taxa … 4"),
    "a taxon without data": (["empty.fasta", "--out", "out"], "data … 'D'"),
    "a file for a directory": (["dna.fasta", "--out", "dna.fasta"], "dna.fasta: … directory"),
    "no parent": (["dna.fasta", "--out", "no/out"], "no/out: … directory"),
    "a name that is too long": (["dna.fasta", "--out", "x" * 300], "File name too long"),
    "other settings": (["dna.fasta", "--out", "old", "--seed", "9"], "old: … seed … 1 … 9"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line_and_no_run(fake, capsys, case):
    command, facts = BAD[case]
    assert run(["bootstrap", "dna.fasta", "--out", "old", "--replicates", "1"]) == 0
    capsys.readouterr()
    before = sorted(Path().rglob("*"))
    assert run(["bootstrap", *command]) == 2
    assert_says(complaint(capsys), facts)
    assert sorted(Path().rglob("*")) == before
    assert len(fake.calls) == 1


def test_a_crash_is_one_line(fake, capsys):
    fake("echo 'ERROR: Too bad'; exit 2")
    assert run(["bootstrap", "dna.fasta", "--out", "out", "--threads", "1"]) == 2
    assert_says(complaint(capsys), "replicate 1 … IQ-TREE … exit code 2 … ERROR: Too bad … out/replicate_01.log")


def test_no_program_is_one_line_and_no_directory(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert run(["bootstrap", "dna.fasta", "--out", "out", "--method", "iqtree"]) == 2
    assert "IQ-TREE" in complaint(capsys)
    assert not Path("out").exists()


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interruption_ends_all_programs_and_leaves_nothing_half_written(fake, tmp_path, how):
    (tmp_path / "temporary").mkdir()
    fake(f"echo $$ >> {tmp_path}/pids; exec sleep 600")
    command = [PROGRAM, "bootstrap", "dna.fasta", "--out", "out", "--threads", "2"]
    environment = os.environ | {"TMPDIR": str(tmp_path / "temporary")}
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    wait_until(lambda: Path("pids").exists() and len(Path("pids").read_text().split()) == 2, process)
    process.send_signal(how)
    _, message = process.communicate()
    assert process.returncode == 130
    assert_says(message, "phloem: … interrupted")
    assert message.count("\n") == 1
    for process_id in Path("pids").read_text().split():
        with pytest.raises(ProcessLookupError):  # children of phloem, which has waited for them
            os.kill(int(process_id), 0)
    assert list(Path("temporary").iterdir()) == []
    assert [path.name for path in Path("out").iterdir()] == ["bootstrap.json"]


@pytest.mark.slow
def test_a_bar_on_a_terminal(fake):
    fake(f"echo 'Iteration 30 / LogL: -1 / Time: 0h:0m:30s (0h:0m:29s left)'; sleep 0.5; {fake.good}")
    terminal, screen = pty.openpty()
    command = [PROGRAM, "bootstrap", "dna.fasta", "--out", "out", "--replicates", "3", "--threads", "1"]
    environment = os.environ | {"TERM": "xterm"}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=screen, text=True)
    os.close(screen)
    shown = ""
    with suppress(OSError):  # which ends what a closed terminal has to say
        while part := os.read(terminal, 4096):
            shown += part.decode(errors="replace")
    os.close(terminal)
    assert process.communicate()[0].startswith("3 replicates")
    assert "0 of 3 replicates" in shown
    assert "2 of 3 replicates" in shown
    assert shown.endswith("\x1b[2K")  # and is gone at the end


def test_help_with_examples(capsys):
    assert run(["bootstrap", "--help"]) == 0
    output = capsys.readouterr().out
    assert output.count("phloem bootstrap") >= 3
    assert "[default: (1000)]" in output
