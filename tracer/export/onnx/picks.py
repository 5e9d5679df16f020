"""Ops that go along a dimension step by step, and those that pick elements of images.

What is read of an image of known size stands in the file: the places of each window's elements.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from fusegrad.eager.core.op import wrap
from fusegrad.eager.ops.nn.resampling import spans
from fusegrad.tracer.export.onnx.builder import BOOL, INT32, INT64, Handle
from fusegrad.tracer.ir.graph import Equation, Value

# Scans: what is known so far, and the next element, give what is known then.


def _running(e: Equation, x: Handle, start: float, step: Callable[[Handle, Handle], Handle]) -> Handle:
    """What is known after each element along a dimension, by a `Scan`."""
    b, dim = x.builder, e.params["dim"]
    shape = e.output.shape
    begin = b.constant(start, x.dtype).shaped("Expand", [*shape[:dim], *shape[dim + 1 :]])
    with b.within() as nodes:
        known, element = (Handle(b, b.inner_name(f"step/{name}"), x.dtype) for name in ("known", "element"))
        after = step(known, element)
        given = [b.node("Identity", [after], x.dtype) for _ in range(2)]
        code = b.onnx.helper.np_dtype_to_tensor_dtype(x.dtype)
        told = [
            [b.onnx.helper.make_tensor_value_info(h.name, code, None) for h in handles]
            for handles in ((known, element), given)
        ]
        body = b.onnx.helper.make_graph(nodes, b.inner_name("step"), *told)
    axes = {"scan_input_axes": [dim], "scan_output_axes": [dim]}
    return b.several("Scan", [begin, x], [x.dtype] * 2, body=body, num_scan_inputs=1, **axes)[1]


def _cumprod(e: Equation, x: Handle) -> Handle:
    return _running(e, x.to(e.output.dtype), 1, lambda known, element: known * element)


def _cumulative_extreme(kind: str, start: float) -> Callable[[Equation, Handle], tuple[Handle, Handle]]:
    """The largest so far, and where the last of these stands; once there was a NaN it is NaN."""

    def emit(e: Equation, x: Handle) -> tuple[Handle, Handle]:
        wide = x.to(x.computed("Max"))
        begin = start
        if wide.dtype.kind != "f":
            limits = (0, 1) if wide.dtype == BOOL else np.iinfo(wide.dtype)
            begin = getattr(limits, "min" if start < 0 else "max")
        values = _running(e, wide, begin, lambda known, element: known.node(kind, element))
        hit = wide.equals(values)
        if wide.dtype.kind == "f":
            hit = x.builder.node("Or", [hit, wide.node("IsNaN")], BOOL)
        dim, size = e.params["dim"], e.output.shape[e.params["dim"]]
        ends = [x.builder.constant(n, INT64) for n in (0, size, 1)]
        along = [-1 if d == dim else 1 for d in range(e.output.type.ndim)]
        places = x.builder.node("Range", ends, INT64).shaped("Reshape", along)
        found = _running(e, hit.where(places, 0), 0, lambda known, element: known.node("Max", element))
        return values.to(x.dtype), found

    return emit


def _logcumsumexp(e: Equation, x: Handle) -> Handle:
    def step(known: Handle, element: Handle) -> Handle:
        largest = known.node("Max", element)
        finite = (largest.node("Abs") < math.inf).where(largest, 0)
        return ((known - finite).node("Exp") + (element - finite).node("Exp")).node("Log") + finite

    return _running(e, x, -math.inf, step)


# Images.


def _pixel_pick(e: Equation, x: Handle, index: Handle) -> Handle:
    """The pixels of all channels, [N, C, pixels], at places [N, places]."""
    places = index.to(INT64).shaped("Unsqueeze", [1]).shaped("Expand", e.output.shape)
    return x.builder.node("GatherElements", [x, places], x.dtype, axis=2)


def _im2col(e: Equation, x: Handle) -> Handle:
    """A zero in front of all pixels is what windows have beyond the image."""
    size, (images, channels) = e.params["size"], e.values()[0].shape[:2]
    numbers = np.arange(1, math.prod(size) + 1).reshape(1, 1, *size)
    places = e.op.evaluate((wrap(numbers),), dict(e.params))[0]
    pixels = x.shaped("Reshape", [images, channels, math.prod(size)], allowzero=1).shaped(
        "Pad", [0, 0, 1, 0, 0, 0]
    )
    taken = x.builder.node("Gather", [pixels, x.builder.constant(places, INT64)], x.dtype, axis=2)
    return taken.shaped("Reshape", e.output.shape, allowzero=1)


def _col2im(e: Equation, x: Handle) -> Handle:
    kernel, strides, before, dilations = (list(n) for n in zip(*e.params["window"], strict=True))
    attributes = {"strides": strides, "pads": before * 2, "dilations": dilations}
    return x.shaped("Col2Im", e.params["size"], kernel, **attributes)


def _adaptive_max_place(e: Equation, x: Handle) -> Handle:
    """The first largest of each window, row by row; but the last NaN."""
    rank, shape, b = len(e.params["size"]), e.values()[0].shape, x.builder
    windows = _windows(shape[-rank:], e.params["size"])
    places = b.constant(windows, INT64)
    flat = x.shaped("Reshape", [*shape[:-rank], math.prod(shape[-rank:])], allowzero=1)
    axis = len(shape) - rank
    elements = b.node("Gather", [flat, places], x.dtype, axis=axis)

    def first(values: Handle, **attributes: int) -> Handle:
        return b.node("ArgMax", [values], INT64, axis=axis + 1, keepdims=1, **attributes)

    nan = elements.node("IsNaN").to(INT32)
    found = first(nan.to(BOOL).where(-math.inf, elements))
    poisoned = nan.shaped("ReduceMax", [axis + 1], keepdims=1).to(BOOL)
    found = poisoned.where(first(nan, select_last_index=1), found)
    whole = places.shaped("Expand", [*shape[:-rank], *windows.shape])
    picked = b.node("GatherElements", [whole, found], INT64, axis=axis + 1)
    return picked.shaped("Reshape", e.output.shape, allowzero=1)


def _windows(size: tuple[int, ...], outputs: tuple[int, ...]) -> np.ndarray:
    """The places of each window's elements, row by row; short ones have their last element several times."""
    places = np.arange(math.prod(size)).reshape(size)
    found = []
    for cell in np.ndindex(*outputs):
        index = tuple(
            slice(*spans(n, count)[place]) for n, count, place in zip(size, outputs, cell, strict=True)
        )
        found.append(places[index].ravel())
    longest = max(map(len, found))
    return np.array([[*one, *[one[-1]] * (longest - len(one))] for one in found])


