"""A job that prints: lines of ranks, agents and NCCL in the formats of several versions and layouts."""

from __future__ import annotations

import datetime
import random

START = datetime.datetime(2025, 11, 29, 10, 0, 0)

TORCH = ["1.13", "2.1", "2.3", "2.5", "2.7", "2.9"]
NCCL = ["2.10.3", "2.14.3", "2.18.5", "2.21.5", "2.26.2", "2.28.9"]
LAYOUTS = ["merged", "ranks", "nodes", "kubectl", "tee", "json", "slurm", "ray", "mpi", "stamped"]


def number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


class Job:
    """`world` ranks on nodes of `per_node`; every say() takes a moment."""

    def __init__(self, seed, world=8, per_node=4, torch=None, nccl=None, layout=None):
        self.rng = random.Random(f"{seed}")
        self.world, self.per_node = world, per_node
        self.torch = torch or self.rng.choice(TORCH)
        self.nccl_version = nccl or self.rng.choice(NCCL)
        self.layout = layout or self.rng.choice(LAYOUTS)
        self.now = START
        self.lines: list[tuple[datetime.datetime, int | None, int | None, str]] = []
        self.side: dict[str, str] = {}
        self.comm = "0x7f3c5c0a0b10"

    # Who is who.
    def node(self, rank: int) -> str:
        return f"train-worker-{rank // self.per_node}"

    def ip(self, rank: int) -> str:
        return f"10.0.{rank // self.per_node}.17"

    def pid(self, rank: int) -> int:
        return 700 + rank % self.per_node

    @property
    def nodes(self) -> int:
        return (self.world + self.per_node - 1) // self.per_node

    def on_node(self, node: int) -> list[int]:
        return [r for r in range(self.world) if r // self.per_node == node]

    # Time.
    def wait(self, seconds: float):
        self.now += datetime.timedelta(seconds=seconds)

    def glog(self) -> str:
        return f"{self.now.month}{self.now:%d %H:%M:%S}"

    # Lines.
    def say(self, rank: int, text: str):
        self.wait(0.002)
        self.lines.append((self.now, rank, rank // self.per_node, text))

    def agent(self, node: int, text: str, level="I", source="elastic/agent/server/api.py"):
        self.wait(0.002)
        version = number(self.torch)
        if version >= (2, 4):
            line = (f"{level}{self.now:%m%d %H:%M:%S}.{self.now.microsecond:06d} {50 + node} "
                    f"torch/distributed/{source}:869] {text}")
        elif version >= (2, 2):
            name = {"I": "INFO", "W": "WARNING", "E": "ERROR"}[level]
            logger = "torch.distributed." + source.replace("/", ".").removesuffix(".py")
            line = f"[{self.now:%Y-%m-%d %H:%M:%S},{self.now.microsecond // 1000:03d}] {logger}: [{name}] {text}"
        else:
            name = {"I": "INFO", "W": "WARNING", "E": "ERROR"}[level]
            logger = "torch.distributed." + source.replace("/", ".").removesuffix(".py")
            line = f"{name}:{logger}:{text}"
        self.lines.append((self.now, None, node, line))

    def c10d(self, rank: int, text: str, level="E", source="ProcessGroupNCCL.cpp", group=True,
             has_rank=True):
        """As c10 logs: with time and rank from 2.3 on."""
        version = number(self.torch)
        if version >= (2, 3):
            who = f"[rank{rank}]:" if has_rank else ""
            head = f"{who}[{level}{self.glog()}.{self.now.microsecond:06d}123 {source}:616] "
        else:
            head = f"[{level} {source}:455] "
        if group and source == "ProcessGroupNCCL.cpp":
            if version >= (2, 4):
                head += f"[PG ID 0 PG GUID 0(default_pg) Rank {rank}] "
            elif version >= (2, 3):
                head += f"[PG 0 Rank {rank}] "
            else:
                head += f"[Rank {rank}] "
        self.say(rank, head + text)

    def socket(self, rank: int, text: str, level="E"):
        self.c10d(rank, "[c10d] " + text, level=level, source="socket.cpp", group=False,
                  has_rank=False)

    def nccl(self, rank: int, text: str, level="INFO", where=""):
        dev = rank % self.per_node
        head = f"{self.node(rank)}:{self.pid(rank)}:{self.pid(rank) + 1000} [{dev}] "
        if level == "WARN":
            if number(self.nccl_version) >= (2, 26):
                head = f"[{self.now:%Y-%m-%d %H:%M:%S}] " + head
            self.say(rank, "")
            self.say(rank, f"{head}{where or 'misc/socket.cc:484'} NCCL WARN {text}")
        else:
            self.say(rank, f"{head}NCCL INFO {text}")

    def trace(self, rank: int, *text: str):
        """A traceback with its last lines."""
        mark = f"[rank{rank}]: " if number(self.torch) >= (2, 3) else ""
        self.say(rank, mark + "Traceback (most recent call last):")
        self.say(rank, mark + '  File "/workspace/train.py", line 123, in <module>')
        self.say(rank, mark + "    main()")
        for line in text:
            self.say(rank, mark + line)

    # Things that jobs do.
    def nccl_start(self, rank: int, network="IB", ifc="eth0", ip=None, hcas=2):
        v = number(self.nccl_version)
        ip = ip or self.ip(rank)
        space = " " if v < (2, 24) else ""
        if rank == 0 or v >= (2, 20):
            self.say(rank, f"NCCL version {self.nccl_version}+cuda12.2")
        self.nccl(rank, f"Bootstrap{space}: Using {ifc}:{ip}<0>")
        if network.startswith("IB"):
            listed = " ".join(f"[{i}]mlx5_{i}:1/RoCE" for i in range(hcas))
            self.nccl(rank, f"NET/IB : Using {listed} [RO]; OOB {ifc}:{ip}<0>")
        elif network == "Socket":
            self.nccl(rank, "NET/IB : No device found.")
            self.nccl(rank, f"NET/Socket : Using [0]{ifc}:{ip}<0>")
        if network:
            self.nccl(rank, f"Using network {network}")

    def init_line(self, rank: int, what="COMPLETE", nranks=None, dev=None, bus=None):
        v = number(self.nccl_version)
        dev = rank % self.per_node if dev is None else dev
        bus = bus or f"{0x10 + dev * 8:x}000"
        nranks = nranks or self.world
        if what == "START" and v < (2, 18, 3):
            return
        nvml = f" nvmlDev {dev}" if v >= (2, 18) else ""
        comm_id = " commId 0xabcdef12345678" if v >= (2, 18) else ""
        function = "ncclCommInitRankConfig " if v >= (2, 23) else "ncclCommInitRank " if v >= (2, 21) else ""
        mark = f"[Rank {rank}] " if what == "START" and v >= (2, 29) else ""
        self.nccl(rank, f"{mark}{function}comm {self.comm} rank {rank} nranks {nranks} cudaDev {dev}"
                        f"{nvml} busId {bus}{comm_id} - Init {what}")

    def channels(self, rank: int, kind=None, gdr=True, network="IB"):
        v = number(self.nccl_version)
        peer = (rank + 1) % self.world
        same = peer // self.per_node == rank // self.per_node
        number_text = "Channel 00 :" if v < (2, 14) else "Channel 00/0 :"
        a, b = f"{rank}[{rank % self.per_node}]", f"{peer}[{peer % self.per_node}]"
        if kind is None:
            kind = ("P2P/CUMEM" if v >= (2, 18) else "P2P/IPC") if same else None
        if kind:
            self.nccl(rank, f"{number_text} {a} -> {b} via {kind}")
        else:
            tail = "/GDRDMA" if gdr and network == "IB" else ""
            self.nccl(rank, f"{number_text} {a} -> {b} [send] via NET/{network}/0{tail}")

    def connect_all(self, network="IB", gdr=True, rings=True):
        for r in range(self.world):
            self.nccl_start(r, network)
        for r in range(self.world):
            self.init_line(r, "START")
        for r in range(self.world):
            self.channels(r, gdr=gdr, network=network.split("_")[0])
        if rings:
            for r in range(self.world):
                self.nccl(r, "Connected all rings")
                self.nccl(r, "Connected all trees")
        for r in range(self.world):
            self.init_line(r, "COMPLETE")

    def launch(self, endpoint="train-worker-0:29500", hosts=True, nnodes=None):
        for n in range(self.nodes):
            self.agent(n, "Starting elastic_operator with launch configs:")
            for key, value in {"entrypoint": "train.py", "min_nodes": nnodes or self.nodes,
                               "max_nodes": nnodes or self.nodes,
                               "nproc_per_node": self.per_node, "run_id": "job-1",
                               "rdzv_backend": "c10d", "rdzv_endpoint": endpoint,
                               "max_restarts": 0}.items():
                self.lines.append((self.now, None, n, f"  {key:<17}: {value}"))
        if hosts:
            self.agent(0, "Process 50 hosts the TCP store for the C10d rendezvous backend.")

    def train(self, steps=20, every=1, loss=4.0, ranks=None, lr=0.0003, start=0):
        for i in range(start, start + steps, every):
            self.wait(1.0)
            for r in ranks if ranks is not None else range(self.world):
                value = loss * 0.99 ** (i - start) + self.rng.uniform(-0.01, 0.01)
                self.say(r, f"step {i} loss {value:.4f} lr {lr:.6f} step_time_ms {self.rng.randrange(480, 520)}")

    def timeout(self, rank: int, seq: int, op="ALLREDUCE", numel=25557032, numel_out=None,
                timeout_ms=600000, ran=None, enqueued=None, completed=None, first=None, group=None):
        v = number(self.torch)
        numel_out = numel if numel_out is None else numel_out
        ran = ran or timeout_ms + self.rng.randrange(1, 90)
        fields = []
        if v >= (1, 13):
            fields.append(f"SeqNum={seq}")
        fields.append(f"OpType={op}")
        if v >= (2, 1):
            fields += [f"NumelIn={numel}", f"NumelOut={numel_out}"]
        fields.append(f"Timeout(ms)={timeout_ms}")
        work = f"WorkNCCL({', '.join(fields)})"
        said = f"Watchdog caught collective operation timeout: {work} ran for {ran} milliseconds before timing out."
        inner = f"[Rank {rank}] " if v >= (2, 3) else ""
        self.c10d(rank, inner + said, group=v < (2, 3) or v >= (2, 4))
        self.counters(rank, seq, seq if enqueued is None else enqueued,
                      seq - 1 if completed is None else completed)

    def counters(self, rank: int, seq: int, enqueued: int, completed: int):
        v = number(self.torch)
        if v >= (2, 7):
            self.c10d(rank, f"failure detected by watchdog at work sequence id: {seq} PG status: last enqueued "
                            f"work: {enqueued}, last completed work: {completed}")
        elif v >= (2, 4):
            self.c10d(rank, "Exception (either an error or timeout) detected by watchdog at work: "
                            f"{seq}, last enqueued NCCL work: {enqueued}, last completed NCCL work: {completed}.")
        elif v >= (2, 3):
            self.c10d(rank, f"Timeout at NCCL work: {seq}, last enqueued NCCL work: {enqueued}, "
                            f"last completed NCCL work: {completed}.")

    def aftermath(self, ranks=None):
        """What watchdogs and agents print when all is lost anyway."""
        ranks = list(ranks if ranks is not None else range(self.world))
        for r in ranks:
            self.c10d(r, "Some NCCL operations have failed or timed out. Due to the asynchronous nature of CUDA "
                         "kernels, subsequent GPU operations might run on corrupted/incomplete data.")
            self.c10d(r, "To avoid data inconsistency, we are taking the entire process down.")
        for n in range(self.nodes):
            for r in self.on_node(n):
                if r not in ranks:
                    self.agent(n, f"Sending process {self.pid(r)} closing signal SIGTERM", "W",
                               "elastic/multiprocessing/api.py")

    def failed(self, rank: int, code: int, others=()):
        """The agent's words when a worker ended."""
        node = rank // self.per_node
        for r in others:
            self.agent(r // self.per_node, f"Sending process {self.pid(r)} closing signal SIGTERM", "W",
                       "elastic/multiprocessing/api.py")
        local = rank % self.per_node
        self.agent(node, f"failed (exitcode: {code}) local_rank: {local} (pid: {self.pid(rank)}) of binary: "
                         "/usr/bin/python", "E", "elastic/multiprocessing/api.py")
        for text in ["=" * 60, "train.py FAILED", "-" * 60, "Failures:", "  <NO_OTHER_FAILURES>", "-" * 60,
                     "Root Cause (first observed failure):", "[0]:",
                     f"  time      : {self.now:%Y-%m-%d_%H:%M:%S}", f"  host      : {self.node(rank)}.train.svc",
                     f"  rank      : {rank} (local_rank: {local})",
                     f"  exitcode  : {code} (pid: {self.pid(rank)})", "  error_file: <N/A>",
                     "  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html",
                     "=" * 60]:
            self.lines.append((self.now, None, node, text))

    def file(self, name: str, text: str):
        self.side[name] = text

    def noise(self, lines: int):
        """Harmless chatter of all ranks, spread over the time of the job."""
        if not self.lines:
            self.train(2)
        end = max(line[0] for line in self.lines)
        begin = min(line[0] for line in self.lines)
        span = (end - begin).total_seconds()
        for i in range(lines):
            r = i % self.world
            when = begin + datetime.timedelta(seconds=self.rng.uniform(0, span))
            text = self.rng.choice([
                f"INFO loader shard {i % 512:05d} opened, {i % 97} samples buffered",
                f"DEBUG tokenizer cache hit ratio 0.{i % 100:02d}",
                f"{self.node(r)}:{self.pid(r)}:{self.pid(r) + 1000} [{r % self.per_node}] NCCL INFO Trees [0] "
                f"{r + 1}/-1/-1->{r}->{r - 1}",
                f"metrics tokens_per_s={48000 + i % 700} mfu=0.{40 + i % 9}",
                f"INFO heartbeat rank={r} queue={i % 7} gpu_mem=61.{i % 10}GiB",
            ])
            self.lines.append((when, r, r // self.per_node, text))

    # Layouts.
    def files(self) -> dict[str, str]:
        lines = sorted(enumerate(self.lines), key=lambda pair: (pair[1][0], pair[0]))
        out: dict[str, list[str]] = {}
        for _, (when, rank, node, text) in lines:
            name, line = self.place(when, rank, node, text)
            out.setdefault(name, []).append(line)
        files = {name: "\n".join(content) + "\n" for name, content in out.items()}
        files.update(self.side)
        return files

    def place(self, when, rank, node, text) -> tuple[str, str]:
        stamp = f"{when:%Y-%m-%dT%H:%M:%S}.{when.microsecond:06d}000Z"
        pod = f"train-worker-{node}"
        if self.layout == "ranks":
            return (f"logs/rank_{rank}.log", text) if rank is not None else (f"logs/{pod}-agent.log", text)
        if self.layout == "nodes":
            return f"logs/{pod}.log", text if rank is None else f"[rank{rank}]: {text}" if not text.startswith("[rank") and text else text
        if self.layout == "kubectl":
            return "job.log", f"[pod/{pod}/pytorch] {stamp} {self.marked(rank, text)}"
        if self.layout == "tee":
            return f"logs/{pod}.log", text if rank is None else f"[default{rank % self.per_node}]:{self.marked(rank, text)}"
        if self.layout == "json":
            import json
            return "job.jsonl", json.dumps({"time": stamp, "pod": pod, "rank": rank, "message": text}
                                           if rank is not None else {"time": stamp, "pod": pod, "message": text})
        if self.layout == "slurm":
            return "slurm-4711.out", text if rank is None else f"{rank:2d}: {text}"
        if self.layout == "ray":
            return "ray.log", text if rank is None else (
                f"\x1b[36m(RayTrainWorker pid={self.pid(rank)}, ip=10.0.{node}.17)\x1b[0m {self.marked(rank, text)}")
        if self.layout == "mpi":
            return "mpi.log", text if rank is None else f"[1,{rank}]<stderr>:{text}"
        if self.layout == "stamped":
            return f"logs/node-{node}/rank{rank}.log" if rank is not None else f"logs/node-{node}/agent.log", f"{stamp} {text}"
        return "train.log", self.marked(rank, text)

    def marked(self, rank, text):
        if rank is None or text.startswith("[rank") or not text:
            return text
        return f"[rank{rank}]: {text}"
