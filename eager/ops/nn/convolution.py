"""Convolutions of any rank, as products of matrices.

The three products of a convolution are ops: `convolution` of input and weight, `conv_transpose`
of output and weight (the gradient of the input, and what PyTorch calls a transposed convolution),
and `conv_weight` of input and output (the gradient of the weight). Each pair of them makes the
gradients of the third, so second gradients close.

All go through the column matrix [channels * kernel, windows]: a strided view of the padded input,
copied for as many images at a time as a cache holds and given to BLAS. It is not kept.

>>> import fusegrad as fg
>>> fg.nn.functional.conv1d(fg.arange(5.0).reshape(1, 1, 5), fg.ones(1, 1, 3), padding="same")
tensor([[[1., 3., 6., 9., 7.]]])
>>> fg.nn.functional.conv_transpose1d(fg.ones(1, 1, 2), fg.ones(1, 1, 3), stride=2)
tensor([[[1., 1., 2., 1., 1.]]])
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.families import AnalyticOpaque
from fusegrad.eager.core.memory_order import channels
from fusegrad.eager.core.op import TensorType, bind
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.sizes import Ints
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.declare import public
from fusegrad.eager.ops.precision import in_half
from fusegrad.eager.ops.shape import padding
from fusegrad.eager.ops.shape.windows import (
    Sizes,
    Window,
    blocks,
    counts,
    inside,
    numbers,
    of_each_rank,
    offsets,
    padded,
    reach,
    whole_size,
    window_of,
    windows,
)

# The products in NumPy. x: [N, C, *size]; weight: [O, C / groups, *kernel]; y: [N, O, *count].


def _columns(x: np.ndarray, count: Sizes, window: Window, groups: int) -> np.ndarray:
    """The windows of some images, as a matrix [groups, C / groups * kernel, images * count]."""
    view = windows(padded(x, count, window), count, window)
    rank = len(window)
    view = view.transpose(1, *range(2, 2 + rank), 0, *range(2 + rank, 2 + 2 * rank))
    rows = x.shape[1] // groups * math.prod(w[0] for w in window)
    return view.reshape(groups, rows, x.shape[0] * math.prod(count))


def _rows(y: np.ndarray, groups: int) -> np.ndarray:
    """Some images as a matrix [groups, O / groups, images * count]."""
    images, channels, *count = y.shape
    flat = y.reshape(images, groups, channels // groups, math.prod(count))
    return flat.transpose(1, 2, 0, 3).reshape(groups, channels // groups, images * math.prod(count))


def _blocks(images: int, channels: int, count: Sizes, window: Window) -> Any:
    """The images in runs whose column matrix a cache holds."""
    return blocks(images, channels * math.prod(w[0] for w in window) * math.prod(count))


def _convolution_numpy(
    x: np.ndarray, weight: np.ndarray, size: Sizes, window: Window, groups: int
) -> np.ndarray:
    images, channels, out, positions = *x.shape[:2], weight.shape[0], math.prod(size)
    matrix = weight.reshape(groups, out // groups, -1)
    result = np.empty((images, groups, out // groups, positions), x.dtype)
    if positions >= 64 and size == x.shape[2:] and all(w[0] == 1 for w in window):
        # The image is its own column matrix.
        np.matmul(matrix, x.reshape(images, groups, channels // groups, positions), out=result)
        return result.reshape(images, out, *size)
    for block in _blocks(images, channels, size, window):
        columns = _columns(x[block], size, window, groups)
        if block.stop - block.start == 1:
            np.matmul(matrix, columns, out=result[block.start])
        else:
            product = np.matmul(matrix, columns).reshape(groups, out // groups, -1, positions)
            result[block] = product.transpose(2, 0, 1, 3)
    return result.reshape(images, out, *size)


def _transpose_numpy(
    x: np.ndarray, weight: np.ndarray, size: Sizes, window: Window, groups: int
) -> np.ndarray:
    """The columns that belong to `x` [N, O, *count], added up where windows overlap."""
    images, out, channels, count = *x.shape[:2], weight.shape[1] * groups, x.shape[2:]
    matrix = weight.reshape(groups, out // groups, -1).transpose(0, 2, 1)
    whole = whole_size(size, count, window)
    result = np.empty((images, channels, *size), x.dtype)
    for block in _blocks(images, channels, count, window):
        columns = np.matmul(matrix, _rows(x[block], groups))
        columns = columns.reshape(channels, *weight.shape[2:], block.stop - block.start, *count)
        total = np.zeros((channels, block.stop - block.start, *whole), x.dtype)
        for place, index in offsets(count, window):
            total[index] += columns[(slice(None), *place)]
        result[block] = inside(total, size, window).swapaxes(0, 1)
    return result


def _weight_numpy(x: np.ndarray, y: np.ndarray, size: Sizes, window: Window, groups: int) -> np.ndarray:
    images, channels, out, count = *x.shape[:2], y.shape[1], y.shape[2:]
    result = np.zeros((groups, out // groups, channels // groups * math.prod(size)), x.dtype)
    for block in _blocks(images, channels, count, window):
        columns = _columns(x[block], count, window, groups)
        result += np.matmul(_rows(y[block], groups), columns.transpose(0, 2, 1))
    return result.reshape(out, channels // groups, *size)


def _evaluated(numpy: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    """A product, with a bias if there is one."""

    def evaluate(x: np.ndarray, y: np.ndarray, *bias: np.ndarray, **params: Any) -> np.ndarray:
        result = numpy(x, y, **params)
        if bias:
            result += bias[0].reshape(-1, *([1] * (result.ndim - 2)))
        return result

    return evaluate


# The ops. Params: `size`, the result's (of the kernel, for `conv_weight`); `window`; `groups`.


def _convolution_type(types: Sequence[TensorType], size: Sizes, **_: Any) -> TensorType:
    return TensorType((types[0].shape[0], types[1].shape[0], *size), types[0].dtype)


def _transpose_type(types: Sequence[TensorType], size: Sizes, groups: int, **_: Any) -> TensorType:
    return TensorType((types[0].shape[0], types[1].shape[1] * groups, *size), types[0].dtype)


def _weight_type(types: Sequence[TensorType], size: Sizes, groups: int, **_: Any) -> TensorType:
    return TensorType((types[1].shape[1], types[0].shape[1] // groups, *size), types[0].dtype)


def _product(
    op: AnalyticOpaque, a: Tensor, b: Tensor, wanted: TensorType, window: Window, groups: int
) -> Tensor:
    """Run one of the products for a result of the size of `wanted`."""
    return bind(op, (a, b), {"size": wanted.shape[2:], "window": window, "groups": groups})


_CHANNELS = channels(4, operands=2)


def _with_bias(
    name: str, numpy: Callable[..., np.ndarray], infer: Callable[..., TensorType], rules: dict[str, Any]
) -> tuple[AnalyticOpaque, AnalyticOpaque]:
    """Declare a product of input and weight, without and with a bias added to its channels."""

    def bias_gradient(g: Tensor) -> Tensor:
        return ops.sum(g, tuple(d for d in range(g.array.ndim) if d != 1))

    rules_bias, run = {**rules, "bias": bias_gradient}, _evaluated(numpy)
    return (
        AnalyticOpaque(name, "x weight", run, infer, rules, "ConvolutionBackward0", "", _CHANNELS),
        AnalyticOpaque(
            f"{name}_bias",
            "x weight bias",
            run,
            infer,
            rules_bias,
            "ConvolutionBackward0",
            "",
            _CHANNELS,
        ),
    )


_convolution: tuple[AnalyticOpaque, AnalyticOpaque] = _with_bias(
    "convolution",
    _convolution_numpy,
    _convolution_type,
    {
        "x": lambda g, weight, x_type, window, groups: _product(
            _transpose[0], g, weight, x_type, window, groups
        ),
        "weight": lambda g, x, weight_type, window, groups: _product(
            _weight, x, g, weight_type, window, groups
        ),
    },
)
_transpose: tuple[AnalyticOpaque, AnalyticOpaque] = _with_bias(
    "conv_transpose",
    _transpose_numpy,
    _transpose_type,
    {
        "x": lambda g, weight, x_type, window, groups: _product(
            _convolution[0], g, weight, x_type, window, groups
        ),
        "weight": lambda g, x, weight_type, window, groups: _product(
            _weight, g, x, weight_type, window, groups
        ),
    },
)
_weight: AnalyticOpaque = AnalyticOpaque(
    "conv_weight",
    "x y",
    _evaluated(_weight_numpy),
    _weight_type,
    {
        "x": lambda g, y, x_type, window, groups: _product(_transpose[0], y, g, x_type, window, groups),
        "y": lambda g, x, y_type, window, groups: _product(_convolution[0], x, g, y_type, window, groups),
    },
    "ConvolutionBackward0",
    "",
)


# What users call.


def _check(
    name: str,
    rank: int,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    groups: int,
    transposed: bool = False,
) -> None:
    """Raise RuntimeError for operands that no convolution fits."""

    def refuse(message: str) -> Exception:
        return failure(RuntimeError, f"{name}: {message}")

    given, kernel = list(input.array.shape), list(weight.array.shape)
    for what, other in (("weight", weight), ("bias", bias)):
        if other is not None and other.array.dtype != input.array.dtype:
            if what == "weight":
                raise refuse(f"expected scalar type {input.dtype.scalar} but found {other.dtype.scalar}")
            mine, its = input.array.dtype.name, other.array.dtype.name
            raise refuse(f"Input type ({mine}) and {what} type ({its}) should be the same")
    if input.array.dtype.kind == "b":
        raise refuse("not implemented for bool; convert with .float()")
    if groups < 1:
        raise refuse(f"non-positive groups is not supported, got {groups}")
    if len(kernel) != rank + 2 or len(given) not in (rank + 1, rank + 2):
        raise refuse(
            f"Expected {rank + 1}D (unbatched) or {rank + 2}D (batched) input to {name}, but got input of "
            f"size: {given}, and weight of size: {kernel}, which must be {rank + 2}D"
        )
    if kernel[0] < groups or kernel[0] % groups:
        raise refuse(
            f"Given groups={groups}, expected weight to be at least {groups} at dimension 0, and divisible "
            f"by it, but got weight of size {kernel}"
        )
    channels = kernel[0] if transposed else kernel[1] * groups
    if given[-rank - 1] != channels:
        raise refuse(
            f"Given groups={groups}, weight of size {kernel}, expected input{given} to have {channels} "
            f"channels, but got {given[-rank - 1]} channels instead"
        )
    out = kernel[1] * groups if transposed else kernel[0]
    if bias is not None and bias.array.shape != (out,):
        raise refuse(
            f"Given weight of size {kernel}, expected bias to be 1-dimensional with {out} elements, "
            f"but got bias of size {list(bias.array.shape)} instead"
        )


def _run(
    kinds: tuple[AnalyticOpaque, AnalyticOpaque],
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    size: Sizes,
    window: Window,
    groups: int,
) -> Tensor:
    """Bind the op for a batch, or for one input without its dimension."""
    batched = input.array.ndim == weight.array.ndim
    if not batched:
        input = ops.unsqueeze(input, 0)
    params = {"size": size, "window": window, "groups": groups}
    result: Tensor = (
        bind(kinds[0], (input, weight), params)
        if bias is None
        else bind(kinds[1], (input, weight, bias), params)
    )
    return result if batched else ops.squeeze(result, 0)


def _padded_same(
    name: str, input: Tensor, kernel: Sizes, stride: Any, dilation: Sizes
) -> tuple[Tensor, Sizes]:
    """What padding="same" pads; where that is uneven, the end of the input is padded already."""
    if max(numbers(stride, len(kernel), name, "stride")) > 1:
        raise failure(RuntimeError, f"{name}: padding='same' is not supported for strided convolutions")
    total = [d * (k - 1) for k, d in zip(kernel, dilation, strict=True)]
    if any(t % 2 for t in total):
        lead = [(0, 0)] * (input.array.ndim - len(total))
        input = padding.padded(input, [*lead, *((0, t % 2) for t in total)], 0)
    return input, tuple(t // 2 for t in total)


def _by(sizes: Sequence[int]) -> str:
    """Sizes as PyTorch writes them: 3 x 4."""
    return " x ".join(map(str, sizes))


def _convolution_of(name: str, rank: int) -> Callable[..., Tensor]:
    def conv(
        input: Tensor,
        weight: Tensor,
        bias: Tensor | None = None,
        stride: Ints = 1,
        padding: Any = 0,
        dilation: Ints = 1,
        groups: int = 1,
    ) -> Tensor:
        input, weight, bias = in_half(input, weight, bias)
        _check(name, rank, input, weight, bias, groups)
        kernel = weight.array.shape[2:]
        if padding == "same":
            steps = numbers(dilation, rank, name, "dilation")
            input, padding = _padded_same(name, input, kernel, stride, steps)
        elif padding == "valid":
            padding = 0
        elif isinstance(padding, str):
            raise failure(
                RuntimeError, f"{name}: padding must be 'same', 'valid' or integers, but got {padding!r}"
            )
        if min(numbers(stride, rank, name, "stride")) < 1:
            raise failure(RuntimeError, f"{name}: non-positive stride is not supported, got {stride}")
        window = window_of(name, rank, kernel, stride, padding, dilation)
        size = counts(input.array.shape[-rank:], window)
        if min(size) < 1:
            padded = [n + 2 * w[2] for n, w in zip(input.array.shape[-rank:], window, strict=True)]
            spread = [w[3] * (w[0] - 1) + 1 for w in window]
            raise failure(
                RuntimeError,
                f"{name}: Calculated padded input size per channel: ({_by(padded)}). Kernel size: "
                f"({_by(spread)}). Kernel size can't be greater than actual input size",
            )
        if not weight.array.shape[1]:
            return _without_channels(input, weight, bias, size)
        return _run(_convolution, input, weight, bias, size, window, groups)

    return conv


def _without_channels(input: Tensor, weight: Tensor, bias: Tensor | None, size: Sizes) -> Tensor:
    """PyTorch gives nothing where there are no input channels, not even the bias."""
    none = ops.reshape(input, (0,)) * ops.reshape(weight, (0,))
    result: Tensor = ops.reshape(none, (*input.array.shape[: -len(size) - 1], 0, *size))
    return result if bias is None else result + ops.reshape(bias[:0], (0,) + (1,) * len(size))


def _transpose_of(name: str, rank: int) -> Callable[..., Tensor]:
    def conv_transpose(
        input: Tensor,
        weight: Tensor,
        bias: Tensor | None = None,
        stride: Ints = 1,
        padding: Ints = 0,
        output_padding: Ints = 0,
        groups: int = 1,
        dilation: Ints = 1,
    ) -> Tensor:
        input, weight, bias = in_half(input, weight, bias)
        _check(name, rank, input, weight, bias, groups, transposed=True)
        window = window_of(name, rank, weight.array.shape[2:], stride, padding, dilation)
        extra = numbers(output_padding, rank, name, "output_padding")
        if any(not 0 <= e < max(s, d) for e, (_, s, _, d) in zip(extra, window, strict=True)):
            raise failure(
                RuntimeError,
                f"{name}: output padding must be smaller than either stride or dilation, but got "
                f"output_padding {output_padding}, stride {stride}, dilation {dilation}",
            )
        covered = reach(input.array.shape[-rank:], window)
        size = tuple(r - 2 * w[2] + e for r, w, e in zip(covered, window, extra, strict=True))
        if min(size) < 1:
            raise failure(
                RuntimeError,
                f"{name}: input of size {list(input.array.shape)} gives an output of size {list(size)}, "
                "which is too small",
            )
        return _run(_transpose, input, weight, bias, size, window, groups)

    return conv_transpose


conv1d, conv2d, conv3d = of_each_rank(
    "conv{}d",
    """Cross-correlation of [N, C, *size] (or [C, *size]) with [O, C / groups, *kernel].

    padding: zeros before and after, "same" or "valid". Raises RuntimeError for sizes or dtypes that
    do not fit.""",
    _convolution_of,
)
conv_transpose1d, conv_transpose2d, conv_transpose3d = of_each_rank(
    "conv_transpose{}d",
    """What the convolution with these arguments has as the gradient of its input.

    weight: [C, O / groups, *kernel]. output_padding: added to the size at the end. Raises RuntimeError
    for sizes or dtypes that do not fit.""",
    _transpose_of,
)


def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> Tensor:
    """`conv1d` of [time, N, C] with [kernel, C, O]; gives [time, N, O]. Source: `torch.conv_tbc`.

    Raises RuntimeError for sizes that do not fit.
    """
    for what, tensor, rank, dims in (
        ("Input", input, 3, "time, batch, in_channel"),
        ("Weight tensor", weight, 3, "kernel_width, in_channels, out_channels"),
        ("Bias", bias, 1, "out_channels"),
    ):
        if tensor.array.ndim != rank:
            raise failure(RuntimeError, f"{what} must have {rank} dims: {dims}")
    if input.array.shape[2] != weight.array.shape[1]:
        raise failure(RuntimeError, "Input dim 2 (input channels) is not == dim 1 in the weight tensor")
    if bias.array.shape[0] != weight.array.shape[2]:
        raise failure(RuntimeError, "Bias size must equal dim 2 in the weight tensor (output channels).")
    signals, kernels = ops.permute(input, (1, 2, 0)), ops.permute(weight, (2, 1, 0))
    return ops.contiguous(ops.permute(conv1d(signals, kernels, bias, padding=pad), (2, 0, 1)))


for _function in (conv_tbc, conv1d, conv2d, conv3d, conv_transpose1d, conv_transpose2d, conv_transpose3d):
    public(_function)
