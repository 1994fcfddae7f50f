"""Ports for the programs that tests start, apart from those of other tests at the same time."""

import random
import socket

# Below those that the kernel gives to whoever asks for any: none of these is taken by chance between
# the moment when a test chooses one and the moment when its program binds it.
PORTS = range(20000, 30000, 2)
reserved = []  # until this process ends


def reserve(port: int) -> bool:
    """Against other processes of tests: an abstract name is bound by one process only."""
    name = socket.socket(socket.AF_UNIX)
    try:
        name.bind(f"\0shanty-test-port-{port}")
    except OSError:
        name.close()
        return False
    reserved.append(name)
    return True


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True


def free_port() -> int:
    """It and the next one, which the coordinator takes, are free and are given to nobody else."""
    while True:
        port = random.choice(PORTS)
        if reserve(port) and is_free(port) and is_free(port + 1):
            return port
