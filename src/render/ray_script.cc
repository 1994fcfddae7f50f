#include "render/ray_script.h"

namespace shanty {

const std::string_view kRayScript =
    R"PYTHON("""Runs one node of a shanty job on each worker pod of a Ray cluster.

usage: ray_nodes.py NODES ROUNDS -- COMMAND...
COMMAND learns its node by SHANTY_NODE_RANK and SHANTY_MASTER_ADDR. The highest exit code of the
nodes is this script's. When a pod dies, all nodes start anew, since the address of node 0 may be another then;
at most ROUNDS times.
"""
import ctypes
import os
import signal
import subprocess
import sys

import ray

PR_SET_PDEATHSIG = 1


def end_with_actor():
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def pod_output():
    """The pod's own log: Ray would keep what its workers' children print in files of its own."""
    try:
        return open("/proc/1/fd/1", "wb", buffering=0)
    except OSError:
        return None


# Each worker pod has one shanty_node (see rayStartParams), so each gets one actor.
@ray.remote(num_cpus=0, resources={"shanty_node": 1})
class Node:
    def address(self):
        return ray.util.get_node_ip_address()

    def run(self, command, rank, master):
        # Ray hides the GPUs from actors that ask for none; the pod's GPUs are all this node's.
        env = {k: v for k, v in os.environ.items() if k != "CUDA_VISIBLE_DEVICES"}
        env.update(SHANTY_NODE_RANK=str(rank), SHANTY_MASTER_ADDR=master)
        output = pod_output()
        code = subprocess.call(command, env=env, stdout=output, stderr=output,
                               preexec_fn=end_with_actor)
        return code if code >= 0 else 128 - code  # as a shell says which signal it was


def run_once(nodes, command):
    actors = [Node.remote() for _ in range(nodes)]
    try:
        addresses = ray.get([actor.address.remote() for actor in actors])
        print("shanty: nodes at", *addresses, flush=True)
        runs = [actor.run.remote(command, i, addresses[0]) for i, actor in enumerate(actors)]
        return max(ray.get(runs))
    finally:
        for actor in actors:
            ray.kill(actor)


def main():
    nodes, rounds = int(sys.argv[1]), int(sys.argv[2])
    command = sys.argv[sys.argv.index("--") + 1:]
    ray.init()
    for left in range(rounds, -1, -1):
        try:
            code = run_once(nodes, command)
        except ray.exceptions.RayActorError as error:
            print("shanty: a node died:", error, flush=True)
            continue
        if code < 128:  # 1 to 127: the job itself has failed
            return code
    return 1


if __name__ == "__main__":
    sys.exit(main())
)PYTHON";

}  // namespace shanty
