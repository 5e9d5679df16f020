"""Tensors repeated: side by side, element by element, or slice by slice."""

from __future__ import annotations

from typing import Any

import numpy as np

from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.families import Composite, Opaque
from fusegrad.eager.core.op import TensorType, bind
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.sizes import Ints
from fusegrad.eager.core.state import testable
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.declare import method, public
from fusegrad.eager.ops.shape.shape import _sizes, normal_dim
from fusegrad.eager.ops.sized import bind_sized


def _apart(size: tuple[int, ...], times: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """How often each dimension comes, and how long it is, with those that are put before a tensor's own."""
    return tuple(zip(times, (1,) * (len(times) - len(size)) + size, strict=True))


def _repeat_decomposed(x: Tensor, times: tuple[int, ...]) -> Tensor:
    pairs = _apart(x.array.shape, times)
    apart = ops.reshape(x, tuple([n for _, size in pairs for n in (1, size)]))
    spread = ops.expand(apart, tuple([n for pair in pairs for n in pair]))
    repeated = ops.reshape(spread, tuple([count * size for count, size in pairs]))
    # Where nothing is copied next to another, that is a view.
    return ops.clone(repeated) if all(1 in pair for pair in pairs) else repeated


def _repeat_numpy(x: np.ndarray, times: tuple[int, ...]) -> np.ndarray:
    pairs = _apart(x.shape, times)
    made = np.empty([count * size for count, size in pairs], x.dtype)
    made.reshape([n for pair in pairs for n in pair])[...] = x.reshape(
        [n for _, size in pairs for n in (1, size)]
    )
    return made


def _repeat_gradient(g: Tensor, x_type: TensorType, times: tuple[int, ...]) -> Tensor:
    pairs = _apart(x_type.shape, times)
    apart: list[int] = []
    summed: list[int] = []
    for count, size in pairs:
        if count != 1:
            summed.append(len(apart))
            apart.append(count)
        apart.append(size)
    total = ops.sum(ops.reshape(g, tuple(apart)), tuple(summed)) if summed else g
    return ops.reshape(total, x_type.shape)


_repeat = Composite("repeat", "x", _repeat_decomposed, _repeat_numpy, {"x": _repeat_gradient})


@method
def repeat(input: Tensor, *counts: Any, repeats: Ints | None = None) -> Tensor:
    """The tensor laid side by side `repeats` times along each dimension. Source: `torch.Tensor.repeat`."""
    times, size = _sizes(counts, repeats), input.array.shape
    if len(times) < len(size):
        raise failure(
            RuntimeError, f"{len(times)} repeats for a tensor of {len(size)} dimensions {list(size)}"
        )
    if any(n < 0 for n in times):
        raise failure(RuntimeError, f"a tensor cannot be repeated a negative number of times: {list(times)}")
    return bind(_repeat, (input,), {"times": times})


@public(method=True)
def tile(input: Tensor, *counts: Any, dims: Ints | None = None) -> Tensor:
    """`repeat` with 1 for the dimensions that `dims` leaves out. Source: `torch.tile`."""
    times = _sizes(counts, dims)
    return repeat(input, (1,) * (input.array.ndim - len(times)) + times)


@public(method=True)
def repeat_interleave(
    input: Tensor,
    repeats: int | Tensor | None = None,
    dim: int | None = None,
    *,
    output_size: int | None = None,
) -> Tensor:
    """Each element (or slice along `dim`) `repeats` times in a row. Source: `torch.repeat_interleave`.

    repeats: a number, or as many as there are slices. Given alone, it tells how often each index comes.

    >>> import fusegrad as fg
    >>> fg.repeat_interleave(fg.tensor([7, 8]), fg.tensor([1, 2]))
    tensor([7, 8, 8])
    """
    if repeats is None:
        return _repeated_indices(input, output_size)
    if dim is None:
        input, dim = ops.flatten(input), 0
    if not input.array.ndim:
        raise failure(IndexError, f"Dimension specified as {dim} but tensor has no dimensions")
    dim = normal_dim(dim, input.array.ndim)
    if isinstance(repeats, Tensor) and repeats.array.size != 1:
        if repeats.array.ndim != 1 or repeats.array.size != input.array.shape[dim]:
            raise failure(
                RuntimeError,
                f"repeats {list(repeats.array.shape)} must be 0-dim or have the size of dimension {dim} "
                f"of {list(input.array.shape)}",
            )
        return ops.index_select(input, dim, _repeated_indices(repeats, output_size))
    times = int(repeats)
    if times < 0:
        raise failure(RuntimeError, f"repeats has to be non-negative, got {times}")
    size = input.array.shape
    spread = ops.expand(ops.unsqueeze(input, dim + 1), (*size[: dim + 1], times, *size[dim + 1 :]))
    result = ops.reshape(spread, (*size[:dim], size[dim] * times, *size[dim + 1 :]))
    return result.clone() if times == 1 or size[dim] == 1 else result


_repeated = Opaque(
    "repeated_indices",
    "repeats",
    lambda repeats, size=None: np.repeat(np.arange(repeats.size, dtype=repeats.dtype), repeats),
    lambda types, size: TensorType((size,), types[0].dtype),
    None,
)


def _repeated_indices(repeats: Tensor, output_size: int | None) -> Tensor:
    """The index i as often as `repeats[i]` says. How many there are depends on the values."""
    counts = repeats.array
    if counts.ndim != 1 or counts.dtype not in (np.int64, np.int32):
        raise failure(
            RuntimeError,
            f"repeats must be a vector of int64 or int32, got {counts.dtype.name}{list(counts.shape)}",
        )
    if testable(repeats, lambda: ops.ge(repeats, 0).all()) and (repeats.array < 0).any():
        raise failure(RuntimeError, "repeats can not be negative")
    found: Tensor = bind_sized(_repeated, (repeats,), {}, "slices repeated", lambda: ops.sum(repeats))
    if output_size is not None and found.array.size != output_size:
        raise failure(
            RuntimeError, f"output_size {output_size} is not the sum of repeats, {found.array.size}"
        )
    return found
