"""Ops inside of `autocast`: which ones get their operands in another precision, and how they come to it.

In: an op and its operands. Out: what it gives for operands in half precision (products), in float32 (losses,
linear algebra), or as they are. The casts are ops, and derived like them. As PyTorch does it on a CPU.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fusegrad.eager.core import dtypes
from fusegrad.eager.core.op import Op, Params, evaluate
from fusegrad.eager.core.state import Interpreter, state
from fusegrad.eager.ops.precision import as_dtype_of

_HALF = frozenset(
    "linear matmul addmm convolution convolution_bias conv_transpose conv_transpose_bias prelu".split()
)
_SINGLE = frozenset(
    "nll_loss nll_loss_weighted l1_loss mse_loss smooth_l1_loss huber_loss binary_cross_entropy "
    "binary_cross_entropy_with_logits cdist prod fft_c2c fft_c2r fft_r2c cholesky_inverse cholesky_solve "
    "view_as_complex complex_of geqrf".split()
)


class Casting(Interpreter):
    """Casts operands, and leaves the rest to who is in charge outside of `autocast`, if anybody is.

    Jitted functions that are called meanwhile run as Python, op by op.
    """

    def __init__(self, inner: Interpreter | None, dtype: dtypes.DType) -> None:
        self.inner, self.dtype = inner, dtype

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def bind(self, op: Op, args: tuple[Any, ...], params: Params) -> Any:
        if op.name in _HALF:
            args = tuple(as_dtype_of(a, self.dtype) for a in args)
        elif op.name in _SINGLE or op.name.startswith("linalg_"):
            args = tuple(as_dtype_of(a, dtypes.float32) for a in args)
        if self.inner is not None:
            return self.inner.bind(op, args, params)
        return evaluate(op, args, params)

    def backward(self, roots: Any, accumulates: bool) -> Interpreter | None:
        """The casts are on the graph: the ops of a backward get what they ask for."""
        return None if self.inner is None else self.inner.backward(roots, accumulates)

    def evaluating(self, plain: Interpreter) -> Interpreter:
        return Casting(plain if self.inner is None else self.inner.evaluating(plain), self.dtype)

    def checkpoints(self, args: Any, preserves: bool) -> None:
        """The second run casts, too, whoever is in charge then: it is nobody else's."""


def _passing(name: str) -> Callable[..., Any]:
    """A method that asks who is in charge outside."""
    without = vars(Interpreter)[name]

    def method(self: Casting, /, *args: Any, **options: Any) -> Any:
        if self.inner is None:
            return without(self, *args, **options)
        return getattr(self.inner, name)(*args, **options)

    return method


for _name in vars(Interpreter):
    if not _name.startswith("_") and _name not in vars(Casting):
        setattr(Casting, _name, _passing(_name))


class Outside:
    """Who was in charge of ops before a block of `autocast`, and to what it cast."""

    __slots__ = ("dtype", "interpreter")

    def __init__(self) -> None:
        self.interpreter, self.dtype = state.interpreter, state.autocast


def begin(dtype: dtypes.DType | None) -> Outside:
    """Have ops cast to a dtype, or to none; gives what was there before, for `end`."""
    before = Outside()
    interpreter = state.interpreter
    if interpreter is not None and (dtype is not None or state.autocast is not None):
        interpreter.effect("casts the operands of ops (autocast)")
    if isinstance(interpreter, Casting):
        interpreter = interpreter.inner
    state.interpreter = interpreter if dtype is None else Casting(interpreter, dtype)
    state.autocast = dtype
    return before


def end(before: Outside) -> None:
    """Go back to what was there."""
    state.interpreter, state.autocast = before.interpreter, before.dtype


# Questions. Jitted functions are recorded, and replayed, outside of `autocast` only.


def is_autocast_available(device_type: str) -> bool:
    """Whether `autocast` of a device does anything. Source: `torch.amp.is_autocast_available`."""
    return device_type == "cpu"


def is_autocast_enabled(device_type: str | None = None) -> bool:
    """Whether ops on a device (by default, one that is not there) are inside of `autocast`.

    Source: `torch.is_autocast_enabled`.
    """
    return device_type == "cpu" and state.autocast is not None
