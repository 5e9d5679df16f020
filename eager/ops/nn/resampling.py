"""Resizing: every mode is one sparse matrix along each dimension.

A `Map` is what the op knows of a dimension; `_matrix` makes its rows, which weigh the input's
elements. The gradient is the same op with the matrices transposed. Weights are computed as PyTorch
computes them, in the input's precision.

>>> import fusegrad as fg
>>> fg.nn.functional.interpolate(fg.tensor([[[0.0, 1.0]]]), scale_factor=2, mode="linear")
tensor([[[0.0000, 0.2500, 0.7500, 1.0000]]])
"""

from __future__ import annotations

import functools
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
from fusegrad.eager.core.sizes import positions
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.declare import public
from fusegrad.eager.ops.nn.no_windows import no_windows
from fusegrad.eager.ops.nn.pooling import check_kind
from fusegrad.eager.ops.shape.windows import Sizes, numbers, of_each_rank

# Of a dimension: the mode, the sizes of input and output, how many elements of the input one of the
# output moves on (by PyTorch's rules), and whether the corners' centres lie on each other.
Map = tuple[str, int, int, float, bool]


# The rows of a matrix: [outputs, taps] of positions in the input and of their weights.


def _sources(outputs: int, scale: Any, align: bool) -> np.ndarray:
    """Where the outputs' centres lie in the input, in the precision of `scale`."""
    place = positions(outputs).astype(scale.dtype)
    half = scale.dtype.type(0.5)
    return scale * place if align else scale * (place + half) - half


def _nearest(inputs: int, outputs: int, scale: Any, align: bool) -> tuple[np.ndarray, np.ndarray]:
    place = np.floor(_sources(outputs, scale, True).astype(np.float32))
    return np.minimum(place, inputs - 1)[:, None], np.ones((outputs, 1))


def _nearest_exact(inputs: int, outputs: int, scale: Any, align: bool) -> tuple[np.ndarray, np.ndarray]:
    source = np.maximum(_sources(outputs, scale, False), 0)
    place = np.floor((source + scale.dtype.type(0.5)).astype(np.float32))
    return np.minimum(place, inputs - 1)[:, None], np.ones((outputs, 1))


def _between(source: np.ndarray, inputs: int) -> tuple[np.ndarray, np.ndarray]:
    """The element before each source, and how far behind it the source lies."""
    first = np.minimum(np.floor(source.astype(np.float32)), inputs - 1).astype(np.int64)
    return first, np.clip(source - first.astype(source.dtype), 0, 1)


def _linear(inputs: int, outputs: int, scale: Any, align: bool) -> tuple[np.ndarray, np.ndarray]:
    first, away = _between(np.maximum(_sources(outputs, scale, align), 0), inputs)
    places = np.stack([first, np.minimum(first + 1, inputs - 1)], 1)
    return places, np.stack([1 - away, away], 1)


def _cubic(inputs: int, outputs: int, scale: Any, align: bool) -> tuple[np.ndarray, np.ndarray]:
    first, away = _between(_sources(outputs, scale, align), inputs)
    places = np.clip(first[:, None] + np.arange(-1, 3), 0, inputs - 1)
    return places, cubic_weights(away)


def cubic_weights(away: Any) -> np.ndarray:
    """The weights [..., 4] of the elements at -1, 0, 1, 2 for what lies `away` behind 0."""
    distances = np.stack([1 + away, away, 1 - away, 2 - away], -1)
    return _cubic_filter(distances, distances.dtype.type(-0.75))


def _cubic_filter(x: np.ndarray, a: Any) -> np.ndarray:
    """Keys' cubic convolution kernel."""
    x = np.abs(x)
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return np.where(x <= 1, near, np.where(x < 2, far, 0))


def _area(inputs: int, outputs: int, scale: Any, align: bool) -> tuple[np.ndarray, np.ndarray]:
    starts, stops = np.array(spans(inputs, outputs), np.int64).reshape(-1, 2).T
    places = starts[:, None] + np.arange((stops - starts).max(initial=0))
    return places, np.where(places < stops[:, None], 1 / (stops - starts)[:, None], 0)


