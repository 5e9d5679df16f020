"""Ops whose dimensions have roles, for batches: products, convolutions, look-ups.

The examples become rows, images, channels and groups of channels, or places in one long table.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from fusegrad.eager.core import dtypes
from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.op import REGISTRY, bind
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.state import testable
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.batches.rules import Call, rule
from fusegrad.eager.ops.index.take_and_put import FROM_ZERO, TAKE


def _merged(tensor: Tensor) -> Tensor:
    """The first two dimensions as one."""
    first, second, *rest = tensor.array.shape
    return ops.reshape(tensor, (first * second, *rest))


def _parted(tensor: Tensor, size: int, dim: int = 0) -> Tensor:
    """A dimension as two, of which the first has this size, moved to the front."""
    shape = tensor.array.shape
    n = shape[dim] // size if size else 0
    parted = ops.reshape(tensor, (*shape[:dim], size, n, *shape[dim + 1 :]))
    return ops.movedim(parted, dim, 0) if dim else parted


# Products.


@rule("matmul")
def _product(call: Call) -> Any:
    """Of matrices with equal numbers of leading dimensions; rows of rows times one matrix are rows."""
    wanted = call.op.infer(call.types(), call.params).shape
    (x, y), (p, q) = call.operands, (call.rank(0), call.rank(1))
    if call.batched[0] and not call.batched[1] and q <= 2:
        rows = ops.reshape(x, (-1, x.array.shape[-1])) if p > 1 and x.array.size else x
        made = call.done((rows, y))
    elif call.batched[1] and not call.batched[0] and p <= 2 and q == 1:
        made = call.done((y, ops.movedim(x, 0, -1) if p == 2 else x))
    else:
        rank = max(p, q, 2)
        made = call.done((_matrices(call, 0, rank), _matrices(call, 1, rank)))
    return ops.reshape(made, (call.size, *wanted))


def _matrices(call: Call, index: int, rank: int) -> Any:
    """An operand of a product as matrices: a vector as a row, on the right as a column."""
    operand, shape = call.operands[index], call.shape(index)
    if len(shape) == 1:
        shape = (shape[0], 1) if index else (1, shape[0])
    if call.batched[index]:
        shape = (call.size, *[1] * (rank - len(shape)), *shape)
    return ops.reshape(operand, shape)


# Convolutions. x: [N, C, *size]; weight: [O, C / groups, *kernel], transposed [C, O / groups, *kernel].


def _as_channels(tensor: Tensor) -> Tensor:
    """[B, N, C, ...] as [N, B * C, ...]."""
    size, images, channels, *rest = tensor.array.shape
    return ops.reshape(ops.movedim(tensor, 0, 1), (images, size * channels, *rest))


@rule("convolution convolution_bias conv_transpose conv_transpose_bias")
def _convolution(call: Call) -> Any:
    """Weights for all make images of the examples; own ones, groups of channels, or channels of one image."""
    (x, weight, *bias), groups, size = call.operands, call.params["groups"], call.size
    if not any(call.batched[1:]):
        return _parted(call.done((_merged(x), weight, *bias)), size)
    plain, params = REGISTRY[call.op.name.removesuffix("_bias")], call.params
    if not call.batched[1]:
        made = bind(plain, (_merged(x) if call.batched[0] else x, weight), params)
        made = _parted(made, size) if call.batched[0] else ops.unsqueeze(made, 0)
    elif not call.batched[0] and groups == 1 and plain.name == "convolution":
        made = _parted(bind(plain, (x, _merged(weight)), params), size, 1)
    else:
        params = {**params, "groups": groups * size}
        made = _parted(bind(plain, (_as_channels(call.full(0)), _merged(weight)), params), size, 1)
    if bias:
        many = size if call.batched[2] else 1
        made = made + ops.reshape(bias[0], (many, 1, -1, *[1] * len(params["window"])))
    return made


@rule("conv_weight")
def _conv_weight(call: Call) -> Any:
    groups, size = call.params["groups"], call.size
    if not call.batched[0] and groups == 1:
        return _parted(call.done((call.operands[0], _as_channels(call.operands[1]))), size)
    channels = [_as_channels(x) for x in call.everything()]
    return _parted(call.done(channels, groups=groups * size), size)


@rule("pixel_pick pixel_put im2col col2im")
def _images(call: Call) -> Any:
    """Examples of images as more images."""
    return _parted(call.done([_merged(x) for x in call.everything()]), call.size)


@rule("fractional_max_place")
def _all_leading(call: Call) -> Any:
    return call.done(call.everything())


@rule("multinomial")
def _multinomial(call: Call) -> Any:
    (x,) = call.operands
    return _parted(call.done((_merged(x),)), call.size) if call.rank(0) == 2 else call.done((x,))


# Look-ups.


def _places(index: Tensor, size: int, from_zero: bool, dim: int) -> Tensor:
    """Indices [B, ...] into rows of `size` elements as indices into all B rows on end."""
    least = 0 if from_zero else -size
    index = ops.cast(index, dtypes.int64)

    def within() -> Tensor:
        return ops.logical_and(index >= least, index < size).all()

    if testable(index, within, (least, size)) and index.array.size and not within().array:
        raise failure(IndexError, f"an index is out of bounds for dimension {dim} with size {size}")
    shape = index.array.shape
    rows = ops.reshape(ops.arange(shape[0]) * size, (-1, *[1] * (len(shape) - 1)))
    counted = index if from_zero else ops.where(index < 0, index + size, index)
    return counted + rows


@rule("take select_at")
def _take(call: Call) -> Any:
    (x, index), dim = call.operands, call.params["dim"]
    if not call.batched[1]:
        return call.done((x, index), dim=dim + 1)
    if not call.batched[0]:
        found = bind(TAKE, (x, index), {"name": "Index", **call.params})
        return ops.movedim(found, dim, 0)
    shape, many = call.shape(0), call.rank(1)
    from_zero = call.params.get("name") in FROM_ZERO
    places = _places(index, shape[dim], from_zero, dim)
    rows = _merged(ops.movedim(x, dim + 1, 1))
    found = bind(TAKE, (rows, places), {"name": "Index", **call.params, "dim": 0})
    return ops.movedim(found, tuple(range(1, 1 + many)), tuple(range(1 + dim, 1 + dim + many)))


@rule("put")
def _put(call: Call) -> Any:
    (_, _, index), dim, size = call.operands, call.params["dim"], call.size
    x, value = call.full(0), call.full(1)
    if not call.batched[2]:
        return call.done((x, value, index), dim=dim + 1)
    shape, many = call.shape(0), call.rank(2)
    rest = shape[:dim] + shape[dim + 1 :]
    places = ops.reshape(_places(index, shape[dim], False, dim), (-1,))
    moved = ops.movedim(value, tuple(range(1 + dim, 1 + dim + many)), tuple(range(1, 1 + many)))
    slices = ops.reshape(moved, (places.array.size, *rest))
    rows = _merged(ops.movedim(x, dim + 1, 1))
    written = ops.reshape(call.done((rows, slices, places), dim=0), (size, shape[dim], *rest))
    return ops.movedim(written, 1, dim + 1)


@rule("searchsorted")
def _searchsorted(call: Call) -> Any:
    """One vector for all examples may be asked for any values; one for each, for as many rows of values."""
    own = [i for i in range(len(call.operands)) if i != 1]
    if call.rank(0) == 1 and not any(call.batched[i] for i in own):
        return call.done(call.operands)
    operands: Sequence[Any] = call.everything()
    if call.rank(0) == 1:
        count = math.prod(call.shape(1))
        operands = [operands[0], ops.reshape(operands[1], (call.size, count)), *operands[2:]]
    return call.fitted(call.done(operands))
