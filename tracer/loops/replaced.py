"""In-place arithmetic of rounds: `total += x` goes in; whether `total + x` may stand for it comes out.

A round that writes into memory is not left to an op, one that makes a tensor is. Nobody can tell the two
apart where a variable of the loop is all that has the tensor, and nobody else has its memory.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import numpy as np

from fusegrad.eager.autograd import hooks, views
from fusegrad.eager.core.stand_in import StandIn
from fusegrad.eager.core.state import state
from fusegrad.eager.core.tensor import Tensor
from fusegrad.tracer.record.later import LARGE, Later

# What gives what the in-place form would.
SYMBOLS = frozenset("+-*/")


def may_replace(symbol: str, target: Tensor, value: Any, later: Later, others: Iterable[Any]) -> bool:
    """Whether a result may stand for what an in-place operator makes of `target`.

    later: the ops that wait. others: references to objects that the roller holds. To be called by a method of
    a method that the twin calls with a variable; see `_ALONE`.
    """
    if symbol not in SYMBOLS or type(target) is not Tensor or not _gives_its_type(target, value):
        return False
    if state.inference or target.is_inference() or (target.needs_grad and not state.grad_enabled):
        return False
    references = sys.getrefcount(target) - sum(x is target for x in others)
    if references > _ALONE or vars(target) or views.base_of(target) is not target:
        return False
    if target.needs_grad and (target.grad_fn is None or hooks.retains_grad(target)):
        return False
    tracked = target.needs_grad or (isinstance(value, Tensor) and value.needs_grad)
    large = target.array.size >= LARGE and not tracked  # what is written saves memory there
    return not large and _has_its_memory_alone(target, later)


def _gives_its_type(target: Tensor, value: Any) -> bool:
    """Whether a result has the type, the shape and the order of the first operand, which holds floats."""
    if target.array.dtype.kind != "f" or not target.array.flags.c_contiguous:
        return False
    if not isinstance(value, Tensor):
        return type(value) in (int, float)
    shape = target.array.shape
    if value.array.dtype != target.array.dtype or value.array.ndim > len(shape):
        return False
    return np.broadcast_shapes(shape, value.array.shape) == shape


def _has_its_memory_alone(target: Tensor, later: Later) -> bool:
    """Whether no other tensor has the memory of one, nor NumPy code."""
    array = target.array
    if type(array) is StandIn:
        return all(x is target for x in later.sharing(array))
    return array.base is None and sys.getrefcount(array) <= later.references(array) + _REFERENCES


# Of the memory: the tensor, a variable, and the argument of the look.
_REFERENCES = 3


class _Probe:
    """Counts the references to what only a variable has, at the place where `may_replace` does."""

    def outer(self, target: Any) -> int:
        return self.inner(target)

    def inner(self, target: Any) -> int:
        return _count(target)


def _count(target: Any) -> int:
    return sys.getrefcount(target)


def _alone() -> int:
    variable = object()
    return _Probe().outer(variable)


_ALONE = _alone()
