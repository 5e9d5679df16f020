"""`torch.overrides`: what asks whether arguments have a `__torch_function__`, and has that answer."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Iterable
from typing import Any

import fusegrad
from fusegrad.eager.core.state import state
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.overrides import protocol
from fusegrad.eager.ops.overrides.modes import TorchFunctionMode
from fusegrad.torch.face import Face

__all__ = [
    "TorchFunctionMode",
    "get_ignored_functions",
    "get_overridable_functions",
    "get_testing_overrides",
    "handle_torch_function",
    "has_torch_function",
    "is_tensor_like",
    "is_tensor_method_or_property",
    "resolve_name",
    "wrap_torch_function",
]


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Whether any of the arguments has a `__torch_function__` of its own. Source: `torch.overrides`.

    >>> has_torch_function([1, Tensor(2)])
    False
    """
    given = tuple(relevant_args)
    return bool(state.function_modes or protocol.asked_of(given, {}))


def has_torch_function_unary(tensor: Any) -> bool:
    """Whether the one argument has a `__torch_function__` of its own."""
    return has_torch_function((tensor,))


def has_torch_function_variadic(*relevant_args: Any) -> bool:
    """Whether any of the arguments has a `__torch_function__` of its own."""
    return has_torch_function(relevant_args)


def is_tensor_like(inp: Any) -> bool:
    """Whether something is a tensor, or has a `__torch_function__`. Source: `torch.overrides`."""
    return isinstance(inp, Tensor) or hasattr(type(inp), "__torch_function__")


def _get_overloaded_args(relevant_args: Iterable[Any]) -> list[Any]:
    """The arguments that are asked, one of each class: of subclasses before those they are derived from."""
    return protocol.in_order(relevant_args)


def handle_torch_function(
    public_api: Callable[..., Any], relevant_args: Iterable[Any], *args: Any, **kwargs: Any
) -> Any:
    """What the `__torch_function__` of an argument gives for a call. Source: `torch.overrides`.

    Raises TypeError where all that are asked decline, by NotImplemented.
    """
    return protocol.answer_of(public_api, _get_overloaded_args(relevant_args), args, kwargs)


def wrap_torch_function(dispatcher: Callable[..., Iterable[Any]]) -> Callable[..., Any]:
    """A decorator of functions that ask those arguments which `dispatcher` names, given the same ones.

    Source: `torch.overrides.wrap_torch_function`.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        def asks(*args: Any, **kwargs: Any) -> Any:
            asked = tuple(dispatcher(*args, **kwargs))
            if has_torch_function(asked):
                return handle_torch_function(asks, asked, *args, **kwargs)
            return function(*args, **kwargs)

        asks.__dict__.update(function.__dict__)
        asks.__name__, asks.__doc__ = function.__name__, function.__doc__
        return asks

    return decorate


BaseTorchFunctionMode = TorchFunctionMode


def _get_current_function_mode_stack() -> list[Any]:
    """The modes that are at work, the innermost last."""
    return [*state.function_modes]


def _get_current_function_mode() -> Any:
    """The innermost mode that is at work, or None."""
    return state.function_modes[-1] if state.function_modes else None


# Lists of functions.


def _named() -> dict[Any, list[str]]:
    found: dict[Any, list[str]] = {}
    for name in ("torch", "torch.nn.functional", "torch.linalg", "torch.fft", "torch.special"):
        ours = importlib.import_module(name.replace("torch", "fusegrad", 1))
        # As the program knows it, whose `import torch` gives a module in fusegrad's place.
        known = sys.modules.get(name)
        place = known if isinstance(known, Face) else ours
        names = [n for n in dir(ours) if not n.startswith("_") and inspect.isfunction(getattr(ours, n))]
        found[place] = [n for n in names if place is ours or n in dir(place)]
    found[Tensor] = [n for n, m in vars(Tensor).items() if inspect.isfunction(m) and n != "__new__"]
    return found


def get_ignored_functions() -> set[Callable[..., Any]]:
    """The functions that ask nobody. Source: `torch.overrides.get_ignored_functions`."""
    shown = [f for name, f in vars(fusegrad).items() if inspect.isfunction(f) and not name.startswith("_")]
    return {f for f in shown if f.__name__ in protocol.NOT_ASKED or not _takes_tensors(f)}


# What parameters are called that take tensors, where no type says so.
_TENSORS = frozenset("self input other A x y tensor tensors".split())


def _takes_tensors(function: Callable[..., Any]) -> bool:
    """Whether a function takes tensors, and not just data, numbers or functions."""
    parameters = inspect.signature(function, follow_wrapped=False).parameters.values()
    return any(p.name in _TENSORS or "Tensor" in str(p.annotation) for p in parameters)


def get_overridable_functions() -> dict[Any, list[Callable[..., Any]]]:
    """The functions that ask, by the module or class they are in. Source: `torch.overrides`.

    >>> fusegrad.add in get_overridable_functions()[fusegrad]
    True
    """
    ignored = get_ignored_functions()
    functions = {
        place: [getattr(place, name) for name in names if not (place is Tensor and name.startswith("_"))]
        for place, names in _named().items()
    }
    return {place: [f for f in found if f not in ignored] for place, found in functions.items()}


def get_testing_overrides() -> dict[Callable[..., Any], Callable[..., Any]]:
    """For each function that asks, one of the same parameters that gives -1. Source: `torch.overrides`."""

    def stand_in(function: Callable[..., Any]) -> Callable[..., Any]:
        def gives_minus_one(*args: Any, **kwargs: Any) -> int:
            inspect.signature(function).bind(*args, **kwargs)
            return -1

        gives_minus_one.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
        return gives_minus_one

    return {f: stand_in(f) for found in get_overridable_functions().values() for f in found}


def resolve_name(f: Callable[..., Any]) -> str | None:
    """The name under which a function that asks is found, as `torch.add`. Source: `torch.overrides`.

    >>> resolve_name(fusegrad.add)
    'torch.add'
    """
    for place, names in _named().items():
        for name in names:
            if getattr(place, name) is f:
                path = "torch.Tensor" if place is Tensor else place.__name__.replace("fusegrad", "torch", 1)
                return f"{path}.{name}"
    return None


def is_tensor_method_or_property(func: Callable[..., Any]) -> bool:
    """Whether a function is a method of `Tensor`, or reads a property. Source: `torch.overrides`.

    >>> is_tensor_method_or_property(Tensor.add), is_tensor_method_or_property(fusegrad.add)
    (True, False)
    """
    return getattr(func, "__name__", "") == "__get__" or any(func is m for m in vars(Tensor).values())
