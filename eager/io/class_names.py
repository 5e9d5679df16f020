"""How PyTorch calls the classes and functions of ours that files may name, and what its names mean here.

    fusegrad.nn.Linear        <->      torch.nn.modules.linear.Linear

A class is written under PyTorch's name, and read under it, where its objects have the same state in both:
modules, optimizers, schedules and datasets. Others, as distributions, would be half made, and found so late:
they are written under their names here, also where they say that they are PyTorch's.
"""

from __future__ import annotations

from types import FunctionType
from typing import Any

from fusegrad.eager.core import public
from fusegrad.eager.core.dtypes import DType
from fusegrad.eager.core.memory_order import layout, memory_format
from fusegrad.eager.nn.module import Module
from fusegrad.eager.nn.parameter import UninitializedTensorMixin
from fusegrad.eager.nn.transformer import NonDynamicallyQuantizableLinear
from fusegrad.eager.optim.optimizer import Optimizer
from fusegrad.eager.optim.schedules.base import LRScheduler

_OPTIONS = (DType, layout, memory_format)
# Classes that no module of ours shows.
_HIDDEN = {NonDynamicallyQuantizableLinear: "torch.nn.modules.linear"}
# Further classes, by the modules where PyTorch has them.
_PLACES = ("torch.utils.data.dataset", "torch.nn.utils.")
_FAMILIES = (Module, Optimizer, LRScheduler, BaseException, UninitializedTensorMixin)


def written(value: Any, name: str | None = None) -> tuple[str, str] | None:
    """The module and name that files have for something of ours; None for what says it itself."""
    if isinstance(value, _OPTIONS):
        return "torch", name or str(value).removeprefix("torch.")
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if isinstance(value, type) and value in _HIDDEN:
        return _HIDDEN[value], value.__name__
    if not isinstance(module, str) or not isinstance(name, str) or "." in name:
        return None
    top = module.partition(".")[0]
    ours = top == "fusegrad" or (isinstance(value, type) and public.home(value) is not None)
    if not ours or not isinstance(value, (type, FunctionType)):
        return None
    shown = module if top == "torch" else f"torch{module.removeprefix('fusegrad')}"
    named = public.torch_face().surface.names(shown).get(name)
    if named is not None:
        place = (named.place, named.name) if isinstance(value, type) else (shown, name)
        if _may_name(value, place[0]) and meant(*place) is value:
            return place
    return (public.home(value) or module, name) if top == "torch" and isinstance(value, type) else None


def _may_name(value: Any, module: str) -> bool:
    """Whether files may name this under PyTorch's name."""
    return not isinstance(value, type) or issubclass(value, _FAMILIES) or module.startswith(_PLACES)


def meant(module: str, name: str) -> Any:
    """What a name of PyTorch's means here, which is None where fusegrad has nothing of it."""
    found = public.torch_face()
    knows = name in found.surface.names(module)
    value = found.present(module, name) if knows else found.own(module, name)
    return None if value is found.NOTHING else value


def read(module: str, name: str) -> Any:
    """What a name of PyTorch's means that a trusted file has.

    Raises AttributeError where there is no such thing, or its objects keep another state.
    """
    first, *rest = name.split(".")
    value = meant(module, first)
    if value is None:
        raise AttributeError(f"fusegrad has no {module}.{first}, which the file names")
    if not rest and isinstance(value, type) and not _may_name(value, module):
        raise AttributeError(
            f"the file has an object of {module}.{first}, whose state is another in fusegrad"
        )
    for part in rest:
        value = getattr(value, part)
    return value
