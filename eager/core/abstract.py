"""Running ops on types alone: tensors without values, for shape rules and for tracing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fusegrad.eager.core.handlers import in_charge
from fusegrad.eager.core.op import Op, Params, TensorType, wrap
from fusegrad.eager.core.sizes import OpenArray, has_symbols
from fusegrad.eager.core.state import Interpreter, state
from fusegrad.eager.core.tensor import Tensor


class AbstractTensor(Tensor):
    """A tensor of which only the type is known. Its array is a zero-stride stand-in of no size."""

    __slots__ = ()


def stand_in(type_: TensorType) -> AbstractTensor:
    """A tensor of `type_` without memory for its elements."""
    if has_symbols(type_.shape):
        tensor = wrap(None)
        tensor.array = OpenArray(*type_)  # type: ignore[assignment]
    else:
        tensor = wrap(np.broadcast_to(np.empty((), type_.dtype), type_.shape))
    tensor.__class__ = AbstractTensor
    return tensor  # type: ignore[return-value]


class AbstractInterpreter(Interpreter):
    """Answers every `bind` from the op's shape and dtype rule."""

    def bind(self, op: Op, args: tuple[Any, ...], params: Params) -> Any:
        types = [TensorType(a.array.shape, a.array.dtype) if isinstance(a, Tensor) else a for a in args]
        result = op.infer(types, params)
        if isinstance(result, TensorType):
            return self.made(op, args, params, (stand_in(result),))[0]
        return self.made(op, args, params, tuple(stand_in(t) for t in result))

    def made(
        self, op: Op, args: tuple[Any, ...], params: Params, outputs: tuple[Tensor, ...]
    ) -> tuple[Tensor, ...]:
        """Called with what each op gave; subclasses note it down."""
        return outputs

    def leave(self, tensor: Tensor, door: str, value: Any) -> None:
        if isinstance(tensor, AbstractTensor):
            raise RuntimeError(
                f"a rule asked for the value ({door}) of a tensor of which only the type is known"
            )

    def effect(self, reason: str, kind: str = "") -> None:
        raise RuntimeError(f"a rule that is evaluated on types alone {reason}")

    def check(self, tensor: Tensor, passed: Callable[[], Tensor], within: tuple[int, ...] = ()) -> bool:
        """Values are tested where there are values."""
        return False


def interpreted(interpreter: Any, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call `function` with `interpreter` in charge of this thread's ops, gradients off."""
    previous = state.interpreter, state.grad_enabled
    state.interpreter, state.grad_enabled = in_charge(interpreter), False
    try:
        return function(*args, **kwargs)
    finally:
        state.interpreter, state.grad_enabled = previous


def infer_function(function: Callable[..., Any], types: Sequence[Any], params: Params) -> Any:
    """The type(s) that `function` gives for tensors of `types` (numbers pass as they are)."""
    args = [stand_in(t) if isinstance(t, TensorType) else t for t in types]
    result = interpreted(AbstractInterpreter(), function, *args, **params)
    if isinstance(result, Tensor):
        return TensorType(result.array.shape, result.array.dtype)
    return tuple(TensorType(r.array.shape, r.array.dtype) for r in result)
