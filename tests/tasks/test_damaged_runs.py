"""A few of the damages that `flip_bits.py` makes by the thousand."""

import shutil
from pathlib import Path

import pytest

import phloem
from phloem.errors import FileProblem
from phloem.tasks.opening import Drawing, open_posterior
from phloem.tasks.run_files import EXPORTS, infer_run
from support.flip_bits import PASSING, damage_run

READ = ("summary.json", "clades.csv", "topologies.csv", "draws.safetensors", "parameters.safetensors")


def test_no_flipped_bit_changes_a_number(finished_run):
    files = dict(damage_run(finished_run, places=2, resume_every=2, seed=1))
    assert {*files} >= {*infer_run(finished_run).needed, *EXPORTS, "SHA256SUMS"}
    for name, found in files.items():
        assert {*found} <= {*PASSING, "resumed, harmless"}, name
    for name in READ:
        assert set(files[name]) == {"refused", "resumed, harmless"}, name


@pytest.mark.parametrize("name", READ)
def test_a_truncated_result_is_named_and_resuming_makes_it_again(name, finished_run, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(finished_run, copy)
    content = (copy / name).read_bytes()
    (copy / name).write_bytes(content[: len(content) // 2])
    with pytest.raises(FileProblem, match=rf"{name}: is damaged.*--resume"):
        read_all(copy)
    told = []
    phloem.infer(None, out=copy, resume=True, progress=lambda event: told.append(getattr(event, "text", "")))
    assert (copy / name).read_bytes() == content
    assert any(f"{name}: is damaged" in text for text in told)


def test_an_edited_table_of_several_runs_is_noticed_and_made_again(finished_runs, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(finished_runs, copy)
    content = (copy / "clades.csv").read_bytes()
    (copy / "clades.csv").write_bytes(content.replace(b"0.9", b"0.8"))
    with pytest.raises(FileProblem, match=r"clades.csv: is damaged, or was changed"):
        phloem.load_posterior(copy)
    phloem.infer(None, out=copy, resume=True, progress=False)
    assert (copy / "clades.csv").read_bytes() == content


def test_a_run_whose_last_checkpoint_is_damaged_is_not_left_out_of_the_draws(finished_runs, tmp_path):
    """What is left is its first checkpoint, like that of a run that has not begun."""
    copy = tmp_path / "copy"
    shutil.copytree(finished_runs, copy)
    last = max((copy / "run-1" / "checkpoints").iterdir())
    content = bytearray(last.read_bytes())
    content[len(content) // 2] ^= 1
    last.write_bytes(content)
    with pytest.raises(FileProblem, match=rf"{last.name}: is damaged.*--resume"):
        open_posterior(copy, drawing=Drawing(samples=20, repeats=1))
    phloem.load_posterior(copy)  # needs no checkpoint


def test_a_run_without_checksums_is_sealed_by_resuming(finished_run, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(finished_run, copy)
    (copy / "SHA256SUMS").unlink()
    with pytest.raises(FileProblem, match=r"has no checksum in SHA256SUMS.*--resume"):
        phloem.load_posterior(copy)
    phloem.infer(None, out=copy, resume=True, progress=False)
    read_all(copy)


def read_all(run: Path) -> None:
    posterior = phloem.load_posterior(run)
    assert len(posterior.draws)
    assert posterior.model is not None
