"""How long `shanty lint` takes for a thousand manifests; the budget is one second.

    build/venv/bin/python bench/lint.py
"""

import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SHANTY = ROOT / "build/shanty"
FILES = 1000
ROUNDS = 5
BUDGET_S = 1.0


def write_manifests(directory: Path) -> int:
    """Good and spoilt ones in turn, so that findings are made and sorted too."""
    good = sorted((ROOT / "src/lint/testdata").glob("*.yaml"))
    texts = [path.read_text() for path in good]
    size = 0
    for i in range(FILES):
        text = texts[i % len(texts)]
        if i % 2:
            text = text.replace("/dev/shm", "/shm").replace("IPC_LOCK", "SYS_NICE")
        (directory / f"{i:04}.yaml").write_text(text)
        size += len(text)
    return size


def main() -> int:
    with tempfile.TemporaryDirectory() as name:
        size = write_manifests(Path(name))
        times = []
        for _ in range(ROUNDS):
            start = time.monotonic()
            result = subprocess.run([SHANTY, "lint", "--json", name], capture_output=True)
            times.append(time.monotonic() - start)
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = (used.ru_utime + used.ru_stime) / ROUNDS
        found = len(json.loads(result.stdout)["findings"])
    median = statistics.median(times)
    print(f"{FILES} manifests, {size / 1e6:.1f} MB, {found} findings: "
          f"{median:.3f} s (best {min(times):.3f} s, CPU {cpu:.3f} s), budget {BUDGET_S} s")
    return 0 if min(*times, cpu) <= BUDGET_S else 1


if __name__ == "__main__":
    sys.exit(main())
