"""Pools to no outputs: they have no gradients to give, and refuse to, as PyTorch's."""

from __future__ import annotations

from typing import Any

import numpy as np

from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.families import Opaque
from fusegrad.eager.core.op import TensorType, bind
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.shape.windows import Sizes


def _refused(g: Any, x_type: TensorType, size: Sizes, node: str) -> Any:
    raise failure(
        RuntimeError,
        "Expected grad_output to have non-zero size for non-batch dimensions, but got grad_output of size "
        f"{[*x_type.shape[: -len(size)], *size]}",
    )


_no_windows: Opaque = Opaque(
    "no_windows",
    "x",
    lambda x, size, node: np.empty((*x.shape[: -len(size)], *size), x.dtype),
    lambda types, size, node: TensorType((*types[0].shape[: -len(size)], *size), types[0].dtype),
    {"x": _refused},
    lambda params: params["node"],
)


def no_windows(input: Tensor, size: Sizes, kind: str) -> Tensor:
    """What a pool to no outputs gives of `input`: no values, and a RuntimeError for gradients."""
    return bind(_no_windows, (input,), {"size": size, "node": f"{kind}Pool{len(size)}DBackward0"})
