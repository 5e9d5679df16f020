"""Convolutions: one goes in; a product of matrices, of windows side by side, comes out.

The columns [images, groups, channels / groups * kernel, windows] are a strided view of the padded input,
copied once for all products that read them. Columns that a product makes are added up where windows
overlap by reading, for each element of the image, all windows that it lies in.

    v0: f32[2, 4, 6] = convolution(x, w, size=(6,), window=((3, 1, 0, 1),), groups=1)

becomes

    l0: f32[1, 4, 9] = reshape(w, shape=(1, 4, 9))
    l1: f32[2, 3, 6, 3] = unfold(x, dim=2, size=3, step=1)
    l2: f32[2, 3, 3, 6] = permute(l1, dims=(0, 1, 3, 2))
    l3: f32[2, 3, 3, 6] = clone(l2)
    l4: f32[2, 1, 9, 6] = reshape(l3, shape=(2, 1, 9, 6))
    l5: f32[2, 1, 4, 6] = matmul(l0, l4)
    l6: f32[2, 4, 6] = reshape(l5, shape=(2, 4, 6))

Where each channel has a small kernel of its own, the windows are multiplied with it where they are read, and
summed; the columns would be products of one row. A transposed convolution without steps, as the gradient of
an image is, is a convolution by the kernels turned over; with steps it is several.

On images of two dimensions no columns are made: `window_ops.py` has products that find windows themselves.
What is above is for other images, and for groups.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from fusegrad.compiler.base.gather_op import Along
from fusegrad.compiler.base.window_ops import CORRELATED, CORRELATED_BIAS, KERNEL_GRADIENT
from fusegrad.compiler.llvm.target import host
from fusegrad.compiler.lower.rewriter import Rewriter
from fusegrad.eager.core.sizes import has_symbols
from fusegrad.eager.ops.shape.slicing import Slice
from fusegrad.eager.ops.shape.windows import Sizes, Window, places_of, reach
from fusegrad.tracer.ir.graph import Value

# Kernels of more elements than this are left to NumPy where columns are added up: each is a read.
LARGEST_KERNEL = 64
# So are columns of more elements than this: eager makes them for a few images at a time.
LARGEST_COLUMNS = 1 << 26
# Kernels of no more elements than this are written out in the nests of single channels.
LARGEST_NEST = 49
# Rows of windows shorter than this take too many pieces of vectors to be multiplied where they lie.
SHORTEST_ROW = 4
# Images of no more windows than this are multiplied together: a product for each would have few columns.
FEW_WINDOWS = 32
# So many columns are read in the time that it takes to add up one where windows overlap.
COLUMNS_READ = 2


def _kernel(window: Window) -> Sizes:
    return tuple([w[0] for w in window])


def _elements(images: Value, channels: int, count: Sequence[int], window: Window) -> Any:
    """How many elements the columns have."""
    return images.shape[0] * channels * math.prod(_kernel(window)) * math.prod(count)


def _multiplies(images: Value, channels: int, count: Sequence[int], window: Window) -> bool:
    """Whether there is something to compute, and products for values of this dtype."""
    return images.dtype.kind == "f" and _elements(images, channels, count, window) > 0


def _fits(images: Value, channels: int, count: Sequence[int], window: Window) -> bool:
    """Whether there are products for values of this dtype, and room for the columns."""
    elements = _elements(images, channels, count, window)
    return images.dtype.kind == "f" and 0 < elements <= LARGEST_COLUMNS


# Without columns.


def _is_without_columns(images: Value, channels: int, count: Sequence[int], window: Window) -> bool:
    """Whether the windows of images of so many channels are multiplied where they lie (`window_ops.py`)."""
    fixed = not has_symbols((*images.shape[1:], channels, *count))
    if not fixed or len(window) != 2 or not host().multiplies_by_tiles or 0 in (*images.shape, channels):
        return False
    moved = any((k, s) != (1, 1) for k, s, _, _ in window)
    return moved and images.dtype.kind == "f" and count[-1] >= SHORTEST_ROW


def _planes(b: Rewriter, x: Value, count: Sizes, window: Window) -> tuple[Value, tuple[int, ...]]:
    """The padded input with what is a step apart side by side, as [N, C, planes, rows, columns]; and where in
    it the first window's element at each place of the kernel is.
    """
    (_, down, top, _), (_, right, left, _) = window
    rows, columns = (-(-n // s) for n, (_, s, _, _) in zip(reach(count, window), window, strict=True))
    if down == right == 1:
        covered = _covered(b, x, count, window)
    else:
        where = [*(Along(n, d) for d, n in enumerate(x.shape[:2]))]
        where += [Along(n, d, -p) for d, (n, p) in enumerate(zip(x.shape[2:], (top, left), strict=True), 2)]
        covered = b.fetch(x, 0, [], (*x.shape[:2], rows * down, columns * right), where)
        covered = b.reshape(covered, (*x.shape[:2], rows, down, columns, right))
        covered = b.op("clone", b.op("permute", covered, dims=(0, 1, 3, 5, 2, 4)))
    taps = []
    for place in places_of(window):
        i, j = (o * w[3] for o, w in zip(place, window, strict=True))
        plane = i % down * right + j % right
        taps.append((plane * rows + i // down) * columns + j // right)
    return b.reshape(covered, (*x.shape[:2], down * right, rows, columns)), tuple(taps)


def _correlated(
    b: Rewriter, x: Value, weight: Value, count: Sizes, window: Window, bias: Sequence[Value] = ()
) -> Value:
    """The windows of x, multiplied by weights [out, channels, *kernel], with a bias if there is one."""
    images, taps = _planes(b, x, count, window)
    matrix = b.reshape(weight, (weight.shape[0], math.prod(weight.shape[1:])))
    op = CORRELATED_BIAS if bias else CORRELATED
    return b.equation(op, (matrix, images, *bias), {"count": tuple(count), "taps": taps})


# Columns.


def _columns(b: Rewriter, x: Value, count: Sizes, window: Window, groups: int) -> Value:
    """The windows of x [N, C, *size], as matrices [N, groups, C / groups * kernel, windows]."""
    images, channels = x.shape[:2]
    shape = (images, groups, channels // groups * math.prod(_kernel(window)), math.prod(count))
    covered = _covered(b, x, count, window)
    if all(k == 1 and s == 1 for k, s, _, _ in window):
        return b.reshape(covered, shape)
    seen, rank = _windows(b, covered, window), len(window)
    seen = b.op("permute", seen, dims=(0, 1, *range(2 + rank, 2 + 2 * rank), *range(2, 2 + rank)))
    return b.reshape(b.op("clone", seen), shape)


def _is_few(count: Sequence[int], groups: int) -> bool:
    """Whether images of so few windows are multiplied together, the windows of all as rows of one matrix."""
    return groups == 1 and math.prod(count) <= FEW_WINDOWS


def _rows(b: Rewriter, x: Value, count: Sizes, window: Window) -> Value:
    """The windows of x [N, C, *size] as the rows of a matrix [N * windows, C * kernel]."""
    images, channels = x.shape[:2]
    seen, rank = _windows(b, _covered(b, x, count, window), window), len(window)
    seen = b.op("permute", seen, dims=(0, *range(2, 2 + rank), 1, *range(2 + rank, 2 + 2 * rank)))
    shape = (images * math.prod(count), channels * math.prod(_kernel(window)))
    return b.reshape(b.op("clone", seen), shape)


def _together(b: Rewriter, x: Value, matrix: Value, count: Sizes, window: Window) -> Value:
    """The windows of all images, multiplied by weights [out, C * kernel] as one product."""
    rows = b.op("matmul", _rows(b, x, count, window), b.op("permute", matrix, dims=(1, 0)))
    return _channels_first(b, rows, x.shape[0], count)


def _channels_last(b: Rewriter, y: Value) -> Value:
    """[N, C, *size] as a matrix [N * elements, C]."""
    images, channels, *size = y.shape
    turned = b.op("permute", b.reshape(y, (images, channels, math.prod(size))), dims=(0, 2, 1))
    return b.reshape(b.op("clone", turned), (images * math.prod(size), channels))


def _channels_first(b: Rewriter, rows: Value, images: int, size: Sizes) -> Value:
    """A matrix [N * elements, C] as [N, C, *size]."""
    seen = b.reshape(rows, (images, math.prod(size), rows.shape[1]))
    return b.reshape(b.op("clone", b.op("permute", seen, dims=(0, 2, 1))), (images, rows.shape[1], *size))


def _windows(b: Rewriter, covered: Value, window: Window) -> Value:
    """The windows [N, C, *count, *kernel] of what they cover, as a view."""
    seen = covered
    for d, (k, s, _, dilation) in enumerate(window, 2):
        seen = b.op("unfold", seen, dim=d, size=dilation * (k - 1) + 1, step=s)
        if dilation > 1:
            seen = _at(b, seen, {len(seen.shape) - 1: Slice(0, seen.shape[-1], dilation)})
    return seen


def _covered(b: Rewriter, x: Value, count: Sizes, window: Window) -> Value:
    """The part of the padded input that the windows cover; in memory."""
    size, covered = x.shape[2:], reach(count, window)
    if not any(w[2] for w in window) and all(c <= n for c, n in zip(covered, size, strict=True)):
        cuts = {d: Slice(0, c, 1) for d, (c, n) in enumerate(zip(covered, size, strict=True), 2) if c < n}
        return _at(b, x, cuts)
    where = [*(Along(n, d) for d, n in enumerate(x.shape[:2]))]
    where += [Along(n, d, -w[2]) for d, (n, w) in enumerate(zip(size, window, strict=True), 2)]
    return b.op("clone", b.fetch(x, 0, [], (*x.shape[:2], *covered), where))


def _at(b: Rewriter, x: Value, entries: dict[int, Any]) -> Value:
    """`x` at a slice or a place of some of its dimensions."""
    if not entries:
        return x
    return b.op("getitem", x, index=tuple([entries.get(d, Slice(0, n, 1)) for d, n in enumerate(x.shape)]))


def _added(b: Rewriter, columns: Value, size: Sizes, window: Window) -> Value:
    """Columns [N, C, *kernel, *count] added up in images [N, C, *size]."""
    rank, result = len(window), b.full((), 0, columns.dtype)
    count = columns.shape[2 + rank :]
    for place in itertools.product(*map(range, _kernel(window))):
        part = _at(b, columns, dict(enumerate(place, 2)))
        starts = [o * w[3] - w[2] for o, w in zip(place, window, strict=True)]
        result = b.op("add", result, _spread(b, part, size, count, starts, [w[1] for w in window]))
    return b.expand(result, (*columns.shape[:2], *size))


def _spread(
    b: Rewriter, part: Value, size: Sizes, count: Sizes, starts: Sequence[int], steps: Sequence[int]
) -> Value:
    """What is 0 but at `start + step * i` along each dimension, where it is the i-th of `part`."""
    shape = (*part.shape[:2], *size)
    where = [*(Along(n, d) for d, n in enumerate(part.shape[:2]))]
    indices: list[Value] = []
    for d, (c, start, step) in enumerate(zip(count, starts, steps, strict=True), 2):
        if step == 1:
            where.append(Along(c, d, -start))
        else:
            where.append(Along(c, by=len(indices)))
            indices.append(b.counted(Slice(start, start + step * c, step), shape[d], d, len(shape)))
    return b.fetch(part, 0, indices, shape, where)


# A channel at a time. There are no products to be had: sums of what is shifted are nests like any other.


def _is_depthwise(out: int, channels: int, groups: int, window: Window) -> bool:
    """Whether each channel is convolved with a small kernel of its own."""
    return out == channels == groups and groups > 1 and math.prod(_kernel(window)) <= LARGEST_NEST


def _by_channel(b: Rewriter, x: Value, weight: Value, count: Sizes, window: Window) -> Value:
    rank = len(window)
    factors = b.reshape(weight, (weight.shape[0], *(1,) * rank, *_kernel(window)))
    product = b.op("mul", _windows(b, _covered(b, x, count, window), window), factors)
    return b.op("sum", product, dim=tuple(range(2 + rank, 2 + 2 * rank)), keepdim=False)


def _weight_by_channel(b: Rewriter, x: Value, y: Value, size: Sizes, window: Window) -> Value:
    rank = len(window)
    windows = _windows(b, _covered(b, x, y.shape[2:], window), window)
    # What is fetched is in memory: else products would be made where the gradient is, and stored.
    shape = (*y.shape, *(1,) * rank)
    y = b.fetch_memory(y, 0, [], shape, [Along(n, d) for d, n in enumerate(y.shape)])
    result = b.op("sum", b.op("mul", windows, y), dim=(0, *range(2, 2 + rank)), keepdim=False)
    return b.reshape(result, (y.shape[1], 1, *size))


# Without steps, a transposed convolution adds up what one by kernels turned over finds side by side.


def _turns(images: Value, channels: int, size: Sizes, window: Window, groups: int) -> bool:
    """Whether a transposed convolution of `images` to so many channels is better done as a convolution."""
    out = images.shape[1]
    straight = all(s == 1 for _, s, _, _ in window)
    overlaps = math.prod(_kernel(window)) > 1 or _is_depthwise(out, channels, groups, window)
    if not (straight and overlaps and out <= COLUMNS_READ * channels):
        return False
    if _is_depthwise(out, channels, groups, window):
        return _multiplies(images, out, size, window)
    lies = groups == 1 and _is_without_columns(images, channels, size, window)
    return lies or _fits(images, out, size, window)


def _turned(b: Rewriter, x: Value, weight: Value, size: Sizes, window: Window, groups: int) -> Value:
    images, out = x.shape[:2]
    channels, rank = weight.shape[1] * groups, len(window)
    around = tuple([(k, 1, dilation * (k - 1) - padding, dilation) for k, _, padding, dilation in window])
    kernels = b.op("flip", weight, dims=tuple(range(2, 2 + rank)))
    if _is_depthwise(out, channels, groups, window):
        return _by_channel(b, x, kernels, size, around)
    parts = b.reshape(kernels, (groups, out // groups, *weight.shape[1:]))
    parts = b.op("clone", b.op("permute", parts, dims=(0, 2, 1, *range(3, 3 + rank))))
    whole = (channels, out * math.prod(weight.shape[2:]))
    if groups == 1 and _is_without_columns(x, channels, size, around):
        return _correlated(b, x, b.reshape(parts, whole), size, around)
    if _is_few(size, groups):
        return _together(b, x, b.reshape(parts, whole), size, around)
    matrix = b.reshape(parts, (groups, channels // groups, out // groups * math.prod(weight.shape[2:])))
    result = b.op("matmul", matrix, _columns(b, x, size, around, groups))
    return b.reshape(result, (images, channels, *size))


def _are_points(count: Sizes, size: Sizes, window: Window) -> bool:
    """Whether images of one element are transposed to as much as the kernel."""
    whole = size == _kernel(window) and all(w[2:] == (0, 1) for w in window)
    return whole and math.prod(count) == 1


# With steps, what is a step apart in the image meets the same part of the kernel's places. Each such phase of
# the image is a convolution without steps, of what the others are of as well; nothing is added up in memory.


def _has_phases(x: Value, channels: int, size: Sizes, window: Window) -> bool:
    """Whether a transposed convolution of x to so many channels is better done phase by phase."""
    fits = all(d == 1 and k >= s for k, s, _, d in window) and any(s > 1 for _, s, _, _ in window)
    shorter = [-(-n // s) for n, (_, s, _, _) in zip(size, window, strict=True)] if fits else size
    return (
        fits
        and math.prod(_kernel(window)) <= LARGEST_KERNEL
        and _is_without_columns(x, channels, shorter, window)
    )


class _Phases(NamedTuple):
    """The phases of a dimension: how long each is; for each the kernel's places, and where the first window's
    elements at these are in x, which is read from `begin` on for so many `rows`.
    """

    length: int
    places: list[Slice]
    taps: list[list[int]]
    begin: int
    rows: int

    @classmethod
    def of(cls, size: int, kernel: int, step: int, padding: int) -> _Phases:
        length = -(-size // step)
        places, taps = [], []
        for phase in range(step):
            ahead, first = divmod(phase + padding, step)
            places.append(Slice(first, kernel, step))
            taps.append([ahead - i for i in range(len(range(first, kernel, step)))])
        begin, last = min(map(min, taps)), max(map(max, taps))
        return cls(length, places, [[t - begin for t in row] for row in taps], begin, length + last - begin)


def _by_phases(
    b: Rewriter, x: Value, weight: Value, size: Sizes, window: Window, bias: Sequence[Value]
) -> Value:
    (images, out), channels = x.shape[:2], weight.shape[1]
    down, right = (_Phases.of(n, k, s, p) for n, (k, s, p, _) in zip(size, window, strict=True))
    where = [*(Along(n, d) for d, n in enumerate(x.shape[:2]))]
    where += [
        Along(n, d, way.begin) for d, (n, way) in enumerate(zip(x.shape[2:], (down, right), strict=True), 2)
    ]
    covered = b.op("clone", b.fetch(x, 0, [], (images, out, down.rows, right.rows), where))
    covered = b.reshape(covered, (images, out, 1, down.rows, right.rows))
    turned = b.op("permute", weight, dims=(1, 0, 2, 3))
    made = []
    for (rows, tops), (columns, lefts) in itertools.product(
        *(zip(w.places, w.taps, strict=True) for w in (down, right))
    ):
        part = b.op("clone", _at(b, turned, {2: rows, 3: columns}))
        matrix = b.reshape(part, (channels, math.prod(part.shape[1:])))
        taps = tuple(i * right.rows + j for i, j in itertools.product(tops, lefts))
        params = {"count": (down.length, right.length), "taps": taps}
        made.append(b.equation(CORRELATED_BIAS if bias else CORRELATED, (matrix, covered, *bias), params))
    steps = [w[1] for w in window]
    whole = b.reshape(b.op("cat", *made, dim=0), (*steps, images, channels, down.length, right.length))
    whole = b.op("clone", b.op("permute", whole, dims=(2, 3, 4, 0, 5, 1)))
    whole = b.reshape(whole, (images, channels, down.length * steps[0], right.length * steps[1]))
    cuts = {d: Slice(0, n, 1) for d, n in enumerate(size, 2) if n != whole.shape[d]}
    return b.op("clone", _at(b, whole, cuts)) if cuts else whole


# The products. Sizes and params as the ops of `eager/ops/nn/convolution.py` have them.


def _with_bias(b: Rewriter, result: Value, bias: Sequence[Value]) -> Value:
    if not bias:
        return result
    return b.op("add", result, b.reshape(bias[0], (*bias[0].shape, *(1,) * (len(result.shape) - 2))))


def _convolution(
    b: Rewriter, x: Value, weight: Value, *bias: Value, size: Sizes, window: Window, groups: int
) -> Value | None:
    out = weight.shape[0]
    if not _multiplies(x, x.shape[1], size, window) or not out:
        return None
    if _is_depthwise(out, x.shape[1], groups, window):
        return _with_bias(b, _by_channel(b, x, weight, size, window), bias)
    if groups == 1 and _is_without_columns(x, out, size, window):
        return _correlated(b, x, weight, size, window, bias)
    if not _fits(x, x.shape[1], size, window):
        return None
    if _is_few(size, groups):
        matrix = b.reshape(weight, (out, math.prod(weight.shape[1:])))
        return _with_bias(b, _together(b, x, matrix, size, window), bias)
    matrix = b.reshape(weight, (groups, out // groups, math.prod(weight.shape[1:])))
    result = b.op("matmul", matrix, _columns(b, x, size, window, groups))
    return _with_bias(b, b.reshape(result, (x.shape[0], out, *size)), bias)


def _transpose(
    b: Rewriter, x: Value, weight: Value, *bias: Value, size: Sizes, window: Window, groups: int
) -> Value | None:
    images, out, *count = x.shape
    channels = weight.shape[1] * groups
    if groups == 1 and _are_points(tuple(count), size, window) and _multiplies(x, channels, count, window):
        rows = b.reshape(weight, (out, math.prod(weight.shape[1:])))
        made = b.op("matmul", b.reshape(x, (images, out)), rows)
        return _with_bias(b, b.reshape(made, (images, channels, *size)), bias)
    if out and channels and _turns(x, channels, size, window, groups):
        return _with_bias(b, _turned(b, x, weight, size, window, groups), bias)
    if groups == 1 and out and channels and _has_phases(x, channels, size, window):
        return _by_phases(b, x, weight, size, window, bias)
    if not _fits(x, channels, count, window) or not out or math.prod(_kernel(window)) > LARGEST_KERNEL:
        return None
    if _is_few(count, groups):
        rows = b.op("matmul", _channels_last(b, x), b.reshape(weight, (out, math.prod(weight.shape[1:]))))
        columns = _channels_first(b, rows, images, tuple(count))
        columns = b.reshape(columns, (images, channels, *weight.shape[2:], *count))
        return _with_bias(b, _added(b, columns, size, window), bias)
    matrix = b.reshape(weight, (groups, out // groups, math.prod(weight.shape[1:])))
    rows = b.reshape(x, (images, groups, out // groups, math.prod(count)))
    columns = b.op("matmul", b.op("permute", matrix, dims=(0, 2, 1)), rows)
    columns = b.reshape(columns, (images, channels, *weight.shape[2:], *count))
    return _with_bias(b, _added(b, columns, size, window), bias)


def _weight(b: Rewriter, x: Value, y: Value, size: Sizes, window: Window, groups: int) -> Value | None:
    images, out, *count = y.shape
    if not _multiplies(x, x.shape[1], count, window) or not out:
        return None
    if _is_depthwise(out, x.shape[1], groups, window):
        return _weight_by_channel(b, x, y, size, window)
    if groups == 1 and _is_without_columns(x, out, count, window):
        planes, taps = _planes(b, x, tuple(count), window)
        result = b.equation(KERNEL_GRADIENT, (y, planes), {"count": tuple(count), "taps": taps})
        return b.reshape(result, (out, x.shape[1], *size))
    if not _fits(x, x.shape[1], count, window):
        return None
    if _is_few(count, groups):
        turned = b.op("permute", _channels_last(b, y), dims=(1, 0))
        result = b.op("matmul", turned, _rows(b, x, tuple(count), window))
        return b.reshape(result, (out, x.shape[1], *size))
    rows = b.reshape(y, (images, groups, out // groups, math.prod(count)))
    # The gradient lies transposed, so that it is the rows and not all the columns that are turned over.
    turned = b.op("permute", rows, dims=(0, 1, 3, 2))
    product = b.op("matmul", _columns(b, x, tuple(count), window, groups), turned)
    result = b.op("permute", b.op("sum", product, dim=(0,), keepdim=False), dims=(0, 2, 1))
    return b.reshape(result, (out, x.shape[1] // groups, *size))


def _im2col(b: Rewriter, x: Value, size: Sizes, count: Sizes, window: Window) -> Value | None:
    if not _fits(x, x.shape[1], count, window):
        return None
    columns = _columns(b, x, count, window, 1)
    return b.reshape(columns, (columns.shape[0], *columns.shape[2:]))


def _col2im(b: Rewriter, x: Value, size: Sizes, count: Sizes, window: Window) -> Value | None:
    kernel = _kernel(window)
    channels = x.shape[1] // math.prod(kernel)
    if not _fits(x, channels, count, window) or math.prod(kernel) > LARGEST_KERNEL:
        return None
    return _added(b, b.reshape(x, (x.shape[0], channels, *kernel, *count)), size, window)


RULES: dict[str, Callable[..., Value | None]] = {
    "convolution": _convolution,
    "convolution_bias": _convolution,
    "conv_transpose": _transpose,
    "conv_transpose_bias": _transpose,
    "conv_weight": _weight,
    "im2col": _im2col,
    "col2im": _col2im,
}
