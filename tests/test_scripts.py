"""Scripts as people have them, in the style of PyTorch's examples.

Each says with out() what a rank found. SHANTY_COMPARE=1 runs them under torchrun as well, which
must give the same words and exit code (it takes minutes; test_conformance.py compares always).
"""

import os
import subprocess
import sys
import textwrap

import pytest

from conftest import LIMIT_S, SHANTY
from ports import free_port

PRELUDE = """\
import os, sys
def out(*words, who=os.environ["RANK"]):
    with open(os.path.join(os.environ["OUT"], str(who)), "a") as f:
        print(*words, file=f)
"""

SCRIPTS = {
    # ddp-tutorial-series: a Trainer, a sampler, a snapshot that rank 0 writes.
    "trainer": """
        import torch, torch.distributed as dist
        from torch.nn.parallel import DistributedDataParallel as DDP
        from torch.utils.data import DataLoader, DistributedSampler, TensorDataset
        class Trainer:
            def __init__(self, model, data):
                self.model = DDP(model)
                self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                self.data = DataLoader(data, batch_size=4, sampler=DistributedSampler(data))
            def train(self, epochs):
                for epoch in range(epochs):
                    self.data.sampler.set_epoch(epoch)
                    for x, y in self.data:
                        self.optimizer.zero_grad()
                        loss = torch.nn.functional.mse_loss(self.model(x), y)
                        loss.backward()
                        self.optimizer.step()
        dist.init_process_group("gloo")
        torch.manual_seed(0)
        trainer = Trainer(torch.nn.Linear(3, 1), TensorDataset(torch.ones(16, 3), torch.ones(16, 1)))
        trainer.train(2)
        if dist.get_rank() == 0:
            torch.save(trainer.model.module.state_dict(), os.environ["OUT"] + "/../snapshot.pt")
        dist.barrier()
        state = torch.load(os.environ["OUT"] + "/../snapshot.pt")
        out(torch.equal(state["weight"], trainer.model.module.weight), len(trainer.data))
        dist.destroy_process_group()
    """,
    # minGPT-ddp: mixed precision, clipping, a scheduler, gradients gathered over two batches.
    "gpt": """
        import torch, torch.distributed as dist
        from torch.nn.parallel import DistributedDataParallel as DDP
        dist.init_process_group(backend="gloo")
        torch.manual_seed(int(os.environ["RANK"]))
        model = DDP(torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True))
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 4)
        for step in range(4):
            with model.no_sync() if step % 2 == 0 else torch.enable_grad():
                with torch.autocast("cpu", dtype=torch.bfloat16):
                    loss = model(torch.randn(2, 5, 8)).float().pow(2).mean()
                loss.backward()
            if step % 2 == 1:
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad(set_to_none=True)
        mine = torch.cat([p.detach().flatten() for p in model.parameters()]).sum()
        sums = [torch.zeros(()) for _ in range(dist.get_world_size())]
        dist.all_gather(sums, mine)
        out(len(sums), all(torch.equal(s, sums[0]) for s in sums), scheduler.last_epoch)
        dist.destroy_process_group()
    """,
    # imagenet: every node starts its own ranks with mp.spawn.
    "imagenet_spawn": """
        import torch, torch.distributed as dist, torch.multiprocessing as mp
        def main_worker(local, per_node, node, nodes):
            rank = node * per_node + local
            dist.init_process_group("gloo", init_method="env://", world_size=per_node * nodes,
                                    rank=rank)
            total = torch.tensor([float(rank)])
            dist.all_reduce(total)
            out(rank, total.item(), who=f"spawned-{rank}")
            dist.destroy_process_group()
        if __name__ == "__main__":
            mp.spawn(main_worker, nprocs=2,
                     args=(2, int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])))
            out("joined")
    """,
    "spawn_that_fails": """
        import torch.multiprocessing as mp
        def fail(index):
            if index == 1:
                raise ValueError("from the child")
        if __name__ == "__main__":
            try:
                mp.spawn(fail, nprocs=2)
            except mp.ProcessRaisedException as e:
                out(e.error_index, "from the child" in str(e))
    """,
    # As transformers' examples: LOCAL_RANK decides who prepares the data first.
    "local_rank": """
        import contextlib, logging, torch, torch.distributed as dist
        local_rank = int(os.environ.get("LOCAL_RANK", -1))
        dist.init_process_group("gloo")
        logging.basicConfig(level=logging.INFO if local_rank in (-1, 0) else logging.WARN)
        @contextlib.contextmanager
        def main_process_first():
            if local_rank > 0: dist.barrier()
            yield
            if local_rank == 0: dist.barrier()
        cache = os.environ["OUT"] + "/../cache"
        with main_process_first():
            out("reuses" if os.path.exists(cache) else "prepares")
            open(cache, "a").close()
        logging.info("ready")
        out(logging.getLogger().isEnabledFor(logging.INFO), dist.is_torchelastic_launched())
        dist.destroy_process_group()
    """,
    "record": """
        import torch.distributed as dist
        from torch.distributed.elastic.multiprocessing.errors import record
        @record
        def main():
            dist.init_process_group("gloo", init_method="env://")
            gathered = [None] * dist.get_world_size()
            dist.all_gather_object(gathered, {"rank": dist.get_rank()})
            out(gathered)
            dist.barrier()
            if dist.get_rank() == 1:
                raise RuntimeError("recorded")
            dist.destroy_process_group()
        if __name__ == "__main__":
            main()
    """,
    "variables": """
        names = ["RANK", "LOCAL_RANK", "GROUP_RANK", "ROLE_RANK", "ROLE_NAME", "LOCAL_WORLD_SIZE",
                 "WORLD_SIZE", "GROUP_WORLD_SIZE", "ROLE_WORLD_SIZE", "TORCHELASTIC_RESTART_COUNT",
                 "TORCHELASTIC_MAX_RESTARTS", "OMP_NUM_THREADS", "TORCHELASTIC_SIGNALS_TO_HANDLE"]
        for name in names:
            out(name, os.environ.get(name))
        out(os.environ["MASTER_PORT"].isdigit(), "TORCHELASTIC_RUN_ID" in os.environ)
    """,
    "arguments": """
        import argparse
        parser = argparse.ArgumentParser()
        parser.add_argument("--local-rank", "--local_rank", type=int,
                            default=int(os.environ["LOCAL_RANK"]))
        parser.add_argument("--batch-size", type=int, default=32)
        parser.add_argument("--nnodes", default="mine")
        parser.add_argument("data", nargs="?")
        out(parser.parse_args())
    """,
    "store": """
        import datetime, torch.distributed as dist
        rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        store = dist.TCPStore("127.0.0.1", int(sys.argv[1]), world, is_master=rank == 0,
                              timeout=datetime.timedelta(seconds=200))
        store.set(f"key-{rank}", f"value-{rank}")
        out([store.get(f"key-{r}").decode() for r in range(world)])
        if store.add("arrived", 1) == world:
            store.set("all", "here")
        store.wait(["all"])
        out(store.add("left", 1) in (1, 2))
        while rank == 0 and store.add("left", 0) < world:
            pass
    """,
    "signals": """
        import signal, time
        seen = []
        for name in ("SIGUSR1", "SIGUSR2", "SIGALRM", "SIGHUP"):
            signal.signal(getattr(signal, name), lambda n, f: seen.append(signal.Signals(n).name))
        for s in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP):
            os.kill(os.getpid(), s)
        signal.setitimer(signal.ITIMER_REAL, 0.01)
        while len(seen) < 4: time.sleep(0.01)
        out(seen, signal.getsignal(signal.SIGINT) is signal.default_int_handler)
        defaults = [signal.getsignal(s) == signal.SIG_DFL for s in (signal.SIGTERM, signal.SIGCHLD)]
        out(defaults, signal.getsignal(signal.SIGPIPE) == signal.SIG_IGN,  # Python's own doing
            signal.pthread_sigmask(signal.SIG_BLOCK, []))
    """,
    # A rank fails: its neighbour gets SIGTERM and the time to clean up.
    "neighbour_fails": """
        import atexit, signal, time
        atexit.register(out, "atexit")
        if os.environ["RANK"] == "1":
            while not os.path.exists(os.environ["OUT"] + "/../armed"): time.sleep(0.01)
            sys.exit(3)
        def leave(number, frame):
            out("told", signal.Signals(number).name)
            sys.exit(0)
        signal.signal(signal.SIGTERM, leave)
        open(os.environ["OUT"] + "/../armed", "w").close()
        time.sleep(600)
    """,
    "children": """
        import atexit, multiprocessing, subprocess, threading
        def square(x): return x * x
        if __name__ == "__main__":
            atexit.register(out, "atexit")
            child = subprocess.run([sys.executable, "-c", "import os; print(os.environ['RANK'])"],
                                   capture_output=True, text=True)
            out(child.stdout.strip(), child.returncode, child.stderr)
            with multiprocessing.get_context("spawn").Pool(2) as pool:
                out(pool.map(square, range(4)))
            pid = os.fork()
            if pid == 0: os._exit(7)
            out(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), os.getpgrp() == os.getpid())
            thread = threading.Thread(target=out, args=("thread",))
            thread.start()
            thread.join()
    """,
}
# The exit code and what rank 0 says; rank 1 says the same with its own number for {rank}.
EXPECTED = {
    "trainer": (0, "True 2"),
    "gpt": (0, "2 True 2"),
    "imagenet_spawn": (0, "joined"),
    "spawn_that_fails": (0, "1 True"),
    "local_rank": (0, ["prepares\nTrue True", "reuses\nFalse True"]),
    "record": (1, "[{'rank': 0}, {'rank': 1}]"),
    "variables": (0, """\
RANK {rank}
LOCAL_RANK {rank}
GROUP_RANK 0
ROLE_RANK {rank}
ROLE_NAME default
LOCAL_WORLD_SIZE 2
WORLD_SIZE 2
GROUP_WORLD_SIZE 1
ROLE_WORLD_SIZE 2
TORCHELASTIC_RESTART_COUNT 0
TORCHELASTIC_MAX_RESTARTS 0
OMP_NUM_THREADS 1
TORCHELASTIC_SIGNALS_TO_HANDLE SIGTERM,SIGINT,SIGHUP,SIGQUIT
True True"""),
    "arguments": (0, "Namespace(local_rank={rank}, batch_size=4, nnodes='2', data='some where')"),
    "store": (0, "['value-0', 'value-1']\nTrue"),
    "signals": (0, "['SIGUSR1', 'SIGUSR2', 'SIGHUP', 'SIGALRM'] True\n[True, True] True set()"),
    "neighbour_fails": (1, ["told SIGTERM\natexit", "atexit"]),
    "children": (0, "{rank} 0 \n[0, 1, 4, 9]\n7 True\nthread\natexit"),
}
ARGUMENTS = {"arguments": ["--batch-size", "4", "--nnodes=2", "some where"]}


