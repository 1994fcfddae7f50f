"""`shanty ckpt` on checkpoints that an engine wrote, without torch."""

import json
import struct
import subprocess

import pytest

from conftest import SHANTY
from test_checkpoint_kills import FLOATS, Engine


def ckpt(*args: object, code: int = 0) -> subprocess.CompletedProcess:
    done = subprocess.run([str(SHANTY), "ckpt", *map(str, args)], capture_output=True, text=True)
    assert done.returncode == code, (args, done.stdout, done.stderr)
    return done


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Steps 2 and 3; step 1 was pruned by the engine, which keeps two."""
    root = tmp_path_factory.mktemp("ckpt") / "root"
    for step in (1, 2, 3):
        engine = Engine()
        assert engine.save(root, step)
        engine.end()
    return root


def test_ls_and_show_tell_what_is_there(root):
    listed = json.loads(ckpt("ls", root, "--json").stdout)["checkpoints"]
    assert [(c["step"], c["world_size"], c["state"]) for c in listed] == [
        (3, 1, "committed"), (2, 1, "committed")]
    assert "STEP" in ckpt("ls", root).stdout
    shown = json.loads(ckpt("show", root, "--step", 2, "--json").stdout)
    assert shown["global"] == {"step": 2}
    assert shown["tensors"]["w"] == {"dtype": "F32", "shape": [FLOATS], "group": "model",
                                     "pieces": 1}


def test_diff_tells_which_tensors_changed_and_by_how_much(root):
    steps = sorted(root.glob("step-*"))
    diff = json.loads(ckpt("diff", *steps, "--json", code=1).stdout)
    assert diff["same"] == 0
    change = diff["differences"][0]
    assert (change["name"], change["change"], change["changed_elements"]) == ("w", "values", FLOATS)
    assert change["max_abs"] == 1 and change["rms"] == 1
    assert json.loads(ckpt("diff", steps[0], steps[0], "--json").stdout)["same"] == 1


def test_export_is_a_safetensors_file(root, tmp_path):
    ckpt("export", root, tmp_path / "w.safetensors")
    data = (tmp_path / "w.safetensors").read_bytes()
    length = struct.unpack_from("<Q", data)[0]
    header = json.loads(data[8 : 8 + length])
    assert header["w"] == {"dtype": "F32", "shape": [FLOATS], "data_offsets": [0, 4 * FLOATS]}
    assert len(data) == 8 + length + 4 * FLOATS
    assert struct.unpack_from("<f", data, 8 + length + 400)[0] == 3
    again = ckpt("export", root, tmp_path / "w.safetensors", code=3)
    assert "it exists" in again.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["w.safetensors"]


def test_prune_says_what_it_would_remove_and_then_does(root):
    dry = json.loads(ckpt("prune", root, "--keep", 1, "--dry-run", "--json").stdout)
    assert [c["step"] for c in dry["removed"]] == [2] and dry["dry_run"]
    assert len(list(root.glob("step-*"))) == 2
    ckpt("prune", root, "--keep", 1)
    assert [path.name[:14] for path in root.glob("step-*")] == ["step-000000003"]
    assert "nothing to remove" in ckpt("prune", root, "--keep", 1).stderr


@pytest.mark.parametrize(
    ("words", "said", "code"),
    [
        (("ls", "/no/such"), "there is no such directory", 3),
        (("verify", "/no/such"), "there is no such directory", 3),
        (("show", "ROOT", "--step", "77"), "no committed checkpoint of step 77", 3),
        (("prune", "ROOT", "--keep", "0"), "--keep", 2),
        (("export", "ROOT", "x", "--format", "zip"), "--format", 2),
        (("frobnicate",), "subcommand", 2),
        ((), "subcommand", 2),
    ],
)
def test_wrong_words_are_told(root, words, said, code):
    done = ckpt(*(root if word == "ROOT" else word for word in words), code=code)
    assert said in done.stderr, done.stderr
