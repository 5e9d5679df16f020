"""LU factors: A = P L U, packed in one matrix as LAPACK packs them, or apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.memory_order import columns, rows
from fusegrad.eager.core.op import TensorType, bind
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.declare import public
from fusegrad.eager.ops.linalg.matrices import (
    INT32,
    PerMatrix,
    check_matrix,
    check_same_dtype,
    check_sides,
    check_square,
    identity,
    lapack,
)
from fusegrad.eager.ops.linalg.solving import solve_triangular
from fusegrad.eager.ops.results import return_type


def _lu_numpy(x: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
    factors, pivots, info = lapack("getrf", x)(x)
    return factors, pivots + 1, info


def _lu_types(types: Sequence[TensorType], **_: Any) -> tuple[TensorType, TensorType, TensorType]:
    size = types[0].shape
    batch = size[:-2]
    return types[0], TensorType((*batch, min(size[-2:])), INT32), TensorType(batch, INT32)


def _lu_gradient(g: list[Tensor], out: Tensor, out1: Tensor) -> Tensor:
    """From the gradients of L (below the diagonal) and U (on and above it)."""
    rows, columns = out.array.shape[-2:]
    count = min(rows, columns)
    permutation, lower, upper = lu_unpack(out, out1)
    lower_gradient = ops.tril(_columns(g[0], 0, count), -1)
    upper_gradient = ops.triu(_rows(g[0], 0, count))
    from_lower = ops.matmul(ops.adjoint(lower), lower_gradient)
    from_upper = ops.matmul(upper_gradient, ops.adjoint(upper))
    square_lower, square_upper = ops.adjoint(_rows(lower, 0, count)), ops.adjoint(_columns(upper, 0, count))
    if rows <= columns:
        inner = ops.tril(from_lower - from_upper, -1)
        inner = solve_triangular(square_upper, inner, upper=False, left=False)
        first = inner + _columns(upper_gradient, 0, count)
        whole = ops.cat([first, _columns(upper_gradient, count, columns)], -1)
        whole = solve_triangular(square_lower, whole, upper=True, unitriangular=True)
    else:
        inner = ops.triu(from_upper - from_lower)
        inner = solve_triangular(square_lower, inner, upper=True, unitriangular=True)
        first = inner + _rows(lower_gradient, 0, count)
        whole = ops.cat([first, _rows(lower_gradient, count, rows)], -2)
        whole = solve_triangular(square_upper, whole, upper=False, left=False)
    return ops.matmul(permutation, whole)


def _rows(x: Tensor, start: int, stop: int) -> Tensor:
    return ops.narrow(x, -2, start, stop - start)


def _columns(x: Tensor, start: int, stop: int) -> Tensor:
    return ops.narrow(x, -1, start, stop - start)


_lu_factor = PerMatrix(
    "linalg_lu_factor_ex",
    "x",
    _lu_numpy,
    _lu_types,
    {"x": _lu_gradient},
    (2,),
    "linalg.lu_factor: U[{0},{0}] is zero and using it on lu_solve would result in a division by zero. "
    "If you still want to perform the factorization, call linalg.lu(A) or linalg.lu_factor_ex(A)",
    order=(columns, rows, rows),
)
_LuFactorEx = return_type("linalg_lu_factor_ex", ("LU", "pivots", "info"))
_LuFactor = return_type("linalg_lu_factor", ("LU", "pivots"))
_Lu = return_type("linalg_lu", ("P", "L", "U"))
_LuUnpack = return_type("lu_unpack", ("P", "L", "U"))


def lu_factor_ex(A: Tensor, *, pivot: bool = True, check_errors: bool = False) -> Any:
    """(LU, pivots, info): as `lu_factor`, with info 0 or the place of a zero pivot.

    Raises RuntimeError for `pivot=False`, as PyTorch does on the CPU. Source: `torch.linalg.lu_factor_ex`.
    """
    name = "linalg.lu_factor"
    if not pivot:
        raise failure(RuntimeError, f"{name}: LU without pivoting is not implemented on the CPU")
    return _LuFactorEx(*bind(_lu_factor, (check_matrix(name, A),), {"check": check_errors}))


def lu_factor(A: Tensor, *, pivot: bool = True) -> Any:
    """(LU, pivots): L below and U on and above the diagonal of one matrix, and the rows exchanged.

    pivots: row i was exchanged with row pivots[i], counted from 1. Source: `torch.linalg.lu_factor`.
    """
    return _LuFactor(*lu_factor_ex(A, pivot=pivot, check_errors=True)[:2])


@public(name="lu", method=True)
def lu_of(A: Tensor, pivot: bool = True, get_infos: bool = False) -> Any:
    """(LU, pivots), and info if it is asked for. Source: `torch.lu`."""
    parts = lu_factor_ex(A, pivot=pivot, check_errors=not get_infos)
    return tuple(parts) if get_infos else tuple(parts[:2])


def lu(A: Tensor, *, pivot: bool = True) -> Any:
    """(P, L, U) with A = P L U. Source: `torch.linalg.lu`."""
    factors, pivots, _ = lu_factor_ex(A, pivot=pivot)
    return _Lu(*lu_unpack(factors, pivots))


def _permutation_numpy(pivots: np.ndarray, rows: int, dtype: np.dtype) -> np.ndarray:
    if pivots.size and not 1 <= pivots.min() <= pivots.max() <= rows:
        raise RuntimeError(
            "pivots must all be greater or equal to 1, and smaller or equal to LU.size(-2): lu_factor gives "
            "those between 1 and LU.size(-2)."
        )
    order = np.arange(rows)
    for i, other in enumerate(pivots - 1):
        order[[i, other]] = order[[other, i]]
    matrix = np.zeros((rows, rows), dtype)
    matrix[order, np.arange(rows)] = 1
    return matrix


_permutation = PerMatrix(
    "lu_permutation",
    "pivots",
    _permutation_numpy,
    lambda types, rows, dtype: TensorType((*types[0].shape[:-1], rows, rows), np.dtype(dtype)),
    None,
    (1,),
)


def _permutation_of(pivots: Tensor, like: Tensor) -> Tensor:
    """The matrix P that puts the rows of L U where they were, in the dtype of `like`."""
    rows = like.array.shape[-2]
    return bind(_permutation, (pivots,), {"rows": rows, "dtype": like.array.dtype.name})


@public
def lu_unpack(
    LU_data: Tensor, LU_pivots: Tensor, unpack_data: bool = True, unpack_pivots: bool = True
) -> Any:
    """(P, L, U) from what `lu_factor` gives; parts that are not asked for are empty.

    Source: `torch.lu_unpack`.
    """
    if LU_pivots.array.dtype != INT32:
        raise failure(
            RuntimeError,
            "lu_unpack: LU_pivots is expected to be a contiguous tensor of torch.int32 dtype, got "
            f"{LU_pivots.array.dtype.name}",
        )
    count = min(LU_data.array.shape[-2:])
    empty = ops.reshape(LU_data, (-1,))[:0]
    lower = upper = permutation = empty
    if unpack_data:
        lower = ops.tril(_columns(LU_data, 0, count), -1)
        ones = identity(LU_data.array.shape[-2], LU_data)
        lower, upper = lower + _columns(ones, 0, count), ops.triu(_rows(LU_data, 0, count))
    if unpack_pivots:
        permutation = _permutation_of(LU_pivots, LU_data)
    return _LuUnpack(permutation, lower, upper)


def lu_solve(LU: Tensor, pivots: Tensor, B: Tensor, *, left: bool = True, adjoint: bool = False) -> Tensor:
    """X with A X = B (X A = B; A^H for `adjoint`), from `lu_factor(A)`. Source: `torch.linalg.lu_solve`."""
    name = "linalg.lu_solve"
    check_square(name, LU, "LU")
    check_same_dtype(name, LU, B)
    check_sides(name, LU, B, left)
    permutation = _permutation_of(pivots, LU)
    if not left:  # the adjoint equation
        return ops.adjoint(lu_solve(LU, pivots, ops.adjoint(B), adjoint=not adjoint))
    if adjoint:
        transposed = ops.adjoint(LU)
        half = solve_triangular(transposed, B, upper=False)
        return ops.matmul(permutation, solve_triangular(transposed, half, upper=True, unitriangular=True))
    right = ops.matmul(ops.transpose(permutation, -1, -2), B)
    return solve_triangular(LU, solve_triangular(LU, right, upper=False, unitriangular=True), upper=True)


@public(name="lu_solve", method=True)
def lu_solve_of(input: Tensor, LU_data: Tensor, LU_pivots: Tensor) -> Tensor:
    """X with A X = `input`. Source: `torch.lu_solve`."""
    return lu_solve(LU_data, LU_pivots, input)
