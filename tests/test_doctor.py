"""The verb `shanty doctor`: what it reads, what it prints, how it ends."""

import gzip
import io
import json
import resource
import subprocess
import tarfile

import pytest

from conftest import SHANTY, shanty

OOM = ("[rank2]: Traceback (most recent call last):\n"
       "[rank2]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 2 has a total capacity of "
       "79.15 GiB of which 1.12 GiB is free.\n")
HEALTHY = "".join(f"step {i} loss {3 - i / 100:.3f} lr 0.0003\n" for i in range(50))


def first(result):
    return json.loads(result.stdout)["findings"][0]


def test_reads_standard_input():
    result = subprocess.run([str(SHANTY), "doctor", "-", "--json"], input=OOM, capture_output=True, text=True)
    assert result.returncode == 1
    assert first(result)["class"] == "gpu_oom"
    assert first(result)["evidence"][0]["file"] == "<stdin>"
    assert first(result)["evidence"][0]["line"] == 2


def test_a_healthy_log_ends_with_0(tmp_path):
    (tmp_path / "train.log").write_text(HEALTHY)
    result = shanty("doctor", tmp_path)
    assert result.returncode == 0
    assert "no failure found" in result.stdout


def test_reads_archives_and_names_files_inside(tmp_path):
    with tarfile.open(tmp_path / "logs.tar.gz", "w:gz") as archive:
        for name, text in ("out/rank_0.log", HEALTHY), ("out/rank_2.log", OOM):
            entry = tarfile.TarInfo(name)
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    finding = first(shanty("doctor", tmp_path / "logs.tar.gz", "--json"))
    assert finding["subject"]["ranks"] == [2]
    assert finding["evidence"][0]["file"].endswith("logs.tar.gz: out/rank_2.log")


def test_says_what_it_could_not_read_and_goes_on(tmp_path):
    (tmp_path / "rank_2.log").write_text(OOM)
    (tmp_path / "rank_1.log.gz").write_bytes(gzip.compress(HEALTHY.encode() * 100)[:-200])
    result = shanty("doctor", tmp_path, "--json")
    assert result.returncode == 1
    assert first(result)["class"] == "gpu_oom"
    assert any("rank_1.log.gz" in note for note in json.loads(result.stdout)["notes"])


@pytest.mark.parametrize("form, mark", [("text", "do now"), ("markdown", "### MEM102"), ("html", "<!doctype html>"),
                                        ("json", '"version": 1')])
def test_prints_every_form(tmp_path, form, mark):
    (tmp_path / "a.log").write_text(OOM)
    result = shanty("doctor", tmp_path, "--format", form)
    assert mark in result.stdout
    assert "\x1b" not in result.stdout


def test_a_path_that_is_not_there_is_the_environment(tmp_path):
    result = shanty("doctor", tmp_path / "nothing")
    assert result.returncode == 3
    assert "nothing" in result.stderr


def test_without_a_path_it_is_usage():
    assert shanty("doctor").returncode == 2


def test_every_code_has_its_page(tmp_path):
    """Findings without a page would have no why."""
    (tmp_path / "a.log").write_text(OOM)
    assert first(shanty("doctor", tmp_path, "--json"))["why"]


def test_many_logs_without_ranks_take_no_longer_than_few(tmp_path):
    """Each step line is looked at once, whatever the number of logs."""
    steps = "".join(f"step {i} loss {3 - i / 1000:.4f}\n" for i in range(400))
    for i in range(400):
        (tmp_path / f"run{i}x.txt").write_text(steps)
    seconds = 60  # of a processor
    done = subprocess.run([str(SHANTY), "doctor", tmp_path], capture_output=True,
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds)))
    assert done.returncode == 0


def test_shows_no_escape_sequences_of_file_names(tmp_path):
    torn = gzip.compress(HEALTHY.encode() * 100)[:-200]
    with tarfile.open(tmp_path / "logs.tar", "w") as archive:
        entry = tarfile.TarInfo("\x1b]0;owned\x07\x1b[2Jrank_1.log.gz")
        entry.size = len(torn)
        archive.addfile(entry, io.BytesIO(torn))
    result = shanty("doctor", tmp_path)
    assert "rank_1.log.gz" in result.stderr
    assert "\x1b" not in result.stdout + result.stderr
    assert "\x07" not in result.stdout + result.stderr


def test_hides_names(tmp_path):
    (tmp_path / "a.log").write_text(
        "gpu-node-7:1:2 [0] misc/shmutils.cc:72 NCCL WARN Error: failed to extend /dev/shm/nccl-Ab3 to 9637892 bytes, "
        "error: No space left on device (28)\n")
    result = shanty("doctor", tmp_path, "--redact")
    assert "gpu-node-7" not in result.stdout
    assert "host-1" in result.stdout
