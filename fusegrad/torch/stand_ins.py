"""What stands for the names of PyTorch's that fusegrad has nothing for: to be mentioned, and not to be used.

Libraries mention classes in annotations, `isinstance`, lists and feature tests, and derive their own from
them; that must not stop a program which never needs them. Whoever makes an object or calls a function is told
that it is not there, and why.
"""

from __future__ import annotations

import builtins
import enum
from collections.abc import Callable
from importlib import import_module
from types import FunctionType
from typing import Any, NoReturn

from fusegrad.eager.distributed import declined
from fusegrad.eager.nn.module import Module
from fusegrad.torch.absent import Absent
from fusegrad.torch.asked import complaint, note
from fusegrad.torch.surface import Named, literal

# Why there is nothing, by the longest beginning of a name.
REASONS = {
    "functorch": "use fusegrad.func: functional_call, vmap",
    "functorch.dim": "tensors have no first-class dimensions; use vmap",
    "torch": "open an issue if your program needs it",
    "torch._C": "it is of PyTorch's C++ core",
    "torch._dynamo": "fusegrad has a compiler of its own: torch.compile",
    "torch._inductor": "fusegrad has a compiler of its own: torch.compile",
    "torch.accelerator": "the CPU is the only device",
    "torch.ao": "quantized numbers are not computed with; keep the model in float32",
    "torch.backends": "it is of a library that fusegrad does not call",
    "torch.cuda": "the CPU is the only device",
    "torch.distributed": "ranks exchange tensors by MPI: DistributedDataParallel and kin (docs/clusters.md)",
    **{f"torch.distributed.{part}": why for part, why in declined.WHY.items()},
    "torch.export": "capture a function with fusegrad.export",
    "torch.fx.experimental": "it is of PyTorch's own compiler",
    "torch.fx.passes": "it is of PyTorch's own compiler",
    "torch.jit": "there are no scripts, and no files of them; save a state_dict",
    "torch.monitor": "it is of PyTorch's C++ core",
    "torch.mps": "the CPU is the only device",
    "torch.mtia": "the CPU is the only device",
    "torch.nested._internal": "it is of PyTorch's own dispatch; torch.nested has the functions",
    "torch.nn.intrinsic": "quantized numbers are not computed with; keep the model in float32",
    "torch.nn.qat": "quantized numbers are not computed with; keep the model in float32",
    "torch.nn.quantizable": "quantized numbers are not computed with; keep the model in float32",
    "torch.nn.quantized": "quantized numbers are not computed with; keep the model in float32",
    "torch.onnx": "fusegrad.export writes ONNX",
    "torch.package": "there are no such archives; save a state_dict",
    "torch.quantization": "quantized numbers are not computed with; keep the model in float32",
    "torch.sparse": "convert to a dense tensor: x.to_dense()",
    "torch.utils._python_dispatch": "ops below autograd are not dispatched to Python; functions ask "
    "torch.overrides.TorchFunctionMode",
    "torch.utils.bottleneck": "use torch.profiler or fusegrad's explain()",
    "torch.utils.cpp_extension": "C++ extensions of PyTorch's cannot be loaded",
    "torch.utils.data.datapipes": "use a Dataset with a DataLoader",
    "torch.xpu": "the CPU is the only device",
}


def reason(path: str) -> str:
    """Why fusegrad has nothing for a name, or what to do instead."""
    while path not in REASONS:
        path = path.rpartition(".")[0]
    return REASONS[path]


def decline(path: str) -> NoReturn:
    """Somebody uses what is not there. Raises NotImplementedError."""
    note(path)
    raise NotImplementedError(f"{complaint(path)}: {reason(path)}")


class Declined(type):
    """The type of classes that are not there."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        path = f"{cls.__module__}.{cls.__qualname__}.{name}"
        note(path)
        raise AttributeError(f"{complaint(path)}: {reason(path)}", name=name, obj=cls)


class _Refusing:
    """No object can be made of a class that is not there."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        own = next(base for base in cls.__mro__ if type(base) is Declined and "_stands_in" in vars(base))
        decline(f"{own.__module__}.{own.__qualname__}")


def a_class(path: str, *bases: type) -> type:
    """A class that may be mentioned and derived from; making an object of it raises NotImplementedError.

    >>> Stream = a_class("torch.xpu.Stream")
    >>> isinstance(3, Stream), Stream | None
    (False, torch.xpu.Stream | None)
    >>> Stream()
    Traceback (most recent call last):
        ...
    NotImplementedError: fusegrad has no torch.xpu.Stream: the CPU is the only device
    """
    module, _, name = path.rpartition(".")
    text = f"Stands for `{path}`, which fusegrad has not: {reason(path)}."
    return Declined(name, (_Refusing, *bases), {"__module__": module, "__doc__": text, "_stands_in": True})


def a_function(path: str) -> Callable[..., Any]:
    """A function that may be mentioned; calling it raises NotImplementedError."""

    def declined(*args: Any, **kwargs: Any) -> Any:
        decline(path)

    declined.__module__, _, declined.__name__ = path.rpartition(".")
    declined.__qualname__ = declined.__name__
    declined.__doc__ = f"Stands for `{path}`, which fusegrad has not: {reason(path)}."
    declined.stands_in = True  # type: ignore[attr-defined]
    return declined


def stand_in(path: str, named: Named, find: Callable[[str, str], Any], absent: type[Absent] = Absent) -> Any:
    """What stands for the thing of this kind at `path`; errors, enumerations and numbers are themselves.

    find: gives what a module has under a name.
    """
    module, _, name = path.rpartition(".")
    if named.kind == "value":
        return literal(named) if named.detail else absent(path)
    if named.kind == "error":
        place, _, base = named.detail.rpartition(".")
        return type(name, (find(place, base) if place else getattr(builtins, base),), {"__module__": module})
    if named.kind == "enum" and named.detail:
        make: Any = enum.Enum
        return make(name, {member: member for member in named.detail.split(",")}, module=module)
    if named.kind == "layer":
        return a_class(path, Module)
    return a_function(path) if named.kind == "function" else with_constants(a_class(path), named.detail)


def with_constants(kind: type, written: str) -> type:
    """A class with what PyTorch's has written out in it, `NAME=LITERAL,...`."""
    for word in filter(None, written.split(",")):
        name, _, text = word.partition("=")
        setattr(kind, name, literal(Named("value", "", name, text)))
    return kind


def is_stand_in(value: Any) -> bool:
    """Whether a name only stands for what is not there."""
    if type(value) is FunctionType:
        return hasattr(value, "stands_in")
    return type(value) is Declined or isinstance(value, Absent)


def from_library(module: str, name: str) -> Any:
    """What Python's own library has under a name; None where it has not."""
    return getattr(import_module(module), name, None)
