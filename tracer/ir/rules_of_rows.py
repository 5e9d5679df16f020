"""What ops make of rows that a mask chooses, by rules (see `open_counts.py`). A rule is given the equations
of two runs, and gives rows, the places of a mask, or a tensor that has no rows; or raises Refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fusegrad.eager.core.families import Composite
from fusegrad.eager.core.op import REGISTRY, bind
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.shape.slicing import Slice
from fusegrad.tracer.ir.chosen_rows import (
    Call,
    Chosen,
    Places,
    Refused,
    Rows,
    column,
    masked,
    same_params,
    times,
)


def _only(rows: Rows, fill: Any = 0) -> Tensor:
    return masked(*rows, fill)


# Rules: places.


def _nonzero(call: Call) -> Places:
    (mask,) = call.equation.inputs
    if mask in call.opening.rows:
        raise Refused("a mask that lies in chosen rows")
    return Places(call.opening.chosen_by(mask, (call.params["size"], call.other.params["size"])))


def _flat_index(call: Call) -> Places:
    first, sizes = call.operands[0], call.params["sizes"]
    chosen = first.chosen if isinstance(first, Places) else None
    columns = [Places(chosen, i) for i in range(len(sizes))] if chosen else []
    if chosen is None or call.operands != columns or sizes != chosen.shape:
        raise Refused("places of a mask together with others")
    return Places(chosen, -1)


def _take(call: Call) -> Rows:
    x, index = call.operands
    dim = call.params["dim"]
    if not call.same_params or isinstance(x, (Rows, Places)):
        raise Refused("rows of chosen rows")
    if isinstance(index, Places):
        chosen = _flat(index)
        if x.array.shape[dim] != chosen.flat.array.shape[0]:
            raise Refused("a mask of another size")
        return Rows(masked(x, dim, chosen) if call.is_tracked(0) else x, dim, chosen)
    if not x.array.shape[dim]:
        raise Refused("rows of an empty tensor")
    made = call.bind(x, _only(index))
    axis = dim + index.axis
    return Rows(masked(made, axis, index.chosen) if call.is_tracked(0) else made, axis, index.chosen)


def _flat(places: Places) -> Chosen:
    """What is chosen, where these are the places in the flat mask."""
    if places.column != -1 and not (places.column == 0 and len(places.chosen.shape) == 1):
        raise Refused("some of the coordinates of a mask")
    return places.chosen


def _put(call: Call) -> Tensor:
    x, value, index = call.operands
    dim, accumulate = call.params["dim"], call.params["accumulate"]
    if not call.same_params or not isinstance(x, Tensor) or not isinstance(value, Rows):
        raise Refused("a write into chosen rows")
    if isinstance(index, Rows):
        if not accumulate or index.chosen is not value.chosen or value.axis != dim + index.axis:
            raise Refused("a write in places that rows hold")
        return call.bind(x, _only(value), _only(index))
    if not isinstance(index, Places) or _flat(index) is not value.chosen or value.axis != dim:
        raise Refused("a write through another mask")
    if x.array.shape[dim] != value.chosen.flat.array.shape[0]:
        raise Refused("a mask of another size")
    new = ops.add(x, value.tensor) if accumulate else value.tensor
    return ops.where(column(value.chosen, x.array.ndim, dim), new, x)


# Rules: each row by itself.


def _elementwise(call: Call) -> Any:
    rows, args = call.rows(), []
    if not call.same_params:
        raise Refused(f"{call.op.name} with other parameters")
    if call.equation.output.dtype.kind in call.op.refuses:
        raise Refused(f"{call.op.name} may refuse rows that were not chosen")
    ndim = len(call.shape)
    tensors = [x for x in call.operands if isinstance(x, Tensor)] + [r.tensor for r in rows]
    for place, x in enumerate(call.operands):
        theirs = call.other.inputs[place]
        if isinstance(x, Rows):
            args.append(x.tensor)
        elif isinstance(x, Tensor):
            args.append(_widened(x, ndim, rows[0]) if rows and call.is_tracked(place) else x)
        else:
            args.append(x if repr(x) == repr(theirs) else call.opening.number(x, theirs, _dtype(tensors)))
    if not rows:
        return call.bind(*args)
    if any(r.chosen is not rows[0].chosen or _back(r) != _back(rows[0]) for r in rows):
        raise Refused("rows of several masks")
    return Rows(call.bind(*args), ndim - _back(rows[0]), rows[0].chosen)


def _dtype(tensors: Sequence[Tensor]) -> np.dtype:
    """The dtype of the tensors that a number stands beside."""
    found = {t.array.dtype for t in tensors}
    if len(found) != 1:
        raise Refused("a count beside several dtypes")
    return found.pop()


def _back(rows: Rows) -> int:
    """The axis, counted from the last one."""
    return rows.tensor.array.ndim - rows.axis


def _widened(x: Tensor, ndim: int, rows: Rows) -> Tensor:
    """What stands beside rows, once for each; its gradient must not hear of those that were not chosen."""
    wide = ops.reshape(x, (1,) * (ndim - x.array.ndim) + x.array.shape)
    return masked(wide, ndim - _back(rows), rows.chosen, 1)


def _permute(call: Call) -> Rows:
    (rows,) = call.rows()
    return Rows(call.bind(rows.tensor), call.params["dims"].index(rows.axis), rows.chosen)


def _same_shape(call: Call) -> Rows:
    (rows,) = call.rows()
    return Rows(call.bind(rows.tensor), rows.axis, rows.chosen)


def _expand(call: Call) -> Rows:
    (x,) = call.operands
    axis = call.axis()
    if isinstance(x, Rows):
        chosen, tensor = x.chosen, x.tensor
        if _back(x) != len(call.shape) - axis:
            raise Refused("rows of rows")
    elif isinstance(x, Tensor):
        chosen, tensor = call.opening.with_counts((call.shape[axis], call.other.output.shape[axis])), x
    else:
        raise Refused("places of a mask, expanded")
    made = ops.expand(tensor, _sized(call.shape, axis, chosen))
    return Rows(masked(made, axis, chosen) if call.is_tracked(0) and tensor is x else made, axis, chosen)


def _sized(shape: Sequence[int], axis: int, chosen: Chosen) -> tuple[int, ...]:
    """A shape with all rows."""
    return (*shape[:axis], chosen.flat.array.shape[0], *shape[axis + 1 :])


def _full(call: Call) -> Rows:
    axis = call.axis()
    chosen = call.opening.with_counts((call.shape[axis], call.other.output.shape[axis]))
    params = {k: v for k, v in call.params.items() if k != "shape"}
    if not same_params(params, {k: v for k, v in call.other.params.items() if k != "shape"}):
        raise Refused("other numbers")
    return Rows(call.bind(shape=_sized(call.shape, axis, chosen)), axis, chosen)


def _reshape(call: Call) -> Rows | Places:
    (x,) = call.operands
    if isinstance(x, Places):
        one = len(x.chosen.shape) == 1
        if len(call.shape) != 1 or not one:
            raise Refused("coordinates of a mask in another shape")
        return Places(x.chosen, 0)
    (rows,) = call.rows()
    axis, before = call.axis(), call.equation.inputs[0].shape
    base, times = rows.chosen.of or rows.chosen, rows.chosen.times * call.shape[axis]
    if math.prod(before[: rows.axis]) != math.prod(call.shape[:axis]) or times % before[rows.axis]:
        raise Refused("rows that are joined with what is around them")
    chosen = call.opening.repeated(base, times // before[rows.axis])
    return Rows(ops.reshape(rows.tensor, _sized(call.shape, axis, chosen)), axis, chosen)


def _index(index: Sequence[Any], other: Sequence[Any], axis: int, chosen: Chosen) -> tuple[Any, ...]:
    """An index that takes all rows, as one that takes all of those that were chosen."""
    made, dim = [], 0
    for one, its in zip(index, other, strict=True):
        if one is not None and dim == axis:
            if (one, its) != tuple(Slice(0, n, 1) for n in chosen.counts):
                raise Refused("some of the chosen rows, by their number")
            made.append(Slice(0, chosen.flat.array.shape[0], 1))
        elif repr(one) != repr(its):
            raise Refused("other parts of rows")
        else:
            made.append(one)
        dim += one is not None
    return tuple(made)


def _getitem(call: Call) -> Rows | Places:
    (x,) = call.operands
    index, other = call.params["index"], call.other.params["index"]
    if isinstance(x, Tensor):
        raise Refused("a part of another size")
    if isinstance(x, Places):
        whole = tuple(Slice(0, n, 1) for n in x.chosen.counts)
        if (
            x.column is not None
            or len(index) != 2
            or (index[0], other[0]) != whole
            or type(index[1]) is not int
        ):
            raise Refused("a part of the places of a mask")
        return Places(x.chosen, index[1])
    return Rows(call.bind(x.tensor, index=_index(index, other, x.axis, x.chosen)), call.axis(), x.chosen)


def _embed(call: Call) -> Rows:
    (x,) = call.rows()
    axis = call.axis()
    index = _index(call.params["index"], call.other.params["index"], axis, x.chosen)
    return Rows(call.bind(x.tensor, index=index, shape=_sized(call.shape, axis, x.chosen)), axis, x.chosen)


def _along(call: Call) -> Any:
    """An op along other dimensions than that of rows."""
    if not call.same_params or not isinstance(call.operands[0], Rows) or len(call.operands) > 1:
        raise Refused(f"{call.op.name} of chosen rows")
    (rows,) = call.rows()
    if rows.axis in _dims(call.params, rows.tensor.array.ndim):
        return _taken_apart(call)
    return call.each(rows.chosen, rows.tensor)


def _dims(params: Mapping[str, Any], ndim: int) -> Sequence[int]:
    """The dimensions along which an op goes."""
    dim = params["dim"] if "dim" in params else params.get("dims")
    dims = range(ndim) if dim is None else (dim,) if isinstance(dim, int) else dim
    return [d % ndim for d in dims]


def _joined(call: Call) -> Rows:
    """Rows that are joined with as many others, along another dimension."""
    rows = call.rows()
    first = rows[0]
    alike = all(r.chosen is first.chosen and r.axis == first.axis for r in rows)
    if not call.same_params or len(rows) < len(call.operands) or not alike:
        raise Refused(f"{call.op.name} of chosen rows with others")
    if call.op.name == "cat" and call.params["dim"] == first.axis:
        raise Refused("rows behind rows")
    return call.each(first.chosen, *[r.tensor for r in rows])


def _gather(call: Call) -> Rows:
    x, index = call.operands
    if not isinstance(x, Rows) or not isinstance(index, Rows) or not call.same_params:
        raise Refused("gather of chosen rows with others")
    if x.chosen is not index.chosen or x.axis != index.axis or call.params["dim"] == x.axis:
        raise Refused("gather along rows")
    return Rows(call.bind(x.tensor, _only(index)), x.axis, x.chosen)


# Rules: rows together.

_NOTHING: dict[str, Callable[[np.dtype], Any]] = {
    "sum": lambda dtype: 0,
    "prod": lambda dtype: 1,
    "any": lambda dtype: False,
    "all": lambda dtype: True,
    "amax": lambda dtype: -np.inf if dtype.kind == "f" else int(np.iinfo(dtype).min),
    "amin": lambda dtype: np.inf if dtype.kind == "f" else int(np.iinfo(dtype).max),
}
_NOTHING |= {"max": _NOTHING["amax"], "min": _NOTHING["amin"]}


def _reduction(call: Call) -> Any:
    (rows,) = call.rows()
    dtype, name = rows.tensor.array.dtype, call.op.name
    if not call.same_params or name not in _NOTHING or dtype.kind not in "fiub":
        raise Refused(f"{name} of chosen rows")
    if rows.axis not in _dims(call.params, rows.tensor.array.ndim):
        return call.each(rows.chosen, rows.tensor)
    if name[-3:] in ("max", "min") and (call.is_tracked(0) or dtype.kind == "b"):
        raise Refused("the gradient of the largest of chosen rows")  # others could be as large
    return call.bind(_only(rows, _NOTHING[name](dtype)))


def _mean(call: Call) -> Any:
    (rows,) = call.rows()
    shape, dtype = rows.tensor.array.shape, rows.tensor.array.dtype
    dims = _dims(call.params, len(shape))
    if not call.same_params or dtype.name not in ("float32", "float64"):
        raise Refused("a mean of other dtypes")
    if rows.axis not in dims:
        return call.each(rows.chosen, rows.tensor)
    total = bind(REGISTRY["sum"], (_only(rows),), call.params)
    others = math.prod(shape[d] for d in dims if d != rows.axis)
    return ops.div(total, times(rows.chosen.count, others, dtype))


def _nll(call: Call) -> Any:
    """Losses by classes leave rows out whose class is to be ignored."""
    *scores, target = call.operands[:2]
    if not call.same_params or not isinstance(target, Rows) or len(call.operands) > 2:
        raise Refused("classes of other rows")
    given = [x.tensor if isinstance(x, Rows) else x for x in scores]
    if any(isinstance(x, Rows) and (x.chosen is not target.chosen or x.axis) for x in scores):
        raise Refused("classes of other rows")
    made = call.bind(*given, _only(target, call.params["ignore_index"]))
    if call.op.name == "nll_loss" and call.params["reduction"] != "none":
        return made
    return Rows(made, 0, target.chosen)


def _matmul(call: Call) -> Any:
    x, y = call.operands
    call.rows()
    if isinstance(x, Rows) and isinstance(y, Rows):
        return _product_of_rows(call, x, y)
    rows, place = (x, 1) if isinstance(x, Rows) else (y, 0)
    if _is_summed(rows, 1 - place):
        raise Refused("a product along rows")
    given = [masked(*rows) if call.is_tracked(place) else rows.tensor, call.operands[place]]
    made = call.bind(*(given if place else given[::-1]))
    axis = call.axis()
    return Rows(masked(made, axis, rows.chosen) if call.is_tracked(place) else made, axis, rows.chosen)


def _is_summed(rows: Rows, place: int) -> bool:
    """Whether a product goes along the rows of the operand at this place."""
    ndim = rows.tensor.array.ndim
    return rows.axis == (ndim - 1 if place == 0 else max(ndim - 2, 0))


def _product_of_rows(call: Call, x: Rows, y: Rows) -> Any:
    if x.chosen is not y.chosen:
        raise Refused("rows of several masks")
    if _is_summed(x, 0) and _is_summed(y, 1):
        return call.bind(_only(x), _only(y))
    if min(_back(x), _back(y)) <= 2 or _back(x) != _back(y):
        raise Refused("products of rows with rows")
    return call.each(x.chosen, x.tensor, y.tensor)


def _taken_apart(call: Call) -> Any:
    """A composite op, by the ops that it is made of."""
    if not isinstance(call.op, Composite) or any(
        x.tensor.array.dtype.itemsize < 4 and x.tensor.array.dtype.kind in "fV" for x in call.rows()
    ):
        raise Refused(f"{call.op.name} of chosen rows")
    return call.opening.parts(call.equation, call.other)


RULES: dict[str, Callable[[Call], Any]] = {
    "nonzero": _nonzero, "flat_index": _flat_index, "take": _take, "put": _put, "permute": _permute,
    "detach": _same_shape, "expand": _expand, "full": _full, "reshape": _reshape, "getitem": _getitem,
    "embed": _embed, "cat": _joined, "stack": _joined, "gather": _gather, "mean": _mean, "nll_loss": _nll,
    "nll_loss_spread": _nll, "matmul": _matmul, "softmax": _along, "log_softmax": _along, "logsumexp": _along,
    "standardize": _along, "cumsum": _along, "sort": _along, "topk": _along, "argmax": _along,
    "argmin": _along, "max_dim": _along, "min_dim": _along,
}  # fmt: skip
BY_FAMILY = {"elementwise": _elementwise, "reduction": _reduction, "composite": _taken_apart}
