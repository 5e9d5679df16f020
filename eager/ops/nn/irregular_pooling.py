"""Max pools whose windows do not slide evenly: adaptive and fractional ones.

The ops give the positions of the largest elements; the values are gathered there, so gradients are
those of `gather`.

>>> import fusegrad as fg
>>> fg.nn.functional.adaptive_max_pool1d(fg.tensor([[[1.0, 5.0, 2.0]]]), 2)
tensor([[[5., 5.]]])
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fusegrad.eager.core import dtypes
from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.families import Opaque
from fusegrad.eager.core.memory_order import channels
from fusegrad.eager.core.op import TensorType, bind
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.nn.no_windows import no_windows
from fusegrad.eager.ops.nn.pooling import check_kind, keep_larger
from fusegrad.eager.ops.nn.resampling import adaptive_size, spans
from fusegrad.eager.ops.shape.windows import Sizes, check_batch, numbers, of_each_rank


def _indices_type(types: Sequence[TensorType], size: Sizes, **_: Any) -> TensorType:
    return TensorType(types[0].shape[: -len(size)] + size, np.dtype(np.int64))


def _gathered(input: Tensor, indices: Tensor, rank: int) -> Tensor:
    """The elements at flat positions within the last `rank` dimensions."""
    given, wanted = input.array.shape, indices.array.shape
    rows = math.prod(given[:-rank])
    planes = ops.reshape(input, (rows, math.prod(given[-rank:])))
    places = ops.reshape(indices, (rows, math.prod(wanted[-rank:])))
    return ops.reshape(ops.gather(planes, 1, places), wanted)


def _largest(x: np.ndarray, axis: int) -> np.ndarray:
    """The position of the first largest, but of the last NaN, along `axis` (kept)."""
    found = np.argmax(x, axis, keepdims=True)
    nan = np.isnan(x)
    if nan.any():
        last = x.shape[axis] - 1 - np.argmax(np.flip(nan, axis), axis, keepdims=True)
        found = np.where(nan.any(axis, keepdims=True), last, found)
    return found


def _adaptive_numpy(x: np.ndarray, size: Sizes) -> np.ndarray:
    """The flat positions of the largest, found along one dimension after the other, the last first."""
    rank = len(size)
    plane = x.shape[-rank:]
    places = np.broadcast_to(np.arange(math.prod(plane)).reshape(plane), x.shape)
    for axis in reversed(range(x.ndim - rank, x.ndim)):
        ahead = (slice(None),) * axis
        parts = []
        for start, stop in spans(x.shape[axis], size[axis - x.ndim]):
            part = (*ahead, slice(start, stop))
            found = _largest(x[part], axis)
            parts.append(
                (np.take_along_axis(x[part], found, axis), np.take_along_axis(places[part], found, axis))
            )
        empty = (*ahead, slice(0, 0))
        x = np.concatenate([x[empty], *(p[0] for p in parts)], axis)
        places = np.concatenate([places[empty], *(p[1] for p in parts)], axis)
    return places


_adaptive_place = Opaque("adaptive_max_place", "x", _adaptive_numpy, _indices_type, None, order=channels(4))


def _adaptive_max_of(name: str, rank: int) -> Callable[..., Any]:
    def adaptive_max_pool(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
        check_kind(name, input, "f")
        size = adaptive_size(name, input, rank, output_size, True)
        indices = bind(_adaptive_place, (input,), {"size": size})
        values = _gathered(input, indices, rank) if all(size) else no_windows(input, size, "AdaptiveMax")
        values = ops.lying_as_images(values, input) if rank == 2 else values
        return (values, indices) if return_indices else values

    return adaptive_max_pool


adaptive_max_pool1d, adaptive_max_pool2d, adaptive_max_pool3d = of_each_rank(
    "adaptive_max_pool{}d",
    """The largest of windows that divide [N, C, *size] or [C, *size] into `output_size` ones.

    With their positions if `return_indices`. None in `output_size` keeps a size. Raises RuntimeError or
    ValueError for sizes that do not fit.""",
    _adaptive_max_of,
)


# Fractional: the windows' starts are spread over each dimension by one random number for each channel.


def _starts(samples: np.ndarray, inputs: int, outputs: int, kernel: int) -> np.ndarray:
    """Where the windows start, [..., outputs]."""
    steps = np.arange(outputs - 1).astype(samples.dtype)
    alpha = samples.dtype.type((inputs - kernel) / max(outputs - 1, 1))
    samples = samples[..., None]
    before = ((steps + samples) * alpha).astype(np.int64) - (samples * alpha).astype(np.int64)
    last = np.full((*samples.shape[:-1], 1), inputs - kernel)
    return np.concatenate([before, last], -1)[..., :outputs]


def _fractional_numpy(x: np.ndarray, samples: np.ndarray, size: Sizes, kernel: Sizes) -> np.ndarray:
    rank, lead = len(size), x.shape[: -len(size)]
    plane = x.shape[-rank:]
    # PyTorch's samples go from the last dimension to the first in 2 dimensions, and the other way in 3.
    order = reversed(range(rank)) if rank == 2 else range(rank)
    starts = []
    for axis, column in enumerate(order):
        start = _starts(samples[..., column].reshape(lead), plane[axis], size[axis], kernel[axis])
        starts.append(start.reshape(*lead, *(size[a] if a == axis else 1 for a in range(rank))))
    flat = x.reshape(*lead, math.prod(plane))
    places = np.zeros((*lead, *size), np.int64)
    best = np.full(places.shape, -np.inf, x.dtype)
    for offset in itertools.product(*map(range, kernel)):
        within = [s + o for s, o in zip(starts, offset, strict=True)]
        position = np.ravel_multi_index(np.broadcast_arrays(*within), plane)
        if not any(offset):
            places[...] = position
        found = np.take_along_axis(flat, position.reshape(*lead, math.prod(size)), -1).reshape(places.shape)
        keep_larger(best, places, found, position)
    return places


_fractional_place = Opaque("fractional_max_place", "x samples", _fractional_numpy, _indices_type, None)


def _check_samples(name: str, size: Sequence[int], wanted: tuple[int, int, int]) -> None:
    """Refuse random numbers [N, C, dimensions] that are not those of the input."""
    if len(size) != 3 or size[0] < wanted[0] or tuple(size[1:]) != wanted[1:]:
        raise failure(
            RuntimeError,
            f"{name}: Expect _random_samples of size {list(wanted)} (or for more inputs), got {list(size)}",
        )


def _fractional_of(name: str, rank: int) -> Callable[..., Any]:
    def fractional_max_pool(
        input: Tensor,
        kernel_size: Any,
        output_size: Any = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> Any:
        check_kind(name, input, "f")
        given = input.array.shape
        check_batch(name, given, rank)
        for what, value in (("kernel_size", kernel_size), ("output_size", output_size)):
            if isinstance(value, (tuple, list)) and len(value) != rank:
                raise failure(
                    RuntimeError, f"{name}: {what} must either be a single Int or {rank} of them, got {value}"
                )
        kernel = numbers(kernel_size, rank, name, "kernel_size")
        if output_size is None:
            if output_ratio is None:
                raise failure(
                    ValueError, f"{name} requires specifying either an output_size or an output_ratio"
                )
            ratios = output_ratio if isinstance(output_ratio, (list, tuple)) else [output_ratio] * rank
            if len(ratios) != rank:
                raise failure(
                    ValueError, f"{name}: output_ratio must be a number or {rank}, got {output_ratio}"
                )
            output_size = [int(n * r) for n, r in zip(given[-rank:], ratios, strict=True)]
        size = numbers(output_size, rank, name, "output_size")
        sizes = zip(("time", "height", "width")[-rank:], given[-rank:], size, kernel, strict=True)
        for dimension, n, m, k in sizes:
            if m + k - 1 > n or m < 0:
                raise failure(
                    RuntimeError,
                    f"{name}: pool {dimension} {k} too large relative to input {dimension} {n} for {m} "
                    f"outputs (input {list(given)}, output_size {list(size)}, kernel_size {list(kernel)})",
                )
        samples = _random_samples
        batch = given[0] if len(given) == rank + 2 else 1
        if samples is not None:
            _check_samples(name, samples.array.shape, (batch, given[-rank - 1], rank))
        else:
            samples = ops.rand(batch, given[-rank - 1], rank, dtype=dtypes.FROM_NUMPY[input.array.dtype])
        indices = bind(_fractional_place, (input, samples), {"size": size, "kernel": kernel})
        values = _gathered(input, indices, rank)
        return (values, indices) if return_indices else values

    return fractional_max_pool


fractional_max_pool2d, fractional_max_pool3d = of_each_rank(
    "fractional_max_pool{}d",
    """The largest of windows of `kernel_size` whose starts are drawn by chance.

    The output has `output_size`, or `output_ratio` times the input's. _random_samples: numbers in 0..1
    [N, C, dimensions] that the starts are made of. Raises RuntimeError for sizes that do not fit.""",
    _fractional_of,
    ranks=(2, 3),
)
