"""Linear algebra. Laid out as `torch.linalg`."""

from __future__ import annotations

from typing import Any

from fusegrad.eager.ops import reduction
from fusegrad.eager.ops.contraction import matmul
from fusegrad.eager.ops.reduction import vector_norm
from fusegrad.eager.tensor import Tensor

__all__ = ["matmul", "norm", "vector_norm"]


def norm(A: Tensor, ord: Any = None, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """The norm of vectors (or the Frobenius norm of matrices). Source: `torch.linalg.norm`."""
    return reduction.norm(A, 2 if ord is None else ord, dim, keepdim, dtype)
