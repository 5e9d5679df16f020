"""Resizing by whole factors: means of windows side by side, and elements that are repeated.

    v0: f32[2, 3, 1] = resample(x, maps=(("area", 8, 1, 1.0, False),), transposed=False)

becomes

    l0: f32[2, 3, 1, 8] = unfold(x, dim=2, size=8, step=8)
    l1: f32[2, 3, 1] = sum(l0, dim=(3,), keepdim=False)
    l2: f32[2, 3, 1] = div(l1, 8)

and the gradient of that is repeated. What weighs elements otherwise is left to NumPy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from fusegrad.compiler.lower.rewriter import Rewriter
from fusegrad.eager.ops.nn.resampling import Map, rows_of
from fusegrad.tracer.ir.graph import Value


def _averages(map: Map) -> int:
    """How many neighbours each element of the output is the mean of; 0 where it is something else."""
    mode, inputs, outputs, _, _ = map
    return inputs // outputs if mode == "area" and outputs and inputs % outputs == 0 else 0


def _repeats(map: Map, dtype: np.dtype) -> int:
    """How often each element of the input is repeated; 0 where it is not, or not each as often."""
    mode, inputs, outputs, _, _ = map
    if not mode.startswith("nearest") or not inputs or outputs % inputs:
        return 0
    times = outputs // inputs
    places, _ = rows_of(map, dtype)
    return times if np.array_equal(places[:, 0], np.arange(outputs) // times) else 0


def _summed(b: Rewriter, x: Value, factors: Sequence[int]) -> Value:
    """The sums of so many neighbours along each of the last dimensions."""
    rank, lead = len(x.shape), len(x.shape) - len(factors)
    if math.prod(factors) == 1:
        return x
    for d, factor in enumerate(factors, lead):
        x = b.op("unfold", x, dim=d, size=factor, step=factor)
    return b.op("sum", x, dim=tuple(range(rank, rank + len(factors))), keepdim=False)


def _repeated(b: Rewriter, x: Value, factors: Sequence[int]) -> Value:
    """Each element so often along each of the last dimensions."""
    lead, last = x.shape[: len(x.shape) - len(factors)], x.shape[len(x.shape) - len(factors) :]
    sizes = [n * factor for n, factor in zip(last, factors, strict=True)]
    if all(n == 1 for n in last):
        return b.op("clone", b.expand(x, (*lead, *sizes)))
    apart = b.reshape(x, (*lead, *(m for n in last for m in (n, 1))))
    whole = b.expand(apart, (*lead, *(m for pair in zip(last, factors, strict=True) for m in pair)))
    return b.reshape(b.op("clone", whole), (*lead, *sizes))


def resample(b: Rewriter, x: Value, maps: tuple[Map, ...], transposed: bool) -> Value | None:
    """Means or repetitions, if all dimensions have the same of both; their gradients each other's."""
    means = [_averages(map) for map in maps]
    if x.dtype.kind == "f" and all(means):
        count = math.prod(means)
        if transposed:
            return _repeated(b, b.op("div", x, count), means)
        return b.op("div", _summed(b, x, means), count)
    times = [_repeats(map, x.dtype if x.dtype.kind == "f" else np.dtype(np.float32)) for map in maps]
    if not all(times):
        return None
    return _summed(b, x, times) if transposed else _repeated(b, x, times)


RULES: dict[str, Callable[..., Value | None]] = {"resample": resample}
