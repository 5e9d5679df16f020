"""Tensors whose values wait: what is known of one goes in, a tensor without values comes out."""

from __future__ import annotations

import weakref
from typing import Any

from fusegrad.compiler.deferred.shape_patterns import Made
from fusegrad.eager.autograd import autograd
from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.families import lies_apart
from fusegrad.eager.core.op import Op, TensorType, wrap
from fusegrad.eager.core.stand_in import stand_in
from fusegrad.eager.core.state import state
from fusegrad.eager.core.tensor import Tensor


class _Waiting(autograd.Node):
    """The node of a tensor without values: it has a name. For all else the tensor gets its values and its
    node, which is asked instead.
    """

    __slots__ = ("tensor", "text")

    text: str
    tensor: weakref.ref[Tensor]

    def name(self) -> str:
        return self.text

    def __getattr__(self, name: str) -> Any:
        return getattr(self._computed(), name)

    def extras(self) -> Any:
        return self._computed().extras()

    def _computed(self) -> autograd.Node:
        tensor = self.tensor()
        if tensor is None:
            raise failure(RuntimeError, f"nobody has the tensor any more that {self.text} gave: keep it")
        if state.interpreter is not None:
            state.interpreter.reach(tensor)
        node: autograd.Node = tensor.grad_fn
        return node


def waiting_tensor(known: Made) -> Tensor:
    """A tensor of which only the type, strides and place on the graph are known."""
    tensor = wrap(None)
    shape, dtype = known.type
    # A view with one place for several elements is read-only: a write into a part of it goes another way.
    repeats = known.shares and not lies_apart(shape, known.strides, dtype.itemsize)
    tensor.array = stand_in(shape, dtype, known.strides, not repeats)
    if known.needs_grad:
        node = _Waiting.__new__(_Waiting)
        node.text, node.tensor = known.name, weakref.ref(tensor)
        tensor.needs_grad, tensor.grad_fn = True, node
    return tensor


def made_of(op: Op, args: tuple[Any, ...], tensor: Tensor) -> Made:
    """What an op made, as later runs find it."""
    array, node = tensor.array, tensor.grad_fn
    name = node.name() if node is not None else ""
    shares = op.view and tensor.version is args[0].version
    return Made(TensorType(array.shape, array.dtype), array.strides, tensor.needs_grad, name, shares)
