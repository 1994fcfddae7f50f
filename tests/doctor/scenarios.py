"""One function per failure: it lets a job print what that failure looks like and says who is at fault.

Each stands for a record of resolved public failures (its id) and uses the formats of several versions
and layouts by the job's seed. `healthy` twins print the same kinds of lines without the fault.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Callable

from job_log import Job, number


@dataclass
class Scenario:
    id: str
    cls: str
    run: Callable[[Job], dict]
    one_node: bool = False
    torch: list[str] | None = None
    nccl: list[str] | None = None
    healthy: Callable[[Job], None] | None = None
    side_only: bool = False  # the evidence is not in the ranks' logs
    quiet: bool = False  # info is a right answer: nothing is broken


ALL: list[Scenario] = []


def scenario(id: str, cls: str, **options):
    assert id not in (other.id for other in ALL), f"{id}: two scenarios would share a directory"

    def add(run):
        ALL.append(Scenario(id, cls, run, **options))
        return run

    return add


def healthy(job: Job):
    job.launch()
    job.connect_all()
    job.c10d(1, "using GPU 1 as device used by this process is currently unknown. This can potentially cause a "
                "hang if this rank to GPU mapping is incorrect.", level="W") if job.per_node > 1 else None
    job.socket(0, "The server socket cannot be initialized on [::]:29500 (errno: 97 - Address family not "
                  "supported by protocol).", level="W")
    job.socket(0, "The IPv6 network addresses of (train-worker-0, 29500) cannot be retrieved (gai error: -2 - "
                  "Name or service not known).", level="W")
    job.nccl(0, "NET/Plugin: Could not find: libnccl-net.so. Using internal network plugin.")
    job.train(8)
    for r in range(job.world):
        job.say(r, "saving checkpoint to /ckpt/step-8")
    job.train(8, start=8)
    job.say(0, "training finished")


def nccl_fails(job, ranks=None, error="unhandled system error", explain="ncclSystemError: System call (e.g. socket, "
               "malloc) or external library call failed or device error.", last=""):
    for r in ranks if ranks is not None else range(job.world):
        job.trace(r, "torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/"
                     f"ProcessGroupNCCL.cpp:1970, {error}, NCCL version {job.nccl_version}", explain,
                  "Last error:", last or "socketStartConnect: Connect failed")


def silent_then_timeout(job, silent, seq=120, **kwargs):
    job.wait(kwargs.get("timeout_ms", 600000) / 1000)
    waiting = [r for r in range(job.world) if r not in silent]
    for r in waiting:
        job.timeout(r, seq, **kwargs)
    job.aftermath(waiting)


# --- Interfaces -------------------------------------------------------------------------------------


@scenario("F001", "net_interface")
def ib_bootstrap(job):
    for r in range(job.world):
        job.nccl_start(r, network="", ifc="ib0", ip=f"11.0.{r // job.per_node}.2")
    for r in range(1, job.world):
        v = number(job.nccl_version)
        job.nccl(r, "Call to connect returned Connection timed out, retrying" if v < (2, 24) else
                 "socketPollConnect: connect returned Connection timed out, retrying (3/34) after sleep for 300 msec"
                 if v < (2, 27) else
                 "socketPollConnect: connect to 11.0.0.2<41231> returned Connection timed out, retrying (3/34) "
                 "after sleep for 300 msec")
    nccl_fails(job, range(1, job.world))
    return {"nodes": [job.node(0), job.node(job.world - 1)], "devices": ["ib0"]}


@scenario("F002", "net_interface")
def ifname_missing(job):
    bad = job.on_node(job.nodes - 1)
    for r in range(job.world):
        job.nccl(r, "NCCL_SOCKET_IFNAME set by environment to ens7f0")
        if r not in bad:
            job.nccl_start(r, network="")
        else:
            job.nccl(r, "NCCL_SOCKET_IFNAME set to ens7f0")
            if number(job.nccl_version) >= (2, 16):
                job.nccl(r, "ncclSocketInit: connecting to address  with family 21845 is neither AF_INET(2) nor "
                            "AF_INET6(10)", level="WARN")
            else:
                job.nccl(r, "Bootstrap : no socket interface found", level="WARN", where="bootstrap.cc:45")
    nccl_fails(job, bad, "internal error", "ncclInternalError: Internal check failed.")
    return {"nodes": [job.node(bad[0])], "ranks": bad}


@scenario("F005", "net_interface", nccl=["2.10.3", "2.14.3"])
def veth(job):
    for r in range(job.world):
        job.nccl(r, f"Bootstrap : Using [0]ens5:{job.ip(r)}<0> [1]veth1a2b3c:fe80::42:acff:fe11:2%veth1a2b3c<0>")
    for r in range(1, job.world):
        job.nccl(r, "Connect to fe80::42:acff:fe11:2%5<38741> failed : Network is unreachable", level="WARN")
        job.nccl(r, "Call to connect returned Connection timed out, retrying")
    return {"nodes": [job.node(0), job.node(job.world - 1)]}


@scenario("F006", "net_interface", one_node=True)
def no_interface(job):
    job.nccl(0, "Socket creation failed : Address family not supported by protocol", level="WARN",
             where="include/socket.h:390")
    return {"nodes": [job.node(0)], "ranks": [0]}


@scenario("F094", "net_interface")
def gloo_loopback(job):
    for r in job.on_node(job.nodes - 1):
        job.trace(r, f"RuntimeError: Gloo connectFullMesh failed with [../third_party/gloo/gloo/transport/tcp/pair.cc:"
                     f"144] timed out connecting: SO_ERROR: Connection refused, remote=[127.0.0.1]:{30000 + r} "
                     f"(rank={r}, size={job.world}, local=[127.0.0.1])")
    return {"ranks": job.on_node(job.nodes - 1), "nodes": [job.node(job.world - 1)]}


@scenario("P02", "net_interface")
def gloo_pattern(job):
    bad = job.on_node(job.nodes - 1)
    for r in bad:
        job.trace(r, "RuntimeError: [enforce fail at ../third_party/gloo/gloo/transport/tcp/device.cc:84] "
                     "ifa != nullptr. Unable to find address for: ^docker")
    return {"ranks": bad, "nodes": [job.node(bad[0])]}


# --- shm --------------------------------------------------------------------------------------------


@scenario("F009", "shm", one_node=True)
def shm_nccl(job):
    bad = 2
    for r in range(job.world):
        job.nccl_start(r, network="Socket")
    v = number(job.nccl_version)
    if v >= (2, 22):
        tail = ", error: No space left on device (28)"
    else:
        tail = ""
    if v >= (2, 12):
        job.nccl(bad, f"Error: failed to extend /dev/shm/nccl-Ab3dEf to 9637892 bytes{tail}", level="WARN",
                 where="misc/shmutils.cc:72")
        job.nccl(bad, f"Error while creating shared memory segment /dev/shm/nccl-Ab3dEf (size 9637888){tail}",
                 level="WARN", where="misc/shmutils.cc:113")
    else:
        job.nccl(bad, "Call to posix_fallocate failed : No space left on device", level="WARN",
                 where="include/shm.h:30")
        job.nccl(bad, "Error while creating shared memory segment nccl-shm-recv-2f1 (size 9637888)", level="WARN",
                 where="include/shm.h:48")
    for r in range(job.world):
        if r != bad:
            job.nccl(r, "Socket recv failed while polling for opId=0x7f10a4000c40", level="WARN", where="proxy.cc:1143")
            job.nccl(r, f"socketProgress: Connection closed by remote peer {job.node(bad)}<45112>", level="WARN")
    nccl_fails(job)
    return {"ranks": [bad]}


@scenario("F011", "shm", one_node=True)
def bus_error(job):
    bad = 1
    job.connect_all()
    job.train(3)
    job.say(bad, "ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared "
                 "memory (shm).")
    job.trace(bad, "RuntimeError: DataLoader worker (pid 4711) is killed by signal: Bus error. It is possible that "
                   "dataloader's workers are out of shared memory. Please try to raise your shared memory limit.")
    job.failed(bad, -7, [r for r in range(job.world) if r != bad])
    return {"ranks": [bad]}


# --- Devices ----------------------------------------------------------------------------------------


def duplicate(job, a, b):
    v = number(job.nccl_version)
    for r in range(job.world):
        job.nccl_start(r)
    for r in (a, b):
        job.init_line(r, "START", dev=0, bus="10000")
    said = f"Duplicate GPU detected : rank {b} and rank {a} both on CUDA device 10000"
    job.nccl(b, said, level="WARN", where="init.cc:521")
    job.nccl(b, "init.cc:1358 -> 5")
    nccl_fails(job, [b], "invalid usage", "ncclInvalidUsage: This usually reflects invalid usage of NCCL library.", said)
    return {"ranks": [a, b], "devices": ["10000"], "v": v}


@scenario("F012", "gpu_assignment", one_node=True)
def default_device(job):
    return duplicate(job, 0, 3)


@scenario("F013", "gpu_assignment", one_node=True)
def wrong_launcher(job):
    out = duplicate(job, 0, 1)
    for r in range(2, job.world):
        job.nccl(r, f"Duplicate GPU detected : rank {r} and rank 0 both on CUDA device 10000", level="WARN",
                 where="init.cc:521")
    return {**out, "ranks": list(range(job.world))}


@scenario("F014", "gpu_assignment")
def too_many_processes(job):
    bad = [r for r in range(job.world) if r % job.per_node >= job.per_node // 2]
    for r in bad:
        job.trace(r, "    torch.cuda.set_device(args.local_rank)",
                  "RuntimeError: CUDA error: invalid device ordinal",
                  "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace "
                  "below might be incorrect.")
    job.failed(bad[0], 1, [r for r in range(job.world) if r not in bad])
    return {"ranks": bad}


@scenario("F072", "gpu_assignment")
def busy_gpu(job):
    job.trace(3, "RuntimeError: CUDA error: CUDA-capable device(s) is/are busy or unavailable")
    job.wait(2)
    for n in range(job.nodes):
        job.agent(n, "Received 15 death signal, shutting down workers", "W", "elastic/multiprocessing/api.py")
        for r in job.on_node(n):
            job.agent(n, f"Sending process {job.pid(r)} closing signal SIGTERM", "W", "elastic/multiprocessing/api.py")
    return {"ranks": [3]}


# --- Ports ------------------------------------------------------------------------------------------


def bind_line(job, port):
    if number(job.torch) >= (2, 3):
        return (f"The server socket has failed to listen on any local network address. port: {port}, useIpv6: 0, "
                "code: -98, name: EADDRINUSE, message: address already in use")
    return ("The server socket has failed to listen on any local network address. The server socket has failed to bind "
            f"to [::]:{port} (errno: 98 - Address already in use). The server socket has failed to bind to "
            f"0.0.0.0:{port} (errno: 98 - Address already in use).")


@scenario("F016", "port_in_use", one_node=True)
def port_of_library(job):
    for r in range(job.world):
        job.say(r, "MASTER_ADDR=train-worker-0 MASTER_PORT=23456")
    job.trace(1, "RuntimeError: " + bind_line(job, 29500))
    return {"ranks": [1]}


@scenario("F018", "port_in_use", one_node=True)
def port_race(job):
    job.trace(0, "torch.distributed.DistNetworkError: " + bind_line(job, 41873))
    job.failed(0, 1)
    return {"ranks": [0], "nodes": [job.node(0)]}


@scenario("F105", "port_in_use")
def host_port(job):
    job.file("events.txt", "LAST SEEN   TYPE      REASON             OBJECT                MESSAGE\n"
             "12s         Warning   FailedScheduling   pod/train-worker-1    0/8 nodes are available: 8 node(s) didn't "
             "have free ports for the requested pod ports. preemption: 0/8 nodes are available.\n")
    return {}


# --- Stores -----------------------------------------------------------------------------------------


@scenario("F020", "rendezvous_store")
def nobody_hosts(job):
    job.launch(endpoint="train-master-svc:29500", hosts=False)
    job.wait(60)
    for n in range(job.nodes):
        r = n * job.per_node
        job.socket(r, "The client socket has timed out after 60s while trying to connect to (train-master-svc, 29500).")
        job.trace(r, "torch.distributed.elastic.rendezvous.api.RendezvousConnectionError: The connection to the C10d "
                     "store has failed. See inner exception for details.")
    return {"nodes": [job.node(0)]}


@scenario("F058", "rendezvous_store")
def rejoin(job):
    job.nccl_start(1)
    v = number(job.nccl_version)
    for _ in range(3):
        job.nccl(1, "Call to connect returned Connection refused, retrying" if v < (2, 24) else
                 "socketPollConnect: connect returned Connection refused, retrying (7/34) after sleep for 700 msec")
    job.file("pods.yaml", POD.format(name="train-worker-0", node="gpu-node-1", restarts=1, state=TERMINATED_ERROR))
    return {"pods": ["train-worker-0"]}


@scenario("F125", "rendezvous_store")
def no_arguments(job):
    job.launch(endpoint="", hosts=False, nnodes=1)
    for n in range(job.nodes):
        r = n * job.per_node
        job.socket(r, "The IPv6 network addresses of (train-node-0-0.train, 29500) cannot be retrieved (gai error: -2 - "
                      "Name or service not known).", level="W")
        job.wait(900)
        job.socket(r, "The client socket has timed out after 900000ms while trying to connect to (train-node-0-0.train, "
                      "29500).")
    return {"nodes": [job.node(r) for r in range(0, job.world, job.per_node)]}


@scenario("F126", "rendezvous_store", one_node=True)
def localhost_zero(job):
    for r in range(job.world):
        job.say(r, "env: MASTER_ADDR=localhost MASTER_PORT=0")
    return {}


@scenario("F151", "rendezvous_store")
def out_of_step(job):
    job.wait(601)
    job.trace(0, f"torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. 1/{job.world} "
                 "clients joined.")
    job.trace(job.per_node, "RuntimeError: Broken pipe")
    return {"ranks": [job.per_node], "nodes": [job.node(job.per_node)]}


# --- Names ------------------------------------------------------------------------------------------


@scenario("P03", "rendezvous_store")
def reset_at_the_store(job):
    job.agent(1, "The node 'train-worker-1_50_0' has failed to shutdown the rendezvous 'job-1' due to an error of type "
                 "RendezvousConnectionError.", level="W", source="elastic/rendezvous/dynamic_rendezvous.py")
    job.agent(1, "RuntimeError: Connection reset by peer", level="E")
    return {}


@scenario("F022", "dns")
def master_not_yet(job):
    for r in job.on_node(job.nodes - 1):
        job.trace(r, "    store = TCPStore(master_addr, master_port, world_size, start_daemon, timeout)",
                  "ValueError: host not found: Name or service not known")
    return {"nodes": [job.node(job.world - 1)], "ranks": job.on_node(job.nodes - 1)}


@scenario("F118", "dns")
def host_network_dns(job):
    job.file("init.log", "\n".join(["Server:    10.10.0.2", "Address 1: 10.10.0.2", "",
                                    "nslookup: can't resolve 'train-master-0'", "waiting for master"] * 5) + "\n")
    pod = POD.format(name="train-worker-1", node="gpu-node-1", restarts=0, state="      running: {}")
    job.file("pods.yaml", pod.replace("dnsPolicy: ClusterFirst", "dnsPolicy: ClusterFirst\n  hostNetwork: true"))
    return {"pods": ["train-worker-1"]}


@scenario("F127", "dns")
def advertised_name(job):
    bad = job.per_node
    for family in ("IPv6", "IPv4"):
        job.socket(bad, f"The {family} network addresses of (ip-10-0-0-17.ec2.internal, 29500) cannot be retrieved "
                        "(gai error: -2 - Name or service not known).", level="W")
    job.trace(bad, "torch.distributed.elastic.rendezvous.api.RendezvousConnectionError: The connection to the C10d "
                   "store has failed. See inner exception for details.")
    job.wait(600)
    job.trace(0, "torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError")
    return {"ranks": [bad], "nodes": [job.node(bad)]}


# --- Blocked ----------------------------------------------------------------------------------------


POD = """apiVersion: v1
kind: Pod
metadata:
  name: {name}
