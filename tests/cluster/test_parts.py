"""The parts of the tests' kubelet that need no cluster."""

import re
import struct

import pytest

from .kubelet.dns import parse_question
from .kubelet.environment import NotYet, expand, field_of
from .kubelet.images import find
from .kubelet.launcher import LONGEST_PART, LogWriter
from .kubelet.server import Entries, last_lines
from .quantity import divided, quantity


@pytest.mark.parametrize("text, made", [
    ("$(A)-$(B)", "1-2"), ("$$(A)", "$(A)"), ("$(MISSING)", "$(MISSING)"), ("$A $(A", "$A $(A"),
])
def test_variables_are_expanded_as_kubernetes_says(text, made):
    assert expand(text, {"A": "1", "B": "2"}) == made


def test_fields_of_a_pod():
    index = "batch.kubernetes.io/job-completion-index"
    pod = {"metadata": {"name": "p", "namespace": "n", "uid": "u", "annotations": {index: "3"}},
           "spec": {}}
    path = f"metadata.annotations['{index}']"
    assert field_of(pod, path, {}) == "3"
    assert field_of(pod, "status.podIP", {"status.podIP": "10.0.0.9"}) == "10.0.0.9"
    assert field_of(pod, "metadata.labels['absent']", {}) == ""


def test_quantities():
    assert quantity("1500m") == 1.5 and quantity("2Gi") == 2 << 30 and quantity("3k") == 3000
    assert divided("1500m", "1") == "2" and divided("2Gi", "1Mi") == "2048"


def test_an_image_nobody_described_cannot_be_pulled():
    assert find({"a:.*": {"user": 7}}, "a:1")["user"] == 7
    with pytest.raises(NotYet, match='"b:1"'):
        find({"a:.*": {}}, "b:1")


def test_last_lines():
    assert last_lines(b"a\nb\nc", 2) == b"b\nc" and last_lines(b"a\n", 0) == b""


def kept(tmp_path, *pieces):
    """What launcher.py keeps of output that comes in pieces."""
    with open(tmp_path / "log", "wb", buffering=0) as file:
        log = LogWriter(file.fileno())
        for piece in pieces:
            log.feed(piece)
        log.close()
    return (tmp_path / "log").read_bytes()


def test_a_log_is_given_out_as_it_was_printed(tmp_path):
    long = b"x" * (2 * LONGEST_PART + 5)
    data = kept(tmp_path, b"fir", b"st\n\n" + long, b"y\n", b"no end")
    assert data.count(b" stdout P ") == 2 and data.count(b" stdout F ") == 4
    printed = b"first\n\n" + long + b"y\nno end\n"
    for cut in range(0, len(data), 997):  # readers come at any moment
        entries = Entries(stamps=False)
        assert entries.text(data[:cut]) + entries.text(data[cut:]) == printed


def test_lines_of_a_log_have_their_time(tmp_path):
    data = kept(tmp_path, b"first\n" + b"x" * (LONGEST_PART + 5) + b"\n")
    lines = Entries(stamps=True).text(data).decode().splitlines()
    stamps = [line.split(" ")[0] for line in lines]
    assert stamps == sorted(stamps) and len(stamps) == 2
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z", s) for s in stamps)
    later = Entries(stamps=False, since=stamps[1].encode())
    assert later.text(data) == b"x" * (LONGEST_PART + 5) + b"\n"


def test_a_question_of_dns():
    head = struct.pack("!HHHHHH", 7, 0x100, 1, 0, 0, 0)
    packet = head + b"\x01A\x03svc\x00" + struct.pack("!HH", 1, 1)
    assert parse_question(packet) == (["a", "svc"], 1, len(packet))
    with pytest.raises((IndexError, struct.error)):
        parse_question(packet[:14])
