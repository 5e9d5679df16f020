"""Numbers in a row: `arange`, and those between two ends, `linspace` and `logspace`."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from fusegrad.eager.core import dtypes
from fusegrad.eager.core.dtypes import DType
from fusegrad.eager.core.errors import failure, warn
from fusegrad.eager.core.op import bind
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.places.device import on_cpu
from fusegrad.eager.core.sizes import positions
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.create import creation
from fusegrad.eager.ops.declare import public
from fusegrad.eager.ops.pointwise.declare_pointwise import number


def _arange_numpy(shape: tuple[int, ...], start: Any, step: Any, dtype: DType) -> np.ndarray:
    return dtypes.converted(start + step * positions(shape[0]), dtype.numpy)


_arange = creation.Creation(
    "arange",
    _arange_numpy,
    lambda b, index, shape, start, step, dtype: b.progression(index[0], start, step, dtype),
)


@public
def arange(
    start: Any = 0,
    end: Any = None,
    step: Any = 1,
    *,
    dtype: Any = None,
    requires_grad: bool = False,
    device: Any = None,
    layout: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """Numbers from `start` (0) up to, not including, `end`. Source: `torch.arange`.

    Raises RuntimeError for a step of 0 or in the wrong direction.

    >>> import fusegrad as fg
    >>> fg.arange(3)
    tensor([0, 1, 2])
    """
    on_cpu(device)
    if end is None:
        start, end = 0, start
    start, end, step = number(start), number(end), number(step)
    kind = _progression_dtype(dtype, start, end, step)
    _check_progression(start, end, step)
    is_half = dtypes.opmath(kind.numpy) is not kind.numpy
    computed = dtypes.int64 if kind.category == 1 else dtypes.float32 if is_half else dtypes.float64
    for value in (start, end, step):
        dtypes.held(value, computed.numpy)
    if kind is dtypes.int64:
        start, end, step = int(start), int(end), int(step)
        _check_progression(start, end, step)
        count = -(-(end - start) // step)
    else:  # of other whole numbers there are as many as of the floats that they are cut from
        count = math.ceil((float(end) - float(start)) / float(step))
    if kind.category == 1:
        start, step = int(start), int(step)
    return _progression(count, start, step, kind, requires_grad)


@public
def range(  # Python's `range` is `builtins.range` in this module
    start: Any = 0,
    end: Any = None,
    step: Any = 1,
    *,
    dtype: Any = None,
    requires_grad: bool = False,
    device: Any = None,
    layout: Any = None,
) -> Tensor:
    """Numbers from `start` up to `end`, which is included; `arange` is preferred. Source: `torch.range`."""
    on_cpu(device)
    warn(
        "torch.range is deprecated, since it is unlike Python's range. Use arange, which leaves out the end."
    )
    if end is None:
        start, end = 0, start
    start, end, step = number(start), number(end), number(step)
    _check_progression(start, end, step)
    kind = dtypes.default_float() if dtype is None else dtypes.as_dtype(dtype)
    return _progression(math.floor((end - start) / step) + 1, start, step, kind, requires_grad)


def _progression_dtype(dtype: Any, *numbers: Any) -> DType:
    if dtype is not None:
        return dtypes.as_dtype(dtype)
    return dtypes.int64 if all(isinstance(v, int) for v in numbers) else dtypes.default_float()


def _check_progression(start: Any, end: Any, step: Any) -> None:
    if step == 0:
        raise failure(RuntimeError, "step must be nonzero")
    if not (math.isfinite(start) and math.isfinite(end)):
        raise failure(RuntimeError, f"unsupported range: {start} -> {end}")
    if (end - start) * step < 0:
        raise failure(
            RuntimeError, f"upper bound and lower bound inconsistent with step sign ({start}, {end}, {step})"
        )


def _progression(count: int, start: Any, step: Any, kind: DType, requires_grad: bool) -> Tensor:
    params = {"shape": (count,), "start": start, "step": step, "dtype": kind}
    return creation.requiring(bind(_arange, (), params), requires_grad)


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
            RuntimeError,
            f"torch.{name}(): inferred dtype {default.name} can't be safely cast to passed dtype {kind.name}",
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
    if dtypes.stands_for_float(first) or dtypes.stands_for_float(last):
        made = _between(first, last, count, kind)
    else:
        made = bind(_linspace, (), {"shape": (count,), "start": first, "end": last, "dtype": kind})
    return creation.requiring(made, requires_grad)


def _between(first: Any, last: Any, count: int, kind: DType) -> Tensor:
    """`linspace` by ops that take its ends as operands."""
    step = (last - first) / max(1, count - 1)
    place = arange(count, dtype=dtypes.float64)
    rest = arange(count - 1, -1, -1, dtype=dtypes.float64)
    values = ops.where(place < (count // 2 or 1), place * step + first, last - rest * step)
    return ops.cast(values, kind)


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
