"""What the checkpoints of other tools hold, brought into the shape of ours."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Iterator

from torch import Tensor, nn

from shanty.checkpoint.attached import Attached
from shanty.checkpoint.codec import encode
from shanty.checkpoint.entries import DIVIDE, Collected, Entry
from shanty.checkpoint.errors import CheckpointError
from shanty.checkpoint.world import World

# Under these keys a checkpoint that has more than a model keeps it, and the rest.
MODEL_KEYS = ("model", "model_state_dict", "state_dict", "module")
OPTIMIZER_KEYS = ("optimizer", "optimizer_state_dict", "optim", "optimizer_states")
SCHEDULER_KEYS = ("scheduler", "scheduler_state_dict", "lr_scheduler", "lr_schedulers")
SCALER_KEYS = ("scaler", "scaler_state_dict", "grad_scaler")
STEP_KEYS = ("step", "global_step", "iteration", "iter")
MAX_EXTRA_BYTES = 1 << 20  # of the tensors in one value
_WRAPPERS = ("module.", "_orig_mod.")
_BUFFERS = ("running_mean", "running_var", "num_batches_tracked")
# State that has the shape of its parameter.
_ALIKE = {"exp_avg", "exp_avg_sq", "max_exp_avg_sq", "momentum_buffer", "square_avg", "sum"}


@dataclass
class Content:
    model: dict[str, Tensor] = field(default_factory=dict)
    optimizer: dict[str, Any] | None = None
    scheduler: dict[str, Any] | None = None
    scaler: dict[str, Any] | None = None
    step: int | None = None
    epoch: int | None = None
    extra: dict[str, Any] = field(default_factory=dict)


def sort_out(loaded: Any) -> Content:
    """`loaded` is what torch.load gave: a model's state alone, or a dict that has it and more."""
    rest = dict(loaded) if isinstance(loaded, dict) else {}
    model = _take(rest, MODEL_KEYS, dict)
    if model is None:
        return Content(_unwrapped(dict(_flatten(loaded, ""))))
    return Content(
        model=_unwrapped(dict(_flatten(model, ""))),
        optimizer=_one(_take(rest, OPTIMIZER_KEYS, (dict, list))),
        scheduler=_one(_take(rest, SCHEDULER_KEYS, (dict, list))),
        scaler=_take(rest, SCALER_KEYS, dict),
        step=_take(rest, STEP_KEYS, int),
        epoch=_take(rest, ("epoch",), int),
        extra=rest,
    )


def _take(content: dict[str, Any], keys: tuple[str, ...], kind: Any) -> Any:
    for key in keys:
        if isinstance(content.get(key), kind):
            return content.pop(key)
    return None


def _one(value: Any) -> dict[str, Any] | None:
    """Some keep a list, of one as a rule."""
    if not isinstance(value, list):
        return value
    if len(value) > 1:
        raise CheckpointError("cannot import: there are several optimizers or schedulers in it")
    return value[0] if value else None


def _flatten(value: Any, name: str) -> Iterator[tuple[str, Tensor]]:
    if isinstance(value, Tensor):
        yield name or "tensor", value.detach()
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _flatten(inner, f"{name}.{key}" if name else str(key))
    elif isinstance(value, (list, tuple)):
        for i, inner in enumerate(value):
            yield from _flatten(inner, f"{name}.{i}" if name else str(i))


