"""Steps on the autograd graph: an optimizer's rule, which is written for NumPy arrays, run on tensors.

In: the optimizer, one of its groups. Out: parameters and state that were written in place by ops, so that a
gradient of what is computed with them reaches the parameters, gradients and state of before the step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.state import enable_grad
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.optim.optimizer import ParameterGroup

_OPS: dict[Any, Callable[..., Tensor]] = {
    np.add: ops.add,
    np.subtract: ops.sub,
    np.multiply: ops.mul,
    np.divide: ops.div,
    np.negative: ops.neg,
    np.absolute: ops.abs,
    np.sign: ops.sign,
    np.sqrt: ops.sqrt,
    np.maximum: ops.maximum,
    np.minimum: ops.minimum,
    np.less: ops.lt,
    np.greater: ops.gt,
}
_CLAMPS = {np.maximum: "min", np.minimum: "max"}


class Buffer(NDArrayOperatorsMixin):
    """Stands for an array of a rule; `tensor` holds its values. A ufunc is an op, a write another tensor."""

    def __init__(self, tensor: Tensor | None) -> None:
        self.tensor = tensor

    @property
    def dtype(self) -> np.dtype:
        """That of the array which it stands for."""
        assert self.tensor is not None, "scratch holds nothing"
        return self.tensor.array.dtype

    def operand(self, value: Any) -> Any:
        """What an op gets for what a ufunc was given."""
        return value.tensor if isinstance(value, Buffer) else value

    def __array_ufunc__(
        self, ufunc: Any, method: str, *inputs: Any, out: Any = None, where: Any = None, **options: Any
    ) -> Any:
        op = _OPS.get(ufunc)
        if op is None or method != "__call__" or options:
            return NotImplemented
        left, *right = map(self.operand, inputs)
        if ufunc in _CLAMPS and not isinstance(right[0], Tensor):
            result = ops.clamp(left, **{_CLAMPS[ufunc]: right[0]})
        else:
            result = op(left, *right)
        if out is None:
            return type(self)(result)
        if where is not None:
            result = ops.where(where.tensor, result, out[0].tensor)
        out[0].tensor = result
        return out[0]

    def __setitem__(self, index: Any, value: Any) -> None:
        if index is Ellipsis:
            self.tensor = self.operand(value)
        else:
            self.tensor = ops.where(index.tensor, self.operand(value), self.tensor)


def step_group(optimizer: Any, group: ParameterGroup) -> None:
    """Step the parameters of an `ElementwiseOptimizer`'s group that have a gradient, on the graph."""
    for name, option in group.items():
        if isinstance(option, Tensor) and option.needs_grad:
            raise failure(
                NotImplementedError,
                f"differentiable=True gives no gradients of options, and {name} needs one; give it detached",
            )
    slots = optimizer.slots(group)
    with enable_grad():
        for parameter in group["params"]:
            if parameter.gradient is not None:
                _step(optimizer, group, parameter, slots)


def _step(optimizer: Any, group: ParameterGroup, parameter: Tensor, slots: tuple[str, ...]) -> None:
    """Step one parameter."""
    fresh = optimizer.started(parameter, group, slots)
    kept = optimizer.state[parameter] if slots or optimizer.counted else {}
    step = 0.0
    if optimizer.counted:
        kept["step"] += 1
        step = kept["step"].item()
    constants = optimizer.constants(group, step, kept, fresh)
    targets = [parameter, *(kept[name] for name in slots)]
    # Copies, since the rule's ops may keep for backward what is written in the end.
    p, *buffers = (Buffer(_real(t).clone()) for t in targets)
    optimizer.update(p, Buffer(_real(parameter.gradient)), buffers, constants, Buffer(None), Buffer(None))
    for target, buffer in zip(targets, [p, *buffers], strict=True):
        target.copy_(ops.view_as_complex(buffer.tensor) if target.is_complex() else buffer.tensor)


def _real(tensor: Any) -> Any:
    return ops.view_as_real(tensor) if tensor.is_complex() else tensor
