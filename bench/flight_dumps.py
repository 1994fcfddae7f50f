"""Writes sets of Flight Recorder dumps of a job that never was: TP x PP x DP groups, and one rank
that stopped before a collective. The bytes are laid out as torch lays them out (protocol 2, each
string and each frame memoized where it first stands)."""

from __future__ import annotations

import struct
from pathlib import Path

TP, PP = 8, 4
START_NS = 1_795_971_367_000_000_000
PLACES = {"tp": ("forward", "model.py", 118), "pp": ("send_forward", "pipeline.py", 64),
          "dp": ("reduce_gradients", "train.py", 201), "0": ("log_loss", "train.py", 233)}


class Pickle:
    """What torch's pickler does with dictionaries, lists, strings and numbers."""

    def __init__(self):
        self.out = bytearray(b"\x80\x02")
        self.memo: dict[object, int] = {}

    def put(self, key):
        index = self.memo.setdefault(key, len(self.memo))
        self.out += b"q" + bytes([index]) if index < 256 else b"r" + struct.pack("<I", index)

    def get(self, key) -> bool:
        index = self.memo.get(key)
        if index is None:
            return False
        self.out += b"h" + bytes([index]) if index < 256 else b"j" + struct.pack("<I", index)
        return True

    def text(self, value: str):
        if not self.get(value):
            data = value.encode()
            self.out += b"X" + struct.pack("<I", len(data)) + data
            self.put(value)

    def number(self, value: int):
        if 0 <= value < 256:
            self.out += b"K" + bytes([value])
        elif 0 <= value < 65536:
            self.out += b"M" + struct.pack("<H", value)
        elif -2**31 <= value < 2**31:
            self.out += b"J" + struct.pack("<i", value)
        else:
            self.out += b"\x8a\x08" + struct.pack("<q", value)

    def value(self, value):
        if value is None:
            self.out += b"N"
        elif isinstance(value, bool):
            self.out += b"\x88" if value else b"\x89"
        elif isinstance(value, int):
            self.number(value)
        elif isinstance(value, str):
            self.text(value)
        elif isinstance(value, tuple):
            for item in value:
                self.value(item)
            self.out += b"\x86"
        elif isinstance(value, list):
            self.out += b"]"
            if value:
                self.out += b"("
                for item in value:
                    self.value(item)
                self.out += b"e"
        else:
            self.out += b"}("
            for key, item in value.items():
                self.text(key)
                self.value(item)
            self.out += b"u"

    def frame(self, frame):
        if not self.get(frame):
            self.value(dict(zip(("name", "filename", "line"), frame)))
            self.put(frame)


def entry(pickle: Pickle, record: int, call: dict):
    """One dictionary of `entries`."""
    pickle.out += b"}("
    pickle.text("frames")
    pickle.out += b"]("
    for frame in (("all_reduce", "/venv/torch/distributed/distributed_c10d.py", 4174),
                  ("wrapper", "/venv/torch/distributed/c10d_logger.py", 83),
                  PLACES[call["kind"]], ("main", "train.py", 310)):
        pickle.frame(frame)
    pickle.out += b"e"
    created = START_NS + record * 1_000_000
    done = call["state"] == "completed"
    fields = {
        "record_id": record, "pg_id": call["pg_id"], "process_group": call["group"],
        "thread_name": "pt_main_thread", "thread_id": "140346667146112",
        "collective_seq_id": call["seq"], "p2p_seq_id": call["p2p_seq"], "op_id": record + 1,
        "profiling_name": call["name"], "time_created_ns": created,
        "input_sizes": [call["sizes"][0]], "input_dtypes": ["BFloat16"],
        "output_sizes": [call["sizes"][1]], "output_dtypes": ["BFloat16"], "state": call["state"],
        "time_discovered_started_ns": created + 400_000,
        "time_discovered_completed_ns": created + 800_000 if done else None,
        "retired": done, "timeout_ms": 600_000, "is_p2p": call["p2p_seq"] > 0,
    }
    for key, value in fields.items():
        pickle.text(key)
        pickle.value(value)
    pickle.out += b"u"


GROUPS = {"0": (0, "default_pg"), "tp": (1, "TP"), "pp": (2, "PP"), "dp": (3, "DP")}


