"""`Optimizer`: the parameters in their groups, the state kept for each, hooks, and `state_dict`."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable, Iterable
from copy import deepcopy
from typing import Any

import numpy as np

from fusegrad.eager.autograd.node import reach
from fusegrad.eager.core.dtypes import default_float
from fusegrad.eager.core.errors import failure, warn
from fusegrad.eager.core.op import wrap
from fusegrad.eager.core.public import locate
from fusegrad.eager.core.state import enable_grad, no_grad, state
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.nn.module import RemovableHandle, clear_gradient
from fusegrad.eager.ops.pointwise import elementwise

__all__ = [
    "Optimizer",
    "ParameterGroup",
    "register_optimizer_step_post_hook",
    "register_optimizer_step_pre_hook",
]


class ParameterGroup(dict[str, Any]):
    """Parameters with their options; a dict that can be referred to weakly."""


_HOOKS = (
    "_step_pre_hooks",
    "_step_post_hooks",
    "_state_dict_pre_hooks",
    "_state_dict_post_hooks",
    "_load_state_dict_pre_hooks",
    "_load_state_dict_post_hooks",
)


class EveryStep:
    """The hooks of all optimizers' steps. ids: the keys of all of them, so that one look tells of none."""

    def __init__(self) -> None:
        self.ids: dict[int, bool] = {}
        self.before: dict[int, Callable[..., Any]] = {}
        self.after: dict[int, Callable[..., Any]] = {}


EVERY_STEP = EveryStep()


def has_step_hooks(optimizer: Any) -> bool:
    """Whether functions of users' are called before or after its steps."""
    own = optimizer.__dict__  # a wrapper of another optimizer may have skipped `Optimizer.__init__`
    return bool(EVERY_STEP.ids or own.get("_step_pre_hooks") or own.get("_step_post_hooks"))


def _hooked(step: Callable[..., Any]) -> Callable[..., Any]:
    """A class's `step`, with the hooks around it; schedules ask whether it was called."""

    @functools.wraps(step)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        self = args[0]  # hooks get it, too, as the first of the arguments
        own = self.__dict__
        own["_opt_called"] = True
        if not has_step_hooks(self):
            return step(*args, **kwargs)
        if state.interpreter is not None:
            state.interpreter.effect("calls hooks of an optimizer")
        for hook in (*EVERY_STEP.before.values(), *own.get("_step_pre_hooks", {}).values()):
            replaced = hook(self, args, kwargs)
            if replaced is not None:
                if not isinstance(replaced, tuple) or len(replaced) != 2:
                    raise failure(
                        RuntimeError,
                        "a step pre-hook must return None or a tuple of (new_args, new_kwargs), got "
                        f"{replaced}",
                    )
                args, kwargs = replaced
        result = step(*args, **kwargs)
        for hook in (*own.get("_step_post_hooks", {}).values(), *EVERY_STEP.after.values()):
            hook(self, args, kwargs)
        return result

    return wrapper


