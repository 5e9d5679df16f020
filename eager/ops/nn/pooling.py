"""Pooling: the largest, the mean or a norm of the windows of each channel.

The maxima go by the *place* of each window's winner within it: `max_pool_place`. Routing a gradient
to the winners (`max_pool_put`) and picking the winners' elements (`max_pool_pick`) are each other's
gradients. PyTorch's indices are what is picked from the positions of all elements.

>>> import fusegrad as fg
>>> x = fg.tensor([[[1.0, 5.0, 2.0, 0.0]]])
>>> fg.nn.functional.max_pool1d(x, 2), fg.nn.functional.avg_pool1d(x, 2)
(tensor([[[5., 2.]]]), tensor([[[3., 1.]]]))
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from fusegrad.eager.autograd.views import owned
from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.families import Opaque
from fusegrad.eager.core.memory_order import channels
from fusegrad.eager.core.op import Params, TensorType, bind
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.sizes import Ints
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.declare import public
from fusegrad.eager.ops.shape.windows import (
    Sizes,
    Window,
    check_batch,
    counts,
    inside,
    numbers,
    of_each_rank,
    offsets,
    padded,
    whole_size,
    window_of,
)


def _slid(x: np.ndarray, combine: np.ufunc, count: Sizes, window: Window) -> np.ndarray:
    """The windows combined, along one dimension after the other; an array of its own."""
    fresh = False
    for axis, (c, w) in enumerate(zip(count, window, strict=True), x.ndim - len(window)):
        ahead = (slice(None),) * axis
        views = [x[(*ahead, index[1])] for _, index in offsets((c,), (w,))]
        if len(views) > 1:
            x, fresh = combine(views[0], views[1]), True
            for view in views[2:]:
                combine(x, view, out=x)
        else:
            (x,) = views
    return x if fresh else np.array(x)


def _counted(types: Sequence[TensorType], count: Sizes, **_: Any) -> TensorType:
    return TensorType(types[0].shape[: -len(count)] + count, types[0].dtype)


def _sized(types: Sequence[TensorType], size: Sizes, **_: Any) -> TensorType:
    return TensorType(types[0].shape[: -len(size)] + size, types[0].dtype)


def _as_max_pools(operands: int = 1) -> Any:
    """How results of max pools lie: as `channels` has it; volumes without a batch as a batch of one."""
    images, volumes = channels(4, operands=operands), channels(5, operands=operands)

    def rule(shape: Sizes, given: Sequence[Any], params: Any = None) -> Any:
        if len(params["window"]) < 3:
            return images(shape, given, params)
        if len(shape) == 5:
            return volumes(shape, given, params)
        batch = [_BatchOfOne((1, *x.shape), (max(x.strides) * max(x.shape), *x.strides)) for x in given]
        order = volumes((1, *shape), batch, params)
        return None if order is None else tuple(d - 1 for d in order[1:])

    return rule


class _BatchOfOne(NamedTuple):
    shape: Sizes
    strides: Sizes


# Maxima. Params: `window`, and `count`, that of the windows, or `size`, that of the input.


def _lowest(dtype: np.dtype) -> Any:
    return -np.inf if dtype.kind in "fV" else np.iinfo(dtype).min


def _max_numpy(x: np.ndarray, count: Sizes, window: Window) -> np.ndarray:
    return _slid(padded(x, count, window, _lowest(x.dtype)), np.maximum, count, window)


def _place_numpy(x: np.ndarray, count: Sizes, window: Window) -> np.ndarray:
    """Where in its window the largest is, int32: the first of equals, but the last NaN, as in PyTorch."""
    # Where all are -inf, it is the first that is not padding.
    first = np.zeros((), np.int32)
    for c, (k, s, p, d) in zip(count, window, strict=True):
        before = np.maximum(p - np.arange(c, dtype=np.int32) * s, 0)
        first = np.add.outer(first * k, -(-before // d))
    lowest, lead = _lowest(x.dtype), x.shape[: -len(count)]
    whole = padded(x, count, window, lowest)
    places = np.empty(lead + count, np.int32)
    places[...] = first
    best = np.full(lead + count, lowest, x.dtype)
    for number, (_, index) in enumerate(offsets(count, window)):
        keep_larger(best, places, whole[index], np.int32(number))
    return places


def keep_larger(best: np.ndarray, labels: np.ndarray, candidate: np.ndarray, label: Any) -> None:
    """Put what is larger than `best`, or NaN, in it, and its label in `labels`."""
    better = candidate > best
    if best.dtype.kind == "f":
        better |= np.isnan(candidate)
    np.copyto(best, candidate, where=better)
    np.copyto(labels, label, where=better)


def _pick_numpy(x: np.ndarray, places: np.ndarray, count: Sizes, window: Window) -> np.ndarray:
    whole = padded(x, count, window)
    result = np.zeros(places.shape, x.dtype)
    for number, (_, index) in enumerate(offsets(count, window)):
        np.copyto(result, whole[index], where=places == number)
    return result


def _put_numpy(x: np.ndarray, places: np.ndarray, size: Sizes, window: Window) -> np.ndarray:
    count = x.shape[-len(size) :]
    total = np.zeros(x.shape[: -len(size)] + whole_size(size, count, window), x.dtype)
    for number, (_, index) in enumerate(offsets(count, window)):
        total[index] += np.where(places == number, x, x.dtype.type(0))
    return inside(total, size, window)


def _picked(x: Tensor, places: Tensor, window: Window) -> Tensor:
    """The elements of `x` at the places within the windows."""
    return bind(_max_pick, (x, places), {"count": places.array.shape[-len(window) :], "window": window})


def _put(values: Tensor, places: Tensor, wanted: TensorType, window: Window) -> Tensor:
    """`values` at the places within the windows of zeros, added up where windows overlap."""
    return bind(_max_put, (values, places), {"size": wanted.shape[-len(window) :], "window": window})


_max_pool: Opaque = Opaque(
    "max_pool",
    "x",
    _max_numpy,
    _counted,
    {
        "x": lambda g, x, x_type, count, window: _put(
            g, bind(_max_place, (x,), {"count": count, "window": window}), x_type, window
        )
    },
    lambda params: _rank_name(params, "MaxPool{}DWithIndicesBackward0"),
    refuses="",
    order=_as_max_pools(),
)
_max_place: Opaque = Opaque(
    "max_pool_place",
    "x",
    _place_numpy,
    lambda types, **params: TensorType(_counted(types, **params).shape, np.dtype(np.int32)),
    None,
    refuses="",
    order=_as_max_pools(),
)
_max_pick: Opaque = Opaque(
    "max_pool_pick",
    "x places",
    _pick_numpy,
    _counted,
    {"x": lambda g, places, x_type, window: _put(g, places, x_type, window), "places": None},
    lambda params: _rank_name(params, "MaxPool{}DWithIndicesBackward0"),
    refuses="",
    order=_as_max_pools(2),
)
_max_put: Opaque = Opaque(
    "max_pool_put",
    "x places",
    _put_numpy,
    _sized,
    {"x": lambda g, places, window: _picked(g, places, window), "places": None},
    lambda params: _rank_name(params, "MaxPool{}DWithIndicesBackwardBackward0"),
    refuses="",
    order=_as_max_pools(2),
)


def _rank_name(params: Params, name: str) -> str:
    """PyTorch's node: pools of one dimension are those of two without the other."""
    rank = len(params["window"])
    return "SqueezeBackward1" if rank == 1 else name.format(rank)


