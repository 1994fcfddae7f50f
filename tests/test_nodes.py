"""Several `shanty run` commands that form one job, as on several machines."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys

import pytest

from conftest import LIMIT_S, SHANTY, wait_until
from ports import free_port

SCRIPT = """
    import os
    print("rank", os.environ["RANK"], "of", os.environ["WORLD_SIZE"], "node",
          os.environ["GROUP_RANK"], os.environ["MASTER_ADDR"], flush=True)
"""


def ranks(*runs):
    lines = [line for run in runs for line in run.stdout.decode().splitlines() if "of" in line]
    return sorted(int(line.split("rank ")[-1].split()[0]) for line in lines)


def test_commands_with_one_endpoint_form_one_job(start, script):
    path = script(SCRIPT)
    flags = ("--nnodes", 3, "--nproc-per-node", 2, "--rdzv-endpoint",
             f"127.0.0.1:{free_port()}", "--rdzv-id", "one")
    runs = [start(*flags, path) for _ in range(3)]
    for run in runs:
        run.wait()
        assert run.code == 0, run.describe()
    assert ranks(*runs) == [0, 1, 2, 3, 4, 5]
    for run in runs:
        run.assert_nothing_left()


def test_node_ranks_and_master_port_are_kept(start, script):
    port = free_port()
    path = script(
        "import os; print('rank', os.environ['RANK'], 'of', os.environ['GROUP_RANK'],"
        " os.environ['MASTER_PORT'])"
    )
    runs = [
        start("--nnodes", 2, "--node-rank", node, "--master-addr", "127.0.0.1",
              "--master-port", port, path)
        for node in (1, 0)
    ]
    for run in runs:
        run.wait()
        assert run.code == 0, run.describe()
    assert f"rank 1 of 1 {port}" in runs[0].stdout.decode()
    assert f"rank 0 of 0 {port}" in runs[1].stdout.decode()


def test_a_missing_node_is_named_and_the_job_starts_when_it_comes(start, script):
    port = free_port()
    path = script(SCRIPT)

    def node(rank):
        return start("--nnodes", 2, "--node-rank", rank, "--master-addr", "127.0.0.1",
                     "--master-port", port, path)

    first = node(0)
    wait_until(
        lambda: any("node rank 1" in e.get("text", "") for e in first.events()),
        "the missing node is named",
    )
    second = node(1)
    assert first.wait().code == 0 and second.wait().code == 0, first.describe()


REFUSED = ("the coordinator at 127.0.0.1:{} refused the token: set SHANTY_TOKEN to the same secret on"
           " each node")
TURNED_AWAY = "turned away 1 connection (last from 127.0.0.1: wrong or missing token)"


def test_a_wrong_token_is_refused_and_told(start, script):
    port = free_port()
    path = script(SCRIPT)

    def node(rank, token):
        return start("--nnodes", 2, "--node-rank", rank, "--master-addr", "127.0.0.1",
                     "--master-port", port, path, env={"SHANTY_TOKEN": token})

    good = node(0, "the-secret-of-this-job")
    wait_until(lambda: good.has_event("agent_joined"), "the first node is there")
    bad = node(1, "another-secret-altogether")
    wait_until(
        lambda: bad.has_event("warning", source="node-1", text=REFUSED.format(port + 1)),
        "the refused node says what to do",
    )
    wait_until(
        lambda: good.has_event("warning", source="coordinator", text=TURNED_AWAY),
        "the coordinator says whom it turned away",
    )
    bad.process.send_signal(signal.SIGTERM)
    bad.wait()
    assert REFUSED.format(port + 1).encode() in bad.stderr, bad.describe()
    assert bad.code == 1 and not good.has_event("agent_joined", node_rank=1)
    late = node(1, "the-secret-of-this-job")
    assert late.wait().code == 0 and good.wait().code == 0, good.describe()


def test_strangers_on_the_port_change_nothing(start, script, tmp_path):
    go = tmp_path / "go"
    port = free_port()
    run = start(
        "--nnodes", 2, "--node-rank", 0, "--master-addr", "127.0.0.1", "--master-port", port,
        script(SCRIPT), go,
    )

    def connect():
        try:
            return socket.create_connection(("127.0.0.1", port + 1), timeout=60)
        except OSError:
            return None

    first = wait_until(connect, "the coordinator listens")
    others = [wait_until(connect, "it listens on") for _ in range(50)]
    said = (os.urandom(100_000), b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"GET /" + b"x" * 100_000)
    for connection, words in zip((first, *others), said):
        with contextlib.suppress(OSError):  # it may have been closed by now
            connection.sendall(words)
    peer = start("--nnodes", 2, "--node-rank", 1, "--master-addr", "127.0.0.1",
                 "--master-port", port, script(SCRIPT))
    assert run.wait().code == 0 and peer.wait().code == 0, run.describe()
    for connection in (first, *others):
        connection.close()


def test_a_stopped_agent_is_a_dead_node_after_its_lease(start, script, tmp_path):
    go = tmp_path / "go"
    run = start(
        "--nnodes", 2,
        script("""
            import os, sys, time
            print("ready", flush=True)
            while not os.path.exists(sys.argv[1]):
                time.sleep(0.01)
        """), go,
    )
    wait_until(lambda: all((run.dir / f"logs/gen-0001/rank-0000{r}.log").exists()
                           and b"ready" in run.log(r) for r in (0, 1)), "both ranks are up")
    agents = [pid for pid, line in run.processes().items() if "shanty agent" in line]
    os.kill(max(agents), signal.SIGSTOP)
    wait_until(lambda: run.has_event("agent_lost"), "the silent agent is lost")
    os.kill(max(agents), signal.SIGCONT)
    wait_until(lambda: (run.dir / "logs/gen-0002").exists(), "a second generation starts")
    go.touch()
    run.wait()
    assert run.code == 0, run.describe()
    run.assert_nothing_left()


def test_commands_may_share_one_run_directory(start, script, tmp_path):
    path = script(SCRIPT)
    flags = ("--run-dir", tmp_path / "shared", "--nnodes", 2, "--rdzv-endpoint",
             f"127.0.0.1:{free_port()}")
    runs = [start(*flags, path) for _ in range(2)]
    for run in runs:
        run.wait()
        assert run.code == 0, run.describe()
    assert ranks(*runs)[-1] == 1
    logs = tmp_path / "shared" / "logs" / "gen-0001"
    assert {path.name for path in logs.glob("*.log")} == {"rank-00000.log", "rank-00001.log"}


def test_a_node_says_why_it_waits_and_why_it_ends(start, script):
    port = free_port()
    flags = ("--nnodes", 2, "--master-addr", "127.0.0.1", "--master-port", port)
    path = script("import os, sys; sys.exit(3 * (os.environ['RANK'] == '0'))")
    alone = start("--node-rank", 1, *flags, path)
    wait_until(lambda: alone.has_event("waiting"), "it says that it waits")
    host = start("--node-rank", 0, *flags, path).wait()
    alone.wait()
    assert host.code == 1 and alone.code == 1, alone.describe()
    assert f"127.0.0.1:{port + 1}: Connection refused".encode() in alone.stderr, alone.describe()
    assert b"rank 0 " in alone.stderr and b"exited with code 3" in alone.stderr, alone.describe()


TWO_MACHINES = """
set -e
mount --bind "$1/hosts0" /etc/hosts
ip link set lo up
ip link add near type veth peer name far
ip address add 10.77.0.1/24 dev near
ip link set near up
unshare --net --mount --kill-child sh -c '
    mount --bind "$1/hosts1" /etc/hosts
    : > "$1/apart"
    until ip link set far up 2>/dev/null; do sleep 0.05; done
    ip link set lo up
    ip address add 10.77.0.2/24 dev far
    shift
    exec "$@"' sh "$1" $3 &
