"""The hooks, one module per area, and the table that says which are installed when.

To add one: a function `install(module, recorder)`, which may raise, and a row in the table.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType

from shanty.finder import ImportWatcher
from shanty.hooks.wrap import never_compile
from shanty.recorder import Recorder
from shanty.ring import Ring

VARIABLE = "SHANTY_HOOKS"


@dataclass(frozen=True)
class Hook:
    name: str
    bit: int
    # Module to wait for (nothing is imported early) -> function here that hooks it.
    targets: dict[str, str]
    default: bool = True


HOOKS = (
    Hook(
        "optimizer",
        1,
        {
            "torch.optim.optimizer": "optimizer.install",
            "torch._dynamo.eval_frame": "optimizer.install_behind_dynamo",
        },
    ),
    Hook("dataloader", 2, {"torch.utils.data.dataloader": "dataloader.install"}),
    Hook(
        "ddp",
        4,
        {
            "torch.nn.parallel.distributed": "forward.install_ddp",
            "torch._dynamo.eval_frame": "forward.install_compiled",
        },
    ),
    Hook(
        "backward",
        8,
        {
            "torch.autograd": "backward.install",
            "torch.amp.grad_scaler": "loss.install_grad_scaler",
        },
    ),
    Hook(
        "fsdp",
        16,
        {
            "torch.distributed.fsdp.fully_sharded_data_parallel": "forward.install_fsdp",
            "torch.distributed.fsdp._fully_shard._fsdp_state": "fsdp2.install",
            "torch.distributed._composable.fsdp._fsdp_state": "fsdp2.install",
        },
    ),
    Hook(
        "checkpoint",
        32,
        {
            "torch.serialization": "checkpoint.install",
            "torch.distributed.checkpoint.state_dict_saver": "checkpoint.install_sharded_save",
            "torch.distributed.checkpoint.state_dict_loader": "checkpoint.install_sharded_load",
        },
    ),
    Hook(
        "collectives",
        64,
        {"torch.distributed.distributed_c10d": "collectives.install"},
        default=False,
    ),
)


def install(torch: ModuleType, recorder: Recorder, watcher: ImportWatcher) -> None:
    """Called once, right after `import torch`. Never raises."""
    try:
        recorder.ring.set_torch_version(str(getattr(torch, "__version__", "unknown")))
        never_compile(Recorder, Ring)
        for hook in _chosen(recorder):
            for target, installer in hook.targets.items():
                _install_when_there(hook, target, installer, recorder, watcher)
        _report_missing(recorder)
    except Exception as error:
        recorder.fail(error)


def _chosen(recorder: Recorder) -> list[Hook]:
    names: set[str] = set()
    defaults = {hook.name for hook in HOOKS if hook.default}
    known = {hook.name for hook in HOOKS}
    groups = {"default": defaults, "all": known, "off": set(), "none": set()}
    for name in os.environ.get(VARIABLE, "default").lower().replace(" ", "").split(","):
        if name in known:
            names.add(name)
        elif name in groups:
            names |= groups[name]
        elif name:
            recorder.complain(VARIABLE, ValueError(f'no hook is called "{name}"'))
    return [hook for hook in HOOKS if hook.name in names]


def _install_when_there(
    hook: Hook, target: str, installer: str, recorder: Recorder, watcher: ImportWatcher
) -> None:
    def arrived(found: ModuleType) -> None:
        if not recorder.on:
            return
        try:
            module, function = installer.split(".")
            getattr(import_module(f"shanty.hooks.{module}"), function)(found, recorder)
            recorder.set_bits(recorder.bits | hook.bit)
        except Exception as error:
            recorder.complain(f"hook {hook.name} is off ({target})", error)

    watcher.watch(target, arrived)


def _report_missing(recorder: Recorder) -> None:
    """A torch without these is not the torch we know; the others are imported when needed."""
    known = ("torch.optim.optimizer", "torch.autograd", "torch.serialization")
    missing = [name for name in known if name not in sys.modules]
    if missing:
        recorder.complain("some step hooks wait", ImportError(f"torch lacks {', '.join(missing)}"))
