"""take, put and select_at: whole slices along one dimension, by the numbers that a tensor holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fusegrad.eager.core.families import Layout, Opaque
from fusegrad.eager.core.memory_order import AS_OPERANDS, Order, as_operands
from fusegrad.eager.core.op import Params, TensorType, bind
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.stable_order import stable_order


def checked(index: np.ndarray, size: int, dim: int, least: int | None = None) -> np.ndarray:
    """`index` if all of it lies in -size..size-1 (or in least..size-1), else an IndexError."""
    if index.dtype.kind not in "iu":
        raise IndexError(f"tensors used as indices must be integers or bools, got {index.dtype.name}")
    outside = (index < (-size if least is None else least)) | (index >= size)
    if outside.any() and not size:
        raise IndexError(f"index is out of bounds for dimension with size 0 (dimension {dim})")
    if outside.any():
        raise IndexError(
            f"index {index[outside].flat[0]} is out of bounds for dimension {dim} with size {size}"
        )
    return index


# The functions that do not count from the end, too.
FROM_ZERO = ("IndexSelect", "Embedding")


def _take_type(types: Sequence[TensorType], dim: int, name: str) -> TensorType:
    size = types[0].shape
    return TensorType(size[:dim] + types[1].shape + size[dim + 1 :], types[0].dtype)


def _take_numpy(x: np.ndarray, index: np.ndarray, dim: int, name: str) -> np.ndarray:
    if name not in FROM_ZERO and index.dtype.kind in "iu":
        try:
            return x.take(index, axis=dim)
        except IndexError:
            pass  # it is raised anew, with the index and the dimension
    least = 0 if name in FROM_ZERO else None
    return np.take(x, checked(index, x.shape[dim], dim, least), axis=dim)


def _take_order(shape: tuple[int, ...], operands: Sequence[np.ndarray], params: Params) -> Order:
    """As x lies along the dimensions that are kept, and as the index does along its own."""
    (x, index), dim = operands, params["dim"]
    if params["name"] != "Index" or (x.flags.c_contiguous and index.flags.c_contiguous):
        return None
    after = (1,) * (x.ndim - dim - 1)
    kept = Layout(shape, (*x.strides[:dim], *(0 for _ in index.shape), *x.strides[dim + 1 :]))
    own = Layout((*index.shape, *after), (*index.strides, *(0 for _ in after)))
    return as_operands(shape, (kept, own))


TAKE = Opaque(
    "take",
    "x index",
    _take_numpy,
    _take_type,
    {"x": lambda g, index, x_type, dim: _put_sum(x_type, index, g, dim), "index": None},
    lambda params: params["name"] + "Backward0",
    order=_take_order,
)
AS_OPERANDS.add(_take_order)


def _from_either_end(operands: Sequence[Any], params: Params, place: int) -> list[tuple[int, int, int]]:
    """The operand of that number has places along the dimension that is indexed, maybe from its end."""
    size = operands[0].shape[params["dim"]]
    return [(place, -size, size)]


def _take_positions(operands: Sequence[Any], params: Params) -> list[tuple[int, int, int]]:
    ((place, least, size),) = _from_either_end(operands, params, 1)
    return [(place, 0 if params["name"] in FROM_ZERO else least, size)]


TAKE.positions = _take_positions


def _put_numpy(x: np.ndarray, value: np.ndarray, index: np.ndarray, dim: int, accumulate: bool) -> np.ndarray:
    result, index = np.array(x), checked(index, x.shape[dim], dim)
    if accumulate:
        _add_slices(result, value, index, dim)
    else:
        result[(slice(None),) * dim + (index,)] = value
    return result


def _add_slices(result: np.ndarray, value: np.ndarray, index: np.ndarray, dim: int) -> None:
    """Add the slices of `value` to those of `result` at `index`, repeated ones each time.

    `np.add.at` does the same element by element, some ten times as slowly for rows.
    """
    if not value.size:
        return
    place = index.reshape(-1) % result.shape[dim]
    order = stable_order(place.astype(np.int32) if result.shape[dim] <= 1 << 31 else place)
    ordered = place[order]
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    slices = value.reshape(*result.shape[:dim], place.size, *result.shape[dim + 1 :])
    slices = np.take(slices, order, axis=dim)
    sums = np.add.reduceat(slices, starts, axis=dim, dtype=result.dtype)
    result[(slice(None),) * dim + (ordered[starts],)] += sums


PUT = Opaque(
    "put",
    "x value index",
    _put_numpy,
    lambda types, dim, accumulate: types[0],
    {
        "x": lambda g, index, dim, accumulate: g if accumulate else _put_zero(g, index, dim),
        "value": lambda g, index, dim: bind(TAKE, (g, index), {"dim": dim, "name": "Index"}),
        "index": None,
    },
    "IndexPutBackward0",
)


PUT.positions = lambda operands, params: _from_either_end(operands, params, 2)


def _put_sum(type_: TensorType, index: Tensor, value: Tensor, dim: int) -> Tensor:
    """Zeros of `type_` with `value` added at `index` along `dim`."""
    zeros = ops.zeros(type_.shape, dtype=type_.dtype)
    return bind(PUT, (zeros, value, index), {"dim": dim, "accumulate": True})


def _select_at_numpy(x: np.ndarray, index: np.ndarray, dim: int) -> np.ndarray:
    place = int(checked(index, x.shape[dim], dim))
    return x[(slice(None),) * dim + (place, ...)]


def _select_at_order(shape: tuple[int, ...], operands: Sequence[np.ndarray], params: Params) -> Order:
    """As the part lies in x."""
    x, dim = operands[0], params["dim"]
    return as_operands(shape, (Layout(shape, (*x.strides[:dim], *x.strides[dim + 1 :])),))


# `select` at what a tensor without dimensions holds, for interpreters that follow that; to others it is a
# number. It gives a view.
SELECT_AT = Opaque(
    "select_at",
    "x index",
    _select_at_numpy,
    lambda types, dim: TensorType(types[0].shape[:dim] + types[0].shape[dim + 1 :], types[0].dtype),
    {"x": lambda g, index, x_type, dim: _put_sum(x_type, index, g, dim), "index": None},
    "SelectBackward0",
    order=_select_at_order,
)
SELECT_AT.positions = lambda operands, params: _from_either_end(operands, params, 1)


def _put_zero(x: Tensor, index: Tensor, dim: int) -> Tensor:
    size = x.array.shape
    zeros = ops.zeros(size[:dim] + index.array.shape + size[dim + 1 :], dtype=x.dtype)
    return bind(PUT, (x, zeros, index), {"dim": dim, "accumulate": False})
