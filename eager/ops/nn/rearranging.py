"""Windows as columns and back (`unfold`, `fold`), and channels as pixels and back.

>>> import fusegrad as fg
>>> x = fg.arange(4.0).reshape(1, 1, 2, 2)
>>> fg.nn.functional.unfold(x, (1, 2))
tensor([[[0., 2.],
         [1., 3.]]])
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from fusegrad.eager.autograd.views import owned
from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.families import Opaque
from fusegrad.eager.core.op import TensorType, bind
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.declare import public
from fusegrad.eager.ops.shape.windows import (
    Sizes,
    Window,
    check_batch,
    counts,
    inside,
    numbers,
    offsets,
    padded,
    whole_size,
    window_of,
    windows,
)

# Params: the `size` of the image, `window`, and the `count` of windows.


def _elements(window: Window) -> int:
    return math.prod(w[0] for w in window)


def _unfold_numpy(x: np.ndarray, size: Sizes, count: Sizes, window: Window) -> np.ndarray:
    view = windows(padded(x, count, window), count, window)
    return np.array(view).reshape(x.shape[0], x.shape[1] * _elements(window), math.prod(count))


def _fold_numpy(x: np.ndarray, size: Sizes, count: Sizes, window: Window) -> np.ndarray:
    channels = x.shape[1] // _elements(window)
    columns = x.reshape(x.shape[0], channels, *(w[0] for w in window), *count)
    total = np.zeros((x.shape[0], channels, *whole_size(size, count, window)), x.dtype)
    for place, index in offsets(count, window):
        taken: Any = (slice(None), slice(None), *place)
        total[index] += columns[taken]
    return inside(total, size, window)


def _unfold_type(types: Sequence[TensorType], size: Sizes, count: Sizes, window: Window) -> TensorType:
    (images, channels, *_), dtype = types[0]
    return TensorType((images, channels * _elements(window), math.prod(count)), dtype)


def _fold_type(types: Sequence[TensorType], size: Sizes, count: Sizes, window: Window) -> TensorType:
    (images, rows, _), dtype = types[0]
    return TensorType((images, rows // _elements(window), *size), dtype)


_unfold: Opaque = Opaque(
    "im2col",
    "x",
    _unfold_numpy,
    _unfold_type,
    {"x": lambda g, size, count, window: bind(_fold, (g,), {"size": size, "count": count, "window": window})},
    "Im2ColBackward0",
    "",
)
_fold: Opaque = Opaque(
    "col2im",
    "x",
    _fold_numpy,
    _fold_type,
    {
        "x": lambda g, size, count, window: bind(
            _unfold, (g,), {"size": size, "count": count, "window": window}
        )
    },
    "Col2ImBackward0",
    "",
)


def unfold(input: Tensor, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Tensor:
    """The windows of [N, C, H, W] (or [C, H, W]) as columns: [N, C * kernel, windows].

    Raises RuntimeError for sizes that do not fit. Source: `torch.nn.functional.unfold`.
    """
    window = window_of("unfold", 2, kernel_size, stride, padding, dilation)
    given = input.array.shape
    check_batch("unfold", given, 2)
    size = given[-2:]
    count = counts(size, window)
    if min(count) < 1:
        kernels, _, paddings, dilations = zip(*window, strict=True)
        raise failure(
            RuntimeError,
            f"unfold: Given input with spatial size {size}, kernel_size={kernels}, dilation={dilations}, "
            f"padding={paddings}, calculated shape of the array of sliding blocks as {tuple(count)}, but its "
            "components must be at least one.",
        )
    params = {"size": size, "count": count, "window": window}
    if len(given) == 3:
        return owned(ops.squeeze(bind(_unfold, (ops.unsqueeze(input, 0),), params), 0))
    return bind(_unfold, (input,), params)


def fold(
    input: Tensor, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
) -> Tensor:
    """Columns [N, C * kernel, windows] (or without N) added up as the windows of [N, C, *output_size].

    Raises RuntimeError for sizes that do not fit. Source: `torch.nn.functional.fold`.
    """
    window = window_of("fold", 2, kernel_size, stride, padding, dilation)
    size, given = numbers(output_size, 2, "fold", "output_size"), input.array.shape
    check_batch("fold", given, 1)
    if given[-2] % _elements(window):
        raise failure(
            RuntimeError,
            f"fold: Expected size of input's dimension 1 to be divisible by the product of kernel_size, "
            f"but got input {list(given)} and kernel_size={kernel_size}",
        )
    count = counts(size, window)
    if min(count) < 1 or math.prod(count) != given[-1]:
        raise failure(
            RuntimeError,
            f"fold: output_size={output_size} with these windows needs {count[0]} * {count[1]} columns, "
            f"but the input {list(given)} has {given[-1]}",
        )
    params = {"size": size, "count": count, "window": window}
    if len(given) == 2:
        return owned(ops.squeeze(bind(_fold, (ops.unsqueeze(input, 0),), params), 0))
    return bind(_fold, (input,), params)


def _refuse(name: str, input: Tensor, message: str) -> Exception:
    return failure(RuntimeError, f"{name}: {message}, but got input {list(input.array.shape)}")


@public
def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """[..., C * r * r, H, W] as [..., C, H * r, W * r]. Source: `torch.nn.functional.pixel_shuffle`."""
    r = upscale_factor
    if input.array.ndim < 3:
        raise _refuse("pixel_shuffle", input, "expects at least 3 dimensions")
    *lead, channels, height, width = input.array.shape
    if r <= 0 or channels % (r * r):
        raise _refuse(
            "pixel_shuffle", input, f"needs channels divisible by the square of upscale_factor={r}, over 0"
        )
    channels //= r * r
    blocks = ops.reshape(input, (*lead, channels, r, r, height, width))
    n = len(lead)
    blocks = ops.permute(blocks, *range(n), n, n + 3, n + 1, n + 4, n + 2)
    shuffled = ops.reshape(blocks, (*lead, channels, height * r, width * r))
    return ops.lying_as_images(shuffled, input)


@public
def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """[..., C, H * r, W * r] as [..., C * r * r, H, W]. Source: `torch.nn.functional.pixel_unshuffle`."""
    r = downscale_factor
    if input.array.ndim < 3:
        raise _refuse("pixel_unshuffle", input, "expects at least 3 dimensions")
    *lead, channels, height, width = input.array.shape
    if r <= 0 or height % r or width % r:
        raise _refuse(
            "pixel_unshuffle", input, f"needs height and width divisible by downscale_factor={r}, over 0"
        )
    blocks = ops.reshape(input, (*lead, channels, height // r, r, width // r, r))
    n = len(lead)
    blocks = ops.permute(blocks, *range(n), n, n + 2, n + 4, n + 1, n + 3)
    shuffled = ops.reshape(blocks, (*lead, channels * r * r, height // r, width // r))
    return ops.lying_as_images(shuffled, input)


@public
def channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """Channels [N, groups * K, ...] in the order of their place in the group, then of the group.

    Source: `torch.nn.functional.channel_shuffle`.
    """
    given = input.array.shape
    if len(given) < 3:
        raise _refuse("channel_shuffle", input, "expects more than 2 dimensions")
    if groups <= 0 or given[1] % groups:
        raise _refuse("channel_shuffle", input, f"needs channels divisible by groups={groups}, over 0")
    split = ops.reshape(input, (given[0], groups, given[1] // groups, *given[2:]))
    return ops.lying_as_images(ops.reshape(ops.transpose(split, 1, 2), given), input)
