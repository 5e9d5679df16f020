"""Padding: with a number, mirrored, repeated or going round."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.op import bind
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.sizes import positions, size_of
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.create import creation
from fusegrad.eager.ops.declare import public
from fusegrad.eager.ops.shape.slicing import Slice, _assign

Widths = list[tuple[int, int]]


def padded(input: Tensor, widths: Sequence[tuple[int, int]], value: Any) -> Tensor:
    """`input` with `value` around it; widths: (before, after) per dimension, negative ones cut."""
    sizes = input.array.shape
    grown_sizes = [n + a + b for n, (a, b) in zip(sizes, widths, strict=True)]
    if any(n < 0 for n in grown_sizes):
        raise failure(RuntimeError, f"shape {list(sizes)} padded by {list(widths)} has a negative size")
    cut = tuple(slice(max(0, -a), n - max(0, -b)) for n, (a, b) in zip(sizes, widths, strict=True))
    if any(a < 0 or b < 0 for a, b in widths):
        input = input[cut]
    if all(a <= 0 and b <= 0 for a, b in widths):
        return input
    grown = [(max(0, a), n, max(0, b)) for n, (a, b) in zip(input.array.shape, widths, strict=True)]
    around = ops.full(tuple(a + n + b for a, n, b in grown), value, dtype=input.dtype)
    index = tuple(Slice(a, a + n, 1) for a, n, _ in grown)
    return bind(_assign, (around, input), {"index": index})


def _widths(input: Tensor, pad: Sequence[int]) -> Widths:
    """`pad`, listed from the last dimension on, as (before, after) for each dimension."""
    widths = [(0, 0)] * input.array.ndim
    if len(pad) % 2:
        raise failure(RuntimeError, f"padding length must be divisible by 2, got {list(pad)}")
    if len(pad) // 2 > len(widths):
        raise failure(RuntimeError, f"padding {list(pad)} does not fit shape {list(input.array.shape)}")
    for i in range(len(pad) // 2):
        widths[-1 - i] = (size_of(pad[2 * i]), size_of(pad[2 * i + 1]))
    return widths


@public
def constant_pad_nd(input: Tensor, pad: Sequence[int], value: Any = 0) -> Tensor:
    """Padded with a number; `pad` lists (before, after) from the last dimension on, negative ones cut.

    Source: `torch.constant_pad_nd`.
    """
    pad = [size_of(n) for n in pad]
    result = padded(input, _widths(input, pad), value)
    # Where nothing is put around, a view is left; PyTorch always gives new memory.
    result = result.clone() if all(n <= 0 for n in pad) else result
    return ops.lying_as_images(result, input)


# The other modes: which element each place of the padded dimension shows.


def _reflected(place: np.ndarray, n: int, before: int, after: int) -> np.ndarray:
    if before >= n or after >= n:
        raise failure(
            RuntimeError,
            "padding size should be less than the corresponding input dimension, "
            f"but got padding ({before}, {after}) for a dimension of {n} elements",
        )
    return (n - 1) - np.abs((n - 1) - np.abs(place))


def _replicated(place: np.ndarray, n: int, before: int, after: int) -> np.ndarray:
    return np.clip(place, 0, n - 1)


def _circular(place: np.ndarray, n: int, before: int, after: int) -> np.ndarray:
    if before > n or after > n:
        raise failure(
            RuntimeError,
            "padding value causes wrapping around more than once: "
            f"({before}, {after}) for a dimension of {n} elements",
        )
    return place % n


_MODES: dict[str, Callable[..., np.ndarray]] = {
    "reflect": _reflected,
    "replicate": _replicated,
    "circular": _circular,
}


def pad(input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Tensor:
    """Padded; `pad` lists (before, after) from the last dimension on, negative numbers cut.

    mode: "constant" puts `value` (0) around, "reflect" mirrors at the edge, "replicate" repeats the
    edge, "circular" goes round. Raises RuntimeError where a dimension has too few elements for that,
    NotImplementedError for another mode or rank. Source: `torch.nn.functional.pad`.

    >>> import fusegrad as fg
    >>> fg.nn.functional.pad(fg.tensor([[1.0, 2.0, 3.0]]), (2, 1), mode="reflect")
    tensor([[3., 2., 1., 2., 3., 2.]])
    """
    if mode == "constant":
        return constant_pad_nd(input, pad, 0 if value is None else value)
    if value is not None and value != 0:
        raise failure(ValueError, f'padding mode "{mode}" doesn\'t take in value argument')
    if mode not in _MODES:
        raise failure(NotImplementedError, f"unrecognised padding mode {mode}")
    widths = _widths(input, pad)
    ranks = (len(pad) // 2 + 1, len(pad) // 2 + 2)
    if len(pad) not in (2, 4, 6) or input.array.ndim not in ranks:
        raise failure(
            NotImplementedError,
            f"only 2D, 3D, 4D, 5D padding with non-constant padding is supported: the last dimension of a 2D "
            f"or 3D input, the last two of 3D or 4D, the last three of 4D or 5D; got {list(pad)} for shape "
            f"{list(input.array.shape)}",
        )
    spatial, given = len(pad) // 2, input
    _check_not_empty(input, spatial, mode)
    left = [n + a + b for n, (a, b) in zip(input.array.shape, widths, strict=True)]
    if mode != "circular" and all(n < 1 for n in left[-spatial:]):
        raise failure(RuntimeError, f"shape {list(input.array.shape)} cannot be padded to {left}")
    for dim, (before, after) in enumerate(widths):
        if before or after:
            n = input.array.shape[dim]
            if n + before + after < 0:
                raise failure(
                    RuntimeError, f"dimension {dim} of {n} elements cannot be padded by {before, after}"
                )
            if mode == "circular":  # what is left goes round, what is cut does not
                input, n, before, after = _cut(input, dim, before, after)
            place = positions(before + n + after) - before
            shown = creation.constant(_MODES[mode](place, n, before, after))
            input = ops.index_select(input, dim, shown)
    return input if mode == "circular" else ops.lying_as_images(input, given)


def _cut(input: Tensor, dim: int, before: int, after: int) -> tuple[Tensor, int, int, int]:
    """`input` without what negative widths cut, its size then, and the widths that are left to pad."""
    n = input.array.shape[dim]
    start, end = max(0, -before), n - max(0, -after)
    if end - start < n:
        input = ops.narrow(input, dim, start, end - start)
    return input, end - start, max(0, before), max(0, after)


def _check_not_empty(input: Tensor, spatial: int, mode: str) -> None:
    """Only the batch dimension may have no elements; channels, too, where the padding goes round."""
    size = input.array.shape
    if not all(size[-spatial if mode == "circular" else -spatial - 1 :]):
        raise failure(
            RuntimeError,
            f"Expected {spatial + 1}D or {spatial + 2}D (batch mode) tensor with possibly 0 batch size and "
            f"other non-zero dimensions for input, but got: {list(size)}",
        )