# Means. Params besides: `include`, whether padding counts, or the `divisor` of all sums.


@functools.lru_cache(maxsize=256)
def divisor_of(size: Sizes, count: Sizes, window: Window, include: bool, divisor: int | None) -> np.ndarray:
    """What the sums are divided by; one number where it is the same for all windows."""
    if divisor is not None:
        return np.asarray(divisor)
    result: Any = np.ones((), np.int64)
    for n, c, (k, s, p, _) in zip(size, count, window, strict=True):
        start = np.arange(c) * s - p
        stop = np.minimum(start + k, n + p)
        if not include:
            start, stop = np.maximum(start, 0), np.minimum(stop, n)
        result = np.multiply.outer(result, stop - start)
    return result.flat[0] if (result == result.flat[0]).all() else result


def _divided(total: np.ndarray, divisor: np.ndarray) -> np.ndarray:
    """Divided as the dtype does it: integers towards zero."""
    if total.dtype.kind == "f":
        return total / divisor.astype(total.dtype)
    return np.abs(total) // np.abs(divisor) * np.sign(total) * np.sign(divisor)


def _mean_numpy(
    x: np.ndarray, count: Sizes, window: Window, include: bool, divisor: int | None
) -> np.ndarray:
    total = _slid(padded(x, count, window), np.add, count, window)
    size = x.shape[-len(window) :]
    return _divided(total, divisor_of(size, count, window, include, divisor)).astype(x.dtype, copy=False)


