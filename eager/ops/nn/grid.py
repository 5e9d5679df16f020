"""Sampling images at positions that are tensors: `grid_sample`, and grids that move images.

>>> import fusegrad as fg
>>> image = fg.arange(4.0).reshape(1, 1, 2, 2)
>>> fg.nn.functional.grid_sample(image, fg.zeros(1, 1, 1, 2), align_corners=False)
tensor([[[[1.5000]]]])
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from fusegrad.eager.autograd.views import owned
from fusegrad.eager.core import dtypes
from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.families import Opaque
from fusegrad.eager.core.op import TensorType, bind
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.declare import public
from fusegrad.eager.ops.precision import in_single

_MODES = ("bilinear", "nearest", "bicubic")
_PADDINGS = ("zeros", "border", "reflection")


# Reading all channels of an image [N, C, pixels] at positions [N, places], and adding up there.


def _pick_numpy(x: np.ndarray, index: np.ndarray) -> np.ndarray:
    result = np.empty((*x.shape[:2], index.shape[1]), x.dtype)
    for image, places, out in zip(x, index, result, strict=True):
        np.take(image, places, 1, out=out, mode="clip")  # they were checked; "raise" copies first
    return result


def _put_numpy(x: np.ndarray, index: np.ndarray, pixels: int) -> np.ndarray:
    from scipy import sparse  # takes 0.1 s, and few programs need a grid's gradient

    result = np.empty((*x.shape[:2], pixels), x.dtype)
    ones, rows = np.ones(index.shape[1], x.dtype), np.arange(index.shape[1] + 1)
    for values, places, out in zip(x, index, result, strict=True):
        chosen = sparse.csr_array((ones, places, rows), shape=(places.size, pixels))
        out[...] = (chosen.T @ values.T).T
    return result


_pick: Opaque = Opaque(
    "pixel_pick",
    "x index",
    _pick_numpy,
    lambda types: TensorType((*types[0].shape[:2], types[1].shape[1]), types[0].dtype),
    {
        "x": lambda g, index, x_type: bind(_put, (g, index), {"pixels": x_type.shape[2]}),
        "index": None,
    },
)
_put: Opaque = Opaque(
    "pixel_put",
    "x index",
    _put_numpy,
    lambda types, pixels: TensorType((*types[0].shape[:2], pixels), types[0].dtype),
    {"x": lambda g, index: bind(_pick, (g, index)), "index": None},
)


# Where to read.


def _limited(place: Tensor, size: int) -> Tensor:
    """Positions moved to the nearest in the image, NaN to 0; no gradient at the border, as in PyTorch."""
    within = ops.logical_and(place > 0, place < size - 1)
    known = ops.where(ops.isnan(place), 0.0, place.detach())
    return ops.where(within, place, ops.clamp(known, 0, size - 1))


def _reflected(place: Tensor, size: int, align_corners: bool) -> Tensor:
    """Positions mirrored at the image's edges until they lie within: at the corners' centres, or outside."""
    low, span = (0.0, size - 1.0) if align_corners else (-0.5, float(size))
    if span <= 0:
        return place * 0.0
    away = ops.abs(place - low)
    flips = ops.floor(away.detach() / span)
    rest = away - flips * span
    return ops.where(ops.remainder(flips, 2) == 0, rest, span - rest) + low


def _placed(place: Tensor, size: int, padding: str, align_corners: bool) -> Tensor:
    """Positions as the padding has them: elsewhere where they lie outside, unless zeros are read there."""
    if padding == "reflection":
        place = _reflected(place, size, align_corners)
    return place if padding == "zeros" else _limited(place, size)


def _read(input: Tensor, places: Sequence[Tensor]) -> Tensor:
    """The elements [N, C, *out] at whole positions [N, *out] of each dimension; 0 outside."""
    images, channels, *size = input.array.shape
    out = places[0].array.shape[1:]
    flat, known = None, None
    for place, n in zip(places, size, strict=True):
        inside = ops.logical_and(place >= 0, place <= n - 1)
        whole = ops.clamp(ops.cast(place.detach(), dtypes.int64), 0, n - 1)
        flat = whole if flat is None else flat * n + whole
        known = inside if known is None else ops.logical_and(known, inside)
    assert flat is not None and known is not None
    pixels = ops.reshape(input, (images, channels, math.prod(size)))
    found = bind(_pick, (pixels, ops.reshape(flat, (images, math.prod(out)))))
    return ops.where(ops.unsqueeze(known, 1), ops.reshape(found, (images, channels, *out)), 0.0)


def _weighted(input: Tensor, taps: Sequence[Sequence[tuple[Tensor, Tensor]]]) -> Tensor:
    """The sum over all combinations of each dimension's taps: of a position and its weight."""
    total = None
    for combination in itertools.product(*taps):
        weight = None
        for _, part in combination:
            weight = part if weight is None else weight * part
        assert weight is not None
        term = _read(input, [place for place, _ in combination]) * ops.unsqueeze(weight, 1)
        total = term if total is None else total + term
    assert total is not None
    return total


def _nearest_tap(place: Tensor) -> list[tuple[Tensor, Tensor]]:
    # The weight's gradient is 0, so that of the grid is 0 and not missing, as in PyTorch.
    return [(ops.round(place.detach()), ops.where(ops.isfinite(place), ops.round(place) * 0.0, 0.0) + 1.0)]


def _linear_taps(place: Tensor) -> list[tuple[Tensor, Tensor]]:
    first = ops.floor(place.detach())
    away = place - first
    return [(first, 1 - away), (first + 1, away)]