def register_optimizer_step_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(optimizer, args, kwargs)` before each step of any optimizer; it may give new ones.

    Source: `torch.optim.optimizer.register_optimizer_step_pre_hook`.
    """
    return RemovableHandle(EVERY_STEP.before, hook, options=(EVERY_STEP.ids,))


def register_optimizer_step_post_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(optimizer, args, kwargs)` after each step of any optimizer, behind the optimizer's own.

    Source: `torch.optim.optimizer.register_optimizer_step_post_hook`.

    >>> import fusegrad as fg
    >>> names = []
    >>> from fusegrad.optim.optimizer import register_optimizer_step_post_hook
    >>> with register_optimizer_step_post_hook(lambda optimizer, *_: names.append(type(optimizer).__name__)):
    ...     fg.optim.SGD([fg.zeros(1, requires_grad=True)]).step()
    >>> names
    ['SGD']
    """
    return RemovableHandle(EVERY_STEP.after, hook, options=(EVERY_STEP.ids,))


class Optimizer:
    """What all optimizers share. Subclasses define `step`. Source: `torch.optim.Optimizer`.

    param_groups: the parameters and their options; state: what is kept for each parameter.
    """

    state: defaultdict[Tensor, dict[str, Any]]
    param_groups: list[ParameterGroup]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "step" in cls.__dict__:
            cls.step = _hooked(cls.step)  # type: ignore[method-assign]

    def __init__(self, params: Iterable[Any], defaults: dict[str, Any]) -> None:
        self.defaults = defaults
        self.state = defaultdict(dict)
        self.param_groups = []
        self._without_hooks()
        if isinstance(params, Tensor):
            raise failure(
                TypeError,
                "params argument given to the optimizer should be an iterable of Tensors or dicts, but got "
                "a Tensor; put it into a list",
            )
        groups = list(params)
        if not groups:
            raise failure(ValueError, "optimizer got an empty parameter list")
        for group in groups if isinstance(groups[0], dict) else [{"params": groups}]:
            self.add_param_group(group)

    def _without_hooks(self) -> None:
        for place in _HOOKS:
            self.__dict__[place] = {}

    def __getstate__(self) -> dict[str, Any]:
        # Copies and pickles start without hooks, as in PyTorch, and without what `step` caches.
        skipped = (*_HOOKS, "_plans", "_opt_called", "_own_step")
        return {key: value for key, value in self.__dict__.items() if key not in skipped}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if (groups := state.get("param_groups")) is not None:  # files have dicts, as PyTorch's optimizers do
            groups[:] = [g if isinstance(g, ParameterGroup) else ParameterGroup(g) for g in groups]
        for place in _HOOKS:
            self.__dict__.setdefault(place, {})

    def __repr__(self) -> str:
        text = f"{type(self).__name__} ("
        for i, group in enumerate(self.param_groups):
            text += f"\nParameter Group {i}\n"
            text += "".join(f"    {k}: {group[k]}\n" for k in sorted(group) if k != "params")
        return text + ")"

    # Groups.

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters (with options of their own), for instance of a layer that a network grew.

        Raises TypeError for what is no tensor, ValueError for a tensor that is no leaf or that another
        group has.
        """
        if not isinstance(param_group, dict):
            raise failure(TypeError, f"param_group must be a dict, but got {type(param_group)}")
        params = param_group["params"]
        if isinstance(params, set):
            raise failure(
                TypeError,
                "optimizer parameters need to be organized in ordered collections, but the ordering of "
                "tensors in sets will change between runs. Please use a list instead.",
            )
        given = [params] if isinstance(params, Tensor) else list(params)
        names = [entry[0] for entry in given if isinstance(entry, tuple)]
        tensors = [entry[1] if isinstance(entry, tuple) else entry for entry in given]
        if names and len(names) != len(given):
            raise failure(
                ValueError, "all optimizer params should be with/without names. Some param names are missing"
            )
        self._check_parameters(tensors, bool(names), bool(self.defaults.get("differentiable")))
        group = ParameterGroup({**self.defaults, **param_group, "params": tensors})
        if names:
            group["param_names"] = names
        self.param_groups.append(group)

    def _check_parameters(self, tensors: list[Any], named: bool, differentiable: bool) -> None:
        for tensor in tensors:
            if not isinstance(tensor, Tensor):
                raise failure(
                    TypeError,
                    f"optimizer can only optimize Tensors, but one of the params is {type(tensor).__name__}",
                )
            if tensor.grad_fn is not None and not differentiable and not tensor.retains_grad:
                raise failure(ValueError, "can't optimize a non-leaf Tensor")
        if len(tensors) != len({id(t) for t in tensors}):
            warn(
                "optimizer contains a parameter group with duplicate parameters; in future, this will "
                "cause an error"
            )
        known = {id(t) for group in self.param_groups for t in group["params"]}
        for group in self.param_groups:
            if ("param_names" in group) != named:
                raise failure(
                    ValueError,
                    "all optimizer param groups should be with/without names. cannot add param group "
                    f"{'with' if named else 'without'} names to the optimizer",
                )
        if any(id(t) in known for t in tensors):
            raise failure(ValueError, "some parameters appear in more than one parameter group")

    # Steps.

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the gradients of all parameters (or set them to 0)."""
        if state.interpreter is not None:
            state.interpreter.sees_parameters(self)
        for group in self.param_groups:
            for parameter in group["params"]:
                clear_gradient(parameter, set_to_none)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update all parameters that have a gradient; gives what `closure` gives."""
        raise NotImplementedError

    def _evaluated(self, closure: Callable[[], Any] | None) -> Any:
        """What `closure` gives, run with gradients."""
        if closure is None:
            return None
        with enable_grad():
            return closure()

    def _taken_over(self) -> bool:
        """Whether an interpreter takes the step that is to be taken."""
        return state.interpreter is not None and state.interpreter.takes_step(self)

    # Hooks.

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(optimizer, args, kwargs)` before each step; it may give new `(args, kwargs)`."""
        return self._add_hook("_step_pre_hooks", hook)

    def register_step_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(optimizer, args, kwargs)` after each step."""
        return self._add_hook("_step_post_hooks", hook)

    def register_state_dict_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(optimizer)` before `state_dict`."""
        return self._add_hook("_state_dict_pre_hooks", hook, prepend)

    def register_state_dict_post_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(optimizer, state_dict)` after `state_dict`; what it gives replaces the result."""
        return self._add_hook("_state_dict_post_hooks", hook, prepend)

    def register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(optimizer, state_dict)` before `load_state_dict`; what it gives is loaded instead."""
        return self._add_hook("_load_state_dict_pre_hooks", hook, prepend)

    def register_load_state_dict_post_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(optimizer)` after `load_state_dict`."""
        return self._add_hook("_load_state_dict_post_hooks", hook, prepend)

    def _add_hook(self, place: str, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        return RemovableHandle(self.__dict__[place], hook, prepend)

    # State.

    def state_dict(self) -> dict[str, Any]:
        """State by parameter number, and the groups with numbers for parameters. Tensors are not copied."""
        for hook in tuple(self.__dict__["_state_dict_pre_hooks"].values()):
            hook(self)
        numbers: dict[int, int] = {}
        groups = []
        for group in self.param_groups:
            for parameter in group["params"]:
                numbers.setdefault(id(parameter), len(numbers))
            options = {k: v for k, v in group.items() if k != "params"}
            groups.append({**options, "params": [numbers[id(p)] for p in group["params"]]})
        # State of parameters that were taken out of the groups has no number.
        # What a program, or a hook, keeps under other keys is written as it is.
        state: dict[Any, Any] = {
            numbers[id(p)] if isinstance(p, Tensor) else p: kept
            for p, kept in self.state.items()
            if id(p) in numbers or not isinstance(p, Tensor)
        }
        result = {"state": state, "param_groups": groups}
        for hook in tuple(self.__dict__["_state_dict_post_hooks"].values()):
            replaced = hook(self, result)
            result = result if replaced is None else replaced
        return result

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over state (copied) and options.

        Raises ValueError when the groups differ in number or size, and changes nothing then.
        """
        state_dict = dict(state_dict)
        for hook in tuple(self.__dict__["_load_state_dict_pre_hooks"].values()):
            replaced = hook(self, state_dict)
            state_dict = state_dict if replaced is None else replaced
        loaded = deepcopy(state_dict["param_groups"])
        if len(loaded) != len(self.param_groups):
            raise failure(ValueError, "loaded state dict has a different number of parameter groups")
        by_number: dict[Any, Tensor] = {}
        for group, other in zip(self.param_groups, loaded, strict=True):
            if len(other["params"]) != len(group["params"]):
                raise failure(
                    ValueError,
                    "loaded state dict contains a parameter group that doesn't match the size of "
                    f"optimizer's group ({len(other['params'])} parameters, here {len(group['params'])})",
                )
            by_number |= dict(zip(other["params"], group["params"], strict=True))
        kept: dict[Any, Any] = {}
        for number, entries in state_dict["state"].items():
            parameter = by_number.get(number)
            if parameter is None:
                kept[number] = deepcopy(entries)
            else:
                kept[parameter] = {k: _taken_over(v, parameter, k) for k, v in entries.items()}
        groups = []
        for group, other in zip(self.param_groups, loaded, strict=True):
            names = {"param_names": group["param_names"]} if "param_names" in group else {}
            # What an older or smaller state dict does not know keeps the value it has here.
            groups.append(ParameterGroup({**group, **names, **other, "params": group["params"]}))
        self.state = defaultdict(dict, kept)
        self.param_groups = groups
        for hook in tuple(self.__dict__["_load_state_dict_post_hooks"].values()):
            hook(self)


def _taken_over(value: Any, parameter: Tensor, key: str) -> Any:
    """A copy of a loaded value, in the parameter's dtype; step counts become tensors of their own dtype."""
    if key == "step" and isinstance(value, (int, float)):
        return scalar(value)
    if isinstance(value, Tensor):
        if key != "step" and parameter.is_floating_point():
            return wrap(value.array.astype(parameter.array.dtype))
        return wrap(np.array(value.array))
    if isinstance(value, dict):
        return {k: _taken_over(v, parameter, k) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_taken_over(v, parameter, key) for v in value)
    return value


class SteppedByOps(Optimizer):
    """Steps one parameter after the other by ops: of a matrix no element steps for itself."""

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update all parameters that have a gradient; gives what `closure` gives."""
        loss = self._evaluated(closure)
        if self._taken_over():
            return loss
        with no_grad():
            for group in self.param_groups:
                for parameter in group["params"]:
                    if parameter.gradient is not None:
                        self._update(parameter, parameter.gradient, group)
        return loss

    def _update(self, parameter: Tensor, gradient: Tensor, group: ParameterGroup) -> None:
        """Step one parameter."""
        raise NotImplementedError


def scalar(value: float) -> Tensor:
    """A number of an optimizer's state, as PyTorch keeps it: 0-d, of the default float."""
    return wrap(np.array(value, default_float().numpy))


def as_number(value: Any) -> Any:
    """An option that may be given as a tensor or by NumPy (a learning rate, say) as a Python number."""
    if isinstance(value, np.floating):
        return float(value)  # NumPy computes with its own in their precision, not in the array's
    if not isinstance(value, Tensor):
        return value
    reach(value)
    return value.array.item()


def check_one_element(lr: Any) -> None:
    """Raise ValueError for a learning rate that is several."""
    if isinstance(lr, Tensor) and lr.array.size != 1:
        raise failure(ValueError, "Tensor lr must be 1-element")


def check_options(lr: Any, betas: tuple[Any, Any] | None = None, **limits: Any) -> None:
    """Raise ValueError for an option that is negative, or betas outside 0..1, in PyTorch's words."""
    check_one_element(lr)
    if not as_number(lr) >= 0.0:
        raise failure(ValueError, f"Invalid learning rate: {lr}")
    for name, value in limits.items():
        if not as_number(value) >= 0.0:
            raise failure(ValueError, f"Invalid {name} value: {value}")
    for i, beta in enumerate(betas or ()):
        if not 0.0 <= as_number(beta) < 1.0:
            raise failure(ValueError, f"Invalid beta parameter at index {i}: {beta}")


def copied(value: Any) -> Any:
    """An option as a value of its own: a tensor would change under the one who keeps it."""
    return elementwise.clone(value) if isinstance(value, Tensor) else value


locate("fusegrad.optim.optimizer", globals(), __all__)
