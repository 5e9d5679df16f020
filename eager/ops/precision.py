"""What `autocast` does to operands: half precision for products, float32 for losses and their like.

Ops are told by their names, as they come (`eager/devices/autocasting.py`); a function that is composed of
several says itself that it wants float32.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fusegrad.eager.core import dtypes
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.state import state
from fusegrad.eager.core.tensor import Tensor


def as_dtype_of(value: Any, dtype: dtypes.DType) -> Any:
    """A tensor of float32 or half precision in one of these; float64, integers and numbers as they are."""
    if not isinstance(value, Tensor) or not value.is_floating_point():
        return value
    return value if value.dtype in (dtype, dtypes.float64) else ops.cast(value, dtype)


def in_single(*operands: Any) -> Any:
    """The operands of a function that `autocast` leaves to float32."""
    if state.autocast is None:
        return operands if len(operands) > 1 else operands[0]
    wide = tuple(as_dtype_of(operand, dtypes.float32) for operand in operands)
    return wide if len(wide) > 1 else wide[0]


def rounded_once(function: Callable[..., Tensor], *operands: Any) -> Tensor:
    """What a function of several ops that is one kernel of PyTorch's gives.

    Such a kernel computes with half types in float32, and rounds what comes out.
    """
    halves = [x.dtype for x in operands if isinstance(x, Tensor) and dtypes.is_half(x.array.dtype)]
    if not halves:
        return function(*operands)
    return ops.cast(uncast(function)(*(as_dtype_of(x, dtypes.float32) for x in operands)), halves[0])


def in_half(*operands: Any) -> Any:
    """The operands of a function that `autocast` computes in its dtype."""
    if state.autocast is None:
        return operands
    return tuple(as_dtype_of(operand, state.autocast) for operand in operands)


def uncast(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function as it is outside of `autocast`, for products that PyTorch does not cast."""
    if state.autocast is None:
        return function

    def run(*args: Any) -> Any:
        before = state.interpreter, state.autocast
        state.interpreter, state.autocast = getattr(state.interpreter, "inner", state.interpreter), None
        try:
            return function(*args)
        finally:
            state.interpreter, state.autocast = before

    return run
