"""What `torch` itself has beside fusegrad's names."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import fusegrad
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.devices.amp import GradScaler as GradScaler
from fusegrad.torch.supplied.foreach import FOREACH
from fusegrad.torch.supplied.futures import Future as Future
from fusegrad.torch.supplied.jit import ScriptModule as ScriptModule
from fusegrad.torch.supplied.library import ops as ops
from fusegrad.torch.supplied.utils.dlpack import to_dlpack as to_dlpack

__all__ = [
    "Future",
    "GradScaler",
    "ScriptModule",
    "from_file",
    "is_distributed",
    "is_storage",
    "ops",
    "to_dlpack",
    "view_as_complex_copy",
    "view_as_real_copy",
]


def _assert(condition: Any, message: str) -> None:
    """`assert`, as a function. Source: `torch._assert`."""
    assert condition, message


def _assert_async(
    condition: Any, message: str = "Expected Tensor with single nonzero value, but got zero"
) -> None:
    """Raise RuntimeError where a tensor of one number is 0. Source: `torch._assert_async`."""
    if not condition:
        raise RuntimeError(message)


def _check_with(kind: type[Exception], cond: Any, message: Callable[[], str] | None) -> None:
    """Raise an error of this kind where `cond` does not hold. Source: `torch._check_with`."""
    if not isinstance(cond, bool):
        raise TypeError(f"cond must be a bool, but got {type(cond)}")
    if not cond:
        raise kind("Expected cond to be True, but got False." if message is None else str(message()))


def _check(cond: Any, message: Callable[[], str] | None = None) -> None:
    """Raise RuntimeError where `cond` does not hold. Source: `torch._check`."""
    _check_with(RuntimeError, cond, message)


def _check_index(cond: Any, message: Callable[[], str] | None = None) -> None:
    """Raise IndexError where `cond` does not hold."""
    _check_with(IndexError, cond, message)


def _check_value(cond: Any, message: Callable[[], str] | None = None) -> None:
    """Raise ValueError where `cond` does not hold."""
    _check_with(ValueError, cond, message)


def _check_type(cond: Any, message: Callable[[], str] | None = None) -> None:
    """Raise TypeError where `cond` does not hold."""
    _check_with(TypeError, cond, message)


def _check_not_implemented(cond: Any, message: Callable[[], str] | None = None) -> None:
    """Raise NotImplementedError where `cond` does not hold."""
    _check_with(NotImplementedError, cond, message)


def _check_is_size(i: Any, message: Callable[[], str] | None = None, *, max: Any = None) -> None:
    """Raise RuntimeError for what is no size."""
    _check(i >= 0, message)


def _check_tensor_all(cond: Tensor, message: Callable[[], str] | None = None) -> None:
    """Raise RuntimeError unless all of a tensor of truth values is true."""
    if not isinstance(cond, Tensor):
        raise TypeError(f"cond must be a tensor, but got {type(cond)}")
    if cond.array.dtype.kind != "b":
        raise TypeError(f"cond tensor must have dtype torch.bool, but got {cond.dtype}")
    _check(bool(cond.all()), message)


def from_file(
    filename: str, shared: bool | None = None, size: int | None = 0, *, dtype: Any = None, **options: Any
) -> Tensor:
    """The first elements of a file: read, or, if `shared`, the file's own, which writes change.

    Source: `torch.from_file`.
    """
    from fusegrad.eager.io.storage import UntypedStorage

    kind = fusegrad.get_default_dtype() if dtype is None else dtype
    if shared and not os.path.exists(filename):
        with open(filename, "wb"):
            pass
    memory = UntypedStorage.from_file(filename, bool(shared), (size or 0) * kind.itemsize)
    made = fusegrad.from_numpy(memory._as_bytes()).view(kind)
    return made.requires_grad_() if options.get("requires_grad") else made


def view_as_real_copy(input: Tensor) -> Tensor:
    """`view_as_real`, copied. Source: `torch.view_as_real_copy`."""
    return fusegrad.view_as_real(input).clone()


def view_as_complex_copy(input: Tensor) -> Tensor:
    """`view_as_complex`, copied. Source: `torch.view_as_complex_copy`."""
    return fusegrad.view_as_complex(input).clone()


def is_storage(obj: Any) -> bool:
    """Whether an object is the memory of a tensor. Source: `torch.is_storage`."""
    from fusegrad.eager.io.storage import TypedStorage, UntypedStorage

    return isinstance(obj, (TypedStorage, UntypedStorage))


def is_distributed(input: Tensor) -> bool:
    """False. Source: `torch.is_distributed`."""
    return False


globals().update(FOREACH)
