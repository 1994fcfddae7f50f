"""Writes the logs of a scenario and asks doctor about them."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import scenarios
from job_log import LAYOUTS, Job

LIMIT_S = 60
NOISE_WORLD, NOISE_PER_NODE = 64, 8


@dataclass
class Answer:
    scenario: scenarios.Scenario
    culprit: dict
    findings: list[dict]
    layout: str
    directory: Path

    def loud(self) -> list[dict]:
        return [f for f in self.findings if f["severity"] != "info"]

    def right_class(self) -> bool:
        shown = self.findings if self.scenario.quiet else self.loud()
        return bool(shown) and shown[0]["class"] == self.scenario.cls

    def right_culprit(self) -> bool:
        """The first finding names no other than the culprit, by rank or node or what it is known by."""
        if not self.culprit:
            return True
        shown = self.findings if self.scenario.quiet else self.loud()
        if not shown:
            return False
        subject = shown[0]["subject"]
        ranks = self.culprit.get("ranks")
        if ranks and subject["ranks"]:
            return set(subject["ranks"]) <= set(ranks)
        for kind in ("nodes", "pods", "devices", "files"):
            for name in self.culprit.get(kind, []):
                if any(name in text or text in name for names in subject.values()
                       for text in map(str, names)):
                    return True
        return False


def make_job(scenario, seed: str, noise: int) -> Job:
    world, per_node = (NOISE_WORLD, NOISE_PER_NODE) if noise else (8, 4)
    if scenario.one_node:
        world = per_node = 8
    job = Job(f"{scenario.id}-{seed}", world, per_node)
    if scenario.torch:
        job.torch = job.rng.choice(scenario.torch)
    if scenario.nccl:
        job.nccl_version = job.rng.choice(scenario.nccl)
    return job


def write(job: Job, directory: Path, change=lambda text: text):
    for name, text in job.files().items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text if name in job.side else change(text), newline="")


BAR = "\rEpoch 0:  45%|####      | 45/100 [00:12<00:15,  3.61it/s]\r"


def among_bars(text: str) -> str:
    """A progress bar is redrawn at the beginning of every third line."""
    return "\n".join(BAR + line if i % 3 == 0 and line else line for i, line in enumerate(text.split("\n")))


def behind_front(text: str) -> str:
    """What no row of the table of prefixes knows stands before each line."""
    return "\n".join("srv7/job#4 >> " + line for line in text.split("\n"))


def ask(program, directory: Path) -> tuple[int, list[dict]]:
    result = subprocess.run([str(program), "doctor", str(directory), "--json"], capture_output=True,
                            text=True, timeout=LIMIT_S)
    assert result.returncode in (0, 1), result.stderr
    return result.returncode, json.loads(result.stdout)["findings"]


def fault(program, scenario, seed: str, directory: Path, noise=0, change=lambda text: text) -> Answer:
    shutil.rmtree(directory, ignore_errors=True)
    job = make_job(scenario, seed, noise)
    culprit = {k: v for k, v in scenario.run(job).items() if isinstance(v, list)}
    if noise:
        job.noise(noise)
    write(job, directory, change)
    return Answer(scenario, culprit, ask(program, directory)[1], job.layout, directory)


def healthy(program, scenario, seed: str, directory: Path, noise=0) -> Answer:
    shutil.rmtree(directory, ignore_errors=True)
    job = make_job(scenario, seed, noise)
    (scenario.healthy or scenarios.healthy)(job)
    if noise:
        job.noise(noise)
    write(job, directory)
    return Answer(scenario, {}, ask(program, directory)[1], job.layout, directory)