def _cubic_taps(place: Tensor, size: int, padding: str, align_corners: bool) -> list[tuple[Tensor, Tensor]]:
    first = ops.floor(place.detach())
    away = place - first
    a = -0.75

    def near(x: Tensor) -> Tensor:
        return ((a + 2) * x - (a + 3)) * x * x + 1

    def far(x: Tensor) -> Tensor:
        return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a

    weights = (far(away + 1), near(away), near(1 - away), far(1 - away + 1))
    places = (_placed(first + k, size, padding, align_corners) for k in range(-1, 3))
    return list(zip(places, weights, strict=True))


def grid_sample(
    input: Tensor,
    grid: Tensor,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Tensor:
    """`input` [N, C, (D,) H, W] read at `grid` [N, *out, 2 or 3]: [N, C, *out].

    grid: x, y (and z) from -1 to 1, from edge to edge of the image, or from centre to centre of its
    corners with `align_corners`. mode: "bilinear", "nearest" or, for two dimensions, "bicubic".
    padding_mode: what is read outside: "zeros", "border" or "reflection". Raises ValueError for other
    modes, RuntimeError for sizes that do not fit. Source: `torch.nn.functional.grid_sample`.
    """
    input, grid = in_single(input, grid)
    for what, given, known in (("mode", mode, _MODES), ("padding_mode", padding_mode, _PADDINGS)):
        if given not in known:
            comma = "," if what == "padding_mode" else ""
            expected = f"{', '.join(map(repr, known[:-1]))}{comma} or {known[-1]!r}"
            wrong = f"expected {what} to be {expected}, but got: {given!r}"
            raise failure(ValueError, f"nn.functional.grid_sample(): {wrong}")
    _check(input, grid, mode)
    size, align = input.array.shape[2:], bool(align_corners)
    places = []
    for axis, n in enumerate(size):
        place = grid[..., len(size) - 1 - axis].contiguous()
        place = (place + 1) / 2 * (n - 1) if align else ((place + 1) * n - 1) / 2
        places.append(place if mode == "bicubic" else _placed(place, n, padding_mode, align))
    if mode == "nearest":
        return _weighted(input, [_nearest_tap(place) for place in places])
    if mode == "bilinear":
        return _weighted(input, [_linear_taps(place) for place in places])
    pairs = zip(places, size, strict=True)
    return _weighted(input, [_cubic_taps(place, n, padding_mode, align) for place, n in pairs])


def _check(input: Tensor, grid: Tensor, mode: str) -> None:
    given, wanted = input.array.shape, grid.array.shape
    rank = len(given) - 2
    if given[:1] != wanted[:1]:
        raise failure(
            RuntimeError,
            "grid_sampler(): expected grid and input to have same batch size, but got input with sizes "
            f"{list(given)} and grid with sizes {list(wanted)}",
        )
    sizes = f"input with sizes {list(given)} and grid with sizes {list(wanted)}"
    if wanted[-1:] != (rank,):
        wrong = f"expected grid to have size {rank} in last dimension, but got grid with sizes {list(wanted)}"
        raise failure(RuntimeError, f"grid_sampler(): {wrong}")
    if rank not in (2, 3) or len(wanted) != len(given):
        wrong = f"expected 4D or 5D input and grid with same number of dimensions, but got {sizes}"
        raise failure(RuntimeError, f"grid_sampler(): {wrong}")
    if not all(given[2:]):
        raise failure(
            RuntimeError,
            "grid_sampler(): expected input to have non-empty spatial dimensions, but input has sizes "
            f"{list(given)} with dimension {given.index(0, 2)} being empty",
        )
    if input.array.dtype != grid.array.dtype:
        raise failure(
            RuntimeError,
            f"grid_sample: expected input and grid to have the same dtype, but got "
            f"{input.array.dtype.name} and {grid.array.dtype.name}",
        )
    if mode == "bicubic" and rank == 3:
        raise failure(RuntimeError, "grid_sample: bicubic interpolation only supports 4D input")


@public(aliases=("grid_sampler_2d", "grid_sampler_3d"))
def grid_sampler(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """`grid_sample` with its modes by number. Source: `torch.grid_sampler`."""
    return grid_sample(input, grid, _MODES[interpolation_mode], _PADDINGS[padding_mode], align_corners)


def affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool | None = None) -> Tensor:
    """The grid with which `grid_sample` moves images of `size` [N, C, (D,) H, W] by matrices `theta`.

    theta: [N, 2, 3] or [N, 3, 4]. Raises ValueError for sizes that do not fit.
    Source: `torch.nn.functional.affine_grid`.
    """
    rank, given = len(size) - 2, theta.array.shape
    if theta.array.dtype.kind not in "fV":
        raise failure(
            ValueError,
            f"affine_grid: Expected theta to have floating point type, but got {theta.array.dtype}",
        )
    if rank not in (2, 3) or given[1:] != (rank, rank + 1) or min(size) < 1:
        raise failure(
            ValueError,
            f"affine_grid: theta must be [N, 2, 3] for [N, C, H, W], or [N, 3, 4] for [N, C, D, H, W] with "
            f"positive sizes, but got {list(given)} for {list(size)}",
        )
    plane = tuple(size[2:])
    columns: list[Any] = []
    for axis in reversed(range(rank)):
        n = plane[axis]
        line = ops.linspace(-1, 1, n, dtype=theta.dtype) if n > 1 else ops.zeros(1, dtype=theta.dtype)
        if not align_corners:
            line = line * ((n - 1) / n)
        along = ops.reshape(line, tuple(n if a == axis else 1 for a in range(rank)))
        columns.append(ops.expand(along, plane))
    base = ops.stack([*columns, ops.ones(plane, dtype=theta.dtype)], -1)
    rows = ops.reshape(base, (1, math.prod(plane), rank + 1))
    grid = ops.matmul(rows, ops.transpose(theta, 1, 2))
    return owned(ops.reshape(grid, (size[0], *plane, rank)))
