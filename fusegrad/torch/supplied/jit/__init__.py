"""`torch.jit` with scripting switched off: functions are jitted, classes and modules stay what they are."""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import fusegrad as fg
from fusegrad.eager.nn.containers import ScriptModule as ScriptModule
from fusegrad.eager.nn.module import Module
from fusegrad.torch.stand_ins import decline
from fusegrad.torch.supplied.futures import Future as Future

Final = typing.Final


class RecursiveScriptModule(Module):
    """What no module is, since none is scripted."""


class Attribute(typing.NamedTuple):
    """A value with its type. Source: `torch.jit.Attribute`."""

    value: Any
    type: Any = None


def _compiler() -> Any:
    """`fusegrad.jit`, which loads the compiler when it is asked for."""
    return fg.jit


def trace(func: Any, example_inputs: Any = None, *args: Any, **options: Any) -> Any:
    """A function jitted, or a module as it is, called once with an example. Source: `torch.jit.trace`."""
    return _compiler().trace(func, example_inputs, *args, **options)


def script(
    obj: Any, optimize: Any = None, _frames_up: int = 0, _rcb: Any = None, example_inputs: Any = None
) -> Any:
    """A function jitted; a class or module as it is. Source: `torch.jit.script`."""
    return obj if issubclass(type(obj), (type, Module)) else _compiler().script(obj)


def _itself(function: Any = None, *args: Any, **options: Any) -> Any:
    """A decorator that leaves a function as it is, with and without arguments of its own."""
    return function if callable(function) else _itself


def trace_module(mod: Any, inputs: dict[str, Any], *args: Any, **options: Any) -> Any:
    """The module, called with examples of each method. Source: `torch.jit.trace_module`."""
    for name, example in inputs.items():
        trace(getattr(mod, name), example)
    return mod


ignore = export = unused = script_method = script_if_tracing = interface = freeze = _itself
optimize_for_inference = enable_onednn_fusion = run_frozen_optimizations = _script_if_tracing = _itself
_overload = _overload_method = _itself


def is_scripting() -> bool:
    """False: Python runs all functions. Source: `torch.jit.is_scripting`."""
    return False


is_tracing = onednn_fusion_enabled = is_scripting


def annotate(the_type: Any, the_value: Any) -> Any:
    """The value. Source: `torch.jit.annotate`."""
    return the_value


_is = isinstance


def isinstance_(obj: Any, target_type: Any) -> bool:
    """Whether an object is of a type, or of a container type of `typing`. Source: `torch.jit.isinstance`."""
    origin, inner = typing.get_origin(target_type), typing.get_args(target_type)
    if origin is None:
        return _is(obj, target_type)
    if origin is typing.Union:
        return any(isinstance_(obj, kind) for kind in inner)
    if not _is(obj, origin):
        return False
    if origin is dict:
        return all(isinstance_(k, inner[0]) and isinstance_(v, inner[1]) for k, v in obj.items())
    if origin is tuple and Ellipsis not in inner:
        return len(obj) == len(inner) and all(map(isinstance_, obj, inner))
    return all(isinstance_(item, inner[0]) for item in obj)


def fork(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The result of a call, at once, to be waited for. Source: `torch.jit.fork`."""
    future: Future = Future()
    future.set_result(func(*args, **kwargs))
    return future


def wait(future: Any) -> Any:
    """What was forked. Source: `torch.jit.wait`."""
    return future.wait()


def save(m: Any, f: Any, _extra_files: Any = None) -> None:
    """Raises NotImplementedError: there are no files of scripts. Source: `torch.jit.save`."""
    decline("torch.jit.save")


def load(f: Any, map_location: Any = None, _extra_files: Any = None, _restore_shapes: bool = False) -> Any:
    """Raises NotImplementedError: there are no files of scripts. Source: `torch.jit.load`."""
    decline("torch.jit.load")


@contextmanager
def optimized_execution(should_optimize: bool) -> Iterator[None]:
    """Nothing is otherwise in it. Source: `torch.jit.optimized_execution`."""
    yield


@contextmanager
def fuser(name: str) -> Iterator[None]:
    """Nothing is otherwise in it. Source: `torch.jit.fuser`."""
    yield


def set_fusion_strategy(strategy: Any) -> list[Any]:
    """Nothing is set. Source: `torch.jit.set_fusion_strategy`."""
    return []


isinstance = isinstance_
