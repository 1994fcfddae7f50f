"""One long-lived program of the control plane: started, waited for, stopped, its log shown."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path

STOP_LIMIT_S = 15
LOG_TAIL_BYTES = 4000
POLL_S = 0.05


class Died(Exception):
    """A program ended that should not have, or never got ready; shows the end of its log."""


class Component:
    def __init__(self, name: str, command: list[str], log: Path):
        self.name, self.log = name, log
        with open(log, "ab") as out:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def tail(self) -> str:
        return self.log.read_bytes()[-LOG_TAIL_BYTES:].decode(errors="replace")

    def check(self) -> None:
        if self.process.poll() is not None:
            raise Died(f"{self.name} ended with {self.process.returncode}; its log:\n{self.tail()}")

    def wait_ready(self, probe, limit_s: float = 180) -> None:
        """Until `probe()` is true; an OSError of the probe means not yet."""
        deadline = time.monotonic() + limit_s
        while time.monotonic() < deadline:
            self.check()
            try:
                if probe():
                    return
            except OSError:
                pass
            time.sleep(POLL_S)
        raise Died(f"{self.name} was not ready within {limit_s} s; its log:\n{self.tail()}")

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(STOP_LIMIT_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self.process.wait()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
