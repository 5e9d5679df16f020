"""`Module` and `Parameter`: PyTorch's way to hold the state of a network."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Self

import numpy as np

from fusegrad.eager import dtypes
from fusegrad.eager.errors import failure
from fusegrad.eager.op import wrap
from fusegrad.eager.state import no_grad
from fusegrad.eager.tensor import Tensor

# Bumped by every write or deletion of an attribute of any module or optimizer, so that one
# comparison tells whether anything reachable through them can have changed.
_version = 0


def state_version() -> int:
    """A number that changes whenever an attribute of any module or optimizer is written or deleted."""
    return _version


def bump_state_version() -> None:
    """Note that the state of a module or an optimizer changed."""
    global _version
    _version += 1


class Parameter(Tensor):
    """A tensor that a module trains: assigned to an attribute, it is among its parameters.

    Shares the memory of `data`. Source: `torch.nn.Parameter`.
    """

    __slots__ = ()

    def __new__(cls, data: Any = None, requires_grad: bool = True) -> Parameter:
        array = np.zeros(0, dtypes.default_float().numpy) if data is None else data.array
        tensor = wrap(array)
        if isinstance(data, Tensor):
            tensor.version = data.version
        tensor.__class__ = cls
        tensor.requires_grad_(requires_grad)
        return tensor  # type: ignore[return-value]

    def __repr__(self) -> str:
        return "Parameter containing:\n" + super().__repr__()


class IncompatibleKeys(tuple[list[str], list[str]]):
    """What `load_state_dict` found missing and unexpected."""

    __slots__ = ()
    missing_keys = property(lambda self: self[0])
    unexpected_keys = property(lambda self: self[1])

    def __repr__(self) -> str:
        if not self[0] and not self[1]:
            return "<All keys matched successfully>"
        return f"_IncompatibleKeys(missing_keys={self[0]}, unexpected_keys={self[1]})"


class RemovableHandle:
    """Takes a hook away again: `handle.remove()`."""

    def __init__(self, hooks: dict[int, Any], key: int) -> None:
        self._hooks, self._key = hooks, key

    def remove(self) -> None:
        """Remove the hook."""
        self._hooks.pop(self._key, None)
        bump_state_version()


class Module:
    """A network, or a part of one. Subclasses define `forward`. Source: `torch.nn.Module`.

    Parameters, buffers and submodules that are assigned as attributes are kept in `_parameters`,
    `_buffers` and `_modules`, and so are found by `parameters()`, `state_dict()` and their kin.
    """

    training: bool
    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    _modules: dict[str, Module | None]
    _forward_hooks: dict[int, Any]
    _forward_pre_hooks: dict[int, Any]

    def __init__(self) -> None:
        state = self.__dict__
        state["training"] = True
        state["_parameters"] = {}
        state["_buffers"] = {}
        state["_modules"] = {}
        state["_non_persistent_buffers_set"] = set()
        state["_forward_hooks"] = {}
        state["_forward_pre_hooks"] = {}
        bump_state_version()

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module computes; defined by subclasses."""
        raise NotImplementedError(
            f'Module [{type(self).__name__}] is missing the required "forward" function'
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not self._forward_pre_hooks and not self._forward_hooks:
            return self.forward(*args, **kwargs)
        for hook in tuple(self._forward_pre_hooks.values()):
            replaced = hook(self, args)
            if replaced is not None:
                args = replaced if isinstance(replaced, tuple) else (replaced,)
        result = self.forward(*args, **kwargs)
        for hook in tuple(self._forward_hooks.values()):
            replaced = hook(self, args, result)
            result = result if replaced is None else replaced
        return result

    # Attributes.

    def __getattr__(self, name: str) -> Any:
        # Called only where the ordinary look-up finds nothing.
        for place in ("_parameters", "_buffers", "_modules"):
            held = self.__dict__.get(place)
            if held is not None and name in held:
                return held[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __setattr__(self, name: str, value: Any) -> None:
        bump_state_version()
        state = self.__dict__
        if isinstance(value, (Parameter, Module)):
            place = "_parameters" if isinstance(value, Parameter) else "_modules"
            if place not in state:
                raise AttributeError(f"cannot assign {place[1:-1]} before Module.__init__() call")
            for other in (state, state["_parameters"], state["_buffers"], state["_modules"]):
                if other is not state[place]:
                    other.pop(name, None)
            state[place][name] = value
            return
        for place in ("_parameters", "_modules", "_buffers"):
            held = state.get(place)
            if held is None or name not in held:
                continue
            if value is None or (place == "_buffers" and isinstance(value, Tensor)):
                held[name] = value
                return
            expected = {"_parameters": "torch.nn.Parameter", "_modules": "torch.nn.Module"}.get(
                place, "torch.Tensor"
            )
            raise TypeError(
                f"cannot assign '{type(value).__name__}' as {place[1:-1]} '{name}' "
                f"({expected} or None expected)"
            )
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        bump_state_version()
        for place in ("_parameters", "_buffers", "_modules"):
            if name in self.__dict__[place]:
                del self.__dict__[place][name]
                return
        object.__delattr__(self, name)

    def __dir__(self) -> list[str]:
        held = [*self._parameters, *self._buffers, *self._modules]
        return sorted({*super().__dir__(), *held})

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        bump_state_version()

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter (None keeps the name without one)."""
        self._check_name(name, "parameter")
        bump_state_version()
        self._parameters[name] = param

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a tensor that is state but no parameter; in `state_dict` if `persistent`."""
        self._check_name(name, "buffer")
        bump_state_version()
        self._buffers[name] = tensor
        if not persistent:
            self.__dict__["_non_persistent_buffers_set"].add(name)

    def add_module(self, name: str, module: Module | None) -> None:
        """Add a submodule under a name."""
        self._check_name(name, "module")
        bump_state_version()
        self._modules[name] = module

    register_module = add_module

    def _check_name(self, name: str, what: str) -> None:
        if "." in name or not name:
            raise KeyError(f'{what} name can\'t be empty or contain ".", got {name!r}')
        known = any(name in held for held in (self._parameters, self._buffers, self._modules))
        if hasattr(self, name) and not known:
            raise KeyError(f"attribute {name!r} already exists")

    def register_forward_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, args, result)` after each forward; what it gives replaces the result."""
        return self._add_hook("_forward_hooks", hook)

    def register_forward_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, args)` before each forward; what it gives replaces the arguments."""
        return self._add_hook("_forward_pre_hooks", hook)

    def _add_hook(self, place: str, hook: Callable[..., Any]) -> RemovableHandle:
        bump_state_version()
        hooks = self.__dict__[place]
        key = max(hooks, default=-1) + 1
        hooks[key] = hook
        return RemovableHandle(hooks, key)

    # Walking.

    def children(self) -> Iterator[Module]:
        """The immediate submodules."""
        return (module for _, module in self.named_children())

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The immediate submodules with their names."""
        seen: set[int] = set()
        for name, module in self._modules.items():
            if module is not None and id(module) not in seen:
                seen.add(id(module))
                yield name, module

    def modules(self) -> Iterator[Module]:
        """This module and all below it, each once."""
        return (module for _, module in self.named_modules())

    def named_modules(
        self, memo: set[int] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """This module and all below it, each once, with dotted names."""
        memo = set() if memo is None else memo
        if id(self) in memo:
            return
        if remove_duplicate:
            memo.add(id(self))
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                yield from module.named_modules(
                    memo, f"{prefix}.{name}" if prefix else name, remove_duplicate
                )

    def _named(self, place: str, prefix: str, recurse: bool, unique: bool) -> Iterator[tuple[str, Any]]:
        seen: set[int] = set()
        modules = self.named_modules(prefix=prefix, remove_duplicate=unique) if recurse else [(prefix, self)]
        for path, module in modules:
            for name, value in module.__dict__[place].items():
                if value is None or (unique and id(value) in seen):
                    continue
                seen.add(id(value))
                yield f"{path}.{name}" if path else name, value

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """All parameters with dotted names, shared ones once."""
        return self._named("_parameters", prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """All parameters, shared ones once."""
        return (value for _, value in self.named_parameters(recurse=recurse))

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """All buffers with dotted names."""
        return self._named("_buffers", prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """All buffers."""
        return (value for _, value in self.named_buffers(recurse=recurse))

    def get_submodule(self, target: str) -> Module:
        """The submodule of a dotted name."""
        module: Any = self
        for name in target.split(".") if target else ():
            module = getattr(module, name)
        return module

    # State.

    def state_dict(self, *, prefix: str = "", keep_vars: bool = False) -> dict[str, Tensor]:
        """Parameters and persistent buffers by dotted name; they share the module's memory."""
        result: dict[str, Tensor] = {}
        self._save_to(result, prefix, keep_vars)
        return result

    def _save_to(self, result: dict[str, Tensor], prefix: str, keep_vars: bool) -> None:
        for name, value in self._own_state():
            result[prefix + name] = value if keep_vars else value.detach()
        for name, module in self._modules.items():
            if module is not None:
                module._save_to(result, f"{prefix}{name}.", keep_vars)

    def _own_state(self) -> list[tuple[str, Tensor]]:
        skipped = self.__dict__["_non_persistent_buffers_set"]
        own: list[tuple[str, Any]] = [*self._parameters.items()]
        own += [(n, b) for n, b in self._buffers.items() if n not in skipped]
        return [(name, value) for name, value in own if value is not None]

    def load_state_dict(self, state_dict: dict[str, Tensor], strict: bool = True) -> IncompatibleKeys:
        """Copy values into parameters and buffers.

        Raises RuntimeError that names missing and unexpected keys (if `strict`) and shapes that differ.
        """
        own = self.state_dict(keep_vars=True)
        missing = [key for key in own if key not in state_dict]
        unexpected = [key for key in state_dict if key not in own]
        errors = []
        if strict and unexpected:
            errors.append(
                f"Unexpected key(s) in state_dict: {', '.join(map(repr, unexpected))}. ".replace("'", '"')
            )
        if strict and missing:
            errors.append(
                f"Missing key(s) in state_dict: {', '.join(map(repr, missing))}. ".replace("'", '"')
            )
        for key, target in own.items():
            if key in state_dict and state_dict[key].array.shape != target.array.shape:
                errors.append(
                    f"size mismatch for {key}: copying a param with shape {state_dict[key].shape} "
                    f"from checkpoint, the shape in current model is {target.shape}."
                )
        if errors:
            text = "\n\t".join(errors)
            raise failure(
                RuntimeError, f"Error(s) in loading state_dict for {type(self).__name__}:\n\t{text}"
            )
        with no_grad():
            for key, target in own.items():
                if key in state_dict:
                    target.copy_(state_dict[key])
        return IncompatibleKeys((missing, unexpected))

    def train(self, mode: bool = True) -> Self:
        """Set training mode here and below."""
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self) -> Self:
        """Set evaluation mode here and below."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Set `requires_grad` of all parameters."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the gradients of all parameters (or set them to 0)."""
        for parameter in self.parameters():
            clear_gradient(parameter, set_to_none)

    def apply(self, fn: Callable[[Module], Any]) -> Self:
        """Call `fn` on every module below, then on this one."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Convert floating-point parameters and buffers to a dtype; devices are all the CPU."""
        probe = wrap(np.zeros((), np.float32)).to(*args, **kwargs)
        given = (
            any(isinstance(a, (dtypes.DType, type, Tensor)) for a in args) or kwargs.get("dtype") is not None
        )
        return self._converted(probe.dtype) if given else self

    def _converted(self, dtype: dtypes.DType) -> Self:
        if not dtype.is_floating_point:
            raise failure(TypeError, f"only accepts floating point dtypes, got {dtype!r}")
        bump_state_version()
        for tensor in [*self.parameters(), *self.buffers()]:
            if tensor.is_floating_point():
                tensor.array = tensor.array.astype(dtype.numpy, copy=False)
                tensor.version = [tensor.version[0] + 1, tensor.version[1]]
                if tensor.grad is not None:
                    tensor.grad = wrap(tensor.grad.array.astype(dtype.numpy))
        return self

    def float(self) -> Self:
        """Parameters and buffers as float32."""
        return self._converted(dtypes.float32)

    def double(self) -> Self:
        """Parameters and buffers as float64."""
        return self._converted(dtypes.float64)

    def half(self) -> Self:
        """Parameters and buffers as float16."""
        return self._converted(dtypes.float16)

    def cpu(self) -> Self:
        """Itself: there is no other device."""
        return self

    # Text.

    def extra_repr(self) -> str:
        """What stands between the parentheses of the repr; for subclasses."""
        return ""

    def _get_name(self) -> str:
        return type(self).__name__

    def __repr__(self) -> str:
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        children = [f"({name}): " + repr(m).replace("\n", "\n  ") for name, m in self._modules.items()]
        if not children:
            inside = extra if len(lines) <= 1 else "\n  " + "\n  ".join(lines) + "\n"
            return f"{self._get_name()}({inside})"
        return f"{self._get_name()}(\n  " + "\n  ".join(lines + children) + "\n)"


def clear_gradient(parameter: Tensor, set_to_none: bool) -> None:
    """Drop a tensor's gradient, or set it to 0 in place."""
    if parameter.grad is None:
        return
    if set_to_none:
        parameter.grad = None
    else:
        parameter.grad = parameter.grad.detach()
        parameter.grad.zero_()