spec:
  nodeName: {node}
  dnsPolicy: ClusterFirst
  containers:
  - name: pytorch
    image: registry.local/train:1
    resources:
      limits: {{nvidia.com/gpu: 8}}
    volumeMounts:
    - {{name: shm, mountPath: /dev/shm}}
status:
  phase: Running
  podIP: 10.0.0.17
  containerStatuses:
  - name: pytorch
    restartCount: {restarts}
    state:
{state}
"""
TERMINATED_ERROR = "      running: {}\n    lastState:\n      terminated: {exitCode: 1, reason: Error}"
SIDECAR = "  - name: istio-proxy\n    image: docker.io/istio/proxyv2:1.22\n    resources: {}\nstatus:"


@scenario("F026", "net_blocked")
def istio(job):
    for r in range(job.world):
        job.nccl_start(r, network="")
    pod = POD.format(name="train-worker-0", node="gpu-node-1", restarts=0, state="      running: {}")
    job.file("pods.yaml", pod.replace("status:", SIDECAR, 1))
    return {"pods": ["train-worker-0"]}


@scenario("F027", "net_blocked", one_node=True)
def firewall(job):
    v = number(job.nccl_version)
    for r in range(job.world):
        job.nccl_start(r, network="")
    for r in range(1, job.world):
        job.nccl(r, "Call to connect returned Connection timed out, retrying" if v < (2, 24) else
                 "socketPollConnect: connect returned Connection timed out, retrying (2/34) after sleep for 200 msec"
                 if v < (2, 27) else f"socketPollConnect: connect to {job.ip(0)}<40123> returned Connection timed out, "
                 "retrying (2/34) after sleep for 200 msec")
    return {"nodes": [job.node(0)]}


@scenario("F148", "net_blocked")
def security_group(job):
    job.wait(120)
    for r in range(job.per_node, job.world):
        job.socket(r, "The client socket has timed out after 120000ms while trying to connect to (train-master, 29500).")
    job.trace(0, "torch.distributed.DistStoreError: Timed out after 121 seconds waiting for clients. "
                 f"{job.per_node}/{job.world} clients joined.")
    return {"nodes": [job.node(job.per_node)], "ranks": list(range(job.per_node, job.world))}


@scenario("F152", "net_blocked")
def network_policy(job):
    bad = job.per_node
    for family in ("IPv6", "IPv4"):
        job.socket(bad, f"The {family} network addresses of (ray-head.train.svc, 29500) cannot be retrieved (gai error: "
                        "-3 - Temporary failure in name resolution).", level="W")
    job.say(bad, "connect to 10.96.0.10:53 failed: connect: Operation not permitted")
    return {"ranks": [bad], "nodes": [job.node(bad)]}


# --- RDMA -------------------------------------------------------------------------------------------


def qp(job, error, code):
    if number(job.nccl_version) >= (2, 24):
        return (f"Call to ibv_modify_qp failed with {code} {error}, on dev mlx5_0:1, curr state INIT, next state RTR, "
                "local GID index 1, local GID fe80::ba59:9fff:fe12:3456, remote GID fe80::ba59:9fff:fe65:4321")
    return f"Call to ibv_modify_qp failed with error {error}"


@scenario("F029", "rdma_config")
def gid_link_local(job):
    for r in range(job.world):
        job.nccl_start(r)
    bad = job.on_node(1)
    for r in bad:
        job.nccl(r, qp(job, "Connection timed out", 110), level="WARN", where="misc/ibvwrap.cc:160")
    nccl_fails(job, bad)
    return {"ranks": bad, "nodes": [job.node(bad[0])]}


@scenario("F030", "rdma_config")
def gid_in_pod(job):
    for r in range(job.world):
        job.nccl(r, "NCCL_IB_ROCE_VERSION_NUM set by environment to 2.")
        job.nccl(r, "NCCL_IB_GID_INDEX set by environment to 3.")
        job.nccl_start(r)
        job.init_line(r, "START")
    job.say(0, "Segmentation fault (core dumped)")
    return {"nodes": [job.node(0)]}


@scenario("F031", "rdma_config")
def no_uverbs(job):
    bad = job.on_node(1)
    for r in range(job.world):
        if r in bad:
            job.nccl(r, "Call to ibv_open_device failed", level="WARN", where="misc/ibvwrap.cc:88")
            job.nccl(r, "NET/IB : Unable to open device mlx5_bond_0", level="WARN", where="transport/net_ib.cc:180")
            job.nccl_start(r, "Socket")
        else:
            job.nccl_start(r, "IB")
    job.train(5)
    return {"ranks": bad, "nodes": [job.node(bad[0])]}


@scenario("F033", "rdma_config")
def memlock(job):
    for r in range(job.world):
        job.nccl_start(r)
    bad = job.on_node(1)
    code = "12 " if number(job.nccl_version) >= (2, 24) else "error "
    for r in bad:
        job.nccl(r, f"Call to ibv_reg_mr_iova2 failed with {code}Cannot allocate memory", level="WARN",
                 where="misc/ibvwrap.cc:200")
    nccl_fails(job, bad)
    return {"ranks": bad, "nodes": [job.node(bad[0])]}


@scenario("F034", "rdma_config")
def foreign_hca(job):
    for r in range(job.world):
        job.nccl_start(r, hcas=8)
    bad = job.on_node(0)
    for r in bad:
        job.nccl(r, qp(job, "No such device", 19), level="WARN", where="misc/ibvwrap.cc:160")
    nccl_fails(job, bad)
    return {"ranks": bad, "nodes": [job.node(0)]}


@scenario("F035", "rdma_config")
def no_gdr(job):
    for r in range(job.world):
        job.nccl_start(r)
        job.nccl(r, "NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'")
    for r in range(job.world):
        job.channels(r, gdr=False)
        job.init_line(r)
    job.train(5)
    return {"nodes": [job.node(r) for r in range(0, job.world, job.per_node)]}


@scenario("F036", "rdma_config")
def gdr_one_node(job):
    for r in range(job.world):
        job.nccl_start(r)
    for r in range(job.world):
        job.channels(r, gdr=r // job.per_node != 1)
        job.init_line(r)
    job.train(5)
    return {"nodes": [job.node(job.per_node)]}


def completion(job, peer, status, vendor):
    v = number(job.nccl_version)
    names = {12: "IBV_WC_RETRY_EXC_ERR", 5: "IBV_WC_WR_FLUSH_ERR"}
    if v < (2, 20):
        return f"NET/IB : Got completion from peer {peer}<52611> with error {status}, opcode 0, len 0, vendor err {vendor} (Send)"
    if v < (2, 28):
        return (f"NET/IB: Got completion from peer {peer}<52611> with status={status} opcode=0 len=0 vendor err {vendor} "
                "(Send) hca mlx5_0")
    return (f"NET/IB: Got completion from peer {peer}<52611> with status={names[status]}({status}) opcode=IBV_WC_SEND(0) "
            f"reqType=Send vendor_err={vendor} localGid ::ffff:10.1.0.1 remoteGid ::ffff:10.1.0.2 hca mlx5_0")


def async_event(job, what):
    v = number(job.nccl_version)
    if v < (2, 20):
        return f"NET/IB : Got async event : {what}"
    if v < (2, 23):
        return f"NET/IB : mlx5_0:1 Got async event : {what}"
    return f"NET/IB : mlx5_0:1 async fatal event: {what}"


@scenario("F101", "rdma_config")
def mtu(job):
    for r in range(job.world):
        job.nccl_start(r)
        job.init_line(r, "START")
    for r in range(job.world):
        other = 0 if r >= job.per_node else job.per_node
        job.nccl(r, async_event(job, "local access violation work queue error"), level="WARN")
        job.nccl(r, completion(job, job.ip(other), 12, 129), level="WARN")
    nccl_fails(job)
    return {"nodes": [job.node(0), job.node(job.per_node)]}


@scenario("F119", "rdma_config")
def four_causes(job):
    for r in range(job.world):
        job.nccl(r, "NCCL_IB_GID_INDEX set by environment to 3.")
        job.nccl_start(r)
    for r in job.on_node(1):
        job.nccl(r, qp(job, "Connection timed out", 110), level="WARN")
        job.nccl(r, "Call to ibv_reg_mr failed with error Cannot allocate memory", level="WARN")
    nccl_fails(job, job.on_node(1))
    return {"nodes": [job.node(job.per_node)], "ranks": job.on_node(1)}


@scenario("F129", "rdma_config")
def efa_plugin(job):
    for r in range(job.world):
        job.nccl(r, "ibv_open_device failed! errno: 2", level="WARN")
        job.nccl_start(r, "Socket")
    job.file("daemonsets.txt", "NAMESPACE     NAME                           DESIRED   CURRENT   READY\n"
             "kube-system   aws-efa-k8s-device-plugin      0         0         0\n")
    return {"nodes": [job.node(0)]}


@scenario("F131", "rdma_config")
def efa_registration(job):
    for r in range(job.world):
        job.nccl_start(r, "")
        job.nccl(r, "Using network AWS Libfabric")
    bad = job.on_node(0)
    for r in bad:
        job.nccl(r, "NET/OFI Unable to register memory (type = 2) for device 3. RC: -22, Error: Invalid argument",
                 level="WARN", where="register_rail_mr_buffer:500")
    nccl_fails(job, bad)
    return {"ranks": bad, "nodes": [job.node(0)]}


# --- P2P --------------------------------------------------------------------------------------------


def first_collective_hangs(job):
    job.connect_all(network="Socket")
    job.wait(1800)
    for r in range(job.world):
        job.timeout(r, 1, op="ALLREDUCE", numel=1, timeout_ms=1800000, enqueued=1, completed=0)
    job.aftermath()


@scenario("F038", "p2p_acs", one_node=True)
def acs(job):
    first_collective_hangs(job)
    return {"nodes": [job.node(0)]}


@scenario("F040", "p2p_acs", one_node=True)
def p2p_driver(job):
    first_collective_hangs(job)
    job.file("nvidia-smi.txt", SMI.format(driver="560.35.03", gpu="NVIDIA RTX A6000"))
    return {"nodes": [job.node(0)]}


SMI = """+-----------------------------------------------------------------------------+
| NVIDIA-SMI {driver}   Driver Version: {driver}   CUDA Version: 12.6     |
|   0  {gpu:<22}  On  | 00000000:01:00.0 Off |                  0 |
| 45%   60C    P2   92W / 300W |  10240MiB / 49140MiB |    100%      Default |
|   1  {gpu:<22}  On  | 00000000:02:00.0 Off |                  0 |
| 45%   60C    P2   91W / 300W |  10240MiB / 49140MiB |    100%      Default |
"""


@scenario("F041", "p2p_acs", one_node=True)
def consumer(job):
    for r in range(job.world):
        job.nccl_start(r, "Socket")
        job.init_line(r, "START")
    for r in range(job.world):
        job.channels(r)
    for r in range(job.world):
        job.nccl(r, "Connected all rings")
        job.init_line(r)
    return {"nodes": [job.node(0)]}


@scenario("F053", "p2p_acs", one_node=True)
def zero_params(job):
    job.wait(1800)
    for r in range(job.world):
        job.timeout(r, 1, op="ALLGATHER", numel=1, numel_out=job.world, timeout_ms=1800000, ran=1807414, enqueued=1,
                    completed=0)
    job.trace(0, "RuntimeError: DDP expects same model across all ranks, but Rank 0 has 148 params, while rank 1 has "
                 "inconsistent 0 params.")
    return {"nodes": [job.node(0)]}


# --- Desync -----------------------------------------------------------------------------------------


@scenario("F044", "collective_desync")
def uneven_inputs(job):
    job.connect_all()
    job.train(18)
    job.say(0, "end of dataset reached after 18 batches")
    silent_then_timeout(job, [0], seq=19, numel=1, timeout_ms=1800000)
    return {"ranks": [0]}


@scenario("F048", "collective_desync", torch=["2.1", "2.5", "2.7"])
def mixed_ops(job):
    job.train(5)
    job.wait(600)
    for r in range(1, job.world):
        job.timeout(r, 532339, op="BROADCAST", numel=5164000, enqueued=532339, completed=532338)
    job.timeout(0, 532341, op="_ALLGATHER_BASE", numel=513, numel_out=2052, enqueued=532341, completed=532340)
    job.aftermath()
    return {"ranks": [0]}


@scenario("F049", "collective_desync")
def shape_mismatch(job):
    job.train(5)
    job.trace(1, "RuntimeError: Detected mismatch between collectives on ranks. Rank 1 is running collective: "
                 "CollectiveFingerPrint(SequenceNumber=3104, OpType=ALLREDUCE, TensorShape=[195812480], "
                 "TensorDtypes=Float, TensorDeviceTypes=TensorOptions(dtype=float (default), device=cuda, layout=Strided"
                 ", requires_grad=false (default), pinned_memory=false (default), memory_format=(nullopt))), but Rank 0 "
                 "is running collective: CollectiveFingerPrint(SequenceNumber=3104, OpType=ALLREDUCE, "
                 "TensorShape=[51123456], TensorDtypes=Float).Collectives differ in the following aspects: \t Tensor "
                 "Tensor shapes: 195812480vs 51123456")
    return {"ranks": [0, 1]}


@scenario("F050", "collective_desync")
def gather_sizes(job):
    for r in (0, 1, 3):
        job.trace(r, f"RuntimeError: Detected mismatch between collectives on ranks. Rank {r} is running collective: "
                     "CollectiveFingerPrint(SequenceNumber=0, OpType=_ALLGATHER_BASE, TensorShape=[359, 1, 1435, 16], "
                     "TensorDtypes=BFloat16), but Rank 2 is running collective: CollectiveFingerPrint(SequenceNumber=0, "
                     "OpType=_ALLGATHER_BASE, TensorShape=[359, 1, 1436, 16], TensorDtypes=BFloat16).Collectives differ "
                     "in the following aspects: \t Tensor Tensor shapes: 359 1 1435 16vs 359 1 1436 16")
    return {"ranks": [2]}


@scenario("F051", "collective_desync", nccl=["2.14.3", "2.18.5"])
def env_mismatch(job):
    bad = job.on_node(1)
    for r in range(job.world):
        if r in bad:
            job.nccl(r, "NCCL_PROTO set by environment to LL128")
        job.nccl_start(r)
    job.nccl(0, f"NET/IB : req 0/1 tag 0 peer {job.ip(bad[0])}<43210> collective mismatch error, local size 496640 "
                "remote size 65536", level="WARN", where="transport/net_ib.cc:1290")
    nccl_fails(job, [0], "invalid usage", "ncclInvalidUsage: This usually reflects invalid usage of NCCL library.")
    return {"nodes": [job.node(bad[0])]}


# --- Busy -------------------------------------------------------------------------------------------


@scenario("F046", "rank_busy")
def saving(job):
    job.connect_all()
    job.train(20)
    job.say(0, "saving model artefacts to /ckpt/step-20")
    silent_then_timeout(job, [0], seq=4021, op="_ALLGATHER_BASE", numel=262144)
    return {"ranks": [0]}


@scenario("F073", "rank_busy")
def loader_fork(job):
    job.file("rank_3.pyspy.txt", "Process 733: /usr/bin/python train.py\nPython v3.10.12 (/usr/bin/python3.10)\n\n"
             "Thread 733 (idle): \"MainThread\"\n    _try_get_data (torch/utils/data/dataloader.py:1120)\n"
             "    _get_data (torch/utils/data/dataloader.py:1284)\n    main (train.py:88)\n")
    job.train(5)
    return {"ranks": [3]}


@scenario("F136", "rank_busy")
def cold_compile(job):
    job.connect_all()
    bad = job.on_node(job.nodes - 1)[:1]
    job.say(bad[0], "torch._inductor: compiling 412 kernels, cache is empty")
    silent_then_timeout(job, bad, seq=3, op="BROADCAST", numel=1024)
    return {"ranks": bad}


@scenario("F137", "rank_busy", nccl=["2.18.5", "2.21.5", "2.26.2"])
def no_timeout(job):
    bad = job.on_node(job.nodes - 1)[:1]
    for r in range(job.world):
        job.nccl_start(r)
    for r in range(job.world):
        if r not in bad:
            job.init_line(r, "START")
    return {"ranks": bad}


# --- Deaths -----------------------------------------------------------------------------------------


@scenario("F056", "rank_died_early")
def exit_zero(job):
    job.connect_all()
    job.train(10)
    job.say(2, "caught SIGTERM, checkpoint written, exiting with code 0")
    silent_then_timeout(job, [2], seq=1031)
    return {"ranks": [2]}


@scenario("F057", "rank_died_early")
def preempted(job):
    job.train(10)
    gone = job.on_node(1)
    job.say(gone[0], "Instance 7f3a will be terminated soon (reason: kubernetes-pod-termination).")
    silent_then_timeout(job, gone, seq=1031)
    return {"ranks": gone, "nodes": [job.node(gone[0])]}


# --- Library, driver, image -------------------------------------------------------------------------


@scenario("F060", "nccl_env_topo", nccl=["2.21.5", "2.26.2", "2.28.9"])
def uneven_ranks(job):
    for r in range(job.world):
        job.nccl_start(r)
        job.init_line(r, "START")
    for r in range(job.world):
        locals_ = job.per_node - (1 if r < job.per_node else 0)
        job.nccl(r, f"comm {job.comm} rank {r} nRanks {job.world} nNodes 2 localRanks {locals_} localRank "
                    f"{r % job.per_node} MNNVL 0")
    return {"nodes": [job.node(0)]}


@scenario("F099", "nccl_env_topo")
def bad_xml(job):
    for r in range(job.world):
        job.nccl(r, "NCCL_TOPO_FILE set by environment to /opt/amazon/efa/share/p5-topo.xml")
        job.nccl_start(r, "")
        job.nccl(r, "Attribute arch of node cpu not found", level="WARN", where="graph/xml.h:77")
    nccl_fails(job, None, "internal error", "ncclInternalError: Internal check failed.")
    return {"files": ["/opt/amazon/efa/share/p5-topo.xml"]}


@scenario("F061", "driver_image")
def old_driver(job):
    for r in job.on_node(0):
        job.trace(r, "RuntimeError: CUDA driver version is insufficient for CUDA runtime version (error 35)")
    return {"nodes": [job.node(0)], "ranks": job.on_node(0)}


@scenario("F064", "driver_image")
def cuda_requirement(job):
    job.file("describe.txt", DESCRIBE.format(
        name="train-worker-1", node="gpu-node-2/10.1.0.2", reason="StartError",
        events="  Warning  Failed  12s  kubelet  Error: failed to create containerd task: failed to create shim task: OCI "
        "runtime create failed: nvidia-container-cli: requirement error: unsatisfied condition: cuda>=12.8, please "
        "update your driver to a newer version, or use an earlier cuda container: unknown"))
    return {}


DESCRIBE = """Name:             {name}
Namespace:        train
Node:             {node}
Status:           Running
IP:               10.0.1.17
Containers:
  pytorch:
    Image:          registry.local/train:1
    State:          Waiting
    Last State:     Terminated
      Reason:       {reason}
      Exit Code:    137
    Ready:          False
    Restart Count:  0
    Mounts:
      /dev/shm from shm (rw)
