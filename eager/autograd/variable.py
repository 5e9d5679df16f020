"""`Variable`, which older programs put around tensors: a tensor has been one itself since PyTorch 0.4.

By its name hooks find the engine, too, to have something done when a backward is over.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.public import locate
from fusegrad.eager.core.state import state, tell
from fusegrad.eager.core.tensor import Tensor

__all__ = ["Variable"]


class _Tensors(type):
    """All tensors are instances."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Tensor)


class _Engine:
    @staticmethod
    def queue_callback(callback: Callable[[], Any]) -> None:
        """Call `callback` when the backward that is going on is over: all gradients are in their places."""
        if state.walk is None:
            raise failure(RuntimeError, "Final callbacks can only be installed during backward pass.")
        tell("has something done when a backward is over")
        state.walk.at_end = [*state.walk.at_end, callback]


class Variable(metaclass=_Tensors):
    """A leaf with the memory of a tensor. As `torch.autograd.Variable`, which is not needed any more.

    >>> import fusegrad as fg
    >>> fg.autograd.Variable(fg.ones(2), requires_grad=True)
    tensor([1., 1.], requires_grad=True)
    >>> isinstance(fg.ones(2), fg.autograd.Variable)
    True
    """

    _execution_engine = _Engine

    def __new__(cls, data: Any = None, requires_grad: bool = False, volatile: Any = None) -> Any:
        if data is not None and not isinstance(data, Tensor):
            raise failure(TypeError, f"Variable data has to be a tensor, but got {type(data).__name__}")
        leaf = ops.empty(0) if data is None else data.detach()
        return leaf.requires_grad_(requires_grad)


locate("fusegrad.autograd", globals(), __all__)
