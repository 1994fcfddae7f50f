"""1,000 training scripts of 300 lines through `shanty lint`: how long, and how many megabytes."""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SCRIPTS = 1000
LINES = 300

HEAD = """import os
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

local_rank = int(os.environ["LOCAL_RANK"])
dist.init_process_group("nccl")
torch.cuda.set_device(local_rank)
"""

BODY = '''

class Block{n}(torch.nn.Module):
    def __init__(self, width, heads={n}, dropout=0.1):
        super().__init__()
        self.norm = torch.nn.LayerNorm(width)
        self.mix = torch.nn.MultiheadAttention(width, heads, dropout=dropout, batch_first=True)

    def forward(self, x):
        y = self.norm(x)
        return x + self.mix(y, y, y, need_weights=False)[0]


def step_{n}(model, batch, optimizer, scaler=None):
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = model(batch["input"].cuda(non_blocking=True)).mean()
    if scaler is not None and dist.get_rank() == 0:
        print(f"step {n}: {{loss.item():.4f}}")
    loss.backward()
    optimizer.step()
    return {{"loss": loss.detach(), "step": {n}}}
'''


def script(number: int) -> str:
    text, part = HEAD, 0
    while text.count("\n") < LINES:
        text += BODY.format(n=number % 7 + part)
        part += 1
    return text


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="shanty-lint-") as directory:
        size = 0
        for number in range(SCRIPTS):
            text = script(number)
            size += len(text)
            (Path(directory) / f"train_{number}.py").write_text(text)
        start = time.monotonic()
        done = subprocess.run([str(ROOT / "build/shanty"), "lint", directory],
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        wall_s = time.monotonic() - start
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode > 1:
        print(done.stderr, file=sys.stderr)
        return 1
    print(f"  lint {SCRIPTS} scripts of {LINES} lines, {size / 1e6:.1f} MB: {wall_s:.2f} s "
          f"({usage.ru_utime + usage.ru_stime:.2f} s of CPU, {usage.ru_maxrss / 1024:.0f} MiB)"
          "   to reach: about 1 s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
