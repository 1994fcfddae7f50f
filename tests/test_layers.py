"""The structure of the tree: who may include whom, and what headers may not include."""

import re
from pathlib import Path

SRC = Path(__file__).resolve().parent.parent / "src"
INCLUDE = re.compile(r'^\s*#include\s+(?:"([^"]+)"|<([^>]+)>)', re.M)
BANNED_IN_HEADERS = ("iostream", "regex", "ranges", "nlohmann/json.hpp", "boost/beast")


def layers():
    table = {}
    for line in (SRC / "layers.txt").read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            name, _, allowed = line.partition(":")
            table[name] = set(allowed.split())
    return table


def includes():
    for path in sorted(SRC.rglob("*")):
        if path.suffix in (".h", ".cc"):
            for ours, system in INCLUDE.findall(path.read_text()):
                yield path, ours, system


def test_every_directory_is_in_the_table_and_has_a_readme():
    directories = {path.name for path in SRC.iterdir() if path.is_dir()}
    assert directories == set(layers())
    for name in directories:
        assert (SRC / name / "README.md").is_file(), f"src/{name} has no README.md"


def test_layers_point_down_only():
    table = layers()
    order = list(table)
    for name, allowed in table.items():
        for other in allowed:
            assert order.index(other) < order.index(name), f"{name} may not depend on {other}"


def test_includes_stay_within_what_the_table_allows():
    table = layers()
    wrong = []
    for path, ours, _ in includes():
        if not ours:
            continue
        own = path.relative_to(SRC).parts[0]
        other = ours.split("/")[0]
        if (SRC / ours).exists() and other != own and other not in table[own]:
            wrong.append(f"{path.relative_to(SRC)} includes {ours}")
    assert not wrong, "\n".join(wrong)


def test_headers_stay_light():
    wrong = [
        f"{path.relative_to(SRC)} includes {system}"
        for path, _, system in includes()
        if path.suffix == ".h" and "test" not in path.name and system.startswith(BANNED_IN_HEADERS)
    ]
    assert not wrong, "\n".join(wrong)


def test_beast_stays_in_few_translation_units():
    users = {path.name for path, _, system in includes() if system.startswith("boost/beast")}
    assert len(users) <= 4, users


def test_headers_have_pragma_once():
    wrong = [
        str(path.relative_to(SRC))
        for path in SRC.rglob("*.h")
        if "#pragma once" not in path.read_text()
    ]
    assert not wrong
