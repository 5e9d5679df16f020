"""Functions of sparse tensors, as `torch.sparse`; `ops/linalg/sparse_tensor.py` has the tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fusegrad.eager.core import dtypes
from fusegrad.eager.core.dtypes import DType
from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.public import locate
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.linalg.sparse_tensor import SparseTensor, sparse_coo_tensor

__all__ = ["DoubleTensor", "FloatTensor", "SparseTensor", "addmm", "mm", "sum"]


def mm(mat1: Any, mat2: Any) -> Any:
    """The product of a sparse and a dense matrix. Source: `torch.sparse.mm`.

    >>> import fusegrad as fg
    >>> fg.sparse.mm(fg.eye(2).to_sparse(), fg.tensor([[1.0], [2.0]]))
    tensor([[1.],
            [2.]])
    """
    return ops.mm(mat1, mat2)


def addmm(mat: Tensor, mat1: Any, mat2: Any, *, beta: float = 1.0, alpha: float = 1.0) -> Tensor:
    """`beta * mat + alpha * (mat1 @ mat2)`, of a sparse `mat1`. Source: `torch.sparse.addmm`."""
    return beta * mat + alpha * mm(mat1, mat2)


def sum(input: Any, dim: int | Sequence[int] | None = None, dtype: DType | None = None) -> Any:
    """The sum, or over some dimensions: sparse where sparse ones are left. Source: `torch.sparse.sum`.

    >>> import fusegrad as fg
    >>> fg.sparse.sum(fg.eye(2).to_sparse())
    tensor(2.)
    """
    if not isinstance(input, SparseTensor):
        raise failure(TypeError, f"sparse.sum wants a sparse tensor, got {type(input).__name__}")
    return (input if dtype is None else input.to(dtype)).sum(dim)


def FloatTensor(indices: Tensor, values: Tensor, size: Sequence[int] | None = None) -> SparseTensor:
    """As `sparse_coo_tensor`, of float32. Source: `torch.sparse.FloatTensor`."""
    return sparse_coo_tensor(indices, values, size, dtype=dtypes.float32)


def DoubleTensor(indices: Tensor, values: Tensor, size: Sequence[int] | None = None) -> SparseTensor:
    """As `sparse_coo_tensor`, of float64. Source: `torch.sparse.DoubleTensor`."""
    return sparse_coo_tensor(indices, values, size, dtype=dtypes.float64)


locate("fusegrad.sparse", globals(), __all__)
