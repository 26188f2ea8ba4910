"""What a run was made of is written down, whatever it was made of."""

import hashlib
import json

import pytest

from phloem.errors import FileProblem
from phloem.runs.directory import describe_file, read_provenance
from support.counting_runs import CountConfig, count_directory


def test_sessions_are_counted_and_inputs_that_are_not_named_again_stay(tmp_path):
    run = count_directory(tmp_path)
    (tmp_path / "a.nwk").write_bytes(b"(a,b,c);\n")
    trees = [describe_file(tmp_path / "a.nwk")]
    run.record(CountConfig(), {"trees": trees}, seed=3, command="phloem count up a.nwk")
    run.record(CountConfig(), {"trees": []}, seed=3, command="phloem count up --resume")
    found = json.loads((tmp_path / "provenance.json").read_text())
    assert found["kind"] == "count up"
    assert found["trees"] == [{"source": str(tmp_path / "a.nwk"), "sha256": hashlib.sha256(b"(a,b,c);\n").hexdigest()}]
    assert found["seed"] == 3
    assert [session["command"] for session in found["sessions"]] == [
        "phloem count up a.nwk",
        "phloem count up --resume",
    ]
    assert "alignment" not in found
    assert read_provenance(tmp_path / "provenance.json") == found


def test_a_file_that_cannot_be_read_is_a_line(tmp_path):
    with pytest.raises(FileProblem, match="no such file"):
        describe_file(tmp_path / "a.nwk")
    with pytest.raises(FileProblem, match="directory"):
        describe_file(tmp_path)