def _unwrapped(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Under the names that the plain model gives them."""
    for wrapper in _WRAPPERS:
        if tensors and all(name.startswith(wrapper) for name in tensors):
            tensors = {name[len(wrapper) :]: tensor for name, tensor in tensors.items()}
    return tensors


class Optimizer:
    """An optimizer's state_dict whose parameters have names."""

    def __init__(self, state_dict: dict[str, Any], model: dict[str, Tensor]) -> None:
        groups = state_dict.get("param_groups")
        state = state_dict.get("state")
        if not isinstance(groups, list) or not isinstance(state, dict):
            raise CheckpointError("cannot import the optimizer: it has no state and param_groups")
        self._groups = groups
        # Some tools make text of the numbers.
        self._state = {str(key): value for key, value in state.items()}
        names = _names(groups, self._state, model)
        self._names = {key: _unwrapped_name(name, model) for key, name in names.items()}
        for key, name in self._names.items():
            _check(name, self._state.get(key, {}), model)

    def entries(self) -> list[Entry]:
        return [
            Entry(f"optim.{key}.{self._names[parameter]}", "optim", value.detach(), DIVIDE)
            for parameter, values in self._state.items()
            for key, value in values.items()
            if isinstance(value, Tensor)
        ]

    def json(self, allow_pickle: bool) -> dict[str, Any]:
        groups = []
        for group in self._groups:
            options = {k: v for k, v in group.items() if k not in ("params", "param_names")}
            encoded = encode(options, "options of the optimizer", allow_pickle)
            groups.append({"options": encoded, "params": len(group["params"])})
        state = {}
        for parameter, values in self._state.items():
            rest = {k: v for k, v in values.items() if not isinstance(v, Tensor)}
            if rest:
                where = f"the optimizer's state of {self._names[parameter]}"
                state[self._names[parameter]] = encode(rest, where, allow_pickle)
        return {"groups": groups, "state": state}


def _names(
    groups: list[dict[str, Any]], state: dict[str, Any], model: dict[str, Tensor]
) -> dict[str, str]:
    """The parameter behind each key of `state`, which torch numbers through all groups."""
    keys = [str(key) for group in groups for key in group["params"]]
    given = [name for group in groups for name in group.get("param_names", ())]
    if len(given) == len(keys):
        return dict(zip(keys, given))
    if all(isinstance(key, str) and not key.isdigit() for g in groups for key in g["params"]):
        return {key: key for key in keys}
    parameters = _parameters(model)
    if len(groups) == 1 and len(parameters) == len(keys):
        return dict(zip(keys, parameters))
    return _by_shape(groups, state, parameters)


def _parameters(model: dict[str, Tensor]) -> dict[str, Tensor]:
    """As parameters() gives them: no buffers, tied ones once."""
    found: dict[str, Tensor] = {}
    seen = set()
    for name, tensor in model.items():
        place = (tensor.data_ptr(), tuple(tensor.shape)) if tensor.numel() else name
        if place not in seen and name.rpartition(".")[2] not in _BUFFERS:
            found[name] = tensor
        seen.add(place)
    return found


def _by_shape(
    groups: list[dict[str, Any]], state: dict[str, Any], parameters: dict[str, Tensor]
) -> dict[str, str]:
    """Where all parameters of a shape belong to one group, they stand there in their order."""
    wanted: dict[tuple[int, ...], list[tuple[int, str]]] = {}
    for i, group in enumerate(groups):
        for key in group["params"]:
            shapes = [v.shape for k, v in state.get(str(key), {}).items() if k in _ALIKE]
            wanted.setdefault(tuple(shapes[0]) if shapes else (-1,), []).append((i, str(key)))
    found = {}
    for shape, keys in wanted.items():
        names = [name for name, tensor in parameters.items() if tuple(tensor.shape) == shape]
        if len(names) != len(keys) or len({group for group, _ in keys}) > 1:
            raise CheckpointError(
                "cannot import the optimizer: its state does not tell which parameter is which. "
                "Save it from an optimizer made of model.named_parameters() (torch 2.6 and later), "
                "or with torch.distributed.checkpoint.state_dict.get_optimizer_state_dict"
            )
        found.update({key: name for (_, key), name in zip(keys, names)})
    return found


def _unwrapped_name(name: str, model: dict[str, Tensor]) -> str:
    for wrapper in _WRAPPERS:
        if name not in model and name.startswith(wrapper):
            name = name[len(wrapper) :]
    return name


def _check(name: str, state: dict[str, Any], model: dict[str, Tensor]) -> None:
    if name not in model:
        raise CheckpointError(f"cannot import the optimizer: the model has no parameter {name}")
    for key in _ALIKE & state.keys():
        value = state[key]
        if isinstance(value, Tensor) and value.shape != model[name].shape:
            raise CheckpointError(
                f"cannot import the optimizer: {key} of {name} is shaped {tuple(value.shape)}, the "
                f"parameter {tuple(model[name].shape)}"
            )


class Foreign(Attached):
    """Attached in place of a run's own objects, to be saved once."""

    def __init__(self, content: Content, module: nn.Module, allow_pickle: bool) -> None:
        super().__init__(allow_pickle)
        self.add(module, None, None, None, None, None, False, None)
        self._allow = allow_pickle
        self._content = content
        self._optimizer = Optimizer(content.optimizer, content.model) if content.optimizer else None
        self.dropped: list[str] = []

    def tensors(self) -> tuple[list[Entry], Collected]:
        entries, models = super().tensors()
        return entries + (self._optimizer.entries() if self._optimizer else []), models

    def shared(self, step: int, models: Collected, world: World) -> dict[str, Any]:
        state = super().shared(step, models, world)
        content = self._content
        state["epoch"] = content.epoch
        if self._optimizer is not None:
            state["optimizers"] = {"": self._optimizer.json(self._allow)}
        for kind, value in (("schedulers", content.scheduler), ("scalers", content.scaler)):
            if value is not None:
                state[kind] = {"": encode(value, f"the state of one of the {kind}", self._allow)}
        state["extra"] = encode(self._extra_that_fits(), "extra", self._allow)
        return state

    def _extra_that_fits(self) -> dict[str, Any]:
        fits = {}
        self.dropped = []
        for key, value in self._content.extra.items():
            try:
                size = sum(t.numel() * t.element_size() for _, t in _flatten(value, key))
                if size > MAX_EXTRA_BYTES:
                    raise CheckpointError(f"{key} has tensors of {size} bytes, too many for JSON")
                encode(value, key, self._allow)
            except CheckpointError:
                self.dropped.append(str(key))
            else:
                fits[key] = value
        return fits
