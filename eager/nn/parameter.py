"""`Parameter` and `Buffer`: tensors that a module knows as its own."""

from __future__ import annotations

from typing import Any

import numpy as np

from fusegrad.eager.autograd.node import reach, share
from fusegrad.eager.core import dtypes
from fusegrad.eager.core.op import wrap
from fusegrad.eager.core.tensor import Tensor

__all__ = ["Buffer", "Parameter"]


def _sharing(cls: type[Tensor], data: Any) -> Any:
    """A tensor of a class of its own with the memory of `data` (an empty one, for None)."""
    if data is None:
        tensor = wrap(np.zeros(0, dtypes.default_float().numpy))
    else:
        reach(data)
        tensor = share(data)
    tensor.__class__ = cls
    return tensor


class Parameter(Tensor):
    """A tensor that a module trains: assigned to an attribute, it is among its parameters.

    Shares the memory of `data`. Source: `torch.nn.Parameter`.
    """

    __slots__ = ()

    def __new__(cls, data: Any = None, requires_grad: bool = True) -> Parameter:
        return _sharing(cls, data).requires_grad_(requires_grad)

    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:
        # Without gradient and attributes, as in PyTorch.
        copied = memo[id(self)] = type(self)(self.detach().clone(), self.requires_grad)
        return copied

    def __repr__(self) -> str:
        return "Parameter containing:\n" + super().__repr__()


class Buffer(Tensor):
    """A tensor that a module keeps but does not train: assigned to an attribute, it is among its buffers.

    Shares the memory of `data`; in `state_dict` if `persistent`. Source: `torch.nn.Buffer`.
    """

    __slots__ = ()
    persistent: bool

    def __new__(cls, data: Any = None, *, persistent: bool = True) -> Buffer:
        tensor = _sharing(cls, data)
        tensor.persistent = persistent
        return tensor