def _mean_spread_numpy(
    x: np.ndarray, size: Sizes, window: Window, include: bool, divisor: int | None
) -> np.ndarray:
    count = x.shape[-len(window) :]
    total = _divided(x, divisor_of(size, count, window, include, divisor))
    whole = whole_size(size, count, window)
    for axis, (n, c, w) in enumerate(zip(whole, count, window, strict=True), x.ndim - len(window)):
        ahead = (slice(None),) * axis
        wider = np.zeros((*total.shape[:axis], n, *total.shape[axis + 1 :]), x.dtype)
        for _, index in offsets((c,), (w,)):
            wider[(*ahead, index[1])] += total
        total = wider
    return inside(total, size, window)


_avg_pool: Opaque = Opaque(
    "avg_pool",
    "x",
    _mean_numpy,
    _counted,
    {
        "x": lambda g, x_type, window, include, divisor: bind(
            _avg_spread,
            (g,),
            {
                "size": x_type.shape[-len(window) :],
                "window": window,
                "include": include,
                "divisor": divisor,
            },
        )
    },
    lambda params: _rank_name(params, "AvgPool{}DBackward0"),
    refuses="",
    order=channels(3, 4),
)
_avg_spread: Opaque = Opaque(
    "avg_pool_spread",
    "x",
    _mean_spread_numpy,
    _sized,
    {
        "x": lambda g, x_type, window, include, divisor: bind(
            _avg_pool,
            (g,),
            {
                "count": x_type.shape[-len(window) :],
                "window": window,
                "include": include,
                "divisor": divisor,
            },
        )
    },
    lambda params: _rank_name(params, "AvgPool{}DBackwardBackward0"),
    refuses="",
    order=channels(3, 4),
)


# What users call.


def check_kind(name: str, input: Tensor, kinds: str) -> None:
    """Raise NotImplementedError for a dtype of another kind."""
    if input.array.dtype.kind not in (kinds + "V" if "f" in kinds else kinds):
        raise failure(NotImplementedError, f'"{name}" not implemented for {input.array.dtype.name}')


