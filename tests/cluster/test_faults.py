"""What a followed job survives: a lost API server, killed agents, pods cut off from each other."""

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from .door import Door
from .second_server import PORT, SecondServer
from .training import living_ranks

# Both ranks say where they are until the file `wait` is gone.
TALKS = """
import os, time, torch.distributed as dist
dist.init_process_group("gloo")
rank, line = dist.get_rank(), 0
while os.path.exists("/mnt/ckpt/wait"):
    print(f"rank {rank} says {line}.", flush=True)
    line += 1
    time.sleep(0.1)
print(f"rank {rank} said {line} in all", flush=True)
dist.destroy_process_group()
"""


@pytest.fixture
def second_server(cluster):
    """An API server that may be restarted: nobody else uses it."""
    server = SecondServer(cluster)
    yield server
    server.kill()


def said(text, rank):
    return [int(n) for n in re.findall(rf"rank {rank} says (\d+)\.", text)]


def test_following_survives_a_lost_api_server(cluster, second_server, on_cluster, tmp_path):
    job = on_cluster(train=TALKS, hold=True)
    door = Door(("127.0.0.1", PORT))
    plane = cluster.plane
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(plane.pki.kubeconfig(f"https://127.0.0.1:{door.port}",
                                               plane.pki.client("admin")))
    try:
        job.start(kubeconfig=kubeconfig)
        job.until(lambda: said(job.out(), 0) and said(job.out(), 1), "both ranks talk", True)
        [node_0] = [pod["metadata"]["name"] for pod in cluster.pods(job.namespace)
                    if pod["metadata"]["name"].startswith("tiny-0")]

        def printed():
            return max(said(cluster.log(job.namespace, node_0, tailLines=50), 0), default=0)

        def shown():
            return max(said(job.out(), 0), default=0)

        def goes_on(what):
            target = printed()
            job.until(lambda: shown() > target, f"it is followed again after {what}", True)

        # Cut for longer than ten seconds, in which a line comes every tenth of one.
        target = printed() + 130
        door.cut()
        job.until(lambda: printed() > target, "the job goes on without its follower", True)
        assert shown() < target and "trying again" in job.err(), job.describe()
        door.mend()
        goes_on("a cut connection")

        target = printed() + 40
        door.silent.set()
        job.until(lambda: printed() > target, "the job goes on behind a silent connection", True)
        door.silent.clear()
        goes_on("silence")

        second_server.kill()
        second_server.start()
        goes_on("a restart of the API server")

        job.held.unlink()
        job.ends(0)
    finally:
        door.close()
    for rank in range(2):
        lines = said(job.out(), rank)
        assert lines == list(range(len(lines))), job.describe()
        assert f"rank {rank} said {len(lines)} in all" in job.out(), job.describe()
    assert job.err().count("Job tiny succeeded") <= 1
    last = job.shanty("logs", "tiny", "-f", "--tail", "60")
    assert last.returncode == 0 and 0 < len(last.stdout.splitlines()) <= 60, last
    job.remove()


def parents(pid):
    """The process and those above it: [(pid, command)]."""
    found = []
    while pid > 1:
        command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
        found.append((pid, command))
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return found


@pytest.mark.parametrize("node", [0, 1])
def test_a_killed_agent_is_replaced(on_cluster, node):
    job = on_cluster(hold=True).start()
    job.until(job.stepped, "both ranks step", True)
    agents = [pid for pid, command in parents(living_ranks(job.namespace)[node])
              if "shanty agent" in command and "--master-addr" in command]
    os.kill(agents[-1], signal.SIGKILL)
    job.until(lambda: job.stepped(2), "both ranks step again", True)
    job.held.unlink()
    job.ends(0)
    assert job.out().count("of 2 trained to") == 2, job.describe()
    job.remove()


def test_pods_that_cannot_reach_each_other_for_a_while(on_cluster):
    job = on_cluster(hold=True).start()
    job.until(job.stepped, "both ranks step", True)
    first = living_ranks(job.namespace)
    address = {pod["metadata"]["name"][:6]: pod["status"]["podIP"]
               for pod in job.cluster.pods(job.namespace)}

    def route(verb):
        for rank, other in ((0, "tiny-1"), (1, "tiny-0")):
            holder = f"--net=/proc/{networks[rank]}/ns/net"
            subprocess.run(["nsenter", holder, "ip", "route", verb, "blackhole",
                            f"{address[other]}/32"], check=True, timeout=120)

    # The pods' own first processes: ranks come and go.
    networks = {rank: [pid for pid, command in parents(pid) if "shanty agent" in command][-1]
                for rank, pid in first.items()}
    route("add")
    # The coordinator, on node 0, ends the broken world on its side; the other side waits for it.
    job.until(lambda: living_ranks(job.namespace).get(0) != first[0],
              "node 0 ends the rank of the broken world", True)
    route("del")
    job.until(lambda: job.stepped(2), "both ranks step again", True)
    assert "node lost" in job.err(), job.describe()
    job.held.unlink()
    job.ends(0)
    assert job.out().count("of 2 trained to") == 2, job.describe()
    assert [pod["status"]["containerStatuses"][0]["restartCount"]
            for pod in job.cluster.pods(job.namespace)] == [0, 0]
    job.remove()
