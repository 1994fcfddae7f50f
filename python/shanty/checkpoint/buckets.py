"""The buckets in which DistributedDataParallel sums gradients.

It lays them out when it is made, and anew after its first backward, in the order in which the
gradients came. With more than two ranks the layout decides the order of the sums, so a run that goes
on is the same to the last bit only with the layout of the run before. It is saved as that order, and
made anew by a backward of zeros in the same order.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

LEAST_RANKS = 3  # one sum of two has one order
# Before this torch has it, and where it has something else by this name, nothing is saved.
_LAYOUT = "rebuilt_per_bucket_param_indices"


def replicas_in(modules: list[tuple[str, nn.Module]]) -> list[tuple[str, nn.Module]]:
    """The DistributedDataParallel modules in `modules`, (prefix, module), with their names."""
    return [
        (prefix + name, part)
        for prefix, module in modules
        for name, part in module.named_modules()
        if any(base.__name__ == "DistributedDataParallel" for base in type(part).__mro__)
    ]


class Buckets:
    """Of those among `replicas`, (name, DistributedDataParallel), of which the layout is known and
    can be had again."""

    def __init__(self) -> None:
        # By module: "4 3 2 1 0", indices in the reducer's own list of parameters.
        self._orders: WeakKeyDictionary[nn.Module, str] = WeakKeyDictionary()

    def saved(self, replicas: list[tuple[str, nn.Module]]) -> dict[str, str]:
        found = {}
        for key, module in replicas:
            order = self._orders.get(module) or _order_of(module)
            if order:
                found[key] = self._orders[module] = order
        return found

    def laid_out_anew(
        self, replicas: list[tuple[str, nn.Module]], saved: dict[str, str]
    ) -> list[str]:
        """Those that `restore` would change; the same on all ranks that have the same modules."""
        return [key for key, module in replicas if _fits(module, saved.get(key, ""))]

    def restore(
        self, replicas: list[tuple[str, nn.Module]], saved: dict[str, str], keys: list[str]
    ) -> None:
        """Collective. Gradients must be None, and are again."""
        for key, module in replicas:
            if key in keys:
                _lay_out(module, saved[key])
                self._orders[module] = saved[key]


def _order_of(module: Any) -> str:
    """An empty text as long as torch has not laid them out anew, or does not say so."""
    try:
        layout = module._get_ddp_logging_data().get(_LAYOUT) or ""
    except (AttributeError, AssertionError, RuntimeError):
        return ""
    return " ".join(layout.replace(",", " ").split())


def _fits(module: Any, order: str) -> bool:
    """Whether a backward of zeros would do nothing else: no hook of the script sees it, and torch
    has still to lay out its buckets by it."""
    try:
        parameters, sparse = module._build_params_for_reducer()
        special = (
            module.find_unused_parameters
            or module.static_graph
            or module._use_python_reducer
            or module.mixed_precision is not None
            or module._delay_all_reduce_params
            or module._comm_hooks
            or module.process_group.size() < LEAST_RANKS
        )
    except AttributeError:  # another version of torch
        return False
    if special or any(sparse) or not all(map(_is_quiet, parameters)):
        return False
    indices = order.split()
    whole = sorted(indices, key=lambda text: (len(text), text))
    return bool(order) and whole == [str(i) for i in range(len(parameters))]


def _is_quiet(parameter: Tensor) -> bool:
    hooked = parameter._backward_hooks or getattr(parameter, "_post_accumulate_grad_hooks", None)
    return parameter.grad is None and not hooked and not hasattr(parameter, "_in_backward_optimizers")


def _lay_out(module: Any, order: str) -> None:
    reducer = module.reducer
    # After a backward of the script's own before the load it is that one's order.
    if reducer._rebuild_buckets():
        return
    parameters, _ = module._build_params_for_reducer()
    with torch.enable_grad():
        reducer.prepare_for_backward([])
        for index in order.split():
            parameter = parameters[int(index)]
            torch.autograd.backward(parameter, torch.zeros_like(parameter))
    for parameter in parameters:
        parameter.grad = None
    reducer._rebuild_buckets()