def _pool_window(
    name: str, input: Tensor, rank: int, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil: bool
) -> tuple[Sizes, Window]:
    """How many windows there are, and their parameters, checked."""
    # PyTorch takes no stride, or an empty list, for that of the kernel.
    window = window_of(name, rank, kernel, kernel if stride in (None, (), []) else stride, padding, dilation)
    if any(p > k // 2 for k, _, p, _ in window):
        raise failure(
            RuntimeError,
            f"{name}: padding should be at most half of kernel size, but got padding={padding} and "
            f"kernel_size={kernel}",
        )
    check_batch(name, input.array.shape, rank)
    count = counts(input.array.shape[-rank:], window, ceil)
    if min(count) < 1:
        raise failure(
            RuntimeError,
            f"{name}: input of size {list(input.array.shape)} gives an output of size {list(count)}: "
            "Output size is too small",
        )
    return count, window


def positions(size: Sizes, rank: int) -> Tensor:
    """The flat position of each element within the last `rank` dimensions, int64, of shape `size`."""
    plane = size[-rank:]
    return ops.expand(ops.reshape(ops.arange(math.prod(plane)), plane), size)


def _max_pool_of(name: str, rank: int) -> Callable[..., Any]:
    kinds = "f" if rank == 1 else "fiu"

    def max_pool(
        input: Tensor,
        kernel_size: Ints,
        stride: Ints | None = None,
        padding: Ints = 0,
        dilation: Ints = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Any:
        check_kind(name, input, kinds)
        count, window = _pool_window(name, input, rank, kernel_size, stride, padding, dilation, ceil_mode)
        params = {"count": count, "window": window}
        if not return_indices:
            return bind(_max_pool, (input,), params)
        places = bind(_max_place, (input,), params)
        indices = _picked(positions(input.array.shape, rank), places, window)
        indices.version = places.version  # which backward reads, and says so where either was written
        return _picked(input, places, window), indices

    return max_pool


def _avg_pool_of(name: str, rank: int) -> Callable[..., Tensor]:
    def avg_pool(
        input: Tensor,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Tensor:
        if input.array.dtype != np.int64:
            check_kind(name, input, "f")
        if divisor_override == 0:
            raise failure(RuntimeError, f"{name}: divisor must be not zero")
        count, window = _pool_window(name, input, rank, kernel_size, stride, padding, 1, ceil_mode)
        if rank == 3 and any(n < w[0] for n, w in zip(input.array.shape[-3:], window, strict=True)):
            raise failure(
                RuntimeError,
                f"{name}: input of size {list(input.array.shape)} is smaller than kernel_size={kernel_size}",
            )
        params = {
            "count": count,
            "window": window,
            "include": bool(count_include_pad),
            "divisor": divisor_override,
        }
        return bind(_avg_pool, (input,), params)

    def avg_pool_1(
        input: Tensor,
        kernel_size: Ints,
        stride: Ints | None = None,
        padding: Ints = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> Tensor:
        return avg_pool(input, kernel_size, stride, padding, ceil_mode, count_include_pad)

    return avg_pool_1 if rank == 1 else avg_pool


def _lp_pool_of(name: str, rank: int) -> Callable[..., Tensor]:
    def lp_pool(
        input: Tensor, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
    ) -> Tensor:
        if abs(norm_type) == math.inf:
            away = ops.abs(input)
            if norm_type > 0:
                return _max_pools[rank - 1](away, kernel_size, stride, 0, 1, ceil_mode)
            return -_max_pools[rank - 1](-away, kernel_size, stride, 0, 1, ceil_mode)
        mean = _avg_pools[rank - 1](ops.pow(input, norm_type), kernel_size, stride, 0, ceil_mode)
        elements = math.prod(numbers(kernel_size, rank, name, "kernel_size"))
        return ops.pow(ops.sign(mean) * ops.relu(ops.abs(mean)) * elements, 1.0 / norm_type)

    return lp_pool


def _max_unpool_of(name: str, rank: int) -> Callable[..., Tensor]:
    def max_unpool(
        input: Tensor,
        indices: Tensor,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        output_size: Sequence[int] | None = None,
    ) -> Tensor:
        steps = kernel_size if stride in (None, (), []) else stride
        window = window_of(name, rank, kernel_size, steps, padding)
        size = _unpooled_size(name, input, window, output_size)
        given = input.array.shape
        if indices.array.dtype != np.int64:
            raise failure(RuntimeError, f"{name}: indices must be int64, but got {indices.array.dtype.name}")
        check_batch(name, given, rank)
        if indices.array.shape != given:
            raise failure(
                RuntimeError,
                f"{name}: Expected shape of indices to be that of the input {list(given)}, "
                f"but got {list(indices.array.shape)}",
            )
        flat, lead = (-1, math.prod(given[-rank:])), given[:-rank]
        zeros = ops.zeros((math.prod(lead), math.prod(size)), dtype=input.dtype)
        result = ops.scatter(zeros, 1, ops.reshape(indices, flat), ops.reshape(input, flat))
        result = owned(ops.reshape(result, (*lead, *size)))
        return ops.lying_as_images(result, input) if rank == 2 else result

    return max_unpool


def _unpooled_size(name: str, input: Tensor, window: Window, wanted: Sequence[int] | None) -> Sizes:
    """The size that `max_unpool` fills: `wanted`, if it may be that; raises ValueError if not."""
    rank = len(window)
    given = input.array.shape[-rank:]
    natural = tuple((n - 1) * s + k - 2 * p for n, (k, s, p, _) in zip(given, window, strict=True))
    if wanted is None:
        return natural
    size = tuple(wanted)[-rank:]
    if len(wanted) not in (rank, rank + 2):
        raise failure(
            ValueError, f"{name}: output_size must have {rank} or {rank + 2} elements, but got {wanted}"
        )
    if any(not n - s < z < n + s or z < 0 for z, n, (_, s, _, _) in zip(size, natural, window, strict=True)):
        raise failure(
            ValueError, f"{name}: invalid output_size {wanted}: each must be within a stride of {natural}"
        )
    return size


_max_pools = max_pool1d, max_pool2d, max_pool3d = of_each_rank(
    "max_pool{}d",
    """The largest of each window of [N, C, *size] or [C, *size]; with their positions if `return_indices`.

    stride: that of the windows, if not given their size. Raises RuntimeError for sizes that do not fit.""",
    _max_pool_of,
)
_avg_pools = avg_pool1d, avg_pool2d, avg_pool3d = of_each_rank(
    "avg_pool{}d",
    """The mean of each window of [N, C, *size] or [C, *size].

    count_include_pad: whether zeros of the padding count. Raises RuntimeError for sizes that do not fit.""",
    _avg_pool_of,
)
for _function in (avg_pool1d, max_pool1d, max_pool2d, max_pool3d):
    public(_function)
lp_pool1d, lp_pool2d, lp_pool3d = of_each_rank(
    "lp_pool{}d", "The `norm_type`-norm of each window of [N, C, *size] or [C, *size].", _lp_pool_of
)
max_unpool1d, max_unpool2d, max_unpool3d = of_each_rank(
    "max_unpool{}d",
    """Zeros with `input` at the positions `indices` that a max pool gave.

    Raises ValueError for an `output_size` that the pool's input cannot have had.""",
    _max_unpool_of,
)
