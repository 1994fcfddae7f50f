"""A small training script that goes wrong on purpose: real_fault.py FAULT DIRECTORY."""

import datetime
import os
import resource
import signal
import sys
import time

fault, directory = sys.argv[1], sys.argv[2]
rank = int(os.environ["RANK"])
TIMEOUT = datetime.timedelta(seconds=float(os.environ.get("FAULT_TIMEOUT_S", "12")))

if fault == "import" and rank == 1:
    import a_package_that_this_node_lacks  # noqa: F401

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch.utils.data import DataLoader, Dataset  # noqa: E402


def wait_for_the_others():
    """Importing torch takes one rank seconds longer than another on a busy machine, and whoever
    comes first would not wait for that. Only of those that were started, where not all are."""
    started = int(os.environ.get("FAULT_STARTED", "0"))
    if not started:
        return  # the launcher's limit is long
    here = os.path.join(directory, "imported")
    os.makedirs(here, exist_ok=True)
    open(os.path.join(here, str(rank)), "w").close()
    while len(os.listdir(here)) < started:
        time.sleep(0.05)


def join_small_cgroup(directory):
    """This process into the control group that the test made, with 96 MB beyond what it has."""
    with open(os.path.join(directory, "cgroup")) as file:
        procs, limit = file.read().split()
    with open(procs, "w") as file:
        file.write(str(os.getpid()))
    with open(limit, "w") as file:
        file.write(str(96 << 20))


class Images(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        return torch.zeros(3, 512, 512)


def train_step(size=4):
    dist.all_reduce(torch.ones(size))


wait_for_the_others()
dist.init_process_group("gloo", timeout=TIMEOUT)
for step in range(3):
    train_step()
    print(f"step {step} loss {2.0 - step / 10:.3f}", flush=True)

if fault == "raise" and rank == 1:
    raise ValueError("label 1207 is out of range for 1000 classes")
if fault == "shapes":
    train_step(4 if rank == 0 else 5)
if fault == "stopped" and rank == 1:
    os.kill(os.getpid(), signal.SIGSTOP)
if fault == "late" and rank == 1:
    print("running evaluation on 5000 samples", flush=True)
    time.sleep(2 * TIMEOUT.total_seconds())
if fault == "memory" and rank == 1:
    resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
    torch.zeros(1 << 34)
if fault == "killed" and rank == 1:
    os.kill(os.getpid(), signal.SIGKILL)
if fault == "cgroup" and rank == 1:
    join_small_cgroup(directory)
    held = [torch.ones(1 << 22) for _ in range(64)]
if fault == "skew-class":
    import recipe

    plan = [recipe.plan() if rank == 0 else None]
    dist.broadcast_object_list(plan)
if fault == "skew-model":
    import recipe

    torch.nn.parallel.DistributedDataParallel(recipe.model())
if fault == "shm":
    for batch in DataLoader(Images(), batch_size=8, num_workers=2):
        train_step()
if fault == "descriptors" and rank == 1:
    resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
    held = [open("/dev/null") for _ in range(100)]
if fault == "disk" and rank == 0:
    torch.save(torch.zeros(1 << 22), os.path.join(directory, "step-3.pt"))
if fault == "truncated":
    path = os.path.join(directory, f"step-{rank}.pt")
    torch.save(torch.zeros(1000), path)
    os.truncate(path, 1000)
    torch.load(path)
for step in range(3, 6):
    train_step()
    print(f"step {step} loss {2.0 - step / 10:.3f}", flush=True)
dist.barrier()
dist.destroy_process_group()
