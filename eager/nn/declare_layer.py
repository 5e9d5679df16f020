"""What layers are made of: new parameters, and classes of layers declared by a function and its arguments."""

from __future__ import annotations

import inspect
from typing import Any

from fusegrad.eager.nn import functional
from fusegrad.eager.nn.module import Module, Parameter
from fusegrad.eager.ops.create import creation

REQUIRED = inspect.Parameter.empty


def parameter(*size: int, dtype: Any = None) -> Parameter:
    """A parameter whose values are still to be drawn."""
    return Parameter(creation.empty(*size, dtype=dtype))


def optional_parameter(module: Module, name: str, wanted: bool, *size: int, dtype: Any = None) -> None:
    """Register a parameter, or None under its name."""
    module.register_parameter(name, parameter(*size, dtype=dtype) if wanted else None)


class Declared(Module):
    """A layer that applies a function of `nn.functional` with its own attributes as arguments.

    function: the function's name; order: the constructor's arguments; arguments: their defaults; passed:
    those that the function takes; buffers: those that are tensors of the layer's state; mode: whether the
    function asks if the layer trains.
    """

    function: str
    order: tuple[str, ...]
    arguments: dict[str, Any]
    passed: tuple[str, ...]
    buffers_held: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()
    mode = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        by_name = self.arguments | dict(zip(self.order, args, strict=False)) | kwargs
        twice = any(name in kwargs for name in self.order[: len(args)])
        if twice or len(args) > len(self.order) or sorted(by_name) != sorted(self.order):
            type(self).__signature__.bind(*args, **kwargs)  # type: ignore[attr-defined]  # says what is wrong
        for name, value in by_name.items():
            if name in self.buffers_held:
                self.register_buffer(name, value)
            else:
                setattr(self, name, value)

    def forward(self, *inputs: Any, **named: Any) -> Any:
        for name in self.passed:
            named[name] = getattr(self, name)
        if self.mode:
            named["training"] = self.training
        return getattr(functional, self.function)(*inputs, **named)

    def extra_repr(self) -> str:
        shown = [f"{name}={getattr(self, name)!r}" for name in self.shown]
        if self.arguments.get("inplace") is False and self.inplace:
            shown.append("inplace=True")
        return ", ".join(shown)


def declared(
    module: str,
    name: str,
    function: str,
    arguments: dict[str, Any],
    *,
    shown: str = "",
    held: str = "",
    dropped: str = "",
    keyword_only: bool = False,
    mode: bool = False,
    base: type[Module] = Module,
) -> type[Declared]:
    """A class of layers, as `Declared` says; dropped: arguments that the function does not take.

    base: what the class is besides.
    """
    kind = inspect.Parameter.KEYWORD_ONLY if keyword_only else inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [inspect.Parameter(key, kind, default=value) for key, value in arguments.items()]
    first_line = (getattr(functional, function).__doc__ or name).splitlines()[0].split(" Source:")[0]
    members = {
        "__module__": module,
        "__qualname__": name,
        "__doc__": f"{first_line} Source: `torch.nn.{name}`.",
        "__signature__": inspect.Signature(parameters),
        "function": function,
        "order": tuple(arguments),
        "arguments": {key: value for key, value in arguments.items() if value is not REQUIRED},
        "passed": tuple(key for key in arguments if key not in dropped.split()),
        "buffers_held": tuple(held.split()),
        "shown": tuple(shown.split()),
        "mode": mode,
    }
    return type(name, (Declared,) if base is Module else (Declared, base), members)
