"""In-place writes of rounds: `total += x` goes in; whether `total + x` may stand for it comes out. So does
`u[1:-1] = x`, and a tensor made of `u` and `x` for it.

A round that writes into memory is not left to an op, one that makes a tensor is. Nobody can tell the two
apart where a variable of the loop is all that has the tensor, and nobody else has its memory.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import EllipsisType
from typing import Any

import numpy as np

from fusegrad.eager.autograd import hooks, views
from fusegrad.eager.core.interpreter import holders
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.stand_in import StandIn
from fusegrad.eager.core.state import state
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.index.indexing import replaced
from fusegrad.tracer.record.later import LARGE, Later

# What gives what the in-place form would.
SYMBOLS = frozenset("+-*/")


def may_replace(symbol: str, target: Tensor, value: Any, later: Later, others: Iterable[Any]) -> bool:
    """Whether a result may stand for what an in-place operator makes of `target`.

    later: the ops that wait. others: references to objects that the roller holds. To be called by a method of
    a method that the twin calls with a variable; see `_ALONE`.
    """
    if symbol not in SYMBOLS or type(target) is not Tensor:
        return False
    references = holders((target,))[0] - sum(x is target for x in others)
    whole = target.array.flags.c_contiguous and _gives_its_type(target.array.dtype, target.array.shape, value)
    return whole and _may_stand(target, value, later, references)


def may_replace_part(
    symbol: str | None, target: Tensor, key: Any, value: Any, later: Later, others: Iterable[Any]
) -> bool:
    """The same of what is written into a part of `target`. symbol: of an operator that makes that of it."""
    if symbol not in (None, *SYMBOLS) or type(target) is not Tensor or not target.array.flags.c_contiguous:
        return False
    parts = key if type(key) is tuple else (key,)
    if not all(type(part) in (int, slice, EllipsisType) for part in parts):
        return False
    try:
        shape = np.broadcast_to(0, target.array.shape)[key].shape
    except IndexError:
        return False  # eager says why
    references = holders((target,))[0] - sum(x is target for x in others)
    # What is written may be another part, which nobody keeps.
    is_part = isinstance(value, Tensor) and views.base_of(value) is target
    spare = value if is_part and holders((value,))[0] < _ALONE else None
    if spare is not None:
        references -= 1
    fits = _gives_its_type(target.array.dtype, shape, value)
    return fits and _may_stand(target, value, later, references, spare)


def with_part(target: Tensor, key: Any, value: Any) -> Tensor:
    """`target` with a part that is `value`."""
    if not isinstance(value, Tensor):
        value = ops.tensor(value, dtype=target.dtype)
    return replaced(target, key, value)


def _may_stand(
    target: Tensor, value: Any, later: Later, references: float, spare: Tensor | None = None
) -> bool:
    """Whether nobody could tell a result from the target. spare: a part of it that is of no use any more."""
    if state.inference or target.is_inference() or (target.needs_grad and not state.grad_enabled):
        return False
    if not references <= _ALONE or vars(target) or views.base_of(target) is not target:
        return False
    if target.needs_grad and (target.grad_fn is None or hooks.retains_grad(target)):
        return False
    tracked = target.needs_grad or (isinstance(value, Tensor) and value.needs_grad)
    large = target.array.size >= LARGE and not tracked  # what is written saves memory there
    return not large and _has_its_memory_alone(target, later, spare)


def _gives_its_type(dtype: np.dtype, shape: tuple[int, ...], value: Any) -> bool:
    """Whether a result has this type, which holds floats, and this shape."""
    if dtype.kind != "f":
        return False
    if not isinstance(value, Tensor):
        return type(value) in (int, float)
    if value.array.dtype != dtype or value.array.ndim > len(shape):
        return False
    behind = shape[len(shape) - value.array.ndim :]
    return all(n in (1, m) for n, m in zip(value.array.shape, behind, strict=True))


def _has_its_memory_alone(target: Tensor, later: Later, spare: Tensor | None) -> bool:
    """Whether no other tensor has the memory of one, but for one that is of no use, nor NumPy code."""
    (others,) = holders((target.array,))
    array = target.array
    if type(array) is StandIn:
        return all(x is target or x is spare for x in later.sharing(array))
    known = later.references(array) + (spare is not None)
    return array.base is None and others <= 1 + known  # the tensor has it


class _Probe:
    """Counts the references to what only a variable has, at the place where `may_replace` does."""

    def outer(self, target: Any) -> float:
        return self.inner(target)

    def inner(self, target: Any) -> float:
        return _count(target)


def _count(target: Any) -> float:
    return holders((target,))[0]


def _alone() -> float:
    variable = object()
    return _Probe().outer(variable)


_ALONE = _alone()
