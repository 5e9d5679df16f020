"""Elements that a Python function gives, one after the other: slow, and for tests and tables alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.state import tell
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.create.creation import tensor
from fusegrad.eager.ops.declare import method


@method
def apply_(self: Tensor, callable: Callable[[Any], Any]) -> Tensor:
    """`callable(x)` in the place of each element x; gives the tensor. Source: `torch.Tensor.apply_`.

    Raises RuntimeError where the tensor requires grad, TypeError where the function gives no number.

    >>> import fusegrad as fg
    >>> fg.tensor([1.0, 2.0]).apply_(lambda x: x * x + 1)
    tensor([2., 5.])
    """
    return _given("apply_", callable, self)


@method
def map_(self: Tensor, tensor: Tensor, callable: Callable[[Any, Any], Any]) -> Tensor:
    """`callable(x, y)` in the place of each element x, y being that of `tensor`, which broadcasts.

    Raises as `apply_`, and for a tensor of another dtype. Source: `torch.Tensor.map_`.

    >>> import fusegrad as fg
    >>> fg.tensor([1.0, 2.0]).map_(fg.tensor([10.0]), lambda x, y: x + y)
    tensor([11., 12.])
    """
    return _given("map_", callable, self, tensor)


@method
def map2_(self: Tensor, x: Tensor, y: Tensor, callable: Callable[[Any, Any, Any], Any]) -> Tensor:
    """`map_` with two more tensors. Source: `torch.Tensor.map2_`.

    >>> import fusegrad as fg
    >>> x, y = fg.tensor([3.0]), fg.tensor([2.0])
    >>> fg.tensor([1.0, 2.0]).map2_(x, y, lambda a, b, c: a + b * c)
    tensor([7., 8.])
    """
    return _given("map2_", callable, self, x, y)


def _given(name: str, function: Callable[..., Any], target: Tensor, *others: Tensor) -> Tensor:
    """What `function` gives for the elements, in `target`."""
    if not callable(function):
        raise failure(TypeError, f"{name}(): '{type(function).__name__}' object is not callable")
    for one in (target, *others):
        if one.needs_grad:
            text = f"Can't call {name}() on Variable that requires grad. Use var.detach().{name}() instead."
            raise failure(RuntimeError, text)
        if one.dtype is not target.dtype:
            raise failure(TypeError, f"{name}: expected tensors of {target.dtype.name}, got {one.dtype.name}")
    tell(f"calls a Python function for each element, by `{name}`")
    shape = target.array.shape
    elements = [ops.broadcast_to(one, shape).flatten().tolist() for one in (target, *others)]
    values = [function(*each) for each in zip(*elements, strict=True)]
    for value in values:
        if isinstance(value, (str, bytes)) or (
            not hasattr(value, "__float__") and not isinstance(value, complex)
        ):
            raise failure(
                TypeError, f"{name}: the function gave a {type(value).__name__}, which is no number"
            )
    made = tensor(values, dtype=target.dtype).reshape(shape)
    return target.copy_(made)
