"""Checkpoints that a script writes by itself are found, checked and named in the report."""

SCRIPT = """
    import os, sys, torch
    import torch.distributed.checkpoint as dcp
    root = sys.argv[1]
    state = {"w": torch.arange(5000.0)}
    torch.save(state, f"{root}/first.pt")
    with open(f"{root}/second.pt.tmp", "wb") as file:
        torch.save(state, file)
    os.rename(f"{root}/second.pt.tmp", f"{root}/second.pt")
    dcp.save(state, checkpoint_id=f"{root}/third")
    os.remove(f"{root}/third/.metadata")
    torch.save(state, f"{root}/fourth.pt")
    os.truncate(f"{root}/fourth.pt", 9000)
"""


def test_the_newest_usable_checkpoint_is_named(start, script, tmp_path):
    run = start(script(SCRIPT), tmp_path).wait()
    assert run.code == 0, run.describe()
    report = run.report()
    states = {c["path"].rpartition("/")[2]: c["state"] for c in report["checkpoints"]}
    assert states == {"first.pt": "whole", "second.pt": "whole", "third": "damaged",
                      "fourth.pt": "damaged"}
    assert report["newest_usable_checkpoint"] == f"{tmp_path}/second.pt"
    text = run.stderr.decode()
    assert f"{tmp_path}/second.pt" in text
    assert "its .metadata is missing" in text and "cut short" in text
    run.assert_nothing_left()