# Joining and writing.


def _stack(e: Equation, *tensors: Handle) -> Handle:
    parts = [x.to(e.output.dtype).shaped("Unsqueeze", [e.params["dim"]]) for x in tensors]
    return parts[0].builder.node("Concat", parts, e.output.dtype, axis=e.params["dim"])


_REDUCTIONS = {"sum": "add", "prod": "mul", "amax": "max", "amin": "min"}


def _scatter_reduce(e: Equation, x: Handle, source: Handle, index: Handle) -> Handle:
    how = e.params["reduce"]
    if how not in _REDUCTIONS or not e.params["include_self"]:
        raise x.builder.refuse("ONNX has sums, products and extremes that what was there is a part of")
    dtype = x.computed("ScatterElements")
    if x.dtype.kind == "f" and how in ("amax", "amin"):
        raise x.builder.refuse("onnxruntime loses NaN in its extremes")
    operands = [x.to(dtype), index.to(INT64), source.to(dtype)]
    reduction = _REDUCTIONS[how]
    made = x.builder.node("ScatterElements", operands, dtype, axis=e.params["dim"], reduction=reduction)
    return made.to(x.dtype)


def _handed_on(e: Equation, x: Handle, *others: Value) -> Handle:
    return x


PICKS: dict[str, Callable[..., Handle | tuple[Handle, ...]]] = {
    "cumprod": _cumprod,
    "cummax": _cumulative_extreme("Max", -math.inf),
    "cummin": _cumulative_extreme("Min", math.inf),
    "logcumsumexp": _logcumsumexp,
    "pixel_pick": _pixel_pick,
    "im2col": _im2col,
    "col2im": _col2im,
    "adaptive_max_place": _adaptive_max_place,
    "stack": _stack,
    "scatter_reduce": _scatter_reduce,
    "handed_on": _handed_on,
    "handed_on_kept": _handed_on,
}
