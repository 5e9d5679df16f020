"""Convolutions, pools and resizing: an equation of one goes in, its ONNX nodes come out."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from fusegrad.eager.core.sizes import Symbol, has_symbols
from fusegrad.eager.ops.nn.pooling import divisor_of
from fusegrad.eager.ops.nn.resampling import Map, matrix_of, spans
from fusegrad.eager.ops.shape.windows import Sizes, Window, reach
from fusegrad.tracer.export.onnx.builder import BOOL, FLOAT32, INT64, Handle
from fusegrad.tracer.ir.graph import Equation, Value


def _size(equation: Equation, rank: int) -> Sizes:
    operand = equation.inputs[0]
    assert isinstance(operand, Value)
    return operand.shape[-rank:]


def _attributes(window: Window) -> dict[str, list[int]]:
    """Dilations only where there are some: an AveragePool has none."""
    kernel, strides, _, dilations = (list(n) for n in zip(*window, strict=True))
    some = {"dilations": dilations} if max(dilations) > 1 else {}
    return {"kernel_shape": kernel, "strides": strides, **some}


def _fitted(x: Handle, size: Sizes, count: Sizes, window: Window) -> tuple[Handle, list[int]]:
    """`x` without an end that no window covers, and the padding that `count` windows need."""
    before = [w[2] for w in window]
    if has_symbols(size):
        return x, before + _after_open(x, size, count, window)
    after = [r - n - p for r, n, p in zip(reach(count, window), size, before, strict=True)]
    axes = list(range(-len(size), 0))
    stops = [n + min(a, 0) for n, a in zip(size, after, strict=True)]
    if tuple(stops) != size:
        x = x.shaped("Slice", [0] * len(size), stops, axes)
    return x, before + [max(a, 0) for a in after]


def _after_open(x: Handle, size: Sizes, count: Sizes, window: Window) -> list[int]:
    """The padding behind sizes that are open: as before them, if the windows were counted so."""
    for n, windows, (kernel, stride, before, dilation) in zip(size, count, window, strict=True):
        whole = (n + 2 * before - dilation * (kernel - 1) - 1) // stride + 1
        if isinstance(n, Symbol) and windows != whole:
            raise x.builder.refuse("its windows over an open size end in another way than ONNX's: ceil_mode")
    return [w[2] for w in window]


# Convolutions.


def _with_bias(x: Handle, bias: Handle | None, rank: int) -> Handle:
    return x if bias is None else x + bias.shaped("Reshape", [-1] + [1] * rank)


def _convolution(e: Equation, x: Handle, weight: Handle, *bias: Handle) -> Handle:
    window, rank = e.params["window"], len(e.params["window"])
    x, pads = _fitted(x, _size(e, rank), e.params["size"], window)
    return x.node("Conv", weight, *bias, pads=pads, group=e.params["groups"], **_attributes(window))


def _transpose(e: Equation, x: Handle, weight: Handle, bias: Handle | None = None) -> Handle:
    """The padding is cut off; an output that reaches further than the windows gets zeros there."""
    size, window, rank = e.params["size"], e.params["window"], len(e.params["window"])
    covered = reach(_size(e, rank), window)
    before = [w[2] for w in window]
    after = [r - p - n for r, p, n in zip(covered, before, size, strict=True)]
    whole = x.node("ConvTranspose", weight, group=e.params["groups"], **_attributes(window))
    stops = [r - max(a, 0) for r, a in zip(covered, after, strict=True)]
    if any(before) or tuple(stops) != covered:
        whole = whole.shaped("Slice", before, stops, list(range(-rank, 0)))
    if min(after) < 0:
        whole = whole.shaped("Pad", [0] * (rank + 4) + [max(-a, 0) for a in after])
    return _with_bias(whole, bias, rank)


# Pools, of [N, C, *size] or [C, *size].


def _as_images(e: Equation, x: Handle, rank: int) -> Handle:
    """With a single channel: ONNX wants both dimensions, and channels make no difference."""
    size = _size(e, rank)
    lead = math.prod(e.output.shape[:-rank])
    return x.shaped("Reshape", [lead, 1, *size], allowzero=1)


def _pooled(e: Equation, x: Handle, kind: str, **attributes: int) -> Handle:
    """A pool over `x` as images."""
    window = e.params["window"]
    x, pads = _fitted(x, _size(e, len(window)), e.params["count"], window)
    if any(p >= w[0] for p, w in zip(pads, [*window, *window], strict=True)):  # dilated windows over the end
        raise x.builder.refuse("onnxruntime has no pool that pads by its kernel's size; take ceil_mode away")
    return x.node(kind, pads=pads, **_attributes(window), **attributes)


def _max_pool(e: Equation, x: Handle) -> Handle:
    """onnxruntime loses NaN, and knows no -inf; a second pool, of marks for these, finds both."""
    x = _as_images(e, x, len(e.params["window"]))
    result = _pooled(e, x, "MaxPool")
    if x.dtype.kind == "f":
        x = x.to(x.computed("MaxPool"))
        marks = x.node("IsNaN").where(x.builder.constant(2, FLOAT32), (x > -math.inf).to(FLOAT32))
        marks = _pooled(e, marks, "MaxPool")
        result = (marks > 1).where(math.nan, marks.to(BOOL).where(result, -math.inf))
    return result.shaped("Reshape", e.output.shape, allowzero=1)


def _avg_pool(e: Equation, x: Handle) -> Handle:
    """Means with all padding counted; where PyTorch divides by another number, that corrects them."""
    window, count, rank = e.params["window"], e.params["count"], len(e.params["window"])
    if has_symbols(_size(e, rank)):
        return _avg_pool_of_open(e, x)
    result = _pooled(e, _as_images(e, x, rank), "AveragePool", count_include_pad=1)
    elements = math.prod(w[0] for w in window)
    divisor = divisor_of(_size(e, rank), count, window, e.params["include"], e.params["divisor"])
    if np.any(divisor != elements):
        result = result * result.builder.constant(elements / divisor, result.dtype)
    return result.shaped("Reshape", e.output.shape, allowzero=1)


def _avg_pool_of_open(e: Equation, x: Handle) -> Handle:
    """What ONNX divides by is right where no window is cut off at the end, which is so of open sizes."""
    window, rank, divisor = e.params["window"], len(e.params["window"]), e.params["divisor"]
    include = int(e.params["include"] or divisor is not None)
    result = _pooled(e, _as_images(e, x, rank), "AveragePool", count_include_pad=include)
    if divisor is not None:
        result = result * (math.prod(w[0] for w in window) / divisor)
    return result.shaped("Reshape", e.output.shape, allowzero=1)


# Resizing.


def _resample(e: Equation, x: Handle) -> Handle:
    """Few elements that each output weighs; equal parts of the input are a pool."""
    maps = e.params["maps"]
    if e.params["transposed"] or maps[0][0].startswith("smooth"):
        raise x.builder.refuse("only the forward resizing without antialiasing is written")
    if maps[0][0] == "area":
        return _equal_parts(e, x, maps)
    for axis, of_dimension in enumerate(maps, -len(maps)):
        x = _weighed(x, axis, of_dimension)
    return x


def _weighed(x: Handle, axis: int, of_dimension: Map) -> Handle:
    dtype = FLOAT32 if x.dtype.kind != "f" or x.dtype.char == "e" else x.dtype
    matrix = matrix_of(of_dimension, dtype)
    if matrix is None:
        return x
    outputs = of_dimension[2]
    places, weights = (part.reshape(outputs, -1).T for part in (matrix.indices, matrix.data))

    def taken(place: np.ndarray, values: Handle) -> Handle:
        return x.builder.node("Gather", [values, x.builder.constant(place, INT64)], values.dtype, axis=axis)

    if of_dimension[0].startswith("nearest"):
        return taken(places[0], x)
    wide, along = x.to(dtype), (outputs,) + (1,) * (-axis - 1)
    parts = [
        taken(p, wide) * x.builder.constant(w.reshape(along), dtype)
        for p, w in zip(places, weights, strict=True)
    ]
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total.to(x.dtype)


def _equal_parts(e: Equation, x: Handle, maps: tuple[Map, ...]) -> Handle:
    """An adaptive mean as a pool, where all of its windows are of one size."""
    if all(outputs == 1 for _, _, outputs, _, _ in maps):
        return x.shaped("ReduceMean", list(range(-len(maps), 0)), keepdims=1)
    if any(outputs == 0 or inputs % outputs for _, inputs, outputs, _, _ in maps):
        for axis, (_, inputs, outputs, _, _) in enumerate(maps, -len(maps)):
            x = _uneven_parts(x, axis, spans(inputs, outputs))
        return x
    steps = [inputs // outputs for _, inputs, outputs, _, _ in maps]
    images = _as_images(e, x, len(maps))
    result = images.node("AveragePool", kernel_shape=steps, strides=steps)
    return result.shaped("Reshape", e.output.shape, allowzero=1)


def _uneven_parts(x: Handle, axis: int, parts: Sequence[tuple[int, int]]) -> Handle:
    """Means of stretches along a dimension, of any lengths: each is as many elements as the longest, or 0."""
    longest, b = max(stop - start for start, stop in parts), x.builder
    places = np.array([np.minimum(np.arange(start, start + longest), stop - 1) for start, stop in parts])
    lengths = np.array([stop - start for start, stop in parts])
    behind = (1,) * (-axis - 1)
    there = (np.arange(longest) < lengths[:, None]).reshape(len(parts), longest, *behind)
    taken = b.node("Gather", [x, b.constant(places, INT64)], x.dtype, axis=axis)
    total = b.constant(there, BOOL).where(taken, 0).shaped("ReduceSum", [axis], keepdims=0)
    return total / b.constant(lengths.reshape(-1, *behind), x.dtype)


WINDOWED: dict[str, Callable[..., Handle]] = {
    "convolution": _convolution,
    "convolution_bias": _convolution,
    "conv_transpose": _transpose,
    "conv_transpose_bias": _transpose,
    "max_pool": _max_pool,
    "avg_pool": _avg_pool,
    "resample": _resample,
}
