"""`torch.library`: users' own ops in Python, and `torch.ops`, which finds them by their names."""

from __future__ import annotations

import functools
from typing import Any

from fusegrad.eager.library.api import *
from fusegrad.eager.library.api import OPS, __all__ as _OURS, custom_op
from fusegrad.torch.absent import Absent
from fusegrad.torch.stand_ins import decline

__all__ = [*_OURS, "fallthrough_kernel", "get_ctx", "register_autocast", "register_torch_dispatch"]
__all__ += ["triton_op", "wrap_triton"]


def register_autocast(op: Any, *args: Any, **options: Any) -> Any:
    """Take what an op is to be cast to, which nobody asks for. Source: `torch.library.register_autocast`."""


def register_torch_dispatch(op: Any, torch_dispatch_class: Any, func: Any = None, /, **options: Any) -> Any:
    """Take a rule for `__torch_dispatch__`, which is not called."""
    return func if func is not None else lambda function: function


triton_op = custom_op


def wrap_triton(fn: Any) -> Any:
    """Raises NotImplementedError: there is no Triton on a CPU."""
    decline("torch.library.wrap_triton")


def fallthrough_kernel(*args: Any) -> Any:
    """Raises NotImplementedError: there is no other kernel to come to."""
    decline("torch.library.fallthrough_kernel")


def get_ctx() -> Any:
    """Raises NotImplementedError: rules of shapes are not called."""
    decline("torch.library.get_ctx")


class Mentioned(Absent):
    """An op of PyTorch's own, with its overloads: a key in tables of ops."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return mentioned(f"{self._name}.{name}")

    def __call__(self, *_: Any, **__: Any) -> Any:
        decline(self._name)


# One for each name: tables of ops are asked for what they were made with.
mentioned = functools.cache(Mentioned)


class _Namespace:
    """The ops of one library."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return OPS.get(f"{self._name}::{name}") or mentioned(f"torch.ops.{self._name}.{name}")


class _Ops:
    """`torch.ops`: users' ops by library and name; those of PyTorch's core may be mentioned."""

    loaded_libraries: set[str] = set()  # noqa: RUF012

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        found = _Namespace(name)
        setattr(self, name, found)
        return found

    def load_library(self, path: str) -> None:
        """Raises OSError: what is compiled for PyTorch cannot be loaded."""
        raise OSError(f"{path}: extensions that are compiled for PyTorch cannot be loaded")


ops = _Ops()