def calls_of(stage: int, entries: int, kind: str, dp: int, p2p: bool):
    """The calls of a rank of this stage: TP, PP and DP in turn; then what `kind` says."""
    seq = dict.fromkeys(GROUPS, 0)

    def call(group, name="nccl:all_reduce", sizes=None, state="completed", p2p=False):
        seq[group] += 1
        pg_id, desc = GROUPS[group]
        placeholder = group if group == "0" else f"@{group}"
        return {"kind": group, "group": (placeholder, desc), "pg_id": pg_id, "name": name,
                "seq": 0 if p2p else seq[group], "p2p_seq": seq[group] if p2p else 0,
                "sizes": sizes or ([4096, 8192], [4096, 8192]), "state": state}

    turn = [("tp", "nccl:all_reduce", None)] * 6
    if stage > 0 and p2p:
        turn.append(("pp", f"nccl:recv {stage}<-{stage - 1}", None))
    if stage < PP - 1 and p2p:
        turn.append(("pp", f"nccl:send {stage}->{stage + 1}", None))
    shard, whole = [1048576], [1048576 * dp]
    turn += [("dp", "nccl:_reduce_scatter_base", (whole, shard)),
             ("dp", "nccl:_all_gather_base", (shard, whole))]
    # Whole turns, so that all stages have done as much of what they share.
    for _ in range(max(1, entries // len(turn))):
        for group, name, sizes in turn:
            yield call(group, name, sizes, p2p=group == "pp")
    if kind == "peer":
        yield call("tp", state="started")
    elif kind == "other":
        yield call("tp")
        yield call("0", sizes=([1], [1]), state="started")


def length_prefixed(text: str) -> bytes:
    data = text.encode()
    return b"X" + struct.pack("<I", len(data)) + data


def template(stage: int, entries: int, kind: str, world: int, p2p: bool) -> bytes:
    pickle = Pickle()
    pickle.out += b"}("
    pickle.text("version")
    pickle.text("2.10")
    pickle.text("pg_config")
    config = {"0": {"name": "0", "desc": "default_pg", "ranks": str(list(range(world)))}}
    for group in ("tp", "pp", "dp"):
        config[f"@{group}"] = {"name": f"@{group}", "desc": GROUPS[group][1],
                               "ranks": f"@{group}ranks"}
    pickle.value(config)
    pickle.text("comm_lib_version")
    pickle.text("2.27.5")
    pickle.text("pg_status")
    pickle.value({})
    pickle.text("entries")
    pickle.out += b"]("
    for record, call in enumerate(
            calls_of(stage, entries, kind, world // (TP * PP), p2p)):
        entry(pickle, record, call)
    pickle.out += b"eu."
    return bytes(pickle.out)


def members(rank: int, world: int) -> dict[str, list[int]]:
    tp, pp, dp = rank % TP, rank // TP % PP, rank // (TP * PP)
    at = lambda t, p, d: t + TP * (p + PP * d)  # noqa: E731
    return {"tp": [at(t, pp, dp) for t in range(TP)], "pp": [at(tp, p, dp) for p in range(PP)],
            "dp": [at(tp, pp, d) for d in range(world // (TP * PP))]}


def write_set(directory: Path, world: int, entries: int, culprit: int, p2p: bool = True) -> int:
    """`culprit` never comes to its TP group's next all-reduce. Returns the bytes written."""
    assert world % (TP * PP) == 0
    directory.mkdir(parents=True, exist_ok=True)
    templates: dict[tuple[int, str], bytes] = {}
    peers = members(culprit, world)["tp"]
    written = 0
    for rank in range(world):
        stage = rank // TP % PP
        kind = "culprit" if rank == culprit else "peer" if rank in peers else "other"
        if (stage, kind) not in templates:
            templates[stage, kind] = template(stage, entries, kind, world, p2p)
        head, mark, rest = templates[stage, kind].partition(b"comm_lib_version")
        for group, ranks in members(rank, world).items():
            head = head.replace(length_prefixed(f"@{group}ranks"), length_prefixed(str(ranks)))
            head = head.replace(length_prefixed(f"@{group}"), length_prefixed(f"{group}{ranks[0]}"))
        data = head + mark + rest
        (directory / f"nccl_trace_rank_{rank}").write_bytes(data)
        written += len(data)
    return written
