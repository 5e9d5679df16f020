"""What an op gives but for values: stand-ins for its results, for whoever puts ops off."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fusegrad.eager.core.families import View, layout_of
from fusegrad.eager.core.memory_order import Order, strides_of
from fusegrad.eager.core.op import EXPLAINED, Op, Params, TensorType, wrap
from fusegrad.eager.core.stand_in import StandIn, plain, stand_in
from fusegrad.eager.core.tensor import Tensor

_WIDEST = 2**63 - 1
# Whose results NumPy lays out in ways of its own, though they are in row-major order.
_LAID_BY_NUMPY = frozenset({"mode", "resample"})


def _is_laid_by_numpy(op: Op, type_: TensorType, order: Order) -> bool:
    """Whether NumPy has strides of its own for a result, along dimensions of one element or of none."""
    own = order is not None or op.name in _LAID_BY_NUMPY
    return (own and 1 in type_.shape) or (op.family == "opaque" and 0 in type_.shape)


def _stand_in(type_: TensorType, order: Order) -> StandIn:
    shape, dtype = type_
    return stand_in(shape, dtype, None if order is None else strides_of(shape, order, dtype.itemsize))


def foretell(op: Op, args: Sequence[Any], params: Params) -> Any:
    """A stand-in for the result of an op, or a tuple of them.

    None where type and strides are known only once it is done, or where it refuses what it is given.
    """
    arrays = [a.array for a in args if isinstance(a, Tensor)]
    if op.view and isinstance(op, View):
        array = plain(arrays[0])
        if op.layout(layout_of(array), **params) is not None:
            return op.evaluate((wrap(array),), params).view(StandIn)
    if any(type(a) is int and abs(a) > _WIDEST for a in (*args, *params.values())):
        return None  # no dtype may hold it
    try:
        given = [TensorType(a.array.shape, a.array.dtype) if isinstance(a, Tensor) else a for a in args]
        inferred = op.infer(given, params)
        types = inferred if type(inferred) is tuple else (inferred,)
        orders = op.orders([t.shape for t in types], args, params)
        if any(_is_laid_by_numpy(op, *given) for given in zip(types, orders, strict=True)):
            return None
        made = tuple([_stand_in(t, order) for t, order in zip(types, orders, strict=True)])
        return made if type(inferred) is tuple else made[0]
    except EXPLAINED:
        return None  # eager says why