def spans(inputs: int, outputs: int) -> list[tuple[int, int]]:
    """The part of the input, start and stop, that adaptive pools give each output."""
    return [(i * inputs // outputs, -((-(i + 1) * inputs) // outputs)) for i in positions(outputs).tolist()]


def _smoothed(
    reach: int, weigh: Callable[[np.ndarray], np.ndarray]
) -> Callable[..., tuple[np.ndarray, np.ndarray]]:
    """An antialiased filter of `reach` elements to each side, wider where the output is smaller."""

    def rows(inputs: int, outputs: int, scale: Any, align: bool) -> tuple[np.ndarray, np.ndarray]:
        kind = scale.dtype.type
        support, inverse = reach * max(scale, kind(1)), min(1 / scale, kind(1)) if scale else kind(1)
        centre = scale * (positions(outputs).astype(scale.dtype) + kind(0.5))
        first = np.maximum((centre - support + kind(0.5)).astype(np.int64), 0)
        stop = np.minimum((centre + support + kind(0.5)).astype(np.int64), inputs)
        places = first[:, None] + np.arange((stop - first).max(initial=1))
        weights = weigh((places.astype(scale.dtype) - centre[:, None] + kind(0.5)) * inverse)
        weights = np.where(places < stop[:, None], weights, 0)
        total = weights.sum(1, keepdims=True)
        return places, weights / np.where(total == 0, 1, total)

    return rows


_ROWS: dict[str, Callable[..., tuple[np.ndarray, np.ndarray]]] = {
    "nearest": _nearest,
    "nearest-exact": _nearest_exact,
    "linear": _linear,
    "cubic": _cubic,
    "area": _area,
    "smooth linear": _smoothed(1, lambda x: np.maximum(1 - np.abs(x), 0)),
    "smooth cubic": _smoothed(2, lambda x: _cubic_filter(x, x.dtype.type(-0.5))),
    "smooth lanczos": _smoothed(3, lambda x: np.where(np.abs(x) < 3, np.sinc(x) * np.sinc(x / 3), 0)),
}


def rows_of(map: Map, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    """For each output the places in the input that it takes, and their weights, computed in `dtype`."""
    mode, inputs, outputs, scale, align = map
    return _ROWS[mode](inputs, outputs, dtype.type(scale), align)


@functools.lru_cache(maxsize=128)
def matrix_of(map: Map, dtype: np.dtype) -> Any:
    """The sparse matrix [outputs, inputs] of a dimension; None for the identity."""
    from scipy import sparse  # takes 0.1 s, and few programs resize

    mode, inputs, outputs, scale, _ = map
    if inputs == outputs and (scale == 1 or not mode.startswith(("nearest", "cubic"))):
        return None
    places, weights = rows_of(map, dtype)
    taps = places.shape[1]
    columns = np.clip(places, 0, inputs - 1).astype(np.int32).ravel()
    rows = np.arange(0, outputs * taps + 1, taps, dtype=np.int32)
    matrix = sparse.csr_array((weights.astype(dtype).ravel(), columns, rows), shape=(outputs, inputs))
    if mode == "area" or mode.startswith("smooth"):
        matrix.eliminate_zeros()  # those that fill the rows up; others are PyTorch's, and 0 * inf counts
    return matrix


def _resample_numpy(x: np.ndarray, maps: tuple[Map, ...], transposed: bool) -> np.ndarray:
    result = x
    for axis, map in enumerate(maps, x.ndim - len(maps)):
        matrix = matrix_of(map, x.dtype if x.dtype.kind == "f" else np.dtype(np.float32))
        if matrix is None:
            continue
        if not transposed and map[0].startswith("nearest"):
            result = np.take(result, matrix.indices, axis)
            continue
        moved = np.moveaxis(result, axis, 0)
        rest = moved.shape[1:]
        flat = (matrix.T if transposed else matrix) @ moved.reshape(moved.shape[0], math.prod(rest))
        result = np.moveaxis(flat.reshape(flat.shape[0], *rest), 0, axis)
    return np.array(result, order="C") if result is x else np.ascontiguousarray(result)


def _resample_type(types: Sequence[TensorType], maps: tuple[Map, ...], transposed: bool) -> TensorType:
    sizes = tuple(m[1] if transposed else m[2] for m in maps)
    return TensorType(types[0].shape[: -len(maps)] + sizes, types[0].dtype)


def _node_name(params: Any) -> str:
    maps = params["maps"]
    mode, rank = maps[0][0], len(maps)
    kind = {"linear": ("Linear", "Bilinear", "Trilinear")[rank - 1], "cubic": "Bicubic"}
    names = {
        "nearest": f"UpsampleNearest{rank}D",
        "nearest-exact": f"UpsampleNearestExact{rank}D",
        "area": "Squeeze" if rank == 1 else f"AdaptiveAvgPool{rank}D",
        "smooth lanczos": "UpsampleLanczos2DAa",
    }
    if mode.startswith("smooth") and mode not in names:
        return f"Upsample{kind[mode.removeprefix('smooth ')]}2DAaBackward0"
    title = names.get(mode) or f"Upsample{kind[mode]}{rank}D"
    return f"{title}Backward{1 if title == 'Squeeze' else 0}"


_resample: Opaque = Opaque(
    "resample",
    "x",
    _resample_numpy,
    _resample_type,
    {"x": lambda g, maps, transposed: bind(_resample, (g,), {"maps": maps, "transposed": not transposed})},
    _node_name,
    refuses="",
    order=channels(4, 5),
)


# What users call.


_MODES = {
    "nearest": ("nearest", (1, 2, 3)),
    "nearest-exact": ("nearest-exact", (1, 2, 3)),
    "area": ("area", (1, 2, 3)),
    "linear": ("linear", (1,)),
    "bilinear": ("linear", (2,)),
    "trilinear": ("linear", (3,)),
    "bicubic": ("cubic", (2,)),
    "lanczos": ("lanczos", (2,)),
}


def interpolate(
    input: Tensor,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """[N, C, *size] resized to `size`, or by `scale_factor`.

    mode: "nearest", "nearest-exact", "area"; "linear", "bilinear" or "trilinear" for 1, 2 or 3
    dimensions; "bicubic", or "lanczos" with `antialias`, for 2. align_corners: centres of the corners lie
    on each other, not their outer edges. Raises ValueError for arguments that do not go together.
    Source: `torch.nn.functional.interpolate`.
    """
    rank, given = input.array.ndim - 2, input.array.shape[2:]
    _check_mode(input, mode, align_corners, antialias)
    output, factors = _sizes(given, rank, size, scale_factor)
    if recompute_scale_factor or mode == "area":
        if recompute_scale_factor and size is not None:
            raise failure(
                ValueError, "interpolate: recompute_scale_factor is not meaningful with an explicit size."
            )
        factors = None
    if not all((*given, *output)) or not input.array.shape[1]:
        raise failure(
            RuntimeError,
            f"interpolate: Input and output sizes should be greater than 0, but got input "
            f"{list(input.array.shape)} and output {list(output)}",
        )
    align = bool(align_corners)
    kind = _MODES[mode][0]
    if antialias:
        kind = f"smooth {kind}"
    steps = _steps(given, output, factors, align)
    if kind == "nearest" and rank == 2:
        # As PyTorch does it here: the same size is a copy, the double repeats, whatever the factor.
        steps = [n / m if m in (n, 2 * n) else s for n, m, s in zip(given, output, steps, strict=True)]
    maps = tuple((kind, n, m, s, align) for n, m, s in zip(given, output, steps, strict=True))
    if input.array.dtype == np.uint8 and not mode.startswith("nearest"):
        return _of_bytes(input, maps)
    return bind(_resample, (input,), {"maps": maps, "transposed": False})


def _of_bytes(image: Tensor, maps: Any) -> Tensor:
    """As PyTorch does it: along the rows first, and bytes again before the columns' turn."""
    made = ops.cast(image, dtypes.float32)
    for turn in (1, 0):
        here = zip(maps, made.array.shape[2:], strict=True)
        ways = tuple(m if i == turn else (m[0], n, n, 1.0, m[4]) for i, (m, n) in enumerate(here))
        made = bind(_resample, (made,), {"maps": ways, "transposed": False})
        made = ops.clamp(ops.round(made), 0, 255)
    return ops.cast(made, dtypes.uint8)


def _check_mode(input: Tensor, mode: str, align_corners: bool | None, antialias: bool) -> None:
    rank = input.array.ndim - 2
    if mode in ("nearest", "area", "nearest-exact") and align_corners is not None:
        raise failure(
            ValueError,
            "interpolate: align_corners option can only be set with the interpolating modes: "
            "linear | bilinear | bicubic | trilinear",
        )
    if antialias and (mode not in ("bilinear", "bicubic", "lanczos") or rank != 2):
        raise failure(
            ValueError,
            "interpolate: Anti-alias option is restricted to bilinear, bicubic and lanczos modes and "
            "requires a 4-D tensor as input",
        )
    if mode == "lanczos" and (align_corners or not antialias):
        raise failure(ValueError, "interpolate: mode 'lanczos' needs antialias=True and no align_corners")
    if mode not in _MODES or rank not in _MODES[mode][1]:
        raise failure(
            NotImplementedError,
            f"interpolate: a {rank + 2}D input cannot be resized with mode {mode!r}; "
            f"modes and their dimensions besides [N, C]: "
            + ", ".join(f"{m} {'/'.join(map(str, r))}" for m, (_, r) in _MODES.items()),
        )
    bytes_too = mode.startswith("nearest") or rank == 2
    if not (bytes_too and mode != "area" and input.array.dtype == np.uint8):
        check_kind("interpolate", input, "f")


def _sizes(given: Sizes, rank: int, size: Any, scale_factor: Any) -> tuple[Sizes, tuple[float, ...] | None]:
    """The output's size, and the factors if they were given."""
    if (size is None) == (scale_factor is None):
        raise failure(
            ValueError,
            "interpolate: either size or scale_factor should be defined"
            if size is None
            else "interpolate: only one of size or scale_factor should be defined",
        )
    value = scale_factor if size is None else size
    if isinstance(value, (list, tuple)) and len(value) != rank:
        raise failure(
            ValueError,
            "interpolate: Input and output must have the same number of spatial dimensions, but got input "
            f"with {list(given)} and {'size' if size is not None else 'scale_factor'} {value}",
        )
    if size is not None:
        return numbers(size, rank, "interpolate", "size"), None
    factors = tuple(map(float, value)) if isinstance(value, (list, tuple)) else (float(value),) * rank
    if not all(map(math.isfinite, factors)):
        raise failure(ValueError, f"interpolate: scale_factor must be finite, got {scale_factor}")
    return tuple(int(n * f) for n, f in zip(given, factors, strict=True)), factors


def _steps(given: Sizes, output: Sizes, factors: tuple[float, ...] | None, align: bool) -> list[float]:
    """How many elements of the input one of the output moves on, along each dimension."""
    if align:
        return [(n - 1) / (m - 1) if m > 1 else 0.0 for n, m in zip(given, output, strict=True)]
    if factors is not None:
        return [1.0 / f for f in factors]
    return [n / m for n, m in zip(given, output, strict=True)]


def upsample(
    input: Tensor,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor:
    """`interpolate` under its older name. Source: `torch.nn.functional.upsample`."""
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """`interpolate` with mode "nearest". Source: `torch.nn.functional.upsample_nearest`."""
    return interpolate(input, size, scale_factor, "nearest")


def upsample_bilinear(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """`interpolate` bilinearly, corners aligned. Source: `torch.nn.functional.upsample_bilinear`."""
    return interpolate(input, size, scale_factor, "bilinear", True)


# Adaptive means are the mode "area", also for input without a batch.


def adaptive_size(name: str, input: Tensor, rank: int, output_size: Any, channels: bool) -> Sizes:
    """`output_size` of an adaptive pool, None replaced by the input's size.

    channels: whether there must be some, too.
    Raises ValueError for too few dimensions, RuntimeError for other sizes that do not fit.
    """
    given = input.array.shape
    if isinstance(output_size, (list, tuple)) and rank > 1 and len(given) <= len(output_size):
        raise failure(
            ValueError,
            f"{name}: Input dimension should be at least {len(output_size) + 1}, but got {list(given)}",
        )
    if len(given) not in (rank + 1, rank + 2) or not all(given[1:] if channels else given[-rank:]):
        raise failure(
            RuntimeError,
            f"{name}: Expected {rank + 1}D or {rank + 2}D tensor with non-zero size for non-batch "
            f"dimensions, but got {list(given)}",
        )
    wanted = list(output_size) if isinstance(output_size, (list, tuple)) else [output_size] * rank
    if len(wanted) not in (1, rank):
        words = "'output_size' should contain one int" if rank == 1 else f"output_size must be {rank}"
        raise failure(RuntimeError, f"{name}: {words}, but got {output_size!r}")
    size = numbers(
        [n if w is None else w for n, w in zip(given[-rank:], wanted, strict=False)]
        if len(wanted) == rank
        else wanted,
        rank,
        name,
        "output_size",
    )
    if min(size) < 0:
        raise failure(
            RuntimeError, f"{name}: elements of output_size must be greater than or equal to 0, got {size}"
        )
    return size


def _adaptive_avg_of(name: str, rank: int) -> Callable[..., Tensor]:
    def adaptive_avg_pool(input: Tensor, output_size: Sequence[int | None] | int) -> Tensor:
        check_kind(name, input, "f")
        size = adaptive_size(name, input, rank, output_size, rank == 3)
        given = input.array.shape[-rank:]
        if not all(size):
            return no_windows(input, size, "AdaptiveAvg")
        maps = tuple(("area", n, m, 1.0, False) for n, m in zip(given, size, strict=True))
        return bind(_resample, (input,), {"maps": maps, "transposed": False})

    return adaptive_avg_pool


adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d = of_each_rank(
    "adaptive_avg_pool{}d",
    """The means of windows that divide [N, C, *size] or [C, *size] into `output_size` ones.

    None in `output_size` keeps a size. Raises RuntimeError or ValueError for sizes that do not fit.""",
    _adaptive_avg_of,
)
public(adaptive_avg_pool1d)