Events:
  Type     Reason            Age   From               Message
  ----     ------            ----  ----               -------
{events}
"""


@scenario("F065", "driver_image")
def no_kernel_image(job):
    bad = job.on_node(1)
    for r in bad:
        job.say(r, "NVIDIA GeForce RTX 4090 with CUDA capability sm_89 is not compatible with the current PyTorch "
                   "installation. The current PyTorch install supports CUDA capabilities sm_37 sm_50 sm_60 sm_70.")
        job.trace(r, "RuntimeError: CUDA error: no kernel image is available for execution on the device")
    return {"nodes": [job.node(bad[0])], "ranks": bad}


@scenario("F111", "driver_image")
def nccl_versions(job):
    other = job.per_node
    for r in range(job.world):
        job.nccl_start(r)
    if number(job.nccl_version) >= (2, 21):
        job.nccl(0, f"Mismatched NCCL version detected : rank 0 version 22703 rank {other} version 22907", level="WARN",
                 where="init.cc:900")
    else:
        job.nccl(other, "Message truncated : received 1024 bytes instead of 256", level="WARN", where="bootstrap.cc:120")
        return {"ranks": [other]}
    nccl_fails(job, [0, other], "invalid usage", "ncclInvalidUsage: This usually reflects invalid usage of NCCL library.")
    return {"ranks": [0, other]}


# --- Hardware ---------------------------------------------------------------------------------------


@scenario("F066", "gpu_hw_fabricmgr")
def fabric_manager(job):
    for r in job.on_node(1):
        job.trace(r, "RuntimeError: Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions before "
                     "calling NumCudaDevices() that might have already set an error? Error 802: system not yet initialized")
    return {"nodes": [job.node(job.per_node)], "ranks": job.on_node(1)}


@scenario("F067", "gpu_hw_fabricmgr", nccl=["2.18.5", "2.21.5", "2.28.9"])
def nvls(job):
    for r in range(job.world):
        job.nccl_start(r)
    for r in job.on_node(0):
        if number(job.nccl_version) >= (2, 27):
            job.nccl(r, "Failed to bind NVLink SHARP (NVLS) Multicast memory of size 2097152 : CUDA error 1 'invalid "
                        "argument'.", level="WARN", where="transport/nvls.cc:301")
        else:
            job.nccl(r, "Cuda failure 1 'invalid argument'", level="WARN", where="transport/nvls.cc:169")
    nccl_fails(job, job.on_node(0), "unhandled cuda error", "ncclUnhandledCudaError: Call to CUDA function failed.")
    return {"nodes": [job.node(0)], "ranks": job.on_node(0)}


@scenario("F068", "gpu_hw_fabricmgr")
def ecc(job):
    job.train(10)
    job.trace(5, "RuntimeError: CUDA error: uncorrectable ECC error encountered")
    job.file(f"dmesg-{job.node(5)}.txt", "[84213.112233] NVRM: Xid (PCI:0000:87:00): 63, pid=4711, name=python, Row "
             "Remapper: New row marked for remapping\n[84213.200000] NVRM: Xid (PCI:0000:87:00): 94, pid=4711, "
             "name=python, Contained: SM (0x1)\n")
    silent_then_timeout(job, [5], seq=511)
    return {"ranks": [5], "devices": ["0000:87:00"]}


@scenario("F070", "gpu_hw_fabricmgr")
def invisible_xid(job):
    job.train(10)
    job.file("dmesg-gb200-rack3-12.txt", "Nov 29 10:03:00 gb200-rack3-12 kernel: NVRM: Xid (PCI:0008:01:00): 149, pid=881, "
             "name=python, NVLINK: NETIR_LINK_EVT Fatal\n")
    job.wait(600)
    for r in range(job.world):
        job.timeout(r, 511)
    job.aftermath()
    return {"nodes": ["gb200-rack3-12"], "devices": ["0008:01:00"]}


# --- Memory, limits ---------------------------------------------------------------------------------


@scenario("F097", "gpu_oom", one_node=True)
def nccl_oom(job):
    bad = 3
    for r in range(job.world):
        job.nccl_start(r)
    code = "2 " if number(job.nccl_version) >= (2, 19) else ""
    job.nccl(bad, f"Cuda failure {code}'out of memory'", level="WARN", where="include/alloc.h:48")
    job.nccl(bad, "Failed to CUDA calloc 10485760 bytes", level="WARN", where="include/alloc.h:52")
    for r in range(job.world):
        if r != bad:
            job.nccl(r, f"socketProgress: Connection closed by remote peer {job.node(bad)}<45112>", level="WARN")
            job.nccl(r, "Socket recv failed while polling for opId=0x7f10a4000c40", level="WARN", where="proxy.cc:1143")
    nccl_fails(job, [r for r in range(job.world) if r != bad], "internal error",
               "ncclInternalError: Internal check failed.")
    return {"ranks": [bad]}


@scenario("F134", "gpu_oom", one_node=True)
def all_on_gpu0(job):
    old = number(job.torch) < (2, 1)
    for r in range(1, job.world):
        job.trace(r, "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 79.15 GiB total "
                     "capacity; 9.31 GiB already allocated; 1.12 GiB free; 9.40 GiB reserved in total by PyTorch)" if old
                  else "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity "
                       "of 79.15 GiB of which 1.12 GiB is free. Process 811 has 9.40 GiB memory in use. Process 812 has "
                       "9.40 GiB memory in use. Process 813 has 9.40 GiB memory in use. Of the allocated memory 8.9 GiB is "
                       "allocated by PyTorch, and 100 MiB is reserved by PyTorch but unallocated.")
    return {"devices": ["GPU 0"], "ranks": list(range(1, job.world))}


@scenario("F107", "host_oom")
def loader_oom(job):
    job.train(10)
    job.trace(2, "RuntimeError: DataLoader worker (pid(s) 5012) is killed by signal: Killed. ")
    job.file(f"dmesg-{job.node(2)}.txt", "[99112.000000] python invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0\n"
             "[99112.000100] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=a,mems_allowed=0,"
             "oom_memcg=/kubepods/pod1,task_memcg=/kubepods/pod1,task=pt_data_worker,pid=91234,uid=0\n"
             "[99112.000200] Memory cgroup out of memory: Killed process 91234 (pt_data_worker) total-vm:90000000kB, "
             "anon-rss:64000000kB, file-rss:0kB, shmem-rss:1000kB\n")
    return {"ranks": [2]}


@scenario("F149", "host_oom")
def node_oom(job):
    job.say(1, "capture 24 CUDA graphs begin")
    job.file(f"dmesg-{job.node(1)}.txt", "[99112.000000] cicc invoked oom-killer: gfp_mask=0x140cca, order=0\n"
             "[99112.000100] oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,"
             "task_memcg=/kubepods/pod1,task=python,pid=91234,uid=0\n"
             "[99112.000200] Out of memory: Killed process 91234 (python) total-vm:90000000kB, anon-rss:64000000kB\n")
    job.file("describe.txt", DESCRIBE.format(name=job.node(1), node="gpu-node-1/10.1.0.1", reason="OOMKilled", events=""))
    return {"pods": [job.node(1)], "nodes": ["gpu-node-1"]}


@scenario("F074", "host_limits")
def descriptors(job):
    job.train(10)
    job.trace(4, "RuntimeError: received 0 items of ancdata")
    job.say(4, "OSError: [Errno 24] Too many open files")
    return {"ranks": [4]}


# --- Frozen, slow -----------------------------------------------------------------------------------


@scenario("F055", "process_frozen", torch=["2.3", "2.5", "2.7"])
def frozen_fs(job):
    job.wait(480)
    for r in range(job.world):
        job.c10d(r, "ProcessGroupNCCL's watchdog got stuck for 480 seconds without making progress in monitoring enqueued "
                    "collectives. This typically indicates a NCCL/CUDA API (e.g., CudaEventDestroy) hang blocking the "
                    "watchdog")
        job.c10d(r, "Received a dump signal due to a collective timeout from this local rank and we will try our best to "
                    "dump the debug info. Last enqueued NCCL work: -1, last completed NCCL work: -1.")
    job.file("dmesg.txt", "[1234.5] INFO: task python:4711 blocked for more than 122 seconds.\n")
    return {}


@scenario("F150", "process_frozen")
def page_cache(job):
    job.train(5)
    job.file(f"ps-{job.node(2)}.txt", "  PID STAT WCHAN  COMMAND\n 702 D    folio_wait_bit_common python train.py\n")
    return {"nodes": [job.node(2)]}


@scenario("F077", "slow")
def threads(job):
    for r in range(job.world):
        job.say(r, "env OMP_NUM_THREADS=unset nproc=368 cpu.max: 1600000 100000")
        job.say(r, "throttled_usec 981234567")
    job.train(5)
    return {}


@scenario("F142", "slow", nccl=["2.18.5", "2.21.5"])
def no_sync(job):
    job.say(0, "gradient_accumulation_steps: 4")
    for step in range(6):
        for micro in range(4):
            for r in range(job.world):
                job.nccl(r, f"AllReduce: opCount {step * 4 + micro:x} sendbuff 0x7f1 recvbuff 0x7f1 count 25557032 datatype 7 "
                            f"op 0 root 0 comm {job.comm} [nranks={job.world}] stream 0x55")
        job.train(1, start=step)
    return {}


@scenario("F143", "slow")
def power(job):
    job.train(5)
    job.file(f"smi-{job.node(4)}.txt", "==============NVSMI LOG==============\n\nGPU 00000000:0F:00.0\n    Clocks Event "
             "Reasons\n        Idle                              : Not Active\n        HW Slowdown                       "
             ": Active\n            HW Thermal Slowdown           : Active\n            HW Power Brake Slowdown       : "
             "Not Active\n")
    return {"nodes": [job.node(4)]}


@scenario("F114", "slow", side_only=True)
def numa(job):
    job.say(0, "warning: data wait 61 % of step time, H2D copy 4.2 GB/s")
    job.train(5)
    return {"ranks": [0]}


# --- Numbers, programs ------------------------------------------------------------------------------


@scenario("F078", "numerics")
def overflow(job):
    scale = 65536.0
    for _ in range(17):
        job.say(0, f"[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: {scale}, reducing to {scale / 2}")
        scale /= 2
        job.wait(1)
    for r in range(job.world):
        job.trace(r, "Exception: Current loss scale already at minimum - cannot decrease scale anymore. Exiting run.")
    return {}


@scenario("F079", "ddp_usage")
def unused(job):
    job.train(1)
    for r in range(job.world):
        job.trace(r, "RuntimeError: Expected to have finished reduction in the prior iteration before starting a new one. "
                     "This error indicates that your module has parameters that were not used in producing loss. You can "
                     "enable unused parameter detection by passing the keyword argument `find_unused_parameters=True`",
                  f"Parameter indices which did not receive grad for rank {r}: 12 13 14")
    return {}


@scenario("F081", "checkpoint")
def disk_full(job):
    job.train(10)
    job.trace(0, "RuntimeError: [enforce fail at inline_container.cc:424] . PytorchStreamWriter failed writing file "
                 "data/12: file write failed")
    job.say(0, "OSError: [Errno 28] No space left on device: '/ckpt/step-10.pt'")
    return {"ranks": [0]}


@scenario("F082", "checkpoint")
def truncated(job):
    job.say(3, "loading checkpoint /ckpt/step-10.pt")
    job.trace(3, "RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory")
    return {"ranks": [3]}


@scenario("P01", "checkpoint")
def no_room_for_a_file(job):
    job.train(10)
    job.trace(0, "RuntimeError: File /ckpt/step-10.pt cannot be opened.")
    return {"ranks": [0]}


@scenario("F085", "resume_state")
def moments(job):
    job.train(12, loss=2.0)
    job.say(0, "resumed from checkpoint /ckpt/step-12.pt")
    job.train(12, loss=6.0, start=12)
    return {"ranks": [0]}


@scenario("F138", "resume_state")
def rng_ranks(job):
    job.say(0, "resuming from /ckpt/iter_1000")
    job.say(1, "warning: RNG states of rank 1 are identical to rank 0 after resume: not restored per rank")
    job.train(5)
    return {"ranks": [1]}


@scenario("F139", "resume_state")
def rng_lost(job):
    for r in range(job.world):
        job.say(r, f"Didn't find an RNG file for process {r}, if you are resuming a training that wasn't launched in a "
                   "distributed fashion, reproducibility is not guaranteed.")
    job.train(5)
    return {}


@scenario("F140", "resume_state")
def uneven_cache(job):
    job.train(12, loss=3.0)
    job.say(0, "loading checkpoint at step 12")
    job.train(12, loss=4.4, start=12)
    return {}


# --- Kubernetes -------------------------------------------------------------------------------------


def event(reason, obj, message, kind="Warning"):
    return ("LAST SEEN   TYPE      REASON             OBJECT               MESSAGE\n"
            f"14s         {kind}   {reason:<18} {obj:<20} {message}\n")


@scenario("F024", "k8s_pod_start")
def rate_limit(job):
    job.file("events.txt", event("Failed", "pod/train-worker-1", 'Failed to pull image "alpine:3.10": rpc error: code = '
             "Unknown desc = failed to pull and unpack image: toomanyrequests: You have reached your pull rate limit"))
    job.say(0, "waiting for workers")
    return {"files": ["alpine:3.10"]}


@scenario("F091", "k8s_pod_start")
def disk_pressure(job):
    job.train(5)
    job.file("describe.txt", "Name:             train-worker-1\nNamespace:        train\nNode:             gpu-node-2/10.1.0.2\n"
             "Status:           Failed\nReason:           Evicted\nMessage:          The node was low on resource: "
             "ephemeral-storage. Threshold quantity: 10Gi, available: 3Gi. Container pytorch was using 40Gi, request is 0.\n")
    return {"pods": ["train-worker-1"], "nodes": ["gpu-node-2"]}


@scenario("F087", "k8s_scheduling")
def gpu_zero(job):
    job.file("events.txt", event("FailedScheduling", "pod/train-worker-0", "0/3 nodes are available: 3 Insufficient "
             "nvidia.com/gpu. preemption: 0/3 nodes are available: 3 No preemption victims found for incoming pod."))
    job.file("node.txt", "Name:               gpu-node-1\nRoles:              <none>\nCapacity:\n  cpu:                64\n"
             "Allocatable:\n  cpu:                63\n  nvidia.com/gpu:     0\n")
    return {"nodes": ["gpu-node-1"]}


@scenario("F088", "k8s_scheduling")
def taint(job):
    job.file("events.txt", event("FailedScheduling", "pod/train-worker-0", "0/4 nodes are available: 1 Insufficient cpu, 3 "
             "node(s) had untolerated taint {nvidia.com/gpu: present}. preemption: 0/4 nodes are available."))
    return {}


# --- Launch -----------------------------------------------------------------------------------------


@scenario("F054", "launch_config")
def processes(job):
    job.trace(0, "RuntimeError: DDP expects same model across all ranks, but Rank 0 has 382 params, while rank 1 has "
                 "inconsistent 0 params.")
    return {"ranks": [0, 1]}


@scenario("F109", "launch_config")
def same_node_rank(job):
    for r in (job.per_node, job.per_node + 1):
        job.nccl_start(r)
    job.nccl(0, f"Bootstrap Root : rank 0 of {job.world} ranks has already checked in", level="WARN",
             where="bootstrap.cc:130")
    return {"ranks": [0]}


@scenario("F123", "launch_config")
def extra_tasks(job):
    job.say(0, f"WORLD_SIZE={job.world + 1}")
    job.wait(1800)
    job.trace(0, "torch.distributed.DistStoreError: Timed out after 1801 seconds waiting for clients. "
                 f"{job.world}/{job.world + 1} clients joined.")
    return {}  # the controller's fault


@scenario("F123-echo", "launch_config")
def extra_tasks_and_the_echo_of_the_store(job):
    """Who had come loses the store when its host gives up."""
    job.wait(601)
    job.trace(0, "torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. "
                 f"{job.world}/{job.world + 1} clients joined.")
    job.trace(1, "torch.distributed.DistNetworkError: Failed to recv, got 0 bytes. Connection was likely closed. "
                 "Did the remote server shutdown or crash?")
    return {}


@scenario("F124", "launch_config")
def no_master(job):
    for r in range(job.per_node):
        job.trace(r, "ValueError: Error initializing torch.distributed using env:// rendezvous: environment variable RANK "
                     "expected, but not set")
    return {}


# --- Fabric, programs' kernels, noise ----------------------------------------------------------------


@scenario("F102", "fabric_fault")
def flap(job):
    job.connect_all()
    job.train(10)
    for r in job.on_node(0):
        job.nccl(r, async_event(job, "port error"), level="WARN", where="transport/net_ib.cc:93")
    for r in job.on_node(1):
        job.nccl(r, completion(job, job.ip(0), 12, 129), level="WARN", where="transport/net_ib.cc:1295")
    job.wait(60)
    for r in range(job.world):
        job.timeout(r, 511)
    return {"nodes": [job.node(0)]}


@scenario("F103", "fabric_fault")
def agent_died(job):
    job.connect_all()
    job.train(10)
    gone = job.on_node(1)
    for r in job.on_node(0):
        job.nccl(r, completion(job, job.ip(gone[0]), 12, 129), level="WARN")
        for _ in range(3):
            job.nccl(r, completion(job, job.ip(gone[0]), 5, 249), level="WARN")
    return {"nodes": [job.node(gone[0])]}


@scenario("F147", "app_cuda_fault")
def device_assert(job):
    job.train(10)
    bad = 6
    for i in range(5):
        job.say(bad, "/pytorch/aten/src/ATen/native/cuda/IndexKernel.cu:92: operator(): block: [0,0,0], thread: "
                     f"[{i},0,0] Assertion `-sizes[i] <= index && index < sizes[i] && \"index out of bounds\"` failed.")
    job.trace(bad, "RuntimeError: CUDA error: device-side assert triggered")
    code = "710 " if number(job.nccl_version) >= (2, 19) else ""
    for r in range(job.world):
        job.nccl(r, f"Cuda failure {code}'device-side assert triggered'", level="WARN", where="transport/net.cc:1200")
    job.aftermath([r for r in range(job.world) if r != bad])
    return {"ranks": [bad]}


@scenario("F098", "noise_or_consequence")
def exabyte(job):
    job.train(5)
    job.wait(600)
    for r in range(job.world):
        job.timeout(r, 77, op="BROADCAST", numel=1)
    job.trace(1, "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate more than 1EB memory.")
    return {}


@scenario("F104", "noise_or_consequence", quiet=True)
def barrier_device(job):
    for r in range(job.per_node):
        job.c10d(r, f"using GPU {r} to perform barrier as devices used by this process are currently unknown. This can "
                    "potentially cause a hang if this rank to GPU mapping is incorrect.", level="W")
    job.train(5)
    return {}