def launch(launcher, name, base):
    """The exit code, and what each rank said."""
    said = base / "said"
    said.mkdir(parents=True)
    script = base / "train.py"
    script.write_text(PRELUDE + textwrap.dedent(SCRIPTS[name]))
    arguments = [str(free_port())] if name == "store" else ARGUMENTS.get(name, [])
    env = {k: v for k, v in os.environ.items() if k != "OMP_NUM_THREADS"}
    env |= {"OUT": str(said), "XDG_STATE_HOME": str(base / "state")}
    if launcher == "shanty":
        command = [SHANTY, "run", "--python", sys.executable, "--run-dir", base / "run"]
    else:
        command = [sys.executable, "-m", "torch.distributed.run", "--rdzv-backend", "c10d",
                   "--rdzv-endpoint", "localhost:0"]
    done = subprocess.run(
        [*map(str, command), "--nproc-per-node", "2", str(script), *arguments],
        env=env, cwd=base, capture_output=True, text=True, timeout=LIMIT_S, stdin=subprocess.DEVNULL,
    )
    return done, {path.name: path.read_text() for path in sorted(said.iterdir())}


def expected(name):
    words = EXPECTED[name][1]
    said = {
        str(rank): (words if isinstance(words, str) else words[rank]).replace("{rank}", str(rank))
        + "\n"
        for rank in (0, 1)
    }
    if name == "imagenet_spawn":
        said |= {f"spawned-{rank}": f"{rank} 6.0\n" for rank in range(4)}
    return said


LAUNCHERS = ("shanty", "torchrun") if os.environ.get("SHANTY_COMPARE") else ("shanty",)


@pytest.mark.parametrize("launcher", LAUNCHERS)
@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_does_what_it_does_under_torchrun(name, launcher, tmp_path):
    done, said = launch(launcher, name, tmp_path)
    assert said == expected(name), done.stdout + done.stderr
    assert done.returncode == EXPECTED[name][0], done.stdout + done.stderr
    if name == "record":
        assert "recorded" in done.stderr
