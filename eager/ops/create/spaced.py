"""Numbers between two ends: `linspace` and `logspace`."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from fusegrad.eager.core import dtypes
from fusegrad.eager.core.dtypes import DType
from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.op import bind
from fusegrad.eager.core.sizes import positions
from fusegrad.eager.core.tensor import Tensor, on_cpu
from fusegrad.eager.ops.create import creation
from fusegrad.eager.ops.declare import public
from fusegrad.eager.ops.pointwise.declare_pointwise import number


def _linspace_numpy(shape: tuple[int, ...], start: float, end: float, dtype: DType) -> np.ndarray:
    """From both ends, so that the last element is `end` itself."""
    count = shape[0]
    step = (end - start) / max(1, count - 1)
    place = positions(count)
    near = place < count // 2 if count > 1 else place == 0
    values = np.where(near, start + step * place, end - step * (count - 1 - place))
    return dtypes.converted(values, dtype.numpy)


def _linspace_scalar(
    b: Any, index: Any, shape: tuple[int, ...], start: float, end: float, dtype: DType
) -> Any:
    count = shape[0]
    step = (end - start) / max(1, count - 1)
    wide = dtypes.float64
    first = b.progression(index[0], float(start), float(step), wide)
    last = b.progression(index[0], float(end) - step * (count - 1), float(step), wide)
    half = count // 2 if count > 1 else 1
    near = b.lt(b.progression(index[0], 0.0, 1.0, wide), float(half))
    return b.cast(b.select(near, first, last), dtype)


_linspace = creation.Creation("linspace", _linspace_numpy, _linspace_scalar)


def _ends(name: str, start: Any, end: Any, steps: Any, dtype: Any) -> tuple[Any, Any, int, DType]:
    """Checked ends, cut to whole numbers for an integer dtype (as PyTorch does before it divides)."""
    for value in (start, end):
        if isinstance(value, Tensor) and value.array.ndim:
            raise failure(RuntimeError, "only supports 0-dimensional start and end tensors")
    count = operator.index(steps)
    if count < 0:
        raise failure(RuntimeError, f"number of steps must be non-negative, got {steps}")
    first, last = number(start), number(end)
    default = dtypes.default_float()
    if complex in (type(first), type(last)):
        default = dtypes.number_dtype(1j)
    kind = default if dtype is None else dtypes.as_dtype(dtype)
    if default.category == 3 != kind.category:
        raise failure(
            RuntimeError, f"{name}(): inferred dtype {default.name} can't be safely cast to {kind.name}"
        )
    first, last = dtypes.held(first, kind.numpy), dtypes.held(last, kind.numpy)
    if kind.numpy.kind in "iu":
        first, last = int(first), int(last)
    return first, last, count, kind


@public
def linspace(
    start: Any,
    end: Any,
    steps: int,
    *,
    dtype: Any = None,
    requires_grad: bool = False,
    device: Any = None,
    layout: Any = None,
) -> Tensor:
    """`steps` numbers evenly spaced from `start` to `end`, both included. Source: `torch.linspace`."""
    on_cpu(device)
    first, last, count, kind = _ends("linspace", start, end, steps, dtype)
    params = {"shape": (count,), "start": first, "end": last, "dtype": kind}
    return creation.requiring(bind(_linspace, (), params), requires_grad)


@public
def logspace(
    start: Any,
    end: Any,
    steps: int,
    base: float = 10.0,
    *,
    dtype: Any = None,
    requires_grad: bool = False,
    device: Any = None,
    layout: Any = None,
) -> Tensor:
    """`base` to the powers evenly spaced from `start` to `end`. Source: `torch.logspace`."""
    on_cpu(device)
    first, last, count, kind = _ends("logspace", start, end, steps, dtype)
    exponents = linspace(
        first, last, count, dtype=dtypes.complex128 if kind.category == 3 else dtypes.float64
    )
    return creation.requiring((base**exponents).to(kind), requires_grad)