other=$!
until test -e "$1/apart"; do sleep 0.05; done
ip link set far netns $other
code=0
$2 || code=$?
wait $other
exit $code
"""


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("ip"),
                    reason="makes network namespaces with ip(8)")
def test_a_host_whose_own_name_is_a_loopback_address_to_itself_is_found(tmp_path, script):
    """Debian writes "127.0.1.1 NAME" into /etc/hosts; the other machines know better."""
    (tmp_path / "hosts0").write_text("127.0.0.1 localhost\n127.0.1.1 node-zero\n")
    (tmp_path / "hosts1").write_text("127.0.0.1 localhost\n10.77.0.1 node-zero\n")
    program = script("""
        import os
        print("rank", os.environ["RANK"], "master", os.environ["MASTER_ADDR"])
    """)
    command = [
        f"{SHANTY} run -q --run-dir {tmp_path}/run{node} --python {sys.executable} --nnodes 2 "
        f"--rdzv-endpoint node-zero:29444 --rdzv-conf timeout={LIMIT_S - 60} {program}" for node in (0, 1)]
    done = subprocess.run(
        ["unshare", "--net", "--mount", "sh", "-c", TWO_MACHINES, "sh", tmp_path, *command],
        env={**os.environ, "SHANTY_TOKEN": "0123456789abcdef", "XDG_STATE_HOME": str(tmp_path)},
        capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 0, done
    masters = {line.split("rank ")[-1] for line in done.stdout.splitlines()}
    assert {line[0] for line in masters} == {"0", "1"}, done
    assert len({line.split()[-1] for line in masters}) == 1, done
    assert "127." not in done.stdout, done
