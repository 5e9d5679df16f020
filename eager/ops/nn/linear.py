"""The linear layer as one op, and a helper for gradients that are quick where nobody records them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.families import Composite
from fusegrad.eager.core.op import bind, wrap
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.stand_in import putting_off
from fusegrad.eager.core.state import state
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.linalg import contraction
from fusegrad.eager.ops.precision import in_half


def quick(numpy: Callable[..., np.ndarray], recorded: Callable[..., Tensor], *values: Any) -> Tensor:
    """`numpy` of the arrays, or `recorded` of the tensors where the ops that run are of interest.

    They are to an interpreter, and to autograd for a higher derivative.
    """
    without_values = putting_off and any(v.is_meta for v in values)
    if state.interpreter is not None or state.grad_enabled or without_values:
        return recorded(*values)
    return wrap(numpy(*[v.array for v in values]))


def _product(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return contraction._evaluate(x, y)  # which the compiler may have replaced


def _transposed_product(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return contraction._evaluate(x.T, y)


def _row_sum(g: np.ndarray) -> np.ndarray:
    return np.add.reduce(g, axis=0)


# x: [N, in]; weight: [out, in]; bias: [out], or another part of the sum [N, out].
_linear = Composite(
    "linear",
    "x weight bias",
    lambda x, weight, bias: ops.matmul(x, ops.t(weight)) + bias,
    lambda x, weight, bias: contraction._evaluate(x, weight.T) + bias,
    {
        "x": lambda g, weight: quick(_product, ops.matmul, g, weight),
        "weight": lambda g, x: quick(_transposed_product, lambda g, x: ops.matmul(ops.t(g), x), g, x),
        "bias": lambda g, bias_type: (
            g if len(bias_type.shape) == 2 else quick(_row_sum, lambda g: ops.sum(g, 0), g)
        ),
    },
    "AddmmBackward0",
)


def _fit(x: Tensor, weight: Tensor, bias: Tensor) -> bool:
    """Whether the op takes these operands."""
    rows, columns, size = x.array.shape, weight.array.shape, bias.array.shape
    if len(rows) != 2 or len(columns) != 2 or rows[1] != columns[1]:
        return False
    kind = x.array.dtype
    same = weight.array.dtype == kind and bias.array.dtype == kind and kind.kind in "fV"
    return same and (size == columns[:1] or size == (rows[0], columns[0]))


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """input @ weight.T + bias. Source: `torch.nn.functional.linear`.

    input: [..., in]; weight: [out, in]; bias: [out]. Raises RuntimeError when sizes or dtypes differ.
    """
    if state.autocast is not None:
        input, weight, bias = in_half(input, weight, bias)
    if bias is not None:
        size = input.array.shape
        if len(size) == 2:
            if _fit(input, weight, bias):
                return bind(_linear, (input, weight, bias))
        elif len(size) > 2 and input.array.size:
            # One product of all rows, and one gradient of the weight.
            rows = ops.reshape(input, (-1, size[-1]))
            if _fit(rows, weight, bias):
                result = bind(_linear, (rows, weight, bias))
                return ops.reshape(result, (*size[:-1], weight.array.shape[0]))
    product = ops.matmul(input, ops.t(weight))
    if bias is None:
        return product
    made = product + bias
    if made.array.shape != product.array.shape:
        sizes = f"{list(bias.array.shape)} does not fit the product's {list(product.array.shape)}"
        raise failure(RuntimeError, f"linear: a bias of shape {sizes}")
    return made


def added_linear(part: Tensor, x: Tensor, weight: Tensor) -> Tensor:
    """part + x @ weight.T, for x [N, in], weight [out, in] and a part [N, out] or [out].

    Raises RuntimeError when sizes or dtypes differ.
    """
    if state.autocast is not None:
        part, x, weight = in_half(part, x, weight)
    if not _fit(x, weight, part):
        kinds = ", ".join(f"{t.array.dtype.name}{list(t.array.shape)}" for t in (x, weight, part))
        raise failure(
            RuntimeError,
            f"expected x [N, in], weight [out, in] and a bias or part [N, out] of one dtype, got {kinds}",
        )
    return bind(_linear, (x, weight, part))
