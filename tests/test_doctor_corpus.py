"""shanty doctor on written logs of 94 recorded failures and their healthy twins."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from conftest import SHANTY

sys.path.insert(0, str(Path(__file__).parent / "doctor"))
import corpus  # noqa: E402
import scenarios  # noqa: E402

MIN_CLASS, MIN_CULPRIT = 0.95, 0.90
NOISE_LINES = 100_000
AT_ONCE = 2


def ask_all(tmp_path, seed, noise, which, of=corpus.fault):
    def one(scenario):
        return of(SHANTY, scenario, seed, tmp_path / scenario.id, noise)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(one, which))


def assert_good(answers):
    wrong_class = [a for a in answers if not a.right_class()]
    wrong_culprit = [a for a in answers if not a.right_culprit()]
    told = "\n".join(
        f"{a.scenario.id} ({a.scenario.cls}, {a.layout}): {[(f['class'], f['subject']) for f in a.findings[:2]]}"
        for a in wrong_class + wrong_culprit)
    assert len(wrong_class) <= (1 - MIN_CLASS) * len(answers), told
    assert len(wrong_culprit) <= (1 - MIN_CULPRIT) * len(answers), told


@pytest.mark.parametrize("seed", ["a", "b", "c"])
def test_names_class_and_culprit_of_recorded_failures(tmp_path, seed):
    assert_good(ask_all(tmp_path, seed, 0, scenarios.ALL))


@pytest.mark.parametrize("change", [corpus.among_bars, corpus.behind_front], ids=lambda change: change.__name__)
def test_names_them_whatever_stands_around_their_lines(tmp_path, change):
    answers = ask_all(tmp_path, "around", 0, scenarios.ALL[::2], partial(corpus.fault, change=change))
    assert_good(answers)


@pytest.mark.parametrize("seed", ["a", "b"])
def test_finds_nothing_in_healthy_twins(tmp_path, seed):
    for answer in ask_all(tmp_path, seed, 0, scenarios.ALL, corpus.healthy):
        assert not answer.loud(), (answer.scenario.id, answer.layout, answer.loud())


def test_finds_failures_in_the_noise_of_64_ranks(tmp_path):
    # Every fifth, by the seed: each takes seconds to write. All are run by the seed in turn.
    some = scenarios.ALL[::5]
    assert_good(ask_all(tmp_path, "noise", NOISE_LINES, some))


def test_finds_nothing_in_the_noise_of_64_healthy_ranks(tmp_path):
    for answer in ask_all(tmp_path, "noise", NOISE_LINES, scenarios.ALL[::20], corpus.healthy):
        assert not answer.loud(), (answer.scenario.id, answer.layout, answer.loud())


def test_covers_every_class():
    assert len({s.cls for s in scenarios.ALL}) == 30


@pytest.mark.parametrize("layout", corpus.LAYOUTS)
def test_reads_every_layout(tmp_path, layout):
    """The same failure in each way of collecting logs."""
    scenario = next(s for s in scenarios.ALL if s.id == "F048")
    job = corpus.make_job(scenario, "layout", 0)
    job.layout = layout
    scenario.run(job)
    corpus.write(job, tmp_path)
    _, findings = corpus.ask(SHANTY, tmp_path)
    assert findings[0]["class"] == "collective_desync", findings
    assert findings[0]["subject"]["ranks"] == [0]
    for line in findings[0]["evidence"]:
        assert line["line"] > 0 and line["text"]
